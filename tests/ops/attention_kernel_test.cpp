// The torch-free attention kernel, each instruction set of it, against float64.
#include <cstring>

#include "ops/attention_cpu.h"
#include "tests/ops/attention_reference.h"

namespace trine {
namespace {

std::vector<InstructionSet> sets_here() {
  std::vector<InstructionSet> sets;
  for (InstructionSet set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512, InstructionSet::kAvx512Bf16}) {
    if (set <= instruction_set()) sets.push_back(set);
  }
  return sets;
}

// Memory that holds NaN in every type.
struct Garbage {
  at::Tensor bytes;
  explicit Garbage(int64_t count) : bytes(at::full({count}, 0xFF, at::TensorOptions(at::kByte))) {}
  void* data() const { return bytes.data_ptr(); }
};

void run_backwards(int64_t num_tasks, int64_t scratch_bytes, const std::function<void(int64_t, void*)>& work) {
  for (int64_t task = num_tasks; task-- > 0;) work(task, Garbage(scratch_bytes).data());
}
void run_in_order(int64_t num_tasks, int64_t scratch_bytes, const std::function<void(int64_t, void*)>& work) {
  const Garbage scratch(scratch_bytes);
  for (int64_t task = 0; task < num_tasks; ++task) work(task, scratch.data());
}

template <class Value>
AttentionResult run_kernel(const AttentionCase& given, const at::Tensor& first_bs, InstructionSet set, const TaskRunner& run) {
  const auto view = [](const at::Tensor& x) {
    return HeadsView<Value>{static_cast<Value*>(x.data_ptr()), x.stride(0), x.stride(1), x.stride(2)};
  };
  const auto read = [](const at::Tensor& x) {
    return HeadsView<const Value>{static_cast<const Value*>(x.data_ptr()), x.stride(0), x.stride(1), x.stride(2)};
  };
  const auto dirty = [](const at::Tensor& like) { return at::full_like(like, std::numeric_limits<double>::quiet_NaN()); };
  const AttentionShape shape{.batch = given.q.size(0), .heads = given.q.size(1), .kv_heads = given.k.size(1), .length = given.q.size(2),
                             .head_dim = given.q.size(3)};
  const AttentionInputs<Value> in{.shape = shape, .q = read(given.q), .k = read(given.k), .v = read(given.v),
                                  .first_visible = first_bs.defined() ? first_bs.data_ptr<int64_t>() : nullptr};
  AttentionResult result{dirty(given.q), dirty(given.q.select(3, 0).to(at::kFloat)), dirty(given.q), dirty(given.k), dirty(given.v)};
  const Garbage workspace(attention_workspace_bytes<Value>(shape, set));
  attention_forward_cpu<Value>(in, view(result.out), result.lse.data_ptr<float>(), workspace.data(), run, set);
  const AttentionGradients<Value> gradients{.dout = read(given.dout), .out = read(result.out), .lse = result.lse.data_ptr<float>(),
                                            .dq = view(result.dq), .dk = view(result.dk), .dv = view(result.dv)};
  attention_backward_cpu<Value>(in, gradients, run, set);
  return result;
}
AttentionResult run_kernel(const AttentionCase& given, const at::Tensor& first_bs, InstructionSet set,
                           const TaskRunner& run = run_in_order) {
  return given.q.scalar_type() == at::kFloat ? run_kernel<float>(given, first_bs, set, run)
                                             : run_kernel<BFloat16Bits>(given, first_bs, set, run);
}

// torch's attention, document by document, with the given dtype's own rounding.
AttentionResult torch_attention(const AttentionCase& given, const PieceStarts& pieces) {
  const at::Tensor q = leaf(given.q), k = leaf(given.k), v = leaf(given.v);
  const at::Tensor out = attention(q, k, v, pieces, Implementation::kReference);
  out.backward(given.dout);
  return {out.detach(), at::Tensor(), q.grad(), k.grad(), v.grad()};
}

struct Sizes {
  int64_t rows, heads, kv_heads, length, head_dim;
  PieceStarts pieces;
};
// One token; fewer than a block; blocks and one token around them; runs of blocks; every kind of head_dim; documents that begin inside
// blocks, at their edges, and one token before.
const std::vector<Sizes> kSizes = {
    {1, 1, 1, 1, 8, {}},
    {1, 4, 2, 4, 8, {}},  // as many heads as positions (case G3)
    {2, 4, 2, 7, 6, {{0, 3, 4}, {0, 6}}},
    {1, 2, 1, 64, 16, {}},
    {1, 3, 1, 65, 80, {{0, 64}}},
    {1, 2, 2, 63, 2, {}},
    {1, 2, 1, 33, 256, {}},
    {1, 4, 1, 130, 128, {}},
    {2, 4, 2, 150, 32, {{0, 1, 63, 64, 100}, {0, 149}}},
    {1, 2, 1, 340, 64, {}},
    {1, 2, 1, 340, 48, {{0, 150, 320}}},
    {1, 16, 8, 20, 16, {}},
};

TEST(AttentionKernel, EveryInstructionSetIsAsNearToFloat64AsFp32Allows) {
  for (const Sizes& sizes : kSizes) {
    const AttentionCase given = attention_case(sizes.rows, sizes.heads, sizes.kv_heads, sizes.length, sizes.head_dim, at::kFloat);
    const at::Tensor first = first_visible(sizes.pieces, sizes.length);
    const AttentionResult expected = expected_attention(given, first);
    for (InstructionSet set : sets_here()) {
      SCOPED_TRACE(fmt::format("length {}, head_dim {}, set {}", sizes.length, sizes.head_dim, static_cast<int>(set)));
      const AttentionResult result = run_kernel(given, first, set);
      EXPECT_LT(difference(result.out, expected.out), 1e-6);
      EXPECT_LT(difference(result.lse, expected.lse), 1e-6);
      EXPECT_LT((result.dq.to(at::kDouble) - expected.dq).norm().item<double>(), 2e-6 * (1 + expected.dq.norm().item<double>()));
      EXPECT_LT((result.dk.to(at::kDouble) - expected.dk).norm().item<double>(), 2e-6 * (1 + expected.dk.norm().item<double>()));
      EXPECT_LT(difference(result.dv, expected.dv), 1e-6) << "summed over the heads of a group (case G4)";
    }
  }
}

TEST(AttentionKernel, Bf16IsAsNearToFloat64AsTorchs) {
  for (const Sizes& sizes : kSizes) {
    const AttentionCase given = attention_case(sizes.rows, sizes.heads, sizes.kv_heads, sizes.length, sizes.head_dim, at::kBFloat16);
    const at::Tensor first = first_visible(sizes.pieces, sizes.length);
    const AttentionResult expected = expected_attention(given, first), torchs = torch_attention(given, sizes.pieces);
    for (InstructionSet set : sets_here()) {
      SCOPED_TRACE(fmt::format("length {}, head_dim {}, set {}", sizes.length, sizes.head_dim, static_cast<int>(set)));
      const AttentionResult result = run_kernel(given, first, set);
      const auto expect_near = [](const at::Tensor& ours, const at::Tensor& torchs, const at::Tensor& exact) {
        const auto error = [&](const at::Tensor& x) { return (x.to(at::kDouble) - exact).norm().item<double>(); };
        constexpr double kRounding = 1.0 / 512;  // of the result alone
        EXPECT_LE(error(ours), 1.1 * error(torchs) + 0.1 * kRounding * (exact.norm().item<double>() + 1e-2));
      };
      expect_near(result.out, torchs.out, expected.out);
      expect_near(result.dq, torchs.dq, expected.dq);
      expect_near(result.dk, torchs.dk, expected.dk);
      expect_near(result.dv, torchs.dv, expected.dv);
      EXPECT_LT(difference(result.lse, expected.lse), 1e-6) << "inputs are exact, and sums are fp32";
    }
  }
}

TEST(AttentionKernel, BitsDoNotDependOnTheOrderOfTasks) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const AttentionCase given = attention_case(2, 4, 2, 150, 32, dtype);
    const at::Tensor first = first_visible({{0, 70}, {0, 10, 140}}, 150);
    for (InstructionSet set : sets_here()) expect_same_bits(run_kernel(given, first, set), run_kernel(given, first, set, run_backwards));
  }
}

TEST(AttentionKernel, LargeAndSmallScoresStayFinite) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    AttentionCase given = attention_case(1, 2, 1, 70, 16, dtype);
    given.q.mul_(300);  // scores of some thousands: all of a row's weight on one key
    const AttentionResult expected = expected_attention(AttentionCase{given.q * 1e-30, given.k, given.v, given.dout}, {});
    for (InstructionSet set : sets_here()) {
      const AttentionResult result = run_kernel(given, {}, set);
      for (const at::Tensor& x : {result.out, result.lse, result.dq, result.dk, result.dv}) EXPECT_TRUE(x.isfinite().all().item<bool>());
      const AttentionResult flat = run_kernel({given.q * 1e-30, given.k, given.v, given.dout}, {}, set);  // all of a row's keys alike
      EXPECT_LT(difference(flat.out, expected.out), dtype == at::kFloat ? 1e-6 : 5e-3);
    }
  }
}

TEST(AttentionKernel, NaNReachesTheResult) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    AttentionCase given = attention_case(1, 1, 1, 20, 16, dtype);
    given.k[0][0][3][5] = std::numeric_limits<double>::quiet_NaN();
    for (InstructionSet set : sets_here()) {
      const AttentionResult result = run_kernel(given, {}, set);
      EXPECT_TRUE(result.out.narrow(2, 0, 3).isfinite().all().item<bool>());
      EXPECT_TRUE(result.out.narrow(2, 3, 17).isnan().all().item<bool>());
      EXPECT_TRUE(result.dv.isnan().any().item<bool>());
    }
  }
}

}  // namespace
}  // namespace trine
