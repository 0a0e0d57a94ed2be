#include "text/tokenizer.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "text/encoding.h"
#include "text/unicode.h"

namespace trine {
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

namespace {

// Of the bytes that valid UTF-8 can hold. SmolLM2 lacks some control characters, for example.
void tell_of_missing_bytes(const Tokenizer::Tables& tables, std::string_view where) {
  if (!tables.drops_bytes) return;
  std::vector<std::string> missing;
  for (int byte = 0; byte < 0xF5; ++byte) {
    if (byte == 0xC0 || byte == 0xC1 || tables.bpe.has_byte(static_cast<unsigned char>(byte))) continue;
    missing.push_back(fmt::format("{:02x}", byte));
  }
  if (!missing.empty()) log::info("{}: no token for the bytes {}; they are dropped from texts", where, fmt::join(missing, " "));
}

}  // namespace

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view config_json, std::string_view where) {
  const auto tables = std::make_shared<Tables>(parse_tokenizer_file(tokenizer_json, where));
  tell_of_missing_bytes(*tables, where);
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
  encode_text(*tables_, scratch.state(), text, options, ids, nullptr);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  BorrowedScratch scratch(*tables_);
  encode_text(*tables_, *scratch, text, options, ids, nullptr);
  return ids;
}

void Tokenizer::encode_with_ends(std::string_view text, std::vector<int32_t>& ids, std::vector<int64_t>& ends,
                                 const EncodeOptions& options) const {
  BorrowedScratch scratch(*tables_);
  encode_text(*tables_, *scratch, text, options, ids, &ends);
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
      for (size_t i = next++; i < texts.size(); i = next++) encode_text(*tables_, *scratch, texts[i], options, out[i], nullptr);
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
