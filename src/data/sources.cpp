#include "data/sources.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/errors.h"
#include "base/hashing.h"
#include "base/log.h"
#include "data/inflate.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

struct Dataset {
  std::string_view name;
  Format format;
  std::vector<std::string_view> endings;  // of the files taken from a folder; .gz and .zst may follow those of text
};

const std::array<Dataset, 7> kDatasets = {{
    {"sample", Format::kJsonl, {}},
    {"c4_test", Format::kJsonl, {}},
    {"jsonl", Format::kJsonl, {".jsonl", ".json", ".ndjson"}},
    {"chat", Format::kChat, {".jsonl", ".json", ".ndjson"}},
    {"text", Format::kText, {".txt", ".md"}},
    {"parquet", Format::kParquet, {".parquet"}},
    {"shards", Format::kShards, {".tokens"}},
}};

const Dataset& known(const std::string& name) {
  const auto found = std::ranges::find(kDatasets, name, &Dataset::name);
  if (found != kDatasets.end()) return *found;
  std::vector<std::string> names;
  for (const Dataset& dataset : kDatasets) names.emplace_back(dataset.name);
  throw UserError("no dataset \"{}\".{}", name, suggest(name, names));
}

bool is_of(const Dataset& dataset, fs::path file) {
  const bool may_be_compressed = dataset.format != Format::kParquet && dataset.format != Format::kShards;
  if (may_be_compressed && is_compressed(file)) file.replace_extension();
  return std::ranges::find(dataset.endings, file.extension().string()) != dataset.endings.end();
}

std::vector<fs::path> files_in(const Dataset& dataset, const fs::path& folder) {
  std::vector<fs::path> files;
  std::vector<std::string> others;
  for (const auto& entry : fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink)) {
    if (!entry.is_regular_file() || entry.path().filename().string().starts_with('.')) continue;
    if (is_of(dataset, entry.path())) {
      files.push_back(entry.path());
    } else {
      others.push_back(entry.path().filename().string());
    }
  }
  std::ranges::sort(files);
  std::ranges::sort(others);
  if (files.empty()) {
    throw UserError("{}: no {} file in this folder (names ending in {}). Name the files themselves, or another dataset.", folder.string(),
                    dataset.name, fmt::join(dataset.endings, ", "));
  }
  if (!others.empty()) {
    log::warning("{}: {} of its files are not {} files and are left out, {} among them", folder.string(), others.size(), dataset.name,
                 others[0]);
  }
  return files;
}

std::vector<fs::path> sample_files(Part part) {
  const fs::path file = part == Part::kTraining ? "assets/sample/train.jsonl" : "assets/sample/heldout.jsonl";
  if (!fs::exists(file)) {
    throw UserError("the sample corpus is not here ({}). Make it with tools/make_assets.sh and run from the folder that holds assets/, or "
                    "give your own files as dataset_path.",
                    fs::absolute(file).string());
  }
  return {file};
}

std::vector<fs::path> c4_test_files(const fs::path& path) {
  const fs::path file = fs::is_directory(path) ? path / "data.json" : path;
  if (fs::exists(file)) return {file};
  throw UserError("{}: not torchtitan's folder c4_test: it holds no data.json. The substitute that comes with Trine is the dataset sample.",
                  path.string());
}

std::vector<fs::path> files_of(const Dataset& dataset, const fs::path& path, Part part) {
  if (dataset.name == "sample") return sample_files(part);
  if (!fs::exists(path)) throw UserError("{}: there is no such file or folder (dataset \"{}\")", path.string(), dataset.name);
  if (dataset.name == "c4_test") return c4_test_files(path);
  if (fs::is_directory(path)) return files_in(dataset, path);
  return {path};
}

SourceFiles source_of(const Dataset& dataset, const fs::path& path, Part part) {
  SourceFiles source{.dataset = std::string(dataset.name), .format = dataset.format, .files = files_of(dataset, path, part)};
  Xxh3 digest;
  for (const fs::path& file : source.files) {
    const uint64_t size = fs::file_size(file);
    source.num_bytes += size;
    const std::string entry = fmt::format("{}\n{}\n", file.filename().string(), size);
    digest.update(std::as_bytes(std::span(entry)));
  }
  source.digest = digest.hex();
  return source;
}

}  // namespace

std::vector<SourceFiles> find_sources(const std::vector<std::string>& datasets, const std::vector<std::string>& paths, Part part) {
  if (datasets.empty()) throw UserError("no dataset is named");
  if (paths.empty() && (datasets.size() != 1 || datasets[0] != "sample")) {
    known(datasets[0]);
    if (datasets[0] == "c4_test") {
      throw UserError("c4_test does not come with Trine: give torchtitan's folder of that name as dataset_path. The substitute that comes "
                      "with Trine is the dataset sample.");
    }
    throw UserError("dataset \"{}\" needs a dataset_path", datasets[0]);
  }
  if (datasets.size() > 1 && datasets.size() != paths.size()) {
    throw UserError("{} datasets for {} paths: give one for all paths, or one each", datasets.size(), paths.size());
  }
  std::vector<SourceFiles> sources;
  if (paths.empty()) sources.push_back(source_of(known("sample"), {}, part));
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string& name = datasets[datasets.size() == 1 ? 0 : i];
    if (name == "sample") throw UserError("the dataset sample takes no path, found \"{}\"", paths[i]);
    sources.push_back(source_of(known(name), paths[i], part));
  }
  return sources;
}

}  // namespace trine
