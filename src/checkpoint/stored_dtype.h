// The element types a safetensors file may name, without torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace trine {

enum class StoredDtype {
  kBool, kF4, kF6E2M3, kF6E3M2, kU8, kI8, kF8E5M2, kF8E4M3, kF8E8M0, kF8E4M3Fnuz, kF8E5M2Fnuz, kI16, kU16, kF16, kBF16, kI32, kU32,
  kF32, kC64, kF64, kI64, kU64
};

std::string_view dtype_name(StoredDtype dtype);  // "BF16"
int64_t dtype_bits(StoredDtype dtype);           // of one element: 4 for F4, 16 for BF16
std::optional<StoredDtype> parse_dtype(std::string_view name);

// config.json's word ("bfloat16", "float32", "float16") for a type that weights are exported in; empty for any other type.
std::string_view config_dtype_name(StoredDtype dtype);
// And back; unset for any other word.
std::optional<StoredDtype> parse_config_dtype(std::string_view word);

// Bytes of a tensor; a rank-0 tensor has one element. Unset if the product overflows, a dimension is negative, or the bits do not
// fill whole bytes.
std::optional<uint64_t> tensor_bytes(StoredDtype dtype, const std::vector<int64_t>& shape);

int64_t element_count(const std::vector<int64_t>& shape);  // of a shape that has been validated

}  // namespace trine
