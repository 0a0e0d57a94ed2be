// The settings of a run, as plain structs. Names and sections are torchtitan 0.2.x's where it has the thing.
//
// What each option means, its default and its check are stated once, in options.cpp, whose table overwrites the
// initial values here. An empty string or an unset optional means "not given".
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trine {

struct JobConfig {
  std::string dump_folder;  // the run folder
  std::string description;
};

// Explicit model.* options under config.json's names override config.json, which overrides the flavor.
struct ModelConfig {
  std::string hf_assets_path;  // folder with config.json, tokenizer, perhaps weights
  std::string flavor;          // a row of the flavor table, such as "0.6B"
  std::string path;            // native | transformers
  std::string kernels;         // reference | fused
  std::string scale;           // full | small
  std::optional<int64_t> vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads;
  std::optional<int64_t> head_dim, max_position_embeddings;
  std::optional<int64_t> num_experts, num_experts_per_tok, moe_intermediate_size;  // of a mixture of experts
  std::optional<bool> norm_topk_prob;
  std::optional<double> rope_theta, rms_norm_eps;
  std::optional<bool> tie_word_embeddings;
  std::optional<double> initializer_range;  // standard deviation of the initial weights
  bool depth_scaled_init = false;           // o_proj and down_proj divided by sqrt(2·layers)
};

// What training adds to a mixture of experts beside its own loss.
struct MoeConfig {
  std::string aux_loss;        // none | transformers | per_layer
  double aux_loss_weight = 0;  // of the auxiliary loss
  double z_loss_weight = 0;    // of the router's z-loss; 0: none
  bool force_balance = false;  // tokens are dealt out in turn, whatever the router says
  double bias_update_rate = 0;  // of the biases that balance the selection; 0: none
  bool allow_bias_with_loaded_weights = false;
};

struct TrainingConfig {
  int64_t steps = 0;
  int64_t seq_len = 0;
  int64_t local_batch_size = 0;   // rows per micro-batch and rank
  int64_t global_batch_size = 0;  // rows per step over all ranks; -1: local_batch_size times the ranks
  double max_norm = 0;            // gradient clipping; 0: off
  std::string dtype;                   // master parameters: float32 | bfloat16
  std::string mixed_precision_param;   // compute: bfloat16 | float32
  std::string mixed_precision_reduce;  // gradient accumulation: float32 | bfloat16
  double time_limit = 0;  // seconds from start; 0: none
};

struct DataloaderConfig {
  std::vector<std::string> dataset;       // name of a known dataset or of a format, one per path; see data/sources
  std::vector<std::string> dataset_path;  // files or folders; several make a mix
  std::vector<double> weights;            // of a mix, one per path; empty: by size
  std::string text_field;                 // JSONL's and Parquet's field
  std::string document_end;               // auto | eos | none
  std::string on_bad_record;              // error | skip
  std::string on_long_chat;               // error | skip
  int64_t num_epochs = 0;                 // 0: without end
  int64_t shuffle_window = 0;             // documents; 0: in order
  int64_t prefetch = 0;                   // steps prepared ahead by a thread; 0: none
};

struct ValidationConfig {
  bool enable = false;
  int64_t interval = 0;  // steps; also at the end
  int64_t steps = 0;     // batches of local_batch_size rows; -1: the whole file
  std::vector<std::string> dataset;
  std::vector<std::string> dataset_path;
};

struct OptimizerConfig {
  std::string name;  // AdamW
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  std::string state_dtype;                 // float32 | bfloat16
  bool stochastic_rounding = false;        // of bfloat16 master weights
  std::vector<std::string> no_decay;       // name patterns of parameters without weight decay
};

struct LrSchedulerConfig {
  int64_t warmup_steps = 0;
  std::optional<double> decay_ratio;  // share of the steps; unset: all after the warm-up
  std::string decay_type;             // linear | sqrt | cosine
  double min_lr_factor = 0;
};

struct ActivationCheckpointConfig {
  std::string mode;                  // none | full | selective
  int64_t selective_ac_option = 0;   // with selective: every nth layer is recomputed
};

struct CheckpointConfig {
  bool enable = false;
  int64_t interval = 0;
  int64_t keep_latest_k = 0;  // 0: all
  std::string initial_load_path;
  bool initial_load_in_hf = false;
  bool last_save_in_hf = false;
  std::string export_dtype;  // source | float32 | bfloat16 | float16
  std::string async_mode;    // disabled | async
  std::string mirror_path;
};

struct DeviceConfig {
  std::string type;  // cpu | cuda | neuron
};

struct MetricsConfig {
  int64_t log_freq = 0;
  bool enable_tensorboard = false;
  int64_t warmup_steps = 0;  // left out of the sustained figures
};

struct ProfilingConfig {
  std::vector<int64_t> steps;  // steps whose trace is written to the run folder
};

struct DebugConfig {
  int64_t seed = 0;
  bool deterministic = false;
};

// What the user believes is being run; a difference stops the run before weights load.
struct ExpectConfig {
  std::optional<int64_t> ranks, num_layers, num_experts, parameters, global_batch_size;
  std::optional<double> rope_theta;
  std::optional<double> first_loss, random_loss;
  double first_loss_tolerance = 0;
};

struct Config {
  std::filesystem::path recipe;  // where it was read from; empty without a file
  JobConfig job;
  ModelConfig model;
  MoeConfig moe;
  TrainingConfig training;
  DataloaderConfig dataloader;
  ValidationConfig validation;
  OptimizerConfig optimizer;
  LrSchedulerConfig lr_scheduler;
  ActivationCheckpointConfig activation_checkpoint;
  CheckpointConfig checkpoint;
  DeviceConfig device;
  MetricsConfig metrics;
  ProfilingConfig profiling;
  DebugConfig debug;
  ExpectConfig expect;
};

}  // namespace trine
