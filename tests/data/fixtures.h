// What the data tests share: a folder of files, a tokenizer whose ids can be written down by hand, and loaders over both.
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
#include "text/tokenizer.h"

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

// Byte-level without merges: the id of a byte is the byte. End of text 256, <|im_start|> 257, <|im_end|> 258 (also the eos token).
inline constexpr int32_t kEnd = 256, kImStart = 257, kImEnd = 258;
inline constexpr int64_t kRows = 320;  // of the model's embedding

inline std::string byte_tokenizer_json() {
  nlohmann::json vocab;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    // GPT-2's printable stand-ins: printable Latin-1 stands for itself, the rest follows from U+0100 on.
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
    const int code = printable ? byte : next++;
    std::string symbol;
    if (code < 0x80) {
      symbol = static_cast<char>(code);
    } else {
      symbol = {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
    }
    vocab[symbol] = byte;
  }
  nlohmann::json added = nlohmann::json::array();
  for (const auto& [id, name] : {std::pair{kEnd, "<|endoftext|>"}, {kImStart, "<|im_start|>"}, {kImEnd, "<|im_end|>"}}) {
    added.push_back({{"id", id}, {"content", name}, {"single_word", false}, {"lstrip", false}, {"rstrip", false}, {"normalized", false},
                     {"special", true}});
  }
  const char* pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const nlohmann::json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const nlohmann::json split = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return nlohmann::json{{"version", "1.0"},
                        {"truncation", nullptr},
                        {"padding", nullptr},
                        {"added_tokens", added},
                        {"normalizer", {{"type", "NFC"}}},
                        {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
                        {"post_processor", byte_level},
                        {"decoder", byte_level},
                        {"model",
                         {{"type", "BPE"}, {"dropout", nullptr}, {"unk_token", nullptr}, {"continuing_subword_prefix", ""},
                          {"end_of_word_suffix", ""}, {"fuse_unk", false}, {"byte_fallback", false}, {"vocab", vocab},
                          {"merges", nlohmann::json::array()}}}}
      .dump();
}

inline const Tokenizer& byte_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::from_json(byte_tokenizer_json(), R"({"eos_token": "<|im_end|>"})", "byte tokenizer");
  return tokenizer;
}

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
