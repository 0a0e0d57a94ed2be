#include "data/inflate.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>

#include "base/errors.h"
#include "base/files.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void damaged(const fs::path& file, const char* why) {
  throw UserError("{}: the compressed file is damaged or cut short: {}. Fetch it again, or test it with `gzip -t` or `zstd -t`.",
                  file.string(), why);
}

class GzipStream : public InflateStream {
 public:
  explicit GzipStream(const fs::path& file) : file_(file), input_(file) {
    // 15 + 16: the largest window, gzip framing.
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
    rest_ = input_.bytes();
  }
  ~GzipStream() override { inflateEnd(&stream_); }

  size_t read(char* buffer, size_t size) override {
    constexpr size_t kPiece = size_t{1} << 30;  // zlib counts in 32 bits
    stream_.next_out = reinterpret_cast<Bytef*>(buffer);
    stream_.avail_out = static_cast<uInt>(std::min(size, kPiece));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out > 0) {
      if (between_members_) {
        if (rest_.empty()) break;
        inflateReset(&stream_);
        between_members_ = false;
      }
      const size_t given = std::min(rest_.size(), kPiece);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest_.data()));
      stream_.avail_in = static_cast<uInt>(given);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      rest_ = rest_.subspan(given - stream_.avail_in);
      if (status == Z_STREAM_END) {
        between_members_ = true;
      } else if (status != Z_OK) {
        damaged(file_, stream_.msg ? stream_.msg : "it ends inside a member");
      }
    }
    return wanted - stream_.avail_out;
  }

 private:
  fs::path file_;
  MappedFile input_;
  std::span<const std::byte> rest_;
  z_stream stream_{};
  bool between_members_ = true;
};

class ZstdStream : public InflateStream {
 public:
  explicit ZstdStream(const fs::path& file) : file_(file), input_(file), stream_(ZSTD_createDStream(), ZSTD_freeDStream) {
    if (!stream_) throw std::bad_alloc();
    rest_ = {input_.bytes().data(), input_.bytes().size(), 0};
  }

  size_t read(char* buffer, size_t size) override {
    ZSTD_outBuffer out{buffer, size, 0};
    while (out.pos < out.size && (rest_.pos < rest_.size || inside_frame_)) {
      const size_t before = out.pos, consumed = rest_.pos;
      const size_t status = ZSTD_decompressStream(stream_.get(), &out, &rest_);
      if (ZSTD_isError(status)) damaged(file_, ZSTD_getErrorName(status));
      inside_frame_ = status != 0;
      if (out.pos == before && rest_.pos == consumed && inside_frame_) damaged(file_, "it ends inside a frame");
    }
    return out.pos;
  }

 private:
  fs::path file_;
  MappedFile input_;
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_;
  ZSTD_inBuffer rest_{};
  bool inside_frame_ = false;
};

}  // namespace

bool is_compressed(const fs::path& file) { return file.extension() == ".gz" || file.extension() == ".zst"; }

std::unique_ptr<InflateStream> open_compressed(const fs::path& file) {
  if (file.extension() == ".gz") return std::make_unique<GzipStream>(file);
  return std::make_unique<ZstdStream>(file);
}

std::string read_compressed(const fs::path& file) {
  constexpr size_t kPiece = size_t{1} << 20;
  const auto stream = open_compressed(file);
  std::string text;
  for (size_t size = 0;;) {
    text.resize(size + kPiece);
    const size_t got = stream->read(text.data() + size, kPiece);
    size += got;
    text.resize(size);
    if (got == 0) return text;
  }
}

}  // namespace trine
