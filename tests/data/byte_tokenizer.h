// A tokenizer whose ids can be written down by hand.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "text/tokenizer.h"

namespace trine {

// Byte-level without merges: the id of a byte is the byte. End of text 256, <|im_start|> 257, <|im_end|> 258 (also the eos token).
inline constexpr int32_t kEnd = 256, kImStart = 257, kImEnd = 258;

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

}  // namespace trine
