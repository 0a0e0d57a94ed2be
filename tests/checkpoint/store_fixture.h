// A small checkpoint whose every value follows from (parameter, kind, step), so that a test can tell which save it is looking at.
#pragma once

#include "checkpoint/store.h"
#include "tests/checkpoint/test_files.h"

namespace trine::test {

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
};
inline const std::vector<Parameter> kParameters = {{"a", {2, 3}}, {"b", {5}}};

inline std::vector<float> floats(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

inline std::vector<float> expected(const std::string& name, const std::string& kind, int64_t step, int64_t repeat = 1) {
  std::vector<float> values;
  for (const Parameter& parameter : kParameters) {
    if (parameter.name != name) continue;
    for (int64_t i = 0; i < element_count(parameter.shape) * repeat; ++i) {
      values.push_back(static_cast<float>(step * 1000 + i) + static_cast<float>(kind.size()) / 64 + static_cast<float>(name[0]));
    }
  }
  return values;
}

// Saves step `step`. `repeat` lengthens every parameter's first dimension, for saves that take a while.
inline fs::path save(const fs::path& folder, int64_t step, int64_t repeat = 1, uint64_t bytes_expected = 0) {
  CheckpointWriter writer(folder, step, bytes_expected);
  std::vector<CheckpointParameter> parameters;
  std::vector<std::vector<float>> values;
  std::vector<SliceData> slices;
  values.reserve(3 * kParameters.size());
  for (const Parameter& parameter : kParameters) {
    std::vector<int64_t> shape = parameter.shape;
    shape[0] *= repeat;
    parameters.push_back({parameter.name, shape});
    for (const char* kind : {kMaster, kExpAvg, kExpAvgSq}) {
      values.push_back(expected(parameter.name, kind, step, repeat));
      slices.push_back({whole_slice(parameter.name, kind, shape), shape, StoredDtype::kF32, std::as_bytes(std::span(values.back()))});
    }
  }
  writer.write_side_file("config.json", R"({"model_type": "qwen3"})");
  writer.write_slices(slices);
  return writer.publish(parameters, {{"step", step}, {"data", {{"position", 1234}}}});
}

}  // namespace trine::test
