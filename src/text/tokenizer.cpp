#include "text/tokenizer.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/splitter.h"
#include "text/tokenizer_file.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace trine {

struct Tokenizer::Scratch::State {
  BpeModel::Workspace work;
  std::string valid;   // the text with ill-formed bytes replaced
  std::string normal;  // a stretch of it in form C
  EditMap valid_edits, normal_edits;
};

struct Tokenizer::Tables {
  explicit Tables(TokenizerFile file);

  std::vector<std::string> bytes;  // by id: what decoding gives
  std::vector<bool> special;       // by id
  std::unordered_map<std::string, int32_t> ids;  // by the file's spelling
  BpeModel bpe;
  Splitter splitter;
  bool normalise;
  AddedTokenFinder raw_tokens, normalized_tokens;
  std::vector<int32_t> prefix, suffix;
  bool lines_are_apart = true;  // no added token reaches over a line end, or takes white space before it
  bool drops_bytes = false;
  int32_t unknown;
  std::optional<int32_t> eos, bos, pad;

  // Idle scratches of Tokenizer::encode.
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Scratch::State>> idle;
};

namespace {

AddedTokenFinder finder_of(const TokenizerFile& file, bool normalized) {
  std::vector<AddedToken> tokens;
  for (AddedToken token : file.added) {
    if (token.normalized != normalized) continue;
    if (normalized && file.normalise) {
      std::string normal;
      append_nfc(token.content, normal);
      token.content = std::move(normal);
    }
    tokens.push_back(std::move(token));
  }
  return AddedTokenFinder(std::move(tokens));
}

// One call of encode: from the text to ids, and to the tokens' ends if they are asked for.
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
          const char* const readable_end = part.data() + part.size();
          tables_.splitter.split(part, [&](std::string_view piece) { tables_.bpe.encode(piece, readable_end, scratch_.work, ids_); });
          if (!ends_) return;
          size_t position = 0;
          for (size_t i = first; i < ids_.size(); ++i) {
            position = token_end(part, position, ids_[i]);
            ends_->push_back(static_cast<int64_t>(original(part_begin + position)));
          }
        });
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

// A scratch from the tokenizer's idle ones, given back at the end.
class BorrowedScratch {
 public:
  explicit BorrowedScratch(const Tokenizer::Tables& tables) : tables_(tables) {
    const std::lock_guard lock(tables.mutex);
    if (tables.idle.empty()) {
      state_ = std::make_unique<Tokenizer::Scratch::State>();
    } else {
      state_ = std::move(tables.idle.back());
      tables.idle.pop_back();
    }
  }
  BorrowedScratch(const BorrowedScratch&) = delete;
  ~BorrowedScratch() {
    const std::lock_guard lock(tables_.mutex);
    tables_.idle.push_back(std::move(state_));
  }
  Tokenizer::Scratch::State& operator*() { return *state_; }

 private:
  const Tokenizer::Tables& tables_;
  std::unique_ptr<Tokenizer::Scratch::State> state_;
};

}  // namespace

Tokenizer::Tables::Tables(TokenizerFile file)
    : bpe(file.vocabulary, file.merges, file.bpe),
      splitter(file.split),
      normalise(file.normalise),
      raw_tokens(finder_of(file, false)),
      normalized_tokens(finder_of(file, true)),
      prefix(std::move(file.prefix)),
      suffix(std::move(file.suffix)),
      unknown(file.bpe.unknown) {
  bytes.resize(file.tokens.size());
  special.resize(file.tokens.size());
  ids.reserve(file.tokens.size());
  for (const AddedToken& token : file.added) {
    bytes[token.id] = token.content;
    special[token.id] = token.special;
    if (token.lstrip || token.content.find('\n') != std::string::npos) lines_are_apart = false;
  }
  for (size_t id = 0; id < file.tokens.size(); ++id) {
    if (file.tokens[id].empty()) continue;
    if (bytes[id].empty()) bytes[id] = bytes_of_spelling(file.tokens[id]).value_or(file.tokens[id]);
    ids.emplace(std::move(file.tokens[id]), static_cast<int32_t>(id));
  }
  if (unknown == BpeModel::kNone) {
    for (int byte = 0; byte < 256; ++byte) drops_bytes |= !bpe.has_byte(static_cast<unsigned char>(byte));
  }
}

Tokenizer::Scratch::Scratch(const Tokenizer&) : state_(std::make_unique<State>()) {}
Tokenizer::Scratch::Scratch(Scratch&&) noexcept = default;
Tokenizer::Scratch& Tokenizer::Scratch::operator=(Scratch&&) noexcept = default;
Tokenizer::Scratch::~Scratch() = default;

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view config_json, std::string_view where) {
  const auto tables = std::make_shared<Tables>(parse_tokenizer_file(tokenizer_json, where));
  if (!config_json.empty()) {
    const TokenizerConfig config = parse_tokenizer_config(config_json, where);
    const auto id_of = [&](const std::optional<std::string>& token, std::string_view name) -> std::optional<int32_t> {
      if (!token) return std::nullopt;
      const auto found = tables->ids.find(*token);
      if (found == tables->ids.end()) throw UserError("{}: {} is \"{}\", which tokenizer.json does not have", where, name, *token);
      return found->second;
    };
    tables->eos = id_of(config.eos_token, "eos_token");
    tables->bos = id_of(config.bos_token, "bos_token");
    tables->pad = id_of(config.pad_token, "pad_token");
  }
  return Tokenizer(tables);
}

Tokenizer Tokenizer::from_file(const std::filesystem::path& tokenizer_json) {
  return from_json(MappedFile(tokenizer_json).text(), "", tokenizer_json.string());
}

Tokenizer Tokenizer::from_folder(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "tokenizer.json", config = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(file)) {
    throw UserError("{}: no tokenizer.json there; a folder of a Hugging Face model with a fast tokenizer has one", folder.string());
  }
  return from_json(MappedFile(file).text(), std::filesystem::exists(config) ? read_file(config) : "", folder.string());
}

void Tokenizer::encode_append(std::string_view text, Scratch& scratch, std::vector<int32_t>& ids, const EncodeOptions& options) const {
  Encoding(*tables_, scratch.state(), options, ids, nullptr).run(text);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  BorrowedScratch scratch(*tables_);
  Encoding(*tables_, *scratch, options, ids, nullptr).run(text);
  return ids;
}

void Tokenizer::encode_with_ends(std::string_view text, std::vector<int32_t>& ids, std::vector<int64_t>& ends,
                                 const EncodeOptions& options) const {
  BorrowedScratch scratch(*tables_);
  Encoding(*tables_, *scratch, options, ids, &ends).run(text);
}

std::vector<std::vector<int32_t>> Tokenizer::encode_batch(std::span<const std::string_view> texts, int64_t num_threads,
                                                          const EncodeOptions& options) const {
  std::vector<std::vector<int32_t>> out(texts.size());
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    try {
      BorrowedScratch scratch(*tables_);
      for (size_t i = next++; i < texts.size(); i = next++) Encoding(*tables_, *scratch, options, out[i], nullptr).run(texts[i]);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      failure = std::current_exception();
    }
  };
  if (num_threads <= 0) num_threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> threads;
  for (int64_t i = 1; i < std::min<int64_t>(num_threads, std::ssize(texts)); ++i) threads.emplace_back(work);
  work();
  threads.clear();  // joins
  if (failure) std::rethrow_exception(failure);
  return out;
}

// A line end between two characters that are not white space ends a piece under every split rule, whatever follows; no character composes
// with it either.
std::vector<int32_t> Tokenizer::encode_parallel(std::string_view text, int64_t num_threads, const EncodeOptions& options) const {
  constexpr size_t kSmallestPart = 1 << 16, kPartsPerThread = 4;
  if (num_threads <= 0) num_threads = std::max(1u, std::thread::hardware_concurrency());
  const size_t part_size = std::max(kSmallestPart, text.size() / (kPartsPerThread * static_cast<size_t>(num_threads)) + 1);
  const bool may_cut = num_threads > 1 && tables_->lines_are_apart && is_valid_utf8(text);
  const auto space_at = [&](size_t place) {  // of the character that holds the byte at `place`
    while (place > 0 && is_utf8_continuation(static_cast<unsigned char>(text[place]))) --place;
    const char* p = text.data() + place;
    return is_white_space(decode_utf8(p));
  };
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t end = part_size; may_cut && end < text.size(); ++end) {
    end = text.find('\n', end);
    if (end == std::string_view::npos || end + 1 >= text.size()) break;
    if (space_at(end - 1) || space_at(end + 1)) continue;
    parts.push_back(text.substr(begin, end + 1 - begin));
    begin = end + 1;
    end += part_size;
  }
  parts.push_back(text.substr(begin));

  const bool fixed = options.add_special_tokens;
  std::vector<int32_t> ids = fixed ? tables_->prefix : std::vector<int32_t>();
  EncodeOptions plain = options;
  plain.add_special_tokens = false;
  for (const std::vector<int32_t>& part : encode_batch(parts, num_threads, plain)) ids.insert(ids.end(), part.begin(), part.end());
  if (fixed) ids.insert(ids.end(), tables_->suffix.begin(), tables_->suffix.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!skip_special || !is_special(id)) bytes += token_bytes(id);
  }
  if (is_valid_utf8(bytes)) return bytes;
  std::string text;
  append_valid_utf8(bytes, text);
  return text;
}

int64_t Tokenizer::vocab_size() const { return std::ssize(tables_->bytes); }

std::optional<int32_t> Tokenizer::token_id(std::string_view token) const {
  const auto found = tables_->ids.find(std::string(token));
  return found == tables_->ids.end() ? std::nullopt : std::optional(found->second);
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  return id < 0 || id >= vocab_size() ? std::string_view() : tables_->bytes[static_cast<size_t>(id)];
}

bool Tokenizer::has_token(int32_t id) const { return !token_bytes(id).empty(); }

bool Tokenizer::is_special(int32_t id) const { return id >= 0 && id < vocab_size() && tables_->special[static_cast<size_t>(id)]; }

std::optional<int32_t> Tokenizer::eos_token_id() const { return tables_->eos; }
std::optional<int32_t> Tokenizer::bos_token_id() const { return tables_->bos; }
std::optional<int32_t> Tokenizer::pad_token_id() const { return tables_->pad; }

std::string StreamDecoder::push(int32_t id) {
  if (!skip_special_ || !tokenizer_.is_special(id)) held_ += tokenizer_.token_bytes(id);
  const size_t complete = complete_utf8_prefix(held_);
  std::string text;
  append_valid_utf8(std::string_view(held_).substr(0, complete), text);
  held_.erase(0, complete);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  append_valid_utf8(held_, text);
  held_.clear();
  return text;
}

}  // namespace trine
