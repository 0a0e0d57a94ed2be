// Every option once: name, field, default, what it may be, what it does. Help, docs/options.md, checks and `trine config` come from here.
#include "config/options.h"

#include <algorithm>

namespace trine {
namespace {

constexpr std::nullopt_t kUnset = std::nullopt;

template <class T>
struct FieldType {
  using Type = T;
  static constexpr bool kOptional = false;
};
template <class T>
struct FieldType<std::optional<T>> {
  using Type = T;
  static constexpr bool kOptional = true;
};

// The place of T in Value's alternatives, as the type it stands for.
template <class T>
constexpr OptionType option_type() {
  return []<size_t... I>(std::index_sequence<I...>) {
    return static_cast<OptionType>(((std::is_same_v<T, std::variant_alternative_t<I, Value>> ? I : 0) + ...));
  }(std::make_index_sequence<std::variant_size_v<Value>>{});
}

template <class Section>
class SectionOf {
 public:
  SectionOf(std::string name, Section Config::* member, std::string help)
      : member_(member), section_{std::move(name), std::move(help), {}} {}

  template <class T>
  SectionOf& option(std::string name, T Section::* field, std::type_identity_t<T> default_value, Check check, std::string help) {
    using Field = FieldType<T>;
    const auto get = [member = member_, field](const Config& config) -> std::optional<Value> {
      const T& value = config.*member.*field;
      if constexpr (Field::kOptional) {
        return value ? std::optional<Value>(*value) : kUnset;
      } else {
        return Value(value);
      }
    };
    const auto set = [member = member_, field](Config& config, const std::optional<Value>& value) {
      if constexpr (Field::kOptional) {
        config.*member.*field = value ? T(std::get<typename Field::Type>(*value)) : T();
      } else {
        config.*member.*field = std::get<T>(value.value());
      }
    };
    Config with_default;
    with_default.*member_.*field = std::move(default_value);
    section_.options.push_back({section_.name, std::move(name), option_type<typename Field::Type>(), Field::kOptional, get(with_default),
                                std::move(check), std::move(help), get, set});
    return *this;
  }

  operator OptionSection() const { return section_; }

 private:
  Section Config::* member_;
  OptionSection section_;
};
template <class Section>
SectionOf(const char*, Section Config::*, const char*) -> SectionOf<Section>;

OptionSection job_options() {
  using S = JobConfig;
  return SectionOf("job", &Config::job, "The run as a whole.")
      .option("dump_folder", &S::dump_folder, "", anything(), "the run folder; empty: runs/ and the recipe's name")
      .option("description", &S::description, "", anything(), "a line about the run, shown and recorded");
}

OptionSection model_options() {
  using S = ModelConfig;
  return SectionOf("model", &Config::model, "What is trained. Explicit sizes come before config.json, which comes before the flavor.")
      .option("hf_assets_path", &S::hf_assets_path, "", anything(), "folder with config.json, the tokenizer and perhaps weights")
      .option("flavor", &S::flavor, "", anything(), "a row of the table of published sizes, such as 0.6B")
      .option("path", &S::path, "native", one_of({"native"}, {"transformers"}), "where the model's code comes from")
      .option("kernels", &S::kernels, "reference", one_of({"reference"}, {"fused"}), "which implementation of the layers")
      .option("scale", &S::scale, "full", one_of({"full"}, {"small"}), "full size, or small for a rehearsal")
      .option("vocab_size", &S::vocab_size, kUnset, at_least(1), "rows of the embedding")
      .option("hidden_size", &S::hidden_size, kUnset, at_least(1), "width of the residual stream")
      .option("intermediate_size", &S::intermediate_size, kUnset, at_least(1), "width of the feed-forward layer")
      .option("num_hidden_layers", &S::num_hidden_layers, kUnset, at_least(1), "decoder blocks")
      .option("num_attention_heads", &S::num_attention_heads, kUnset, at_least(1), "query heads")
      .option("num_key_value_heads", &S::num_key_value_heads, kUnset, at_least(1), "key and value heads")
      .option("head_dim", &S::head_dim, kUnset, at_least(2), "width of a head")
      .option("max_position_embeddings", &S::max_position_embeddings, kUnset, at_least(1), "longest context")
      .option("num_experts", &S::num_experts, kUnset, at_least(1), "experts of a block, in a mixture of them")
      .option("num_experts_per_tok", &S::num_experts_per_tok, kUnset, at_least(1), "experts that a token goes through")
      .option("moe_intermediate_size", &S::moe_intermediate_size, kUnset, at_least(1), "width of an expert")
      .option("norm_topk_prob", &S::norm_topk_prob, kUnset, anything(), "whether the weights of a token's experts are made to sum to 1")
      .option("rope_theta", &S::rope_theta, kUnset, above(0), "base of the rotary frequencies")
      .option("rms_norm_eps", &S::rms_norm_eps, kUnset, above(0), "added to the mean square in RMSNorm")
      .option("tie_word_embeddings", &S::tie_word_embeddings, kUnset, anything(), "whether the head is the embedding")
      .option("initializer_range", &S::initializer_range, kUnset, above(0), "standard deviation of initial weights")
      .option("depth_scaled_init", &S::depth_scaled_init, false, anything(), "o_proj and down_proj start divided by sqrt(2 layers)");
}

OptionSection moe_options() {
  using S = MoeConfig;
  return SectionOf("moe", &Config::moe, "How a mixture of experts is trained. Its sizes are in [model].")
      .option("aux_loss", &S::aux_loss, "none", one_of({"none", "transformers", "per_layer"}),
              "loss for uneven routing. transformers: as there, all layers pooled, k at perfect balance; per_layer: the mean over layers, "
              "1 at perfect balance")
      .option("aux_loss_weight", &S::aux_loss_weight, 0.001, at_least(0), "times that loss")
      .option("z_loss_weight", &S::z_loss_weight, 0, at_least(0), "times the mean squared log-sum-exp of the router's logits; 0: none")
      .option("force_balance", &S::force_balance, false, anything(),
              "deal tokens out to the experts in turn: for timing, it teaches nothing")
      .option("bias_update_rate", &S::bias_update_rate, 0, at_least(0),
              "step of the biases that balance the selection of experts; files have no place for them; 0: none")
      .option("allow_bias_with_loaded_weights", &S::allow_bias_with_loaded_weights, false, anything(),
              "train loaded weights with such biases all the same");
}

OptionSection training_options() {
  using S = TrainingConfig;
  return SectionOf("training", &Config::training, "How long, in which batches, in which precision.")
      .option("steps", &S::steps, 10'000, at_least(1), "optimizer steps of the whole run")
      .option("seq_len", &S::seq_len, 2048, at_least(1), "tokens of a row")
      .option("local_batch_size", &S::local_batch_size, 8, at_least(1), "rows of a micro-batch on a rank")
      .option("global_batch_size", &S::global_batch_size, -1, at_least_or(1, -1), "rows of a step; -1: local_batch_size on every rank")
      .option("max_norm", &S::max_norm, 1.0, at_least(0), "gradients are clipped to this norm; 0: not clipped")
      .option("dtype", &S::dtype, "float32", one_of({"float32", "bfloat16"}), "of the master weights")
      .option("mixed_precision_param", &S::mixed_precision_param, "bfloat16", one_of({"bfloat16", "float32"}), "of the computation")
      .option("mixed_precision_reduce", &S::mixed_precision_reduce, "float32", one_of({"float32", "bfloat16"}), "of summed gradients")
      .option("time_limit", &S::time_limit, 0, at_least(0), "seconds after which the run saves, exports and ends; 0: none");
}

OptionSection dataloader_options() {
  using S = DataloaderConfig;
  return SectionOf("dataloader", &Config::dataloader, "The text that is trained on.")
      .option("dataset", &S::dataset, {}, one_of({"sample", "jsonl", "text", "parquet", "shards", "chat", "c4_test"}),
              "a known dataset or a format, one for all paths or one each; empty: by the files' endings, without files sample")
      .option("dataset_path", &S::dataset_path, {}, anything(), "files or folders; several make a mix")
      .option("weights", &S::weights, {}, above(0), "shares of a mix, one per path; empty: by size")
      .option("text_field", &S::text_field, "text", anything(), "the field of JSONL and Parquet records that holds the text")
      .option("document_end", &S::document_end, "auto", one_of({"auto", "eos", "none"}),
              "the token after a document; auto: <|endoftext|> or its like, else the tokenizer's end token; none after chats")
      .option("on_bad_record", &S::on_bad_record, "error", one_of({"error", "skip"}),
              "what a record that cannot be read does; skips are counted")
      .option("on_long_chat", &S::on_long_chat, "error", one_of({"error", "skip"}),
              "what a chat longer than seq_len does; skips are counted")
      .option("num_epochs", &S::num_epochs, 0, at_least(0), "passes over the data; 0: without end")
      .option("shuffle_window", &S::shuffle_window, 1000, at_least(0), "documents among which the next one is drawn; 0: in order")
      .option("prefetch", &S::prefetch, 2, at_least(0), "steps whose rows a thread prepares ahead; 0: none");
}

OptionSection validation_options() {
  using S = ValidationConfig;
  return SectionOf("validation", &Config::validation, "Loss on text that is not trained on.")
      .option("enable", &S::enable, false, anything(), "measure it")
      .option("interval", &S::interval, 100, at_least(1), "every so many steps, and at the end")
      .option("steps", &S::steps, -1, at_least_or(1, -1), "batches of local_batch_size rows; -1: all of the data once")
      .option("dataset", &S::dataset, {}, one_of({"sample", "jsonl", "text", "parquet", "shards", "chat", "c4_test"}),
              "as dataloader.dataset; empty: by the files' endings, and the held-out part when sample is trained on")
      .option("dataset_path", &S::dataset_path, {}, anything(), "files or folders");
}

OptionSection optimizer_options() {
  using S = OptimizerConfig;
  return SectionOf("optimizer", &Config::optimizer, "AdamW.")
      .option("name", &S::name, "AdamW", one_of({"AdamW"}), "the optimizer")
      .option("lr", &S::lr, 8e-4, at_least(0), "peak learning rate")
      .option("beta1", &S::beta1, 0.9, between(0, 0.999999), "decay of the first moment")
      .option("beta2", &S::beta2, 0.95, between(0, 0.999999), "decay of the second moment")
      .option("eps", &S::eps, 1e-8, above(0), "added to the root of the second moment")
      .option("weight_decay", &S::weight_decay, 0.1, at_least(0), "decoupled weight decay, times the learning rate")
      .option("state_dtype", &S::state_dtype, "float32", one_of({"float32", "bfloat16"}),
              "of the moments; bfloat16 halves them and rounds them")
      .option("stochastic_rounding", &S::stochastic_rounding, false, anything(),
              "round bfloat16 master weights up or down at random, so that small updates add up in the mean")
      .option("no_decay", &S::no_decay, {"*norm.weight"}, anything(), "name patterns of parameters without weight decay");
}

OptionSection lr_scheduler_options() {
  using S = LrSchedulerConfig;
  return SectionOf("lr_scheduler", &Config::lr_scheduler, "The learning rate over the run: warm-up, stable part, decay.")
      .option("warmup_steps", &S::warmup_steps, 200, at_least(0), "steps of linear warm-up")
      .option("decay_ratio", &S::decay_ratio, kUnset, between(0, 1), "share of the steps that decays; unset: all after the warm-up")
      .option("decay_type", &S::decay_type, "linear", one_of({"linear", "sqrt", "cosine"}), "shape of the decay")
      .option("min_lr_factor", &S::min_lr_factor, 0, between(0, 1), "share of the peak at the end of the decay");
}

OptionSection activation_checkpoint_options() {
  using S = ActivationCheckpointConfig;
  return SectionOf("activation_checkpoint", &Config::activation_checkpoint, "Computing activations again instead of keeping them.")
      .option("mode", &S::mode, "none", one_of({"none", "full", "selective"}), "for no block, every block, or every nth")
      .option("selective_ac_option", &S::selective_ac_option, 2, at_least(1), "the n of mode selective");
}

OptionSection checkpoint_options() {
  using S = CheckpointConfig;
  return SectionOf("checkpoint", &Config::checkpoint, "Saving, resuming, loading and exporting.")
      .option("enable", &S::enable, false, anything(), "save, and resume a run folder that holds a checkpoint")
      .option("interval", &S::interval, 500, at_least(1), "steps between saves; the last step is always saved")
      .option("keep_latest_k", &S::keep_latest_k, 10, at_least(0), "older checkpoints are deleted; 0: all are kept")
      .option("initial_load_path", &S::initial_load_path, "", anything(), "weights to start from: a Hugging Face folder or a checkpoint")
      .option("initial_load_in_hf", &S::initial_load_in_hf, false, anything(),
              "the weights to start from are a Hugging Face folder: initial_load_path, or without it model.hf_assets_path")
      .option("last_save_in_hf", &S::last_save_in_hf, false, anything(), "export the model in Hugging Face's form at the end")
      .option("export_dtype", &S::export_dtype, "source", one_of({"source", "float32", "bfloat16", "float16"}),
              "of an export; source: as the weights or config.json of model.hf_assets_path, else bfloat16")
      .option("async_mode", &S::async_mode, "disabled", one_of({"disabled", "async"}), "async: written in the background from a snapshot")
      .option("mirror_path", &S::mirror_path, "", anything(), "a second place to which each checkpoint is copied and verified");
}

OptionSection device_options() {
  return SectionOf("device", &Config::device, "Where it runs.")
      .option("type", &DeviceConfig::type, "cpu", one_of({"cpu", "cuda"}, {"neuron"}), "the device");
}

OptionSection metrics_options() {
  using S = MetricsConfig;
  return SectionOf("metrics", &Config::metrics, "What is shown and recorded. metrics.jsonl has every step whatever log_freq is.")
      .option("log_freq", &S::log_freq, 10, at_least(1), "steps between lines of the console")
      .option("enable_tensorboard", &S::enable_tensorboard, false, anything(), "write TensorBoard event files")
      .option("warmup_steps", &S::warmup_steps, 3, at_least(0), "first steps that the sustained figures leave out");
}

OptionSection profiling_options() {
  return SectionOf("profiling", &Config::profiling, "Traces of what a step does.")
      .option("steps", &ProfilingConfig::steps, {}, at_least(1), "steps whose trace is written to the run folder");
}

OptionSection debug_options() {
  using S = DebugConfig;
  return SectionOf("debug", &Config::debug, "Randomness.")
      .option("seed", &S::seed, 42, at_least(0), "of initial weights, data order and stochastic rounding")
      .option("deterministic", &S::deterministic, false, anything(), "refuse operations whose result may vary");
}

OptionSection expect_options() {
  using S = ExpectConfig;
  return SectionOf("expect", &Config::expect, "What you believe is being run. A difference stops the run before weights load (exit 3).")
      .option("ranks", &S::ranks, kUnset, at_least(1), "ranks")
      .option("num_layers", &S::num_layers, kUnset, at_least(1), "decoder blocks")
      .option("num_experts", &S::num_experts, kUnset, at_least(0), "experts of a block; 0: dense")
      .option("parameters", &S::parameters, kUnset, at_least(1), "parameters, a tied head counted once")
      .option("global_batch_size", &S::global_batch_size, kUnset, at_least(1), "rows of a step")
      .option("rope_theta", &S::rope_theta, kUnset, above(0), "base of the rotary frequencies")
      .option("first_loss", &S::first_loss, kUnset, at_least(0), "loss before the first update, from loaded weights")
      .option("random_loss", &S::random_loss, kUnset, at_least(0), "loss before the first update, from a random start")
      .option("first_loss_tolerance", &S::first_loss_tolerance, 0.1, above(0), "how far either loss may be away");
}

}  // namespace

const std::vector<OptionSection>& option_table() {
  static const std::vector<OptionSection> table = {
      job_options(),       model_options(),        moe_options(),        training_options(),   dataloader_options(),
      validation_options(), optimizer_options(),   lr_scheduler_options(), activation_checkpoint_options(),
      checkpoint_options(), device_options(),      metrics_options(),    profiling_options(),
      debug_options(),     expect_options(),
  };
  return table;
}

const OptionSection* find_section(std::string_view section) {
  const auto found = std::ranges::find(option_table(), section, &OptionSection::name);
  return found == option_table().end() ? nullptr : &*found;
}

const Option* find_option(std::string_view section, std::string_view name) {
  const OptionSection* in = find_section(section);
  if (!in) return nullptr;
  const auto found = std::ranges::find(in->options, name, &Option::name);
  return found == in->options.end() ? nullptr : &*found;
}

Config default_config() {
  Config config;
  for (const OptionSection& section : option_table()) {
    for (const Option& option : section.options) option.set(config, option.default_value);
  }
  return config;
}

}  // namespace trine
