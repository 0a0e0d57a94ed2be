// A small tokenizer.json made in the test: 256 byte symbols, a few merges, three added tokens. Tests change its parts to try others.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/splitter.h"
#include "text/tokenizer.h"
#include "text/tokenizer_file.h"

namespace trine {

inline const std::vector<std::pair<std::string, std::string>>& tiny_merges() {
  static const std::vector<std::pair<std::string, std::string>> merges = {
      {" ", " "},  {"t", "h"},   {"th", "e"},   {" ", "the"},   {"a", "a"},       {"aa", "aa"},
      {"\n", "\n"}, {"h", "e"},  {"l", "l"},    {"he", "ll"},   {"hell", "o"},    {"\xE4", "\xBD"},
      {"\xE4\xBD", "\xA0"},      {"\xE5", "\xA5"}, {"\xE5\xA5", "\xBD"}, {"\xE4\xBD\xA0", "\xE5\xA5\xBD"}, {"\xA0", "\xE5"},
  };
  return merges;
}

inline nlohmann::ordered_json tiny_tokenizer_json() {
  nlohmann::ordered_json vocab;
  for (int byte = 0; byte < 256; ++byte) vocab[spelling_of_bytes(std::string(1, static_cast<char>(byte)))] = byte;
  nlohmann::ordered_json merges = nlohmann::ordered_json::array();
  for (const auto& [left, right] : tiny_merges()) {
    const std::string merged = spelling_of_bytes(left + right);
    if (!vocab.contains(merged)) vocab[merged] = vocab.size();
    merges.push_back({spelling_of_bytes(left), spelling_of_bytes(right)});
  }
  const auto added = [](int id, const char* content, bool special) {
    return nlohmann::ordered_json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                                  {"rstrip", false}, {"normalized", false}, {"special", special}};
  };
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", {added(300, "<|endoftext|>", true), added(301, "<|im_start|>", true), added(302, "<|im_end|>", true),
                            added(303, "<think>", false)}},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Split"}, {"pattern", {{"Regex", split_regex(SplitRule::kQwen2)}}}, {"behavior", "Isolated"}, {"invert", false}},
              {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}}}}}},
          {"post_processor", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}}},
          {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}}},
          {"model", {{"type", "BPE"}, {"dropout", nullptr}, {"unk_token", nullptr}, {"vocab", vocab}, {"merges", merges}}}};
}

inline Tokenizer tokenizer_of(const nlohmann::ordered_json& json, std::string_view config = "") {
  return Tokenizer::from_json(json.dump(), config, "tiny/tokenizer.json");
}

inline Tokenizer tiny_tokenizer() { return tokenizer_of(tiny_tokenizer_json()); }

// The tokens of a text as their bytes.
inline std::vector<std::string> tokens_of(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  std::vector<std::string> out;
  for (const int32_t id : tokenizer.encode(text, options)) out.emplace_back(tokenizer.token_bytes(id));
  return out;
}

}  // namespace trine
