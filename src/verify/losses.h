// Whether two runs took the same course, to the last bit.
//
// "Resumed equals uninterrupted", "this refactoring changes nothing" and "this layout computes the same" are statements about the
// figures in metrics.jsonl. Those that depend on the work are compared (loss, gradient norm, learning rate, token counts); those that
// depend on the machine (times, rates, memory) are not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trine {

struct LossComparison {
  struct Difference {
    std::string kind;   // train | validation
    int64_t step = 0;
    std::string field;  // "loss", "grad_norm", ...; "record" if one run lacks the whole line
    std::string a, b;   // the values with all their digits; "none" for a missing record
  };

  int64_t num_steps = 0, num_validations = 0;  // records that both runs have
  int64_t num_different = 0;                   // records that differ, or that only one run has
  std::optional<Difference> first;             // in the order of steps
  double largest_relative_loss_difference = 0;  // over the training steps that both have

  bool equal() const { return num_different == 0; }
};

// Compares two runs, each given as its folder or as its metrics.jsonl. `common_steps_only`: records past the last step of the shorter
// run do not count. NaN equals NaN. Throws UserError if a file is missing, damaged, or holds no training step.
LossComparison compare_losses(const std::filesystem::path& run_a, const std::filesystem::path& run_b, bool common_steps_only);

// "step 3: loss 2.5 and 2.5000000000000004", for people.
std::string in_words(const LossComparison::Difference& difference);

}  // namespace trine
