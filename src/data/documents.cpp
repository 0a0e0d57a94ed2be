#include "data/documents.h"

#include <simdjson.h>

#include <algorithm>
#include <memory>

#include "base/errors.h"
#include "data/shards.h"

namespace trine {
namespace {

const char* type_name(simdjson::dom::element_type type) {
  using Type = simdjson::dom::element_type;
  switch (type) {
    case Type::ARRAY: return "an array";
    case Type::OBJECT: return "an object";
    case Type::STRING: return "a string";
    case Type::BOOL: return "a boolean";
    case Type::NULL_VALUE: return "null";
    default: return "a number";
  }
}

// The parsed line stays in `parser`, and the result points into it.
std::string_view string_field(simdjson::dom::parser& parser, std::string_view line, const std::string& field) {
  simdjson::dom::element root;
  if (const auto error = parser.parse(line.data(), line.size(), true).get(root)) {
    throw BadRecord(fmt::format("not valid JSON: {}", simdjson::error_message(error)));
  }
  simdjson::dom::object object;
  if (root.get(object)) throw BadRecord(fmt::format("expected a JSON object, found {}", type_name(root.type())));
  std::optional<simdjson::dom::element> found;
  std::vector<std::string> keys;
  for (const auto [key, value] : object) {
    if (key != field) {
      keys.emplace_back(key);
    } else if (found) {
      throw BadRecord(fmt::format("field \"{}\" is given twice", field));
    } else {
      found = value;
    }
  }
  if (!found) throw BadRecord(fmt::format("no field \"{}\" (dataloader.text_field).{}", field, suggest(field, keys)));
  std::string_view text;
  if (found->get(text)) throw BadRecord(fmt::format("field \"{}\" is {}, expected a string", field, type_name(found->type())));
  return text;
}

class TextEncoder {
 public:
  TextEncoder(const Tokenizer& tokenizer, std::optional<int32_t> end) : tokenizer_(tokenizer), scratch_(tokenizer_), end_(end) {}

  Document operator()(const Record& record, std::string_view text) {
    Document document{.file = record.file, .record = record.number};
    if (text.empty()) return document;
    tokenizer_.encode_append(text, scratch_, document.ids);
    append_end(document.ids, end_);
    return document;
  }

  static void append_end(std::vector<int32_t>& ids, std::optional<int32_t> end) {
    if (end && !ids.empty() && ids.back() != *end) ids.push_back(*end);
  }

 private:
  Tokenizer tokenizer_;
  Tokenizer::Scratch scratch_;
  std::optional<int32_t> end_;
};

}  // namespace

std::optional<int32_t> end_token(const Tokenizer& tokenizer, const std::string& document_end) {
  if (document_end == "none") return std::nullopt;
  if (document_end == "auto") {
    for (const char* name : {"<|endoftext|>", "<|end_of_text|>"}) {
      if (const auto id = tokenizer.token_id(name)) return id;
    }
  } else if (document_end != "eos") {
    throw UserError("dataloader.document_end: \"{}\" is not one of auto, eos, none", document_end);
  }
  if (const auto id = tokenizer.eos_token_id()) return id;
  throw UserError("dataloader.document_end = {}: the tokenizer names no end token (eos_token of tokenizer_config.json). Add it there, or "
                  "set dataloader.document_end = none.",
                  document_end);
}

DocumentMaker json_documents(const Tokenizer& tokenizer, std::string field, std::optional<int32_t> end) {
  auto parser = std::make_shared<simdjson::dom::parser>();
  auto encoder = std::make_shared<TextEncoder>(tokenizer, end);
  return [=](const Record& record) { return (*encoder)(record, string_field(*parser, record.bytes, field)); };
}

DocumentMaker text_documents(const Tokenizer& tokenizer, std::optional<int32_t> end) {
  auto encoder = std::make_shared<TextEncoder>(tokenizer, end);
  return [=](const Record& record) {
    if (!record.fault.empty()) throw BadRecord(record.fault);
    return (*encoder)(record, record.bytes);
  };
}

DocumentMaker token_documents(std::optional<int32_t> end) {
  return [=](const Record& record) {
    Document document{.ids = token_ids(record.bytes, record.token_bytes), .file = record.file, .record = record.number};
    TextEncoder::append_end(document.ids, end);
    return document;
  };
}

DocumentMaker chat_documents(const Tokenizer& tokenizer, ChatTemplate chat_template, int64_t seq_len) {
  return [=](const Record& record) {
    RenderedChat rendered;
    Document document{.file = record.file, .record = record.number};
    try {
      rendered = chat_template.render(parse_chat(record.bytes, "chat"));
    } catch (const UserError& error) {
      throw BadRecord(error.what());
    }
    if (rendered.assistant.empty()) throw BadRecord("the chat has no assistant turn: nothing in it would be learned");
    std::vector<int64_t> ends;
    tokenizer.encode_with_ends(rendered.text, document.ids, ends);
    document.supervised.assign(document.ids.size(), 0);
    // Tokens [first, last) end inside (begin, end] of the span; they are its tokens if both edges are token ends.
    for (const auto [begin, end] : rendered.assistant) {
      const auto after = [&](size_t byte) { return std::upper_bound(ends.begin(), ends.end(), static_cast<int64_t>(byte)); };
      const auto first = after(begin), last = after(end);
      const bool begins = begin == 0 || (first != ends.begin() && *(first - 1) == static_cast<int64_t>(begin));
      const bool stops = last != ends.begin() && *(last - 1) == static_cast<int64_t>(end);
      if (!begins || !stops) {
        const size_t edge = begins ? end : begin;
        throw BadRecord(fmt::format("a token reaches over the {} of an assistant turn, near \"{}\": it would be learned and not learned at "
                                    "once. Does the turn begin with a line break?",
                                    begins ? "end" : "start", rendered.text.substr(edge - std::min<size_t>(edge, 20), 40)));
      }
      std::fill(document.supervised.begin() + (first - ends.begin()), document.supervised.begin() + (last - ends.begin()), 1);
    }
    if (static_cast<int64_t>(document.ids.size()) > seq_len) {
      throw LongChat(fmt::format("the chat has {} tokens, more than a row has (training.seq_len = {})", document.ids.size(), seq_len));
    }
    return document;
  };
}

}  // namespace trine
