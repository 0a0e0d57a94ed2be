#include "ops/cross_entropy.h"

#include <cmath>
#include <cstring>

#include "ops/cross_entropy_cpu.h"
#include "tests/ops/gradients.h"

namespace trine {
namespace {

struct Case {
  at::Tensor x, weight, labels;
};
Case make_case(int64_t num_tokens, int64_t hidden, int64_t vocab, at::ScalarType dtype) {
  at::Tensor labels = at::arange(num_tokens, at::kLong).mul_(7).remainder_(vocab);
  labels[1] = kIgnoreIndex;
  return {leaf(random_tensor({num_tokens, hidden}, 1, dtype)), leaf(random_tensor({vocab, hidden}, 2, dtype)), labels};
}

at::Tensor plain_loss(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& labels, double scale) {
  return at::cross_entropy_loss(at::linear(x, weight), labels, {}, at::Reduction::Sum, kIgnoreIndex) * scale;
}

TEST(LinearCrossEntropy, LossAndGradientsOfFloat64EqualFiniteDifferences) {
  for (Implementation implementation : kBothImplementations) {
    Case c = make_case(4, 3, 5, at::kDouble);
    GradientSink sink = dirty_sink(c.weight);
    sink.begin_step();
    const at::Tensor loss = linear_cross_entropy(c.x, c.weight, c.labels, 0.25, &sink, implementation);
    const auto f = [&] { return plain_loss(c.x, c.weight, c.labels, 0.25).item<double>(); };
    EXPECT_NEAR(loss.item<double>(), f(), 1e-12);
    loss.backward();
    EXPECT_LT(difference(c.x.grad(), numeric_gradient(f, c.x)), 1e-7);
    EXPECT_LT(difference(sink.gradient(), numeric_gradient(f, c.weight)), 1e-7);
  }
}

TEST(LinearCrossEntropy, Fp32AndBf16AreWithinTheirRounding) {
  for (Implementation implementation : kBothImplementations) {
    for (const auto& [dtype, tolerance] : {std::pair{at::kFloat, 2e-6}, {at::kBFloat16, 2e-2}}) {
      Case c = make_case(40, 16, 301, dtype);
      GradientSink sink = dirty_sink(c.weight, at::kFloat);
      sink.begin_step();
      const at::Tensor loss = linear_cross_entropy(c.x, c.weight, c.labels, 1.0 / 39, &sink, implementation);
      EXPECT_EQ(loss.scalar_type(), at::kFloat);
      loss.backward();
      at::Tensor x = leaf(c.x.to(at::kDouble)), weight = leaf(c.weight.to(at::kDouble));
      const at::Tensor expected = plain_loss(x, weight, c.labels, 1.0 / 39);
      expected.backward();
      EXPECT_LT(difference(loss, expected), tolerance);
      EXPECT_LT(difference(c.x.grad(), x.grad()), tolerance);
      EXPECT_LT(difference(sink.gradient(), weight.grad()), tolerance);
    }
  }
}

TEST(LinearCrossEntropy, SeveralChunksGiveWhatOneGives) {
  for (Implementation implementation : kBothImplementations) {
    for (at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      const double tolerance = dtype == at::kDouble ? 1e-13 : 1e-6;
      Case whole = make_case(11, 4, 30, dtype);
      GradientSink whole_sink = dirty_sink(whole.weight);
      whole_sink.begin_step();
      const at::Tensor whole_loss = linear_cross_entropy(whole.x, whole.weight, whole.labels, 0.1, &whole_sink, implementation);
      whole_loss.backward();
      for (int64_t most_logits : {30, 65, 120, 329}) {  // 11, 6, 3 and 2 chunks
        Case c = make_case(11, 4, 30, dtype);
        GradientSink sink = dirty_sink(c.weight);
        sink.begin_step();
        const at::Tensor loss = linear_cross_entropy(c.x, c.weight, c.labels, 0.1, &sink, implementation, most_logits);
        loss.backward();
        EXPECT_LT(difference(loss, whole_loss), tolerance) << most_logits;
        EXPECT_LT(difference(c.x.grad(), whole.x.grad()), tolerance) << most_logits;
        EXPECT_LT(difference(sink.gradient(), whole_sink.gradient()), tolerance) << most_logits;
      }
    }
  }
}

TEST(LinearCrossEntropy, IsExactlyZeroWithoutAnyLabel) {  // case E3
  for (Implementation implementation : kBothImplementations) {
    for (at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
      Case c = make_case(5, 4, 9, dtype);
      c.labels.fill_(kIgnoreIndex);
      GradientSink sink = dirty_sink(c.weight, dtype == at::kDouble ? at::kDouble : at::kFloat);
      sink.begin_step();
      const at::Tensor loss = linear_cross_entropy(c.x, c.weight, c.labels, 0.5, &sink, implementation);
      loss.backward();
      EXPECT_EQ(loss.item<double>(), 0);
      EXPECT_TRUE(at::equal(c.x.grad(), at::zeros_like(c.x)));
      EXPECT_TRUE(at::equal(sink.gradient(), at::zeros_like(sink.gradient())));
    }
  }
}

TEST(LinearCrossEntropy, TakesLabelsAsTheyAreAndShiftsNothing) {  // case E4: ids 3,1,4,2; label i is already id i+1
  const at::Tensor ids = torch::tensor({3, 1, 4, 2, 0}, at::kLong), weight = at::eye(5, at::kDouble) * 100;
  const at::Tensor certain_of_next = at::one_hot(ids.narrow(0, 1, 4), 5).to(at::kDouble);  // logits 100 on the next token
  const at::Tensor certain_of_second_next = at::one_hot(torch::tensor({4, 2, 0, 3}, at::kLong), 5).to(at::kDouble);
  const at::Tensor labels = ids.narrow(0, 1, 4);
  at::NoGradGuard no_grad;
  for (Implementation implementation : kBothImplementations) {
    const auto loss = [&](const at::Tensor& x) { return linear_cross_entropy(x, weight, labels, 0.25, nullptr, implementation); };
    EXPECT_LT(loss(certain_of_next).item<double>(), 1e-12);
    EXPECT_NEAR(loss(certain_of_second_next).item<double>(), 100, 1e-6);
  }
}

TEST(LinearCrossEntropy, WithAndWithoutGradientsTheLossHasTheSameBits) {
  for (Implementation implementation : kBothImplementations) {
    for (at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
      Case c = make_case(12, 8, 100, dtype);
      GradientSink sink = dirty_sink(c.weight);
      sink.begin_step();
      const at::Tensor loss = linear_cross_entropy(c.x, c.weight, c.labels, 0.1, &sink, implementation);
      at::NoGradGuard no_grad;
      EXPECT_TRUE(at::equal(loss.detach(), linear_cross_entropy(c.x, c.weight, c.labels, 0.1, nullptr, implementation)));
    }
  }
}

TEST(LinearCrossEntropy, RefusesALabelOutsideTheVocabulary) {
  for (Implementation implementation : kBothImplementations) {
    Case c = make_case(4, 3, 5, at::kFloat);
    c.labels[2] = 5;
    at::NoGradGuard no_grad;
    EXPECT_THROW(linear_cross_entropy(c.x, c.weight, c.labels, 1, nullptr, implementation), c10::IndexError);
  }
}

TEST(LinearCrossEntropy, ALogitThatIsNotFiniteReachesLossAndGradient) {
  for (Implementation implementation : kBothImplementations) {
    for (double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      Case c = make_case(3, 2, 40, at::kFloat);
      c.x.detach()[2][0] = bad;
      GradientSink sink = dirty_sink(c.weight);
      sink.begin_step();
      const at::Tensor loss = linear_cross_entropy(c.x, c.weight, c.labels, 1, &sink, implementation);
      EXPECT_FALSE(std::isfinite(loss.item<double>()));
      EXPECT_FALSE(sink.gradient().isfinite().all().item<bool>());
    }
  }
}

template <class Value>
std::vector<Value> row_values(size_t count);
template <>
std::vector<float> row_values(size_t count) {
  std::vector<float> row;
  for (size_t i = 0; i < count; ++i) row.push_back(10 * std::sin(static_cast<float>(i * i % 1009)));
  return row;
}
template <>
std::vector<BFloat16Bits> row_values(size_t count) {
  std::vector<BFloat16Bits> row(count);
  const std::vector<float> values = row_values<float>(count);
  for (size_t i = 0; i < count; ++i) store(row[i], values[i]);
  return row;
}

template <class Value>
void check_instruction_sets() {
  for (size_t count : {1u, 15u, 16u, 17u, 4096u, 5003u}) {
    const int64_t label = static_cast<int64_t>(count / 2);
    std::vector<Value> expected = row_values<Value>(count);
    const double loss = cross_entropy_row_cpu(expected.data(), static_cast<int64_t>(count), label, 0.3f, true, InstructionSet::kPortable);
    for (InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
      if (set > instruction_set()) continue;
      std::vector<Value> row = row_values<Value>(count);
      EXPECT_EQ(cross_entropy_row_cpu(row.data(), static_cast<int64_t>(count), label, 0.3f, true, set), loss);
      EXPECT_EQ(std::memcmp(row.data(), expected.data(), count * sizeof(Value)), 0) << count;

      std::vector<Value> later = row_values<Value>(count), expected_later = later;
      const double lse = log_sum_exp_row_cpu(later.data(), static_cast<int64_t>(count), set);
      EXPECT_EQ(lse, log_sum_exp_row_cpu(later.data(), static_cast<int64_t>(count), InstructionSet::kPortable));
      const auto to_gradient = [&](std::vector<Value>& values, InstructionSet used) {
        cross_entropy_gradient_row_cpu(values.data(), static_cast<int64_t>(count), label, static_cast<float>(lse), 0.3f, used);
      };
      to_gradient(later, set);
      to_gradient(expected_later, InstructionSet::kPortable);
      EXPECT_EQ(std::memcmp(later.data(), expected_later.data(), count * sizeof(Value)), 0) << count;
    }
  }
}

TEST(CrossEntropyRow, EveryInstructionSetGivesTheSameBits) {
  check_instruction_sets<float>();
  check_instruction_sets<BFloat16Bits>();
}

}  // namespace
}  // namespace trine
