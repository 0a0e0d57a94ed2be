#include "data/shards.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/errors.h"
#include "base/format.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[] = "TRNSHARD", kEndMagic[] = "DRAHSNRT";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 16, kFingerprintDigits = 32, kDigestDigits = 32;
constexpr size_t kFlushBytes = size_t{4} << 20;

struct Trailer {
  uint64_t num_documents, num_tokens, vocab_size;
  std::array<uint8_t, kFingerprintDigits / 2> fingerprint;
  std::array<char, kDigestDigits> digest;
  std::array<char, 8> magic;
};
static_assert(sizeof(Trailer) == 80 && std::is_trivially_copyable_v<Trailer>);

std::array<uint8_t, kFingerprintDigits / 2> packed(const std::string& digits) {
  std::array<uint8_t, kFingerprintDigits / 2> result{};
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = static_cast<uint8_t>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
  return result;
}

std::string unpacked(const std::array<uint8_t, kFingerprintDigits / 2>& bytes) {
  std::string digits;
  for (uint8_t byte : bytes) digits += fmt::format("{:02x}", byte);
  return digits;
}

uint64_t padding_of(uint64_t bytes) { return (8 - bytes % 8) % 8; }

template <class... Args>
[[noreturn]] void refuse(const fs::path& file, fmt::format_string<Args...> format, Args&&... args) {
  throw UserError("{}: not a usable shard: {}. Make it again with `trine tokenize --to-shards`.", file.string(),
                  fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

ShardWriter::ShardWriter(const fs::path& file, int64_t vocab_size, std::string tokenizer_fingerprint)
    : file_(file), writer_(file), vocab_size_(vocab_size), token_bytes_(vocab_size <= 65536 ? 2 : 4),
      tokenizer_fingerprint_(std::move(tokenizer_fingerprint)) {
  if (tokenizer_fingerprint_.size() != kFingerprintDigits) {
    throw std::logic_error("not a tokenizer fingerprint: " + tokenizer_fingerprint_);
  }
  const uint32_t width = static_cast<uint32_t>(token_bytes_);
  write(std::as_bytes(std::span(kMagic, 8)));
  write(std::as_bytes(std::span(&kVersion, 1)));
  write(std::as_bytes(std::span(&width, 1)));
}

void ShardWriter::write(std::span<const std::byte> bytes) {
  digest_.update(bytes);
  writer_.write(bytes);
}

void ShardWriter::add(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size_) throw UserError("{}: token id {} is outside the vocabulary of {}", file_.string(), id, vocab_size_);
    const size_t size = buffer_.size();
    buffer_.resize(size + static_cast<size_t>(token_bytes_));
    std::memcpy(buffer_.data() + size, &id, static_cast<size_t>(token_bytes_));
  }
  starts_.push_back(starts_.back() + ids.size());
  if (buffer_.size() >= kFlushBytes) {
    write(buffer_);
    buffer_.clear();
  }
}

void ShardWriter::finish() {
  buffer_.resize(buffer_.size() + padding_of(starts_.back() * static_cast<uint64_t>(token_bytes_)));
  write(buffer_);
  write(std::as_bytes(std::span(starts_)));
  Trailer trailer{};
  trailer.num_documents = static_cast<uint64_t>(num_documents());
  trailer.num_tokens = static_cast<uint64_t>(num_tokens());
  trailer.vocab_size = static_cast<uint64_t>(vocab_size_);
  trailer.fingerprint = packed(tokenizer_fingerprint_);
  const auto bytes = std::as_bytes(std::span(&trailer, 1));
  digest_.update(bytes.first(offsetof(Trailer, digest)));
  const std::string digest = digest_.hex();
  std::copy_n(digest.begin(), kDigestDigits, trailer.digest.begin());
  std::copy_n(kEndMagic, trailer.magic.size(), trailer.magic.begin());
  writer_.write(bytes);
  writer_.sync_and_close();
}

Shard::Shard(const fs::path& file) : map_(file) {
  const auto bytes = map_.bytes();
  constexpr size_t kEmptyShard = kHeaderBytes + sizeof(uint64_t) + sizeof(Trailer);
  if (bytes.size() < kEmptyShard) refuse(file, "{} bytes are less than the {} of an empty shard", bytes.size(), kEmptyShard);
  if (std::memcmp(bytes.data(), kMagic, 8) != 0) refuse(file, "it does not begin with \"{}\"", kMagic);
  uint32_t version, width;
  std::memcpy(&version, bytes.data() + 8, 4);
  std::memcpy(&width, bytes.data() + 12, 4);
  if (version != kVersion) {
    throw UserError("{}: shard format version {}; this program reads version {}. Use the program that wrote it or a newer one.",
                    file.string(), version, kVersion);
  }
  if (width != 2 && width != 4) refuse(file, "{} bytes per token, expected 2 or 4", width);

  Trailer trailer;
  const auto trailer_bytes = bytes.last(sizeof(Trailer));
  std::memcpy(&trailer, trailer_bytes.data(), sizeof(Trailer));
  if (std::memcmp(trailer.magic.data(), kEndMagic, trailer.magic.size()) != 0) {
    refuse(file, "it does not end with a trailer: the file was cut short or something was appended");
  }
  // Bounded by the file's size before any arithmetic that could overflow.
  const uint64_t body = bytes.size() - kHeaderBytes - sizeof(Trailer);
  if (trailer.num_tokens > body / width || trailer.num_documents >= body / sizeof(uint64_t)) {
    refuse(file, "{} documents with {} tokens of {} bytes do not fit into {} bytes", trailer.num_documents, trailer.num_tokens, width,
           bytes.size());
  }
  const uint64_t token_section = trailer.num_tokens * width + padding_of(trailer.num_tokens * width);
  const uint64_t expected = token_section + (trailer.num_documents + 1) * sizeof(uint64_t);
  if (expected != body) {
    refuse(file, "{} documents with {} tokens of {} bytes need {} bytes, found {}", trailer.num_documents, trailer.num_tokens, width,
           expected + kHeaderBytes + sizeof(Trailer), bytes.size());
  }
  Xxh3 digest;
  digest.update(bytes.first(bytes.size() - sizeof(Trailer) + offsetof(Trailer, digest)));
  if (digest.hex() != std::string_view(trailer.digest.data(), kDigestDigits)) refuse(file, "its content does not match its checksum");

  starts_ = reinterpret_cast<const uint64_t*>(bytes.data() + kHeaderBytes + token_section);  // a multiple of 8 into a mapped page
  for (uint64_t i = 0; i < trailer.num_documents; ++i) {
    if (starts_[i] > starts_[i + 1]) refuse(file, "document {} ends before it begins", i + 1);
  }
  if (starts_[0] != 0 || starts_[trailer.num_documents] != trailer.num_tokens) refuse(file, "its documents do not cover its tokens");
  num_documents_ = static_cast<int64_t>(trailer.num_documents);
  num_tokens_ = static_cast<int64_t>(trailer.num_tokens);
  vocab_size_ = static_cast<int64_t>(trailer.vocab_size);
  token_bytes_ = static_cast<int32_t>(width);
  tokenizer_fingerprint_ = unpacked(trailer.fingerprint);
}

std::string_view Shard::document(int64_t index) const {
  const uint64_t width = static_cast<uint64_t>(token_bytes_);
  return map_.text().substr(kHeaderBytes + starts_[index] * width, (starts_[index + 1] - starts_[index]) * width);
}

std::string tokenizer_fingerprint(const Tokenizer& tokenizer) {
  Xxh3 digest;
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.token_bytes(static_cast<int32_t>(id));
    const uint64_t length = bytes.size();
    digest.update(std::as_bytes(std::span(&length, 1)));
    digest.update(std::as_bytes(std::span(bytes)));
  }
  return digest.hex();
}

std::vector<int32_t> token_ids(std::string_view bytes, int32_t token_bytes) {
  std::vector<int32_t> ids(bytes.size() / static_cast<size_t>(token_bytes));
  if (ids.empty()) return ids;  // and no address to copy to
  if (token_bytes == 4) {
    std::memcpy(ids.data(), bytes.data(), bytes.size());
  } else {
    std::vector<uint16_t> narrow(ids.size());
    std::memcpy(narrow.data(), bytes.data(), bytes.size());
    std::copy(narrow.begin(), narrow.end(), ids.begin());
  }
  return ids;
}

namespace {

class ShardReader : public RecordReader {
 public:
  ShardReader(std::vector<fs::path> files, std::string fingerprint)
      : RecordReader(std::move(files)), fingerprint_(std::move(fingerprint)) {}

  bool next(Record& record) override {
    for (;;) {
      if (!open_ && !open()) return false;
      if (static_cast<int64_t>(cursor_.offset) < open_->num_documents()) break;
      cursor_ = {cursor_.file + 1, 0, 0};
      open_.reset();
    }
    record = {.file = cursor_.file,
              .number = ++cursor_.number,
              .bytes = open_->document(static_cast<int64_t>(cursor_.offset++)),
              .keep = open_,
              .token_bytes = open_->token_bytes()};
    return true;
  }

  Cursor tell() const override { return cursor_; }

  void seek(const Cursor& cursor) override {
    if (cursor.file != cursor_.file) open_.reset();
    cursor_ = cursor;
  }

 private:
  bool open() {
    if (cursor_.file >= static_cast<int32_t>(files().size())) return false;
    const fs::path& file = files()[cursor_.file];
    open_ = std::make_shared<Shard>(file);
    if (open_->tokenizer_fingerprint() != fingerprint_) {
      throw UserError("{}: made with another tokenizer (fingerprint {}) than the one in use (fingerprint {}). Name the folder with that "
                      "tokenizer in model.hf_assets_path, or make the shards again with `trine tokenize --to-shards`.",
                      file.string(), open_->tokenizer_fingerprint(), fingerprint_);
    }
    return true;
  }

  std::string fingerprint_;
  Cursor cursor_;
  std::shared_ptr<const Shard> open_;
};

}  // namespace

std::unique_ptr<RecordReader> make_shard_reader(std::vector<fs::path> files, std::string tokenizer_fingerprint) {
  return std::make_unique<ShardReader>(std::move(files), std::move(tokenizer_fingerprint));
}

}  // namespace trine
