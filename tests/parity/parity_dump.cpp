// What Trine computes for a Hugging Face folder, for comparison with Transformers (test_transformers.py). Not installed.
//
// Usage: parity_dump REQUEST.json   where the request is an object with
//   model, dtype       the folder, and float32 | bfloat16 for parameters, activations and gradients
//   batch, tensors     a batch, and the safetensors file that gets "logits" and "grad NAME" of every parameter
//   steps, optimizer   or: a list of steps, each a list of micro-batches, and AdamW's lr, betas, eps, weight_decay, max_norm
//   prompt, max_new_tokens   or: greedy generation
// A batch has input_ids, labels ([rows][seq_len], labels shifted already) and piece_starts. Prints {"loss"}, {"losses", "norms"} or
// {"generated"}.
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json.h"
#include "checkpoint/safetensors_writer.h"
#include "optim/adamw_optimizer.h"
#include "optim/clipping.h"
#include "train/batch_tensors.h"
#include "train/generate.h"
#include "train/loaded_model.h"
#include "train/step.h"

namespace trine {
namespace {

Batch to_batch(const Json& json) {
  Batch batch;
  batch.num_rows = static_cast<int64_t>(json.at("input_ids").size());
  batch.seq_len = static_cast<int64_t>(json.at("input_ids").at(0).size());
  batch.piece_starts = json.at("piece_starts");
  for (int64_t row = 0; row < batch.num_rows; ++row) {
    size_t piece = 0;
    const std::vector<int32_t>& starts = batch.piece_starts.at(static_cast<size_t>(row));
    for (int32_t i = 0; i < batch.seq_len; ++i) {
      if (piece + 1 < starts.size() && i >= starts[piece + 1]) ++piece;
      batch.positions.push_back(i - starts[piece]);
      batch.input_ids.push_back(json.at("input_ids").at(row).at(i));
      batch.labels.push_back(json.at("labels").at(row).at(i));
      batch.num_valid += batch.labels.back() != kIgnoreIndex;
    }
  }
  return batch;
}

void write_tensors(const std::string& file, const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  std::vector<TensorDeclaration> declarations;
  for (const auto& [name, tensor] : tensors) declarations.push_back({name, to_stored_dtype(tensor.scalar_type()), tensor.sizes().vec()});
  SafetensorsWriter writer(file, declarations);
  for (const TensorEntry& entry : writer.entries()) {
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& pair) { return pair.first == entry.name; });
    const at::Tensor values = found->second.contiguous();
    writer.write({static_cast<const std::byte*>(values.data_ptr()), values.nbytes()});
  }
  writer.finish();
}

ActivationCheckpointConfig no_recomputation() {
  ActivationCheckpointConfig config;
  config.mode = "none";
  return config;
}

Json dump_gradients(Model& model, const Json& request) {
  const Batch batch = to_batch(request.at("batch"));
  const BatchInputs inputs = to_inputs(batch, 1.0 / static_cast<double>(batch.num_valid));
  std::vector<std::pair<std::string, at::Tensor>> tensors = {{"logits", model.logits(inputs)}};
  Executor executor(model, no_recomputation());
  const double loss = executor.forward_backward({inputs});
  for (const Parameter* parameter : model.parameters()) tensors.emplace_back("grad " + parameter->name, parameter->gradient);
  write_tensors(request.at("tensors"), tensors);
  return {{"loss", loss}};
}

Json train_steps(Model& model, const Json& request) {
  const Json& settings = request.at("optimizer");
  const OptimizerConfig config{.name = "AdamW", .lr = settings.at("lr"), .beta1 = settings.at("beta1"), .beta2 = settings.at("beta2"),
                               .eps = settings.at("eps"), .weight_decay = settings.at("weight_decay"), .state_dtype = "float32",
                               .no_decay = {"*norm.weight"}};
  Executor executor(model, no_recomputation());
  AdamWOptimizer optimizer(model, config);
  Json losses, norms;
  int64_t number = 0;
  for (const Json& step : request.at("steps")) {
    std::vector<Batch> batches;
    int64_t num_valid = 0;
    for (const Json& json : step) num_valid += batches.emplace_back(to_batch(json)).num_valid;
    std::vector<BatchInputs> micro_batches;
    for (const Batch& batch : batches) micro_batches.push_back(to_inputs(batch, 1.0 / static_cast<double>(num_valid)));
    losses.push_back(executor.forward_backward(micro_batches));
    norms.push_back(optimizer.gradient_norm());
    optimizer.step(++number, config.lr, clip_factor(norms.back(), settings.at("max_norm")));
  }
  return {{"losses", losses}, {"norms", norms}};
}

Json generate_greedily(Model& model, const Json& request) {
  const std::vector<int32_t> prompt = request.at("prompt");
  GenerateOptions options;
  options.max_new_tokens = request.at("max_new_tokens");
  return {{"generated", generate(model, prompt, options)}};
}

int run(const std::string& file) {
  const Json request = read_json_file(file);
  LoadedModelOptions options;
  options.dtype = request.at("dtype") == "bfloat16" ? at::kBFloat16 : at::kFloat;
  const LoadedModel loaded = load_model(request.at("model").get<std::string>(), options);
  Json result;
  if (request.contains("batch")) result.update(dump_gradients(*loaded.model, request));
  if (request.contains("steps")) result.update(train_steps(*loaded.model, request));
  if (request.contains("prompt")) result.update(generate_greedily(*loaded.model, request));
  fmt::print("{}\n", result.dump());
  return 0;
}

}  // namespace
}  // namespace trine

int main(int argc, char** argv) {
  try {
    return argc == 2 ? trine::run(argv[1]) : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "parity_dump: {}\n", error.what());
    return 1;
  }
}
