// Records of JSONL and chats from elsewhere: each is refused with a BadRecord, or gives ids and a mask of the same length. Going back to
// any cursor gives the same record again.
#include <cstdint>
#include <cstdlib>

#include "base/errors.h"
#include "data/documents.h"
#include "data/lines.h"
#include "tests/data/byte_tokenizer.h"
#include "tests/fuzz/memory_file.h"

namespace trine {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void use(const DocumentMaker& make, const Record& record) {
  try {
    const Document document = make(record);
    require(document.supervised.empty() || document.supervised.size() == document.ids.size());
  } catch (const BadRecord&) {
  } catch (const LongChat&) {
  }
}

void read_all(const std::filesystem::path& file) {
  static const DocumentMaker json = json_documents(byte_tokenizer(), "text", 256);
  static const DocumentMaker chat = chat_documents(byte_tokenizer(), ChatTemplate(ChatTemplate::Family::kQwen3), 512);
  const auto reader = make_line_reader({file}), again = make_line_reader({file});
  Record record, same;
  for (Cursor before = reader->tell(); reader->next(record); before = reader->tell()) {
    use(json, record);
    use(chat, record);
    again->seek(before);
    require(again->next(same) && same.bytes == record.bytes && same.number == record.number);
  }
}

// One file under several names.
struct NamedLinks {
  explicit NamedLinks(const std::filesystem::path& target) : folder("/tmp/trine_jsonl_fuzz_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder);
    for (const char* name : {"a.jsonl", "a.jsonl.gz", "a.jsonl.zst"}) {
      paths.push_back(folder / name);
      std::filesystem::create_symlink(target, paths.back());
    }
  }
  ~NamedLinks() { std::filesystem::remove_all(folder); }

  std::filesystem::path folder;
  std::vector<std::filesystem::path> paths;
};

}  // namespace
}  // namespace trine

// The first byte picks the file's kind, which its name tells; compressed bytes are taken as they come.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static trine::MemoryFile file;
  static const trine::NamedLinks links(file.path());
  file.write({data + 1, size - 1});
  try {
    trine::read_all(links.paths[data[0] % 3]);
  } catch (const trine::UserError&) {
  }
  return 0;
}
