#include "model/segments.h"

#include "base/errors.h"
#include "model/init.h"
#include "ops/cross_entropy.h"
#include "ops/embedding.h"

namespace trine {
namespace {

class EmbeddingSegment final : public Segment {
 public:
  EmbeddingSegment(std::unique_ptr<ParameterUnit> unit, Weight& weight) : Segment(std::move(unit)), weight_(weight) {}
  at::Tensor forward(const at::Tensor&, const BatchInputs& batch) override {
    return embedding(batch.input_ids_bs, weight_.value, weight_.gradient_sink());
  }

 private:
  Weight& weight_;
};

class DecoderSegment final : public Segment {
 public:
  DecoderSegment(std::unique_ptr<ParameterUnit> unit, const ModuleSpec& spec, int64_t layer, std::shared_ptr<RopeTable> table,
                 const WeightLookup& lookup)
      : Segment(std::move(unit)), layer_(spec, layer, std::move(table), lookup) {}
  at::Tensor forward(const at::Tensor& h_bsh, const BatchInputs& batch) override { return layer_.forward(h_bsh, batch); }

 private:
  DecoderLayer layer_;
};

}  // namespace

HeadSegment::HeadSegment(std::unique_ptr<ParameterUnit> unit, const ModuleSpec& norm, const WeightLookup& lookup, Weight& head)
    : Segment(std::move(unit)), norm_(norm, lookup), head_(head) {}

at::Tensor HeadSegment::forward(const at::Tensor& h_bsh, const BatchInputs& batch) {
  const at::Tensor x_th = norm_.forward(h_bsh).view({-1, h_bsh.size(-1)});
  return linear_cross_entropy(x_th, head_.value, batch.labels_bs.reshape({-1}), batch.loss_scale, head_.gradient_sink());
}

at::Tensor HeadSegment::logits(const at::Tensor& h_bsh) { return at::linear(norm_.forward(h_bsh), head_.value); }

Model::Model(const ModelArgs& args, const ModuleSpec& spec, const UnitDtypes& dtypes) : args_(args), dtypes_(dtypes) {
  std::map<std::string, Weight*> weights;
  const WeightLookup lookup = [&weights](const std::string& name) -> Weight& {
    const auto found = weights.find(name);
    if (found == weights.end()) throw std::logic_error(fmt::format("the model has no weight \"{}\"", name));
    return *found->second;
  };
  const auto make_unit = [&](const std::string& name, const std::vector<const ModuleSpec*>& nodes) {
    auto unit = std::make_unique<ParameterUnit>(name, nodes, dtypes);
    for (auto& parameter : unit->parameters()) parameters_.emplace(parameter->name, parameter.get());
    for (auto& weight : unit->weights()) weights.emplace(weight->name, weight.get());
    return unit;
  };

  const ModuleSpec& decoder = spec.child("model");
  const ModuleSpec& embed_tokens = decoder.child("embed_tokens");
  const std::string embedding_name = embed_tokens.fqn + ".weight";
  auto embedding_unit = make_unit("embed_tokens", {&embed_tokens});
  Weight& embedding_weight = lookup(embedding_name);
  segments_.push_back(std::make_unique<EmbeddingSegment>(std::move(embedding_unit), embedding_weight));

  // Layers whose rotary nodes agree share one table.
  std::map<std::map<std::string, OptionValue>, std::shared_ptr<RopeTable>> tables;
  for (int64_t layer = 0; layer < args.num_hidden_layers; ++layer) {
    const ModuleSpec& node = decoder.child(fmt::format("layers.{}", layer));
    const ModuleSpec& rotary = node.child("self_attn").child("rotary_emb");
    auto& table = tables[rotary.options];
    if (!table) {
      const RopeFrequencies frequencies = rope_frequencies(rotary);
      table = std::make_shared<RopeTable>(frequencies.inv_freq, frequencies.attention_scaling,
                                          rotary.int_option("max_position_embeddings"));
    }
    auto unit = make_unit(fmt::format("layers.{}", layer), {&node});
    segments_.push_back(std::make_unique<DecoderSegment>(std::move(unit), node, layer, table, lookup));
  }

  const ModuleSpec& norm = decoder.child("norm");
  const ModuleSpec& lm_head = spec.child("lm_head");
  auto head_unit = make_unit("lm_head", {&norm, &lm_head});
  Weight& head = args.tie_word_embeddings ? embedding_weight : lookup(lm_head.fqn + ".weight");
  segments_.push_back(std::make_unique<HeadSegment>(std::move(head_unit), norm, lookup, head));
}

std::vector<Parameter*> Model::parameters() {
  std::vector<Parameter*> result;
  for (auto& segment : segments_) {
    for (auto& parameter : segment->unit().parameters()) result.push_back(parameter.get());
  }
  return result;
}

std::vector<Weight*> Model::weights() {
  std::vector<Weight*> result;
  for (auto& segment : segments_) {
    for (auto& weight : segment->unit().weights()) result.push_back(weight.get());
  }
  return result;
}

Parameter& Model::parameter(const std::string& name) {
  const auto found = parameters_.find(name);
  if (found == parameters_.end()) throw std::logic_error(fmt::format("the model has no parameter \"{}\"", name));
  return *found->second;
}

void Model::initialize(uint64_t seed) {
  for (Parameter* parameter : parameters()) {
    trine::initialize(parameter->master.view({-1}), 0, parameter->init, parameter->name, seed);
  }
  masters_changed();
}

void Model::allocate_gradients() {
  for (auto& segment : segments_) segment->unit().allocate_gradients();
}

void Model::masters_changed() {
  for (auto& segment : segments_) segment->unit().master_changed();
}

at::Tensor Model::hidden_states(const BatchInputs& batch) {
  at::NoGradGuard no_grad;
  at::Tensor h;
  segments_.front()->unit().gather();
  for (size_t i = 0; i + 1 < segments_.size(); ++i) {
    segments_[i]->unit().gather();
    h = segments_[i]->forward(h, batch);
  }
  if (batch.cache) batch.cache->length += batch.input_ids_bs.size(1);
  return h;
}

at::Tensor Model::logits(const BatchInputs& batch, bool last_only) {
  at::NoGradGuard no_grad;
  const at::Tensor h = hidden_states(batch);
  head().unit().gather();
  return head().logits(last_only ? h.narrow(1, h.size(1) - 1, 1) : h);
}

double Model::loss(const BatchInputs& batch) {
  at::NoGradGuard no_grad;
  const at::Tensor h = hidden_states(batch);
  head().unit().gather();
  return head().forward(h, batch).item<double>();
}

KvCache Model::make_cache(int64_t rows, int64_t capacity) const {
  KvCache cache;
  cache.capacity = capacity;
  const auto options = at::TensorOptions(dtypes_.compute);
  for (int64_t layer = 0; layer < args_.num_hidden_layers; ++layer) {
    const auto make = [&] { return at::empty({rows, args_.num_key_value_heads, capacity, args_.head_dim}, options); };
    cache.layers.push_back({make(), make()});
  }
  return cache;
}

}  // namespace trine
