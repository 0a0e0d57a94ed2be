#include <gmock/gmock.h>

#include <cmath>

#include "model/model_args.h"

namespace trine {
namespace {

RopeArgs yarn_of_case_a4() {
  RopeArgs rope;
  rope.theta = 1e6;
  rope.type = "yarn";
  rope.factor = 4;
  rope.original_max_position_embeddings = 32768;
  return rope;
}

// cases A3: the second frequency tells which base was used.
TEST(RopeFrequencies, TellTheBaseApart) {
  RopeArgs rope;
  rope.theta = 1e6;
  EXPECT_NEAR(rope_frequencies(rope, 128).inv_freq.at(1), 0.805842, 5e-7);
  rope.theta = 1e4;
  EXPECT_NEAR(rope_frequencies(rope, 128).inv_freq.at(1), 0.865964, 5e-7);
}

// cases A4
TEST(RopeFrequencies, MixYarnByTheRampFromPair23To40) {
  RopeArgs rope = yarn_of_case_a4();
  const RopeFrequencies stretched = rope_frequencies(rope, 128);
  rope.type = "default";
  const RopeFrequencies plain = rope_frequencies(rope, 128);
  for (size_t i = 0; i < 64; ++i) {
    const double scale = static_cast<double>(stretched.inv_freq[i]) / static_cast<double>(plain.inv_freq[i]);
    if (i <= 23) EXPECT_EQ(scale, 1.0) << i;
    if (i == 31) EXPECT_NEAR(scale, 0.647059, 5e-7);
    if (i >= 40) EXPECT_EQ(scale, 0.25) << i;
  }
  EXPECT_NEAR(stretched.attention_scaling, 1.138629, 5e-7);
}

TEST(RopeFrequencies, LetAnExplicitAttentionFactorReplaceTheFormula) {
  RopeArgs rope = yarn_of_case_a4();
  rope.attention_factor = 1.0;
  EXPECT_EQ(rope_frequencies(rope, 128).attention_scaling, 1.0);
}

TEST(RopeFrequencies, AreTheSameFromARotaryNode) {
  ModelArgs args;
  args.head_dim = 64;
  args.num_hidden_layers = 1;
  args.rope = yarn_of_case_a4();
  args.rope.beta_fast = 16;
  args.rope.truncate = false;
  args.rope.mscale = 0.7;
  args.rope.mscale_all_dim = 0.9;
  const ModuleSpec spec = build_spec(args);
  const RopeFrequencies of_args = rope_frequencies(args.rope, 64);
  const RopeFrequencies of_node = rope_frequencies(spec.child("model.layers.0.self_attn.rotary_emb"));
  EXPECT_EQ(of_args.inv_freq, of_node.inv_freq);
  EXPECT_EQ(of_args.attention_scaling, of_node.attention_scaling);
}

}  // namespace
}  // namespace trine
