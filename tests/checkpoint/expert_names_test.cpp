// Names of experts in lists.
#include "checkpoint/expert_names.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/key_accounting.h"

namespace trine {
namespace {

using testing::ElementsAre;

std::vector<std::string> texts_of(const std::vector<ExpertGroup>& groups) {
  std::vector<std::string> texts;
  for (const ExpertGroup& group : groups) texts.push_back(group.text);
  return texts;
}

std::vector<std::string> numbered(std::initializer_list<int> numbers) {
  std::vector<std::string> names;
  for (const int number : numbers) names.push_back(fmt::format("l.experts.{}.w", number));
  return names;
}

TEST(ExpertNames, AreOneLinePerMatrixOfALayerInTheOrderOfTheFirst) {
  std::vector<std::string> names = {"model.norm.weight"};
  for (int layer = 0; layer < 2; ++layer) {
    for (int expert = 0; expert < 64; ++expert) {
      for (const char* matrix : {"up", "gate"}) {
        names.push_back(fmt::format("model.layers.{}.mlp.experts.{}.{}_proj.weight", layer, expert, matrix));
      }
    }
  }
  names.push_back("lm_head.weight");
  const auto groups = group_experts(names);
  EXPECT_THAT(texts_of(groups), ElementsAre("model.norm.weight", "model.layers.0.mlp.experts.{0..63}.up_proj.weight",
                                            "model.layers.0.mlp.experts.{0..63}.gate_proj.weight",
                                            "model.layers.1.mlp.experts.{0..63}.up_proj.weight",
                                            "model.layers.1.mlp.experts.{0..63}.gate_proj.weight", "lm_head.weight"));
  EXPECT_EQ(groups[2].members.size(), 64u);
  EXPECT_EQ(names[groups[2].members[63]], "model.layers.0.mlp.experts.63.gate_proj.weight");
}

TEST(ExpertNames, NumbersWithGapsAreRangesInAscendingOrder) {
  EXPECT_THAT(texts_of(group_experts(numbered({7, 0, 1, 10, 2, 5}))), ElementsAre("l.experts.{0..2,5,7,10}.w"));
  EXPECT_THAT(texts_of(group_experts(numbered({4}))), ElementsAre("l.experts.4.w"));
  EXPECT_THAT(texts_of(group_experts(numbered({0, 2, 4, 6, 8, 10, 12, 13, 20}))), ElementsAre("l.experts.{0,2,4,6,8,10, 3 more}.w"));
}

TEST(ExpertNames, WhatFollowsTheNameKeepsTextsApart) {
  EXPECT_THAT(texts_of(group_experts({"e.experts.0.w [2]", "e.experts.1.w [3]", "e.experts.2.w [2]"})),
              ElementsAre("e.experts.{0,2}.w [2]", "e.experts.1.w [3]"));
}

TEST(ExpertNames, OtherNamesStayAsTheyAre) {
  const std::vector<std::string> names = {"a.experts.gate_up_proj", "a.experts.x.w",  "a.experts.-1.w", "a.experts.-2.w",
                                          "a.experts.1",            "a.experts.01.w", "a.experts.02.w", "a.experts.99999999999999999999.w",
                                          "a.experts.",             "a.expert.1.w",   "a.expert.2.w",   "experts.1.w"};
  EXPECT_EQ(texts_of(group_experts(names)), names);
  EXPECT_THAT(texts_of(group_experts({"e.experts.9223372036854775807.w", "e.experts.9223372036854775806.w"})),
              ElementsAre("e.experts.{9223372036854775806..9223372036854775807}.w"));
}

TEST(ExpertNames, CountOnceAmongTheFirstFew) {
  std::vector<std::string> names = numbered({0, 1, 2, 3, 4, 5, 6, 7});
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) names.push_back(name);
  EXPECT_EQ(first_few(names), "l.experts.{0..7}.w, a, b, c, d and 2 more");
}

}  // namespace
}  // namespace trine
