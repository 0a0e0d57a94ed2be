// Keys wanted against keys found, in both directions: nothing missing, nothing left over, every shape right.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/weight_source.h"

namespace trine {

// Names that are no parameters of their own, each with the one it shares ("lm_head.weight" -> "model.embed_tokens.weight").
using TiedNames = std::map<std::string, std::string>;

struct KeyAccount {
  int64_t wanted = 0;
  std::vector<std::string> missing, unexpected;
  std::vector<std::string> misshaped;  // "name (file [2, 3], model [2, 2])"
  std::vector<std::string> tied;       // tied names that the source holds all the same
  int64_t rotary_frequencies = 0;      // `*.rotary_emb.inv_freq` of older exports: not needed, they follow from config.json

  bool fits() const { return missing.empty() && unexpected.empty() && misshaped.empty(); }
};

// `wanted`: shapes by name.
KeyAccount account_keys(const WeightSource& source, const std::map<std::string, std::vector<int64_t>>& wanted, const TiedNames& tied);

// What does not fit, with counts, examples, nearest names and what they hint at. For an account that does not fit.
std::string explain(const KeyAccount& account, const WeightSource& source);

// The first five names, and how many more there are: "a, b, c, d, e and 4 more". Experts of a layer count as one name here, and in
// explain(): "model.layers.0.mlp.experts.{0..63}.gate_proj.weight".
std::string first_few(const std::vector<std::string>& names);

}  // namespace trine
