#include "metrics/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>


namespace trine {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "frames and protobuf fields are little-endian");

template <class Value>
std::string raw(Value value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
  return bytes;
}

// A protobuf field: its key is the number and how the value is coded.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string field_key(int number, WireType type) { return varint(static_cast<uint64_t>(number << 3 | type)); }

std::string bytes_field(int number, std::string_view bytes) {
  std::string field = field_key(number, kBytes) + varint(bytes.size());
  return field.append(bytes);
}

// The fields that every Event has: wall_time and step.
std::string event_head(int64_t step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return field_key(1, kFixed64) + raw(now.count()) + field_key(2, kVarint) + varint(static_cast<uint64_t>(step));
}

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return std::rotr(crc, 15) + 0xa282ead8u;
}

constexpr std::string_view kPrefix = "events.out.tfevents.";

// A name for this process's file. Names begin with the second of their making; two runs in one second still sort in order.
fs::path new_event_file(const fs::path& folder) {
  create_folders(folder);
  int64_t second = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    second = std::max<int64_t>(second, std::atoll(name.c_str() + kPrefix.size()) + 1);
  }
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  return folder / fmt::format("{}{:010}.{}.{}.trine", kPrefix, second, host, ::getpid());
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static const std::array<uint32_t, 256> kTable = [] {
    constexpr uint32_t kReversedPolynomial = 0x82f63b78;
    std::array<uint32_t, 256> table{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t crc = byte;
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kReversedPolynomial : 0);
      table[byte] = crc;
    }
    return table;
  }();
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

EventFile::EventFile(const fs::path& folder, int64_t resumed_step) : writer_(new_event_file(folder)) {
  write_event(event_head(0) + bytes_field(3, "brain.Event:2"));
  if (resumed_step > 0) {
    // SessionLog{status = START}: readers drop what earlier files have from this step on.
    write_event(event_head(resumed_step + 1) + bytes_field(7, field_key(1, kVarint) + varint(1)));
  }
}

void EventFile::scalars(int64_t step, std::span<const std::pair<std::string_view, double>> values) {
  std::string summary;
  for (const auto& [tag, value] : values) {
    summary += bytes_field(1, bytes_field(1, tag) + field_key(2, kFixed32) + raw(static_cast<float>(value)));
  }
  write_event(event_head(step) + bytes_field(5, summary));
}

void EventFile::write_event(std::string_view event) {
  const std::string length = raw(static_cast<uint64_t>(event.size()));
  std::string frame = length + raw(masked_crc(length));
  frame.append(event).append(raw(masked_crc(event)));
  writer_.write(frame);
}

}  // namespace trine
