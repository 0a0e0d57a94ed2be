#include "text/tokenizer_file.h"

#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "base/json.h"
#include "base/log.h"
#include "text/json_node.h"
#include "text/utf8.h"

namespace trine {
namespace {

using IdsBySpelling = std::unordered_map<std::string_view, int32_t>;  // views into the parsed file

// The byte-level alphabet (GPT-2's): printable Latin-1 characters stand for their byte, the characters from U+0100 on for the others.
struct Alphabet {
  std::array<int16_t, 0x144> bytes;  // by character; -1: not of the alphabet
  std::array<char32_t, 256> characters;
};
const Alphabet& alphabet() {
  static const Alphabet table = [] {
    Alphabet out;
    out.bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      out.characters[byte] = printable ? static_cast<char32_t>(byte) : next++;
      out.bytes[out.characters[byte]] = static_cast<int16_t>(byte);
    }
    return out;
  }();
  return table;
}

int32_t id_of(const JsonNode& node) {
  const int64_t id = node.as_integer();
  if (id < 0 || id >= BpeModel::kMostIds) node.fail("{} is not a token id; ids go from 0 to {}", id, BpeModel::kMostIds - 1);
  return static_cast<int32_t>(id);
}

// Settings of the model that change ids and that no byte-level tokenizer uses.
void refuse_model_options(const JsonNode& model) {
  if (model.find("dropout")) model.fail("\"dropout\" draws merges at random, which is not supported; set it to null");
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto text = model.find(name);
    if (text && !text->as_string().empty()) text->fail("\"{}\" is not supported: byte-level BPE has none", text->as_string());
  }
  if (model.flag("byte_fallback", false)) model.fail("\"byte_fallback\" is not supported; only byte-level BPE is");
}

IdsBySpelling read_vocabulary(const JsonNode& model, TokenizerFile& file) {
  const JsonNode vocab = model.member("vocab");
  IdsBySpelling ids;
  ids.reserve(vocab.as_object().size());
  for (const auto& [text, value] : vocab.as_object()) {
    int64_t id;
    if (value.get(id) != simdjson::SUCCESS || id < 0 || id >= BpeModel::kMostIds) id = id_of(vocab.at(text, value));  // throws
    if (text.empty()) vocab.fail("has an empty token (id {})", id);
    if (!ids.emplace(text, static_cast<int32_t>(id)).second) vocab.fail("token \"{}\" is given twice", text);
    if (static_cast<size_t>(id) >= file.tokens.size()) file.tokens.resize(static_cast<size_t>(id) + 1);
    if (!file.tokens[id].empty()) vocab.fail("id {} belongs to both \"{}\" and \"{}\"", id, file.tokens[id], text);
    file.tokens[id] = text;
  }
  if (ids.empty()) vocab.fail("is empty");
  file.vocabulary.resize(file.tokens.size());
  for (size_t id = 0; id < file.tokens.size(); ++id) {
    if (auto bytes = bytes_of_spelling(file.tokens[id])) file.vocabulary[id] = std::move(*bytes);
  }
  return ids;
}

void read_merges(const JsonNode& model, const IdsBySpelling& ids, TokenizerFile& file) {
  const JsonNode merges = model.member("merges");
  std::string joined;
  int64_t number = 0;
  for (const simdjson::dom::element value : merges.as_array()) {
    std::string_view left, right, text;
    simdjson::dom::array pair;
    if (value.get(text) == simdjson::SUCCESS) {
      const size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
        merges.fail("merge {} is \"{}\", not two tokens with one space between", number, text);
      }
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else if (value.get(pair) != simdjson::SUCCESS || pair.size() != 2 || pair.at(0).get(left) != simdjson::SUCCESS ||
               pair.at(1).get(right) != simdjson::SUCCESS) {
      merges.fail("merge {} is neither a string \"left right\" nor a pair [\"left\", \"right\"]", number);
    }
    const auto look_up = [&](std::string_view token) {
      const auto found = ids.find(token);
      if (found == ids.end()) merges.fail("merge {} needs the token \"{}\", which the vocabulary lacks", number, token);
      return found->second;
    };
    joined.assign(left).append(right);
    file.merges.push_back({look_up(left), look_up(right), look_up(joined)});
    if (++number >= BpeModel::kMostIds) merges.fail("has more than {} merges", BpeModel::kMostIds - 1);
  }
}

IdsBySpelling read_model(const JsonNode& root, TokenizerFile& file) {
  const JsonNode model = root.member("model");
  const auto type = model.find("type");
  if (type && type->as_string() != "BPE") type->fail("\"{}\" is not supported; only (byte-level) \"BPE\" is", type->as_string());
  refuse_model_options(model);
  IdsBySpelling ids = read_vocabulary(model, file);
  read_merges(model, ids, file);
  file.bpe.whole_pieces_first = model.flag("ignore_merges", false);
  if (const auto unknown = model.find("unk_token")) {
    const auto found = ids.find(unknown->as_string());
    if (found == ids.end()) unknown->fail("\"{}\" is not in the vocabulary", unknown->as_string());
    if (model.flag("fuse_unk", false)) model.fail("\"fuse_unk\" is not supported");
    file.bpe.unknown = found->second;
  }
  return ids;
}

void read_added_tokens(const JsonNode& root, const IdsBySpelling& ids, TokenizerFile& file) {
  const auto list = root.find("added_tokens");
  if (!list) return;
  std::unordered_set<std::string_view> seen;
  for (const JsonNode& node : list->items()) {
    const std::string_view content = node.member("content").as_string();
    AddedToken token;
    token.id = id_of(node.member("id"));
    token.content = content;
    token.special = node.flag("special", false);
    token.normalized = node.flag("normalized", !token.special);
    token.lstrip = node.flag("lstrip", false);
    token.rstrip = node.flag("rstrip", false);
    if (node.flag("single_word", false)) node.fail("\"single_word\" is not supported (token \"{}\")", content);
    if (content.empty()) node.fail("\"content\" is empty");
    if (!seen.insert(content).second) node.fail("token \"{}\" is given twice", content);
    if (const auto known = ids.find(content); known != ids.end() && known->second != token.id) {
      node.fail("token \"{}\" has id {} here and id {} in model.vocab", content, token.id, known->second);
    }
    if (static_cast<size_t>(token.id) >= file.tokens.size()) file.tokens.resize(static_cast<size_t>(token.id) + 1);
    std::string& spelling = file.tokens[token.id];
    if (!spelling.empty() && spelling != content) node.fail("id {} belongs to both \"{}\" and \"{}\"", token.id, spelling, content);
    spelling = content;
    file.added.push_back(std::move(token));
  }
}

void read_normalizer(const JsonNode& node, TokenizerFile& file) {
  if (node.type() == "Sequence") {
    for (const JsonNode& part : node.member("normalizers").items()) read_normalizer(part, file);
  } else if (node.type() == "NFC") {
    file.normalise = true;
  } else {
    node.fail("normaliser \"{}\" is not supported; \"NFC\" and none are", node.type());
  }
}

// The parts of a pre-tokenizer in the order in which they apply.
void flatten(const JsonNode& node, std::vector<JsonNode>& parts) {
  if (node.type() != "Sequence") {
    parts.push_back(node);
    return;
  }
  for (const JsonNode& part : node.member("pretokenizers").items()) flatten(part, parts);
}

SplitRule read_split(const JsonNode& split) {
  const JsonNode pattern = split.member("pattern");
  const auto regex = pattern.find("Regex");
  const auto rule = regex ? split_rule_of_regex(regex->as_string()) : std::nullopt;
  if (!rule) {
    pattern.fail("this split pattern is not supported; those of Qwen2/Qwen3, Llama 3 and GPT-2 are. Found: {}",
                 regex ? regex->as_string() : "one that is not a \"Regex\"");
  }
  const JsonNode behavior = split.member("behavior");
  if (behavior.as_string() != "Isolated") behavior.fail("\"{}\" is not supported; \"Isolated\" is", behavior.as_string());
  if (split.flag("invert", false)) split.fail("\"invert\" is not supported");
  return *rule;
}

void read_pre_tokenizer(const JsonNode& root, TokenizerFile& file) {
  const JsonNode whole = root.member("pre_tokenizer");
  std::vector<JsonNode> parts;
  flatten(whole, parts);
  std::optional<SplitRule> rule;
  bool digits = false, byte_level = false;
  for (const JsonNode& part : parts) {
    const std::string_view type = part.type();
    if (byte_level) part.fail("\"{}\" after \"ByteLevel\" is not supported", type);
    if (type == "Split" && !rule && !digits) {
      rule = read_split(part);
    } else if (type == "Digits" && !rule && !digits) {
      if (!part.flag("individual_digits", false)) part.fail("\"Digits\" is supported only with \"individual_digits\"");
      digits = true;
    } else if (type == "ByteLevel") {
      byte_level = true;
      if (part.flag("add_prefix_space", true)) part.fail("\"add_prefix_space\" is not supported");
      const bool own_regex = part.flag("use_regex", true);
      if (own_regex && rule) part.fail("\"use_regex\" after a \"Split\" is not supported");
      if (own_regex) rule = digits ? SplitRule::kGpt2Digits : SplitRule::kGpt2;
    } else {
      part.fail("pre-tokenizer \"{}\" is not supported here; known are Split + ByteLevel (Qwen2, Llama 3), Digits + ByteLevel (SmolLM2) "
                "and ByteLevel (GPT-2)", type);
    }
  }
  if (!byte_level) whole.fail("has no \"ByteLevel\" part; only byte-level BPE is supported");
  if (!rule) whole.fail("does not say how text is split: neither a \"Split\" part nor \"use_regex\"");
  file.split = *rule;
}

void read_template(const JsonNode& node, TokenizerFile& file) {
  bool before = true, has_text = false;
  for (const JsonNode& item : node.member("single").items()) {
    if (item.find("Sequence")) {
      if (has_text) item.fail("the text stands twice in \"single\", which is not supported");
      has_text = true;
      before = false;
      continue;
    }
    const JsonNode name = item.member("SpecialToken").member("id");
    const JsonNode token = node.member("special_tokens").member(name.as_string());
    for (const JsonNode& value : token.member("ids").items()) {
      const int32_t id = id_of(value);
      if (static_cast<size_t>(id) >= file.tokens.size() || file.tokens[id].empty()) value.fail("no token has id {}", id);
      (before ? file.prefix : file.suffix).push_back(id);
    }
  }
  if (!has_text) node.fail("\"single\" has no \"Sequence\"");
}

void read_post_processor(const JsonNode& node, TokenizerFile& file, bool inside_template) {
  const std::string_view type = node.type();
  if (type == "Sequence") {
    for (const JsonNode& part : node.member("processors").items()) {
      read_post_processor(part, file, !file.prefix.empty() || !file.suffix.empty());
    }
  } else if (type == "TemplateProcessing" && !inside_template) {
    read_template(node, file);
  } else if (type != "ByteLevel") {  // which changes offsets only
    node.fail("post-processor \"{}\" is not supported{}", type, inside_template ? " after another template" : "; "
              "\"ByteLevel\" and \"TemplateProcessing\" are");
  }
}

void check_decoder(const JsonNode& root) {
  const auto decoder = root.find("decoder");
  if (decoder && decoder->type() != "ByteLevel") decoder->fail("decoder \"{}\" is not supported; \"ByteLevel\" is", decoder->type());
}

// A role's token, given as a string or as an object with "content".
std::optional<std::string> role(const Json& config, const char* name, std::string_view where) {
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  const auto content = found->is_object() ? found->find("content") : found->end();
  if (!found->is_object() || content == found->end() || !content->is_string()) {
    throw UserError("{}: {}: must be a string, or an object with a \"content\" string", where, name);
  }
  return content->get<std::string>();
}

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string out;
  out.reserve(spelling.size());
  for (const char *p = spelling.data(), *end = p + spelling.size(); p < end;) {
    const char32_t c = decode_utf8(p);
    if (c >= alphabet().bytes.size() || alphabet().bytes[c] < 0) return std::nullopt;
    out += static_cast<char>(alphabet().bytes[c]);
  }
  return out;
}

std::string spelling_of_bytes(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append_utf8(alphabet().characters[static_cast<unsigned char>(byte)], out);
  return out;
}

TokenizerFile parse_tokenizer_file(std::string_view json, std::string_view where) {
  simdjson::dom::parser parser;
  const JsonNode root = parse_root(parser, json, where);
  TokenizerFile file;
  const IdsBySpelling ids = read_model(root, file);
  read_added_tokens(root, ids, file);
  if (const auto normalizer = root.find("normalizer")) read_normalizer(*normalizer, file);
  read_pre_tokenizer(root, file);
  if (const auto processor = root.find("post_processor")) read_post_processor(*processor, file, false);
  check_decoder(root);
  for (const char* name : {"truncation", "padding"}) {
    if (root.find(name)) log::warning("{}: \"{}\" is ignored: texts are encoded whole", where, name);
  }
  return file;
}

TokenizerConfig parse_tokenizer_config(std::string_view json, std::string_view where) {
  const Json config = parse_json(json, where);
  if (!config.is_object()) throw UserError("{}: not a JSON object", where);
  return {role(config, "eos_token", where), role(config, "bos_token", where), role(config, "pad_token", where)};
}

}  // namespace trine
