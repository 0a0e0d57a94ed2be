#include "data/parquet.h"

#include <dlfcn.h>

#include "base/errors.h"

namespace trine {

namespace fs = std::filesystem;

std::unique_ptr<RecordReader> make_parquet_reader(std::vector<fs::path> files, const std::string& column) {
  using Open = RecordReader* (*)(std::vector<fs::path>, const std::string&);
  // The same place in a build tree (build/bin, build/lib/trine) and where Trine is installed.
  const fs::path part = fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/trine/libtrine_parquet.so";
  void* library = ::dlopen(part.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = ::dlerror();
    throw UserError("{}: reading Parquet needs Trine's optional part {}, which cannot be opened ({}). Build Trine with the Python package "
                    "pyarrow in .venv, or turn the files into JSONL with `python tools/parquet_to_jsonl.py`.",
                    files.front().string(), part.string(), why ? why : "unknown reason");
  }
  const auto open = reinterpret_cast<Open>(::dlsym(library, "trine_open_parquet"));
  if (!open) throw UserError("{}: not the part that belongs to this program; build Trine again", part.string());
  return std::unique_ptr<RecordReader>(open(std::move(files), column));
}

}  // namespace trine
