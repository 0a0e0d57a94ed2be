// Inverse frequencies of the rotary embedding, plain and stretched to longer contexts, in the order of operations and the precision
// (fp32) in which Transformers has them, since models were trained and published with those numbers.
//
// Pair i of a head (elements i and i + head_dim/2) turns by position·inv_freq[i], plain inv_freq[i] = theta^(-2i/head_dim).
// YaRN: Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models" (2023), eq. 17-25 and appendix A.
// llama3: the rule of Llama 3.1's release. Where Transformers' power differs from the correctly rounded one (its vector code may be
// off in the last bit, and depends on the CPU), ours is the correctly rounded.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/errors.h"
#include "model/model_args.h"

// The results below must not depend on whether the compiler fuses a product and a sum.
#pragma STDC FP_CONTRACT OFF

namespace trine {
namespace {

// theta^(2i/head_dim): the wavelength of pair i over 2π.
std::vector<float> powers(double theta, int64_t head_dim) {
  std::vector<float> result(static_cast<size_t>(head_dim / 2));
  for (size_t i = 0; i < result.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    result[i] = static_cast<float>(std::pow(static_cast<double>(static_cast<float>(theta)), static_cast<double>(exponent)));
  }
  return result;
}

std::vector<float> plain(double theta, int64_t head_dim) {
  std::vector<float> result = powers(theta, head_dim);
  for (float& value : result) value = 1.0f / value;
  return result;
}

// The pair (not rounded) that makes `rotations` full turns over the original context.
double pair_with_rotations(double rotations, const RopeArgs& rope, int64_t head_dim) {
  const double original = static_cast<double>(rope.original_max_position_embeddings);
  return static_cast<double>(head_dim) * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
}

double yarn_scaling(const RopeArgs& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  const auto scaling = [&](double mscale) { return rope.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(rope.factor) + 1.0; };
  if (rope.mscale.value_or(0) != 0 && rope.mscale_all_dim.value_or(0) != 0) return scaling(*rope.mscale) / scaling(*rope.mscale_all_dim);
  return scaling(1);
}

// Pairs that turn more than beta_fast times over the original context keep their frequency, those below beta_slow turns are
// slowed by the whole factor, and between them a ramp over the pair's index mixes the two.
RopeFrequencies yarn(const RopeArgs& rope, int64_t head_dim) {
  double low = pair_with_rotations(rope.beta_fast, rope, head_dim);
  double high = pair_with_rotations(rope.beta_slow, rope, head_dim);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;

  RopeFrequencies result{powers(rope.theta, head_dim), yarn_scaling(rope)};
  for (size_t i = 0; i < result.inv_freq.size(); ++i) {
    const float power = result.inv_freq[i];
    const float ramp = std::clamp((static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f, 1.0f);
    const float keep = 1.0f - ramp;
    const float slowed = 1.0f / (static_cast<float>(rope.factor) * power);
    result.inv_freq[i] = slowed * (1.0f - keep) + (1.0f / power) * keep;
  }
  return result;
}

// Wavelengths beyond original/low_freq_factor are stretched by the factor, those below original/high_freq_factor are kept, and
// between them the two are mixed by how often the wavelength fits into the original context.
RopeFrequencies llama3(const RopeArgs& rope, int64_t head_dim) {
  RopeFrequencies result{plain(rope.theta, head_dim)};
  const double original = static_cast<double>(rope.original_max_position_embeddings);
  const float longest = static_cast<float>(original / rope.low_freq_factor);
  const float shortest = static_cast<float>(original / rope.high_freq_factor);
  const float factor = static_cast<float>(rope.factor), low = static_cast<float>(rope.low_freq_factor);
  for (float& value : result.inv_freq) {
    const float wavelength = (1.0f / value) * static_cast<float>(2 * std::numbers::pi);
    if (wavelength > longest) {
      value = value / factor;
    } else if (wavelength >= shortest) {
      const float keep =
          ((1.0f / wavelength) * static_cast<float>(original) - low) / static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
      value = (1.0f - keep) * value / factor + keep * value;
    }
  }
  return result;
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeArgs& rope, int64_t head_dim) {
  if (rope.type == "default") return {plain(rope.theta, head_dim)};
  if (rope.type == "yarn") return yarn(rope, head_dim);
  if (rope.type == "llama3") return llama3(rope, head_dim);
  if (rope.type == "linear") {
    RopeFrequencies result{plain(rope.theta, head_dim)};
    for (float& value : result.inv_freq) value /= static_cast<float>(rope.factor);
    return result;
  }
  throw UserError("rope type \"{}\" is not supported; supported: default, linear, yarn, llama3", rope.type);
}

RopeFrequencies rope_frequencies(const ModuleSpec& rotary) {
  const auto number = [&](const char* name) -> std::optional<double> {
    if (!rotary.options.contains(name)) return std::nullopt;
    return rotary.double_option(name);
  };
  RopeArgs rope;
  rope.theta = rotary.double_option("theta");
  rope.type = rotary.string_option("type");
  rope.factor = number("factor").value_or(rope.factor);
  if (rotary.options.contains("original_max_position_embeddings")) {
    rope.original_max_position_embeddings = rotary.int_option("original_max_position_embeddings");
  }
  rope.beta_fast = number("beta_fast").value_or(rope.beta_fast);
  rope.beta_slow = number("beta_slow").value_or(rope.beta_slow);
  if (rotary.options.contains("truncate")) rope.truncate = rotary.bool_option("truncate");
  rope.attention_factor = number("attention_factor");
  rope.mscale = number("mscale");
  rope.mscale_all_dim = number("mscale_all_dim");
  rope.low_freq_factor = number("low_freq_factor").value_or(rope.low_freq_factor);
  rope.high_freq_factor = number("high_freq_factor").value_or(rope.high_freq_factor);
  return rope_frequencies(rope, rotary.int_option("head_dim"));
}

}  // namespace trine
