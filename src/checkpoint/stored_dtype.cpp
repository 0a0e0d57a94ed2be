#include "checkpoint/stored_dtype.h"

#include <array>

namespace trine {
namespace {

struct Row {
  StoredDtype dtype;
  std::string_view name;
  int64_t bits;
  std::string_view config_name;
};

// The names of the safetensors format; in the order of the enum.
constexpr std::array kRows = {
    Row{StoredDtype::kBool, "BOOL", 8, ""},
    Row{StoredDtype::kF4, "F4", 4, ""},
    Row{StoredDtype::kF6E2M3, "F6_E2M3", 6, ""},
    Row{StoredDtype::kF6E3M2, "F6_E3M2", 6, ""},
    Row{StoredDtype::kU8, "U8", 8, ""},
    Row{StoredDtype::kI8, "I8", 8, ""},
    Row{StoredDtype::kF8E5M2, "F8_E5M2", 8, ""},
    Row{StoredDtype::kF8E4M3, "F8_E4M3", 8, ""},
    Row{StoredDtype::kF8E8M0, "F8_E8M0", 8, ""},
    Row{StoredDtype::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8, ""},
    Row{StoredDtype::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8, ""},
    Row{StoredDtype::kI16, "I16", 16, ""},
    Row{StoredDtype::kU16, "U16", 16, ""},
    Row{StoredDtype::kF16, "F16", 16, "float16"},
    Row{StoredDtype::kBF16, "BF16", 16, "bfloat16"},
    Row{StoredDtype::kI32, "I32", 32, ""},
    Row{StoredDtype::kU32, "U32", 32, ""},
    Row{StoredDtype::kF32, "F32", 32, "float32"},
    Row{StoredDtype::kC64, "C64", 64, ""},
    Row{StoredDtype::kF64, "F64", 64, ""},
    Row{StoredDtype::kI64, "I64", 64, ""},
    Row{StoredDtype::kU64, "U64", 64, ""},
};

constexpr bool in_enum_order() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].dtype) != i) return false;
  }
  return kRows.size() == static_cast<size_t>(StoredDtype::kU64) + 1;
}
static_assert(in_enum_order());

const Row& row(StoredDtype dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view dtype_name(StoredDtype dtype) { return row(dtype).name; }
int64_t dtype_bits(StoredDtype dtype) { return row(dtype).bits; }
std::string_view config_dtype_name(StoredDtype dtype) { return row(dtype).config_name; }

std::optional<StoredDtype> parse_dtype(std::string_view name) {
  for (const Row& r : kRows) {
    if (r.name == name) return r.dtype;
  }
  return std::nullopt;
}

std::optional<StoredDtype> parse_config_dtype(std::string_view word) {
  for (const Row& r : kRows) {
    if (!word.empty() && r.config_name == word) return r.dtype;
  }
  return std::nullopt;
}

std::optional<uint64_t> tensor_bytes(StoredDtype dtype, const std::vector<int64_t>& shape) {
  uint64_t bits = static_cast<uint64_t>(dtype_bits(dtype));
  for (int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bits, static_cast<uint64_t>(size), &bits)) return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

}  // namespace trine
