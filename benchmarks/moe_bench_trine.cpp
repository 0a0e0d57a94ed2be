// Trine's side of moe_bench: one layer's mixture of experts, forward and backward, driven line by line on stdin.
//
// Usage: moe_bench_trine TOKENS HIDDEN EXPERTS TOP_K INTERMEDIATE DTYPE(bfloat16|float32); step_bench.py states the protocol. The ops,
// the flat buffers and the allocator are those of a training step; the loss is y · dy for a random dy.
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <chrono>
#include <iostream>
#include <string>

#include "base/versions.h"
#include "model/parameter_unit.h"
#include "ops/grouped_experts.h"
#include "ops/linear.h"
#include "ops/router.h"
#include "train/caching_allocator.h"

namespace trine {
namespace {

struct Weight {
  at::Tensor values;
  GradientSink sink;

  Weight(at::IntArrayRef shape, at::ScalarType dtype) {
    const int64_t count = c10::multiply_integers(shape);
    values = allocate_flat(count, dtype).view(shape);
    values.normal_(0, 0.02);
    values.requires_grad_(true);
    sink = GradientSink(allocate_flat(count, dtype).view(shape));
  }
};

int run(char** argv) {
  use_caching_allocator();
  const int64_t tokens = std::stoll(argv[1]), hidden = std::stoll(argv[2]), experts = std::stoll(argv[3]), top_k = std::stoll(argv[4]);
  const int64_t inner = std::stoll(argv[5]);
  const at::ScalarType dtype = std::string(argv[6]) == "float32" ? at::kFloat : at::kBFloat16;
  Weight gate({experts, hidden}, dtype), gate_up({experts, 2 * inner, hidden}, dtype), down({experts, hidden, inner}, dtype);
  const int64_t parameters = gate.values.numel() + gate_up.values.numel() + down.values.numel();
  fmt::print("{{\"name\":\"Trine {}\",\"parameters\":{},\"threads\":{}}}\n", kTrineVersion, parameters, at::get_num_threads());
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    const at::Tensor x_th = at::randn({tokens, hidden}).to(dtype).requires_grad_(true), dy_th = at::randn({tokens, hidden}).to(dtype);
    const auto begin = std::chrono::steady_clock::now();
    for (Weight* weight : {&gate, &gate_up, &down}) weight->sink.begin_step();
    const Routing routing = router(linear(x_th, gate.values, &gate.sink), {.top_k = top_k, .norm_topk_prob = true}, Implementation::kFused);
    const at::Tensor y_th = grouped_experts(x_th, gate_up.values, down.values, routing.experts_tk, routing.weights_tk, &gate_up.sink,
                                            &down.sink, Implementation::kFused);
    const auto middle = std::chrono::steady_clock::now();
    y_th.backward(dy_th);
    const auto end = std::chrono::steady_clock::now();
    const auto seconds = [](auto from, auto to) { return std::chrono::duration<double>(to - from).count(); };
    fmt::print("{{\"seconds\":{},\"forward_seconds\":{},\"loss\":{}}}\n", seconds(begin, end), seconds(begin, middle),
               (y_th * dy_th).sum().item<double>());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace trine

int main(int argc, char** argv) {
  if (argc == 7) return trine::run(argv);
  fmt::print(stderr, "usage: {} TOKENS HIDDEN EXPERTS TOP_K INTERMEDIATE bfloat16|float32\n", argv[0]);
  return 2;
}
