// Which files a recipe's dataset names and paths stand for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trine {

enum class Format { kJsonl, kText, kParquet, kShards, kChat };

// One path of the mix.
struct SourceFiles {
  std::string dataset;  // as the recipe names it
  Format format = Format::kJsonl;
  std::vector<std::filesystem::path> files;  // in the order of reading: by name
  uint64_t num_bytes = 0;                    // on disk
  std::string digest;                        // of the files' names and sizes, not of their folder: moved data is the same data
};

enum class Part { kTraining, kHeldOut };  // which part `sample` stands for

// `datasets`: one for all paths, or one each; "sample" takes no path. Throws UserError for unknown names, missing paths and folders without
// a file of the format; warns of files in a folder that are left out.
std::vector<SourceFiles> find_sources(const std::vector<std::string>& datasets, const std::vector<std::string>& paths, Part part);

}  // namespace trine
