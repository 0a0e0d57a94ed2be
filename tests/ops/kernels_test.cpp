// The kernels of rms_norm, add_rms_norm, rope, qk_norm_rope and swiglu: every instruction set gives the bits of the portable code.
#include <cstring>
#include <vector>

#include "ops/qk_norm_rope_cpu.h"
#include "ops/rms_norm_cpu.h"
#include "ops/swiglu_cpu.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

constexpr int64_t kRows = 5;

template <class Value>
std::vector<Value> draw(int64_t count, uint64_t seed, double factor = 1) {
  const at::Tensor drawn = random_tensor({count}, seed, at::kFloat) * factor;
  std::vector<Value> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) store(values[i], drawn.const_data_ptr<float>()[i]);
  return values;
}

// A result buffer that starts as garbage.
template <class Value>
std::vector<Value> dirty(int64_t count) {
  std::vector<Value> values(static_cast<size_t>(count));
  std::memset(values.data(), 0xFF, values.size() * sizeof(Value));
  return values;
}

template <class... Values>
std::string bytes_of(const std::vector<Values>&... vectors) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(vectors.data()), vectors.size() * sizeof(Values)), ...);
  return bytes;
}

// run(set) gives the bytes of a kernel's results.
void expect_same_bits(const std::function<std::string(InstructionSet)>& run) {
  const std::string expected = run(InstructionSet::kPortable);
  for (InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set <= instruction_set()) EXPECT_TRUE(run(set) == expected) << static_cast<int>(set);
  }
}

constexpr int64_t kWidths[] = {1, 31, 64, 203};

template <class Value>
void check_norms() {
  for (int64_t n : kWidths) {
    const auto x = draw<Value>(kRows * n, 1), residual = draw<Value>(kRows * n, 2), dy = draw<Value>(kRows * n, 3);
    const auto weight = draw<float>(n, 4);
    expect_same_bits([&](InstructionSet set) {
      auto y = dirty<Value>(kRows * n), sum = y, sum_y = y, dx = y, dx_with_sum = y;
      auto rstd = dirty<float>(kRows), sum_rstd = rstd, dweight = dirty<float>(n);
      rms_norm_rows_cpu(x.data(), n, weight.data(), y.data(), rstd.data(), kRows, n, 1e-6f, set);
      add_rms_norm_rows_cpu(x.data(), n, residual.data(), n, weight.data(), sum.data(), sum_y.data(), sum_rstd.data(), kRows, n, 1e-6f,
                            set);
      rms_norm_backward_rows_cpu(dy.data(), n, x.data(), n, weight.data(), rstd.data(), static_cast<const Value*>(nullptr), dx.data(),
                                 dweight.data(), kRows, n, set);
      rms_norm_backward_rows_cpu(dy.data(), n, x.data(), n, weight.data(), rstd.data(), residual.data(), dx_with_sum.data(),
                                 dweight.data(), kRows, n, set);
      return bytes_of(y, sum, sum_y, dx, dx_with_sum, rstd, sum_rstd, dweight);
    });
  }
}

TEST(NormKernels, EveryInstructionSetGivesTheSameBits) {
  check_norms<float>();
  check_norms<BFloat16Bits>();
}

template <class Value>
void check_rotations() {
  for (int64_t half : kWidths) {
    constexpr int64_t kHeads = 2, kTokens = 4;
    const int64_t count = kTokens * kHeads * 2 * half;
    const auto x = draw<Value>(count, 1), dy = draw<Value>(count, 2);
    const auto weight = draw<float>(2 * half, 3), cos = draw<float>(kTokens * half, 4), sin = draw<float>(kTokens * half, 5);
    const RopeRows rows{.cos = cos.data(), .sin = sin.data(), .length = kTokens, .half = half};
    const HeadStrides by_token{.batch = count, .position = kHeads * 2 * half, .head = 2 * half};
    const HeadStrides by_head{.batch = count, .position = 2 * half, .head = kTokens * 2 * half};
    expect_same_bits([&](InstructionSet set) {
      auto turned = dirty<Value>(count), turned_back = turned, y = turned, dx = turned;
      auto rstd = dirty<float>(kTokens * kHeads), dweight = dirty<float>(2 * half);
      rope_cpu(x.data(), by_token, turned.data(), by_head, rows, kHeads, 0, kTokens, false, set);
      rope_cpu(x.data(), by_token, turned_back.data(), by_head, rows, kHeads, 0, kTokens, true, set);
      qk_norm_rope_cpu(x.data(), by_token, weight.data(), 1e-6f, y.data(), by_head, rstd.data(), rows, kHeads, 0, kTokens, set);
      qk_norm_rope_backward_cpu(dy.data(), by_head, x.data(), by_token, weight.data(), rstd.data(), dx.data(), by_token, dweight.data(),
                                rows, kHeads, 0, kTokens, set);
      return bytes_of(turned, turned_back, y, dx, rstd, dweight);
    });
  }
}

TEST(RopeKernels, EveryInstructionSetGivesTheSameBits) {
  check_rotations<float>();
  check_rotations<BFloat16Bits>();
}

template <class Value>
void check_swiglu() {
  for (int64_t n : kWidths) {
    const auto gate = draw<Value>(kRows * n, 1, 30), up = draw<Value>(kRows * n, 2), dy = draw<Value>(kRows * n, 3);
    const SwiGluInputs<Value> in{.gate = gate.data(), .up = up.data(), .gate_stride = n, .up_stride = n, .rows = kRows, .n = n};
    expect_same_bits([&](InstructionSet set) {
      auto y = dirty<Value>(kRows * n), dgate = y, dup = y;
      swiglu_rows_cpu(in, y.data(), set);
      swiglu_backward_rows_cpu(in, dy.data(), dgate.data(), dup.data(), set);
      return bytes_of(y, dgate, dup);
    });
  }
}

TEST(SwiGluKernels, EveryInstructionSetGivesTheSameBits) {
  check_swiglu<float>();
  check_swiglu<BFloat16Bits>();
}

}  // namespace
}  // namespace trine
