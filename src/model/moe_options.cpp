#include "model/moe_options.h"

#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/log.h"

namespace trine {

void check_moe_options(const MoeConfig& options, const ModelArgs& args) {
  const bool aux_loss = !options.aux_loss.empty() && options.aux_loss != "none";
  if (args.num_sparse_layers() == 0) {
    std::vector<std::string> asked;
    if (aux_loss) asked.push_back(fmt::format("aux_loss = {}", options.aux_loss));
    if (options.z_loss_weight > 0) asked.push_back(fmt::format("z_loss_weight = {}", options.z_loss_weight));
    if (options.force_balance) asked.emplace_back("force_balance = true");
    if (options.bias_update_rate > 0) asked.push_back(fmt::format("bias_update_rate = {}", options.bias_update_rate));
    if (options.allow_bias_with_loaded_weights) asked.emplace_back("allow_bias_with_loaded_weights = true");
    if (asked.empty()) return;
    throw UserError("moe: {} {} experts, and no layer of this model (model_type {}) has any. Drop the option{}, or name a model with "
                    "experts, such as the flavor 30B-A3B-4L64E.",
                    fmt::join(asked, ", "), asked.size() == 1 ? "needs" : "need", args.model_type, asked.size() == 1 ? "" : "s");
  }
  // One expert, whose weight over the sum of the weights is 1 whatever the router says.
  if (args.num_experts_per_tok == 1 && args.norm_topk_prob) {
    const bool trained_otherwise = (aux_loss && options.aux_loss_weight > 0) || options.z_loss_weight > 0;
    log::warning("num_experts_per_tok is 1 and norm_topk_prob is true, so that an expert's weight is always 1 and the router gets no "
                 "gradient from the loss: {}. With norm_topk_prob = false it learns.",
                 trained_otherwise ? "only the auxiliary losses train it" : "it stays as it is");
  }
  if (options.force_balance) {
    log::warning("moe.force_balance: tokens are dealt out to the experts in turn, whatever the router says. The figures of such a run are "
                 "good for timing only, and its weights for nothing.");
  }
}

}  // namespace trine
