#include "text/encoding.h"

#include <array>

#include "text/unicode.h"

namespace trine {
namespace {

// One call: what it reads, and what it fills.
class Encoding {
 public:
  Encoding(const Tokenizer::Tables& tables, Tokenizer::Scratch::State& scratch, const EncodeOptions& options, std::vector<int32_t>& ids,
           std::vector<int64_t>* ends)
      : tables_(tables), scratch_(scratch), options_(options), ids_(ids), ends_(ends) {}

  void run(std::string_view text) {
    const size_t size = text.size();
    scratch_.valid_edits.clear();
    if (!is_valid_utf8(text)) {
      scratch_.valid.clear();
      append_valid_utf8(text, scratch_.valid, &scratch_.valid_edits);
      text = scratch_.valid;
    }
    if (options_.add_special_tokens) add_fixed(tables_.prefix, 0);
    for_each_part(
        text, tables_.raw_tokens, [&](int32_t id, size_t end) { add_token(id, scratch_.valid_edits.to_original(end)); },
        [&](std::string_view part, size_t begin) { run_plain(part, begin); });
    if (options_.add_special_tokens) add_fixed(tables_.suffix, size);
  }

 private:
  // Cuts `text` at added tokens: calls token(id, end) and plain(part, begin) in order.
  template <class Token, class Plain>
  void for_each_part(std::string_view text, const AddedTokenFinder& finder, Token token, Plain plain) const {
    size_t done = 0;
    while (const auto match = finder.find(text, done, options_.special_as_text)) {
      if (match->begin > done) plain(text.substr(done, match->begin - done), done);
      token(match->token->id, match->end);
      done = match->end;
    }
    if (done < text.size()) plain(text.substr(done), done);
  }

  // Text without raw added tokens, which begins at `begin` of the valid text.
  void run_plain(std::string_view text, size_t begin) {
    scratch_.normal_edits.clear();
    if (tables_.normalise && !is_surely_nfc(text)) {
      scratch_.normal.clear();
      append_nfc(text, scratch_.normal, ends_ ? &scratch_.normal_edits : nullptr);
      text = scratch_.normal;
    }
    const auto original = [&](size_t position) {
      return scratch_.valid_edits.to_original(begin + scratch_.normal_edits.to_original(position));
    };
    for_each_part(
        text, tables_.normalized_tokens, [&](int32_t id, size_t end) { add_token(id, original(end)); },
        [&](std::string_view part, size_t part_begin) {
          const size_t first = ids_.size();
          encode_part(part);
          if (!ends_) return;
          size_t position = 0;
          for (size_t i = first; i < ids_.size(); ++i) {
            position = token_end(part, position, ids_[i]);
            ends_->push_back(static_cast<int64_t>(original(part_begin + position)));
          }
        });
  }

  void encode_part(std::string_view part) {
    const char* const readable_end = part.data() + part.size();
    std::array<std::string_view, BpeModel::kPiecesAtOnce> pieces;
    size_t n = 0;
    tables_.splitter.split(part, [&](std::string_view piece) {
      pieces[n++] = piece;
      if (n < pieces.size()) return;
      tables_.bpe.encode(pieces, readable_end, scratch_.work, ids_);
      n = 0;
    });
    tables_.bpe.encode(std::span(pieces).first(n), readable_end, scratch_.work, ids_);
  }

  // Where the token `id` that begins at `position` of `text` ends. Bytes that the vocabulary lacks are part of no token.
  size_t token_end(std::string_view text, size_t position, int32_t id) const {
    size_t left = id == tables_.unknown ? 1 : tables_.bytes[id].size();
    if (!tables_.drops_bytes) return position + left;
    while (left > 0) {
      if (tables_.bpe.has_byte(static_cast<unsigned char>(text[position++]))) --left;
    }
    return position;
  }

  void add_token(int32_t id, size_t end) {
    ids_.push_back(id);
    if (ends_) ends_->push_back(static_cast<int64_t>(end));
  }
  void add_fixed(const std::vector<int32_t>& ids, size_t place) {
    for (const int32_t id : ids) add_token(id, place);
  }

  const Tokenizer::Tables& tables_;
  Tokenizer::Scratch::State& scratch_;
  const EncodeOptions& options_;
  std::vector<int32_t>& ids_;
  std::vector<int64_t>* ends_;
};

}  // namespace

void encode_text(const Tokenizer::Tables& tables, Tokenizer::Scratch::State& scratch, std::string_view text, const EncodeOptions& options,
                 std::vector<int32_t>& ids, std::vector<int64_t>* ends) {
  Encoding(tables, scratch, options, ids, ends).run(text);
}

}  // namespace trine
