#include "metrics/metrics_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/errors.h"
#include "base/format.h"
#include "base/json.h"
#include "base/log.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

constexpr double kGib = 1 << 30;

// JSON has no infinity and no NaN; they become null, and null is read back as NaN.
OrderedJson number(double value) { return std::isfinite(value) ? OrderedJson(value) : OrderedJson(); }

OrderedJson known(double value) { return value >= 0 ? OrderedJson(value) : OrderedJson(); }

double number_from(const Json& object, const char* key) {
  const Json& value = object.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

// The object of one line with its newline; nullopt, and why in `problem`, if it is not one of ours.
std::optional<Json> parse_line(std::string_view line, const std::string& where, std::string& problem) {
  if (!line.ends_with('\n')) {
    problem = where + ": the line has no end";
    return std::nullopt;
  }
  try {
    Json object = parse_json(line, where);
    if (object.is_object() && object.contains("kind") && object.contains("step") && object["step"].is_number_integer()) return object;
    problem = where + ": not a line of metrics, which has \"kind\" and \"step\"";
  } catch (const UserError& error) {
    problem = error.what();
  }
  return std::nullopt;
}

// Calls `use` with each line and its object. What cannot be read at the end of the file is torn, and left out; before lines that can be
// read it is an error.
void for_each_line(std::string_view text, const fs::path& file, const std::function<void(std::string_view, const Json&)>& use) {
  std::string torn;
  size_t number = 0;
  for (size_t begin = 0, end; begin < text.size(); begin = end) {
    const size_t newline = text.find('\n', begin);
    end = newline == std::string_view::npos ? text.size() : newline + 1;
    const std::string_view line = text.substr(begin, end - begin);
    std::string problem;
    const std::optional<Json> object = parse_line(line, fmt::format("{}:{}", file.string(), ++number), problem);
    if (!object) {
      if (torn.empty()) torn = problem;
      continue;
    }
    if (!torn.empty()) throw UserError("{}. Lines after it are in order, so no crash did this: mend the file or move it away.", torn);
    use(line, *object);
  }
}

// Makes `file` what it was after `resumed_step`, and returns it.
const fs::path& cut_after(const fs::path& file, int64_t resumed_step) {
  if (!fs::exists(file)) {
    if (resumed_step > 0) log::warning("{} is missing: the metrics of steps 1-{} are not at hand", file.string(), resumed_step);
    return file;
  }
  const std::string text = read_file(file);
  std::string kept;
  size_t cut_bytes = 0;  // in whole lines past the step; what else is missing is torn
  int64_t num_cut = 0, last_step = 0;
  if (resumed_step > 0) {
    for_each_line(text, file, [&](std::string_view line, const Json& object) {
      const int64_t step = object["step"];
      if (step > resumed_step) {
        ++num_cut;
        cut_bytes += line.size();
        return;
      }
      kept += line;
      if (object["kind"] == "train") last_step = std::max(last_step, step);
    });
    if (last_step < resumed_step) {
      log::warning("{} ends at step {}, before the checkpoint's step {}: the metrics between are lost", file.string(), last_step,
                   resumed_step);
    }
  }
  if (kept.size() == text.size()) return file;
  if (resumed_step > 0) {
    log::info("{}: cut {} lines past step {}{}", file.string(), num_cut, resumed_step,
              kept.size() + cut_bytes < text.size() ? " and a torn end" : "");
  } else {
    log::info("{}: begun anew; an earlier run without a checkpoint had left {} there", file.string(), in_bytes(text.size()));
  }
  write_file_atomically(file, kept);
  return file;
}

}  // namespace

MetricsFile::MetricsFile(const fs::path& file, int64_t resumed_step)
    : writer_(cut_after(file, resumed_step), FileWriter::Mode::kAppend) {}

void MetricsFile::write(const StepRecord& step, const Speedometer& speed, bool first_of_process) {
  const double tps = speed.tokens_per_second(step.tokens, step.seconds);
  OrderedJson object = {{"kind", "train"},
                        {"step", step.step},
                        {"loss", number(step.loss)},
                        {"grad_norm", number(step.grad_norm)},
                        {"lr", step.lr},
                        {"tokens", step.tokens},
                        {"valid_tokens", step.valid_tokens},
                        {"tps", tps},
                        {"tflops", speed.flops_per_token > 0 ? OrderedJson(speed.tflops(tps)) : OrderedJson()},
                        {"mfu", known(speed.mfu(tps))},
                        {"memory_gib", static_cast<double>(step.memory.peak_bytes) / kGib},
                        {"seconds", step.seconds},
                        {"data_seconds", step.data_seconds}};
  if (first_of_process) object["first_of_process"] = true;
  writer_.write(object.dump() + "\n");
}

void MetricsFile::write(const ValidationRecord& validation, const Speedometer& speed) {
  const OrderedJson object = {{"kind", "validation"},
                              {"step", validation.step},
                              {"loss", number(validation.loss)},
                              {"perplexity", number(std::exp(validation.loss))},
                              {"tokens", validation.tokens},
                              {"valid_tokens", validation.valid_tokens},
                              {"tps", speed.tokens_per_second(validation.tokens, validation.seconds)},
                              {"memory_gib", static_cast<double>(validation.memory.peak_bytes) / kGib},
                              {"seconds", validation.seconds}};
  writer_.write(object.dump() + "\n");
}

MetricsHistory read_metrics(const fs::path& file) {
  const MappedFile mapped(file);
  MetricsHistory history;
  for_each_line(mapped.text(), file, [&](std::string_view, const Json& object) {
    const auto read_common = [&object](auto& record) {
      record.step = object.at("step");
      record.loss = number_from(object, "loss");
      record.tokens = object.at("tokens");
      record.valid_tokens = object.at("valid_tokens");
      record.seconds = object.at("seconds");
      record.memory.peak_bytes = static_cast<uint64_t>(std::llround(object.at("memory_gib").get<double>() * kGib));
    };
    try {
      if (object["kind"] == "train") {
        MetricsHistory::Step step;
        read_common(step);
        step.grad_norm = number_from(object, "grad_norm");
        step.lr = object.at("lr");
        step.data_seconds = object.at("data_seconds");
        step.tflops = object.at("tflops").is_null() ? 0 : object.at("tflops").get<double>();
        step.mfu = object.at("mfu").is_null() ? -1 : object.at("mfu").get<double>();
        step.first_of_process = object.value("first_of_process", false);
        history.steps.push_back(step);
      } else if (object["kind"] == "validation") {
        ValidationRecord validation;
        read_common(validation);
        history.validations.push_back(validation);
      }
    } catch (const nlohmann::json::exception& error) {
      throw UserError("{}: the line of step {} is not a line of metrics: {}", file.string(), object["step"].dump(), error.what());
    }
  });
  return history;
}

}  // namespace trine
