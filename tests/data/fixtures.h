// What the data tests share: a folder of files, and loaders over it with the byte tokenizer.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/errors.h"
#include "data/loader.h"
#include "data/shards.h"
#include "tests/data/byte_tokenizer.h"

namespace trine {

// A folder that lives as long as the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path = std::filesystem::path(testing::TempDir()) / fmt::format("trine_data_{}_{}", test->test_suite_name(), test->name());
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }

  std::string write(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << content;
    return (path / name).string();
  }

  std::filesystem::path path;
};

inline constexpr int64_t kRows = 320;  // of the model's embedding

// Settings of one pass in order, without a thread; a test changes what it is about.
inline DataloaderConfig plain_settings(const std::string& dataset, std::vector<std::string> paths) {
  return {.dataset = {dataset},
          .dataset_path = std::move(paths),
          .text_field = "text",
          .document_end = "auto",
          .on_bad_record = "error",
          .on_long_chat = "error",
          .num_epochs = 1};
}

inline std::unique_ptr<DataLoader> load(const DataloaderConfig& settings, int64_t seq_len, uint64_t seed = 1) {
  return make_loader(settings, seq_len, seed, byte_tokenizer(), kRows);
}

// One line of JSONL per text.
inline std::string jsonl(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) lines += nlohmann::json{{"text", text}}.dump() + "\n";
  return lines;
}

// All rows that are left, as one batch.
inline Batch all_rows(DataLoader& loader) {
  std::optional<Batch> batch = loader.next(1'000'000);
  return batch ? *batch : Batch{};
}

// The non-padding ids of rows, row after row.
inline std::vector<int32_t> ids_of(const Batch& batch) {
  std::vector<int32_t> ids;
  for (int64_t row = 0; row < batch.num_rows; ++row) {
    const auto begin = batch.input_ids.begin() + row * batch.seq_len;
    ids.insert(ids.end(), begin, begin + batch.row_tokens[row]);
  }
  return ids;
}

inline std::string text_of(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += id == kEnd ? '|' : id < 256 ? static_cast<char>(id) : '#';
  return text;
}

template <class Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace trine
