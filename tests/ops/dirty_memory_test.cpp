// Memory comes with whatever its last owner left in it. Every op, forward and backward, gives the same bits whether the memory that it
// gets holds zeros, NaN or large numbers: no result depends on a value that nobody wrote, and none is left unwritten.
#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <map>
#include <set>

#include "base/ignore_index.h"
#include "ops/adamw.h"
#include "ops/add_rms_norm.h"
#include "ops/attention.h"
#include "ops/balance_gradient.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"
#include "ops/grad_norm.h"
#include "ops/grouped_experts.h"
#include "ops/linear.h"
#include "ops/qk_norm_rope.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/rope_table.h"
#include "ops/router.h"
#include "ops/swiglu.h"
#include "ops/tensor_values.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

// While one lives, every byte of a new tensor, of ours or of torch's own, is `byte`.
class FilledMemory final : public c10::Allocator {
 public:
  explicit FilledMemory(int byte) : inner_(c10::GetCPUAllocator()), byte_(byte) { c10::SetCPUAllocator(this); }
  ~FilledMemory() override { c10::SetCPUAllocator(inner_); }
  FilledMemory(const FilledMemory&) = delete;
  FilledMemory& operator=(const FilledMemory&) = delete;

  c10::DataPtr allocate(size_t size) override {
    c10::DataPtr data = inner_->allocate(size);
    if (size > 0) std::memset(data.get(), byte_, size);
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t count) const override { inner_->copy_data(to, from, count); }

 private:
  c10::Allocator* inner_;
  int byte_;
};

constexpr int kZeros = 0;
constexpr int kDirt[] = {0xFF, 0x7F};  // NaN and -1; 3.4e38 in fp32 and bf16: what drops a NaN, such as a maximum, keeps a large number

using Tensors = std::vector<at::Tensor>;
using Case = std::function<Tensors(at::ScalarType, Implementation)>;  // an op's results and gradients

std::vector<std::string> bytes_of(const Tensors& tensors) {
  std::vector<std::string> result;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor values = tensor.detach().contiguous();
    result.emplace_back(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
  }
  return result;
}

bool depends_on_dirt(const std::function<Tensors()>& run) {
  const auto run_in = [&](int byte) {
    const FilledMemory memory(byte);
    return bytes_of(run());
  };
  const auto expected = run_in(kZeros);
  return std::ranges::any_of(kDirt, [&](int byte) { return run_in(byte) != expected; });
}

// The outputs, and the gradients of the leaves for random gradients of those outputs that have one (1 for a loss).
Tensors with_gradients(const Tensors& outputs, const Tensors& leaves) {
  Tensors results = outputs, differentiable, upper;
  for (const at::Tensor& output : outputs) {
    if (!output.requires_grad()) continue;
    differentiable.push_back(output);
    upper.push_back(output.dim() == 0 ? at::ones_like(output) : random_tensor(output.sizes(), 90 + upper.size(), output.scalar_type()));
  }
  torch::autograd::backward(differentiable, upper);
  for (at::Tensor leaf : leaves) {
    results.push_back(leaf.grad());
    leaf.mutable_grad().reset();
  }
  return results;
}

// The same with the weights' gradients in sinks: `run` is called twice, so that they are stored first and added to then.
Tensors into_sinks(Tensors results, const std::vector<GradientSink*>& sinks, const Tensors& leaves, const std::function<Tensors()>& run) {
  for (GradientSink* sink : sinks) sink->begin_step();
  for (int time = 0; time < 2; ++time) {
    for (at::Tensor& result : with_gradients(run(), leaves)) results.push_back(result);
  }
  for (GradientSink* sink : sinks) results.push_back(sink->gradient().clone());
  return results;
}

at::Tensor input(at::IntArrayRef shape, uint64_t seed, at::ScalarType dtype) { return leaf(random_tensor(shape, seed, dtype)); }
at::ScalarType wide_of(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

// Sizes that are no multiple of any block, more rows than one task takes, heads in groups, an expert without tokens.
Tensors norms(at::ScalarType dtype, Implementation implementation) {
  const at::Tensor x = input({3, 23, 37}, 1, dtype), weight = input({37}, 2, dtype);
  GradientSink sink = dirty_sink(weight, wide_of(dtype));
  return into_sinks(with_gradients({rms_norm(x, weight, 1e-6, nullptr, implementation)}, {x, weight}), {&sink}, {x},
                    [&] { return Tensors{rms_norm(x, weight, 1e-6, &sink, implementation)}; });
}

Tensors sums_and_norms(at::ScalarType dtype, Implementation implementation) {
  const at::Tensor x = input({3, 23, 37}, 1, dtype), residual = input({3, 23, 37}, 2, dtype), weight = input({37}, 3, dtype);
  GradientSink sink = dirty_sink(weight, wide_of(dtype));
  const auto run = [&](GradientSink* to) {
    const auto [sum, y] = add_rms_norm(x, residual, weight, 1e-6, to, implementation);
    return Tensors{sum, y};
  };
  return into_sinks(with_gradients(run(nullptr), {x, residual, weight}), {&sink}, {x, residual}, [&] { return run(&sink); });
}

struct Rotation {
  at::Tensor cos, sin, positions_bs;
};
Rotation rotation(at::ScalarType dtype, int64_t half) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < half; ++i) frequencies.push_back(std::pow(1000.0f, -static_cast<float>(i) / static_cast<float>(half)));
  const auto [cos, sin] = RopeTable(frequencies, 1, 64).rows(64);
  return {cos.to(wide_of(dtype)), sin.to(wide_of(dtype)), at::arange(2 * 19, at::kLong).remainder(31).view({2, 19})};
}

Tensors rotations(at::ScalarType dtype, Implementation implementation) {
  const auto [cos, sin, positions] = rotation(dtype, 7);
  const at::Tensor x = input({2, 19, 3, 14}, 1, dtype);
  Tensors results = with_gradients({rope(x, cos, sin, RopeLayout::kBshd, positions, implementation)}, {x});
  const at::Tensor rows_cos = cos.slice(0, 0, 19), rows_sin = sin.slice(0, 0, 19);
  for (at::Tensor& result :
       with_gradients({rope(x.transpose(1, 2), rows_cos, rows_sin, RopeLayout::kBhsd, std::nullopt, implementation)}, {x})) {
    results.push_back(result);
  }
  return results;
}

Tensors norms_and_rotations(at::ScalarType dtype, Implementation implementation) {
  const auto [cos, sin, positions] = rotation(dtype, 7);
  const at::Tensor joint = input({2, 19, 8, 14}, 1, dtype), x = joint.slice(2, 1, 6), weight = input({14}, 2, dtype);
  GradientSink sink = dirty_sink(weight, wide_of(dtype));
  const auto run = [&](GradientSink* to) { return Tensors{qk_norm_rope(x, weight, cos, sin, positions, 1e-6, to, implementation)}; };
  return into_sinks(with_gradients(run(nullptr), {joint, weight}), {&sink}, {joint}, [&] { return run(&sink); });
}

Tensors gates(at::ScalarType dtype, Implementation implementation) {
  const at::Tensor both = input({41, 2, 29}, 1, dtype);
  return with_gradients({swiglu(both.select(1, 0), both.select(1, 1), implementation)}, {both});
}

Tensors attentions(at::ScalarType dtype, Implementation implementation) {
  constexpr int64_t kLength = 150;  // more than two blocks
  const PieceStarts pieces = {{0, 1, 64, 100}, {0, 77}};
  const at::Tensor q = input({2, kLength, 6, 20}, 1, dtype), k = input({2, kLength, 2, 20}, 2, dtype), v = input({2, 2, kLength, 20}, 3, dtype);
  const at::Tensor q_bhsd = q.transpose(1, 2), k_bksd = k.transpose(1, 2);
  Tensors results = with_gradients({attention(q_bhsd, k_bksd, v, pieces, implementation)}, {q, k, v});
  for (at::Tensor& result : with_gradients({attention(q_bhsd, k_bksd, v, {}, implementation)}, {q, k, v})) results.push_back(result);
  if (implementation == Implementation::kFused) {
    const at::Tensor behind = at::arange(kLength, at::kLong).add(at::arange(kLength, at::kLong).remainder(3)).expand({2, kLength});
    for (at::Tensor& result : with_gradients({fused_attention(q_bhsd, k_bksd, v, behind.contiguous())}, {q, k, v})) {
      results.push_back(result);  // most queries see nothing
    }
  }
  return results;
}

Tensors losses(at::ScalarType dtype, Implementation implementation) {
  const at::Tensor x = input({33, 24}, 1, dtype), weight = input({101, 24}, 2, dtype);
  const at::Tensor labels = at::arange(33, at::kLong).mul(7).remainder(101).masked_fill_(at::arange(33).remainder(5) == 3, kIgnoreIndex);
  Tensors results;
  if (implementation == Implementation::kFused) {
    static const auto op = find_op<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t, std::string_view)>(
        "trine::linear_cross_entropy");
    for (const char* reduction : {"mean", "none"}) {
      for (at::Tensor& result : with_gradients({op.call(x, weight, labels, kIgnoreIndex, reduction)}, {x, weight})) results.push_back(result);
    }
  }
  GradientSink sink = dirty_sink(weight, wide_of(dtype));
  return into_sinks(results, {&sink}, {x}, [&] {  // ten tokens a chunk
    return Tensors{linear_cross_entropy(x, weight, labels, 0.25, &sink, implementation, 1010)};
  });
}

Tensors routings(at::ScalarType dtype, Implementation implementation) {
  const at::Tensor logits = input({45, 11}, 1, dtype);
  Tensors results;
  for (const bool normalised : {false, true}) {
    const Routing routing = router(logits, {.top_k = 3, .norm_topk_prob = normalised}, implementation);
    for (at::Tensor& result : with_gradients({routing.weights_tk, routing.experts_tk, routing.probs_te}, {logits})) {
      results.push_back(result);
    }
  }
  return results;
}

Tensors experts(at::ScalarType dtype, Implementation implementation) {
  constexpr int64_t kTokens = 300, kExperts = 5;
  const at::Tensor x = input({kTokens, 18}, 1, dtype), gate_up = input({kExperts, 22, 18}, 2, dtype), down = input({kExperts, 18, 11}, 3, dtype);
  const at::Tensor weights = input({kTokens, 2}, 4, wide_of(dtype));
  // Expert 0 has all tokens, more than one task takes; expert 4 has none.
  const at::Tensor chosen = at::stack({at::zeros({kTokens}, at::kLong), at::arange(kTokens, at::kLong).remainder(3) + 1}, 1);
  GradientSink gate_up_sink = dirty_sink(gate_up), down_sink = dirty_sink(down);
  const Tensors without = with_gradients(
      {grouped_experts(x, gate_up, down, chosen, weights, nullptr, nullptr, implementation)}, {x, gate_up, down, weights});
  return into_sinks(without, {&gate_up_sink, &down_sink}, {x, weights}, [&] {
    return Tensors{grouped_experts(x, gate_up, down, chosen, weights, &gate_up_sink, &down_sink, implementation)};
  });
}

Tensors balances(at::ScalarType dtype, Implementation) {
  const at::Tensor logits = input({45, 11}, 1, dtype), probs = input({45, 11}, 2, wide_of(dtype)), weights = input({45, 3}, 3, wide_of(dtype));
  const BalanceTerms terms{.coefficients_e = random_tensor({11}, 4, at::kFloat), .z_scale = 0.1, .mask_t = at::arange(45) < 40};
  return with_gradients({attach_balance_gradient(weights, probs, logits, terms)}, {weights, probs, logits});
}

Tensors linears(at::ScalarType dtype, Implementation) {
  const at::Tensor x = input({3, 7, 19}, 1, dtype), weight = input({13, 19}, 2, dtype);
  GradientSink sink = dirty_sink(weight, wide_of(dtype));
  return into_sinks(with_gradients({trine::linear(x, weight)}, {x, weight}), {&sink}, {x}, [&] { return Tensors{linear(x, weight, &sink)}; });
}

Tensors embeddings(at::ScalarType dtype, Implementation) {
  const at::Tensor weight = input({13, 19}, 1, dtype), ids = at::arange(40, at::kLong).mul(3).remainder(11).view({2, 20});
  GradientSink sink = dirty_sink(weight, wide_of(dtype));
  Tensors results = with_gradients({trine::embedding(ids, weight)}, {weight});
  sink.begin_step();
  for (int time = 0; time < 2; ++time) embedding(ids, weight, &sink).backward(random_tensor({2, 20, 19}, 3, dtype));
  results.push_back(sink.gradient().clone());
  return results;
}

Tensors updates(at::ScalarType dtype, Implementation implementation) {
  Tensors results;
  for (const bool at_random : {false, true}) {
    if (at_random && dtype != at::kBFloat16) continue;
    at::Tensor p = random_tensor({1777}, 1, dtype), m = random_tensor({1777}, 2, dtype), v = random_tensor({1777}, 3, dtype).square();
    AdamWStep step{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .step = 3};
    if (at_random) step.rounding_seed = 5;
    adamw_(p, random_tensor({1777}, 4, dtype), m, v, step, implementation);
    for (const at::Tensor& result : {p, m, v}) results.push_back(result);
  }
  return results;
}

Tensors gradient_norms(at::ScalarType dtype, Implementation implementation) {
  const Tensors gradients = {random_tensor({1777}, 1, dtype), random_tensor({30, 7}, 2, dtype).t()};
  return {at::scalar_tensor(grad_norm(gradients, implementation), at::kDouble)};
}

const std::map<std::string, Case>& cases() {
  static const std::map<std::string, Case> all = {
      {"rms_norm", norms}, {"add_rms_norm", sums_and_norms}, {"rope", rotations}, {"qk_norm_rope", norms_and_rotations}, {"swiglu", gates},
      {"attention", attentions}, {"linear_cross_entropy", losses}, {"router", routings}, {"grouped_experts", experts}, {"adamw_", updates},
      {"grad_norm", gradient_norms},
      // Not registered: the trainer's alone.
      {"attach_balance_gradient", balances}, {"linear", linears}, {"embedding", embeddings},
  };
  return all;
}

TEST(DirtyMemory, NoResultOrGradientOfAnyOpDependsOnIt) {
  for (const auto& [name, run] : cases()) {
    for (at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
      for (Implementation implementation : kBothImplementations) {
        SCOPED_TRACE(name + ", " + c10::toString(dtype) + (implementation == Implementation::kFused ? ", fused" : ", reference"));
        EXPECT_FALSE(depends_on_dirt([&] { return run(dtype, implementation); }));
        for (const at::Tensor& result : run(dtype, implementation)) EXPECT_TRUE(result.isfinite().all().item<bool>());
      }
    }
  }
}

TEST(DirtyMemory, TheTableHasEveryRegisteredOp) {
  std::set<std::string> missing;
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!op.name.starts_with("trine::")) continue;
    std::string name = op.name.substr(std::strlen("trine::"));
    for (const std::string part : {"_into", "_backward", "_forward"}) {  // run by the op that they are parts of
      if (name.ends_with(part)) name.resize(name.size() - part.size());
    }
    if (!cases().contains(name)) missing.insert(name);
  }
  EXPECT_THAT(missing, testing::IsEmpty());
}

// The three mistakes that this is here to find.
TEST(DirtyMemory, IsNoticedWhereItShows) {
  const at::Tensor x = random_tensor({8}, 1, at::kFloat);
  EXPECT_TRUE(depends_on_dirt([&] { return Tensors{at::empty({8}).mul_(0) + x}; })) << "zero times what nobody wrote";
  EXPECT_TRUE(depends_on_dirt([&] {
    at::Tensor y = at::empty({9});
    y.narrow(0, 0, 8).copy_(x);
    return Tensors{y};
  })) << "a result with an element left out";
  EXPECT_TRUE(depends_on_dirt([&] {
    at::Tensor largest = at::empty({1});
    float* value = largest.data_ptr<float>();
    for (int i = 0; i < 8; ++i) *value = x.const_data_ptr<float>()[i] > *value ? x.const_data_ptr<float>()[i] : *value;
    return Tensors{largest};
  })) << "a maximum that starts from what it found";
  EXPECT_FALSE(depends_on_dirt([&] { return Tensors{at::empty({8}).copy_(x) + 1}; }));
}

}  // namespace
}  // namespace trine
