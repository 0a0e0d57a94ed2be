// Trine's side of step_bench: the training step of a randomly initialised model, driven line by line on stdin.
//
// Usage: step_bench_trine FLAVOR SEQ_LEN DTYPE(bfloat16|float32|mixed); step_bench.py states the protocol. The step is the trainer's own:
// executor, gradient norm, clipping, AdamW.
#include <ATen/Parallel.h>

#include <chrono>
#include <iostream>
#include <string>

#include "base/random.h"
#include "base/versions.h"
#include "model/segments.h"
#include "optim/adamw_optimizer.h"
#include "optim/clipping.h"
#include "train/caching_allocator.h"
#include "train/step.h"

int main(int argc, char** argv) {
  using namespace trine;
  if (argc != 4) {
    fmt::print(stderr, "usage: {} FLAVOR SEQ_LEN bfloat16|float32|mixed\n", argv[0]);
    return 2;
  }
  use_caching_allocator();
  const ModelArgs args = flavor_args(argv[1]);
  const int64_t seq_len = std::stoll(argv[2]);
  const std::string dtype = argv[3];
  const at::ScalarType master = dtype == "bfloat16" ? at::kBFloat16 : at::kFloat;
  const at::ScalarType compute = dtype == "float32" ? at::kFloat : at::kBFloat16;

  Model model(args, build_spec(args), {.master = master, .compute = compute, .gradient = master});
  model.initialize(42);
  ActivationCheckpointConfig no_recomputation;
  no_recomputation.mode = "none";
  Executor executor(model, no_recomputation);
  OptimizerConfig settings{.name = "AdamW", .lr = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1,
                           .state_dtype = dtype == "bfloat16" ? "bfloat16" : "float32", .no_decay = {"*norm.weight"}};
  AdamWOptimizer optimizer(model, settings);

  const CounterRandom random(7, "tokens");
  BatchInputs batch;
  batch.input_ids_bs = at::empty({1, seq_len}, at::kLong);
  for (int64_t i = 0; i < seq_len; ++i) {
    batch.input_ids_bs[0][i] = static_cast<int64_t>(random.below(static_cast<uint64_t>(i), static_cast<uint64_t>(args.vocab_size)));
  }
  batch.labels_bs = batch.input_ids_bs.roll(-1, 1);
  batch.loss_scale = 1.0 / static_cast<double>(seq_len);
  batch.longest = seq_len;

  fmt::print("{{\"name\":\"Trine {}\",\"parameters\":{},\"threads\":{}}}\n", kTrineVersion, count(args).parameters, at::get_num_threads());
  std::fflush(stdout);
  int64_t step = 0;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "step") {
      const auto begin = std::chrono::steady_clock::now();
      const double loss = executor.forward_backward({batch});
      const double norm = optimizer.gradient_norm();
      optimizer.step(++step, settings.lr, clip_factor(norm, 1.0));
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      fmt::print("{{\"seconds\":{},\"loss\":{},\"grad_norm\":{}}}\n", seconds, loss, norm);
    }
    std::fflush(stdout);
  }
}
