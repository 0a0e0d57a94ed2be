#include "model/modules.h"

#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/swiglu.h"

namespace trine {

at::Tensor Linear::forward(const at::Tensor& x) const { return linear(x, weight_.value, weight_.gradient_sink()); }

at::Tensor RmsNorm::forward(const at::Tensor& x) const { return rms_norm(x, weight_.value, eps_, weight_.gradient_sink()); }

Attention::Attention(const ModuleSpec& spec, int64_t layer, std::shared_ptr<RopeTable> table, const WeightLookup& lookup)
    : layer_(layer),
      num_heads_(spec.int_option("num_heads")),
      num_key_value_heads_(spec.int_option("num_key_value_heads")),
      head_dim_(spec.int_option("head_dim")),
      q_proj_(spec.child("q_proj"), lookup),
      k_proj_(spec.child("k_proj"), lookup),
      v_proj_(spec.child("v_proj"), lookup),
      o_proj_(spec.child("o_proj"), lookup),
      rotary_(std::move(table)) {
  if (spec.bool_option("qk_norm")) {
    q_norm_.emplace(spec.child("q_norm"), lookup);
    k_norm_.emplace(spec.child("k_norm"), lookup);
  }
}

at::Tensor Attention::forward(const at::Tensor& x_bsh, const BatchInputs& batch) const {
  const auto heads_of = [&](const Linear& projection, int64_t num_heads) {
    return projection.forward(x_bsh).view({x_bsh.size(0), x_bsh.size(1), num_heads, head_dim_});
  };
  at::Tensor q_bshd = heads_of(q_proj_, num_heads_), k_bskd = heads_of(k_proj_, num_key_value_heads_);
  const at::Tensor v_bskd = heads_of(v_proj_, num_key_value_heads_);
  if (q_norm_) {
    q_bshd = q_norm_->forward(q_bshd);
    k_bskd = k_norm_->forward(k_bskd);
  }
  const auto [cos, sin] = batch.rotary(*rotary_);
  const at::Tensor q_bhsd = rope(q_bshd.transpose(1, 2), cos, sin), k_bksd = rope(k_bskd.transpose(1, 2), cos, sin);
  const at::Tensor out_bhsd = attend(q_bhsd, k_bksd, v_bskd.transpose(1, 2), batch);
  return o_proj_.forward(out_bhsd.transpose(1, 2).reshape({x_bsh.size(0), x_bsh.size(1), num_heads_ * head_dim_}));
}

at::Tensor Attention::attend(const at::Tensor& q_bhsd, const at::Tensor& k_bksd, const at::Tensor& v_bksd,
                             const BatchInputs& batch) const {
  if (!batch.cache) return attention(q_bhsd, k_bksd, v_bksd, batch.pieces);
  KvCache& cache = *batch.cache;
  KvCache::Layer& kept = cache.layers[static_cast<size_t>(layer_)];
  const int64_t num_new = k_bksd.size(2), length = cache.length + num_new;
  kept.k_bksd.narrow(2, cache.length, num_new).copy_(k_bksd);
  kept.v_bksd.narrow(2, cache.length, num_new).copy_(v_bksd);
  return attention_with_cache(q_bhsd, kept.k_bksd.narrow(2, 0, length), kept.v_bksd.narrow(2, 0, length));
}

Mlp::Mlp(const ModuleSpec& spec, const WeightLookup& lookup)
    : gate_proj_(spec.child("gate_proj"), lookup), up_proj_(spec.child("up_proj"), lookup), down_proj_(spec.child("down_proj"), lookup) {}

at::Tensor Mlp::forward(const at::Tensor& x) const { return down_proj_.forward(swiglu(gate_proj_.forward(x), up_proj_.forward(x))); }

DecoderLayer::DecoderLayer(const ModuleSpec& spec, int64_t layer, std::shared_ptr<RopeTable> table, const WeightLookup& lookup)
    : input_layernorm_(spec.child("input_layernorm"), lookup),
      self_attn_(spec.child("self_attn"), layer, std::move(table), lookup),
      post_attention_layernorm_(spec.child("post_attention_layernorm"), lookup),
      mlp_(spec.child("mlp"), lookup) {}

at::Tensor DecoderLayer::forward(const at::Tensor& h_bsh, const BatchInputs& batch) const {
  const at::Tensor h = h_bsh + self_attn_.forward(input_layernorm_.forward(h_bsh), batch);
  return h + mlp_.forward(post_attention_layernorm_.forward(h));
}

}  // namespace trine
