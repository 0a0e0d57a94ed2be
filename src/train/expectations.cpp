#include "train/expectations.h"

#include <cmath>
#include <optional>
#include <string>

#include "base/errors.h"
#include "base/log.h"

namespace trine {

void check_expected_sizes(const ExpectConfig& expect, const ModelArgs& args, int64_t num_ranks, int64_t global_batch_size) {
  std::string differences;
  const auto compare = [&](const char* name, const auto& expected, auto found) {
    if (expected && *expected != found) differences += fmt::format("\n  expect.{} = {}, but it is {}", name, *expected, found);
  };
  compare("ranks", expect.ranks, num_ranks);
  compare("num_layers", expect.num_layers, args.num_hidden_layers);
  compare("num_experts", expect.num_experts, args.num_experts);
  compare("parameters", expect.parameters, count(args).parameters);
  compare("global_batch_size", expect.global_batch_size, global_batch_size);
  compare("rope_theta", expect.rope_theta, args.rope.theta);
  if (!differences.empty()) throw CheckFailed("this is not the run that the recipe expects:{}\nNo weight was read.", differences);
}

void check_expected_loss(const ExpectConfig& expect, double loss, bool random_start) {
  const std::optional<double>& expected = random_start ? expect.random_loss : expect.first_loss;
  if (!expected) return;
  const char* name = random_start ? "expect.random_loss" : "expect.first_loss";
  if (!(std::abs(loss - *expected) <= expect.first_loss_tolerance)) {
    throw CheckFailed("the first loss is {:.4f}, but {} = {} (tolerance {}). Nothing was updated. {}", loss, name, *expected,
                      expect.first_loss_tolerance,
                      random_start ? "Check the initial values (model.initializer_range) and the vocabulary."
                                   : "Check that the weights are the ones meant, that the tokenizer is theirs, and the data.");
  }
  log::info("first loss {:.4f} is within {} of {} = {}", loss, expect.first_loss_tolerance, name, *expected);
}

}  // namespace trine
