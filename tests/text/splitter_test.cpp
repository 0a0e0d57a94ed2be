#include "text/splitter.h"

#include <gmock/gmock.h>

namespace trine {
namespace {

using testing::ElementsAre;

std::vector<std::string> pieces(SplitRule rule, std::string_view text) {
  std::vector<std::string> out;
  Splitter(rule).split(text, [&](std::string_view piece) { out.emplace_back(piece); });
  return out;
}

// C1
TEST(Qwen2Split, KeepsRunsOfSymbolsAndLeavesDigitsAlone) {
  const auto split = [](std::string_view text) { return pieces(SplitRule::kQwen2, text); };
  EXPECT_THAT(split("x->y"), ElementsAre("x", "->", "y"));
  EXPECT_THAT(split("2026"), ElementsAre("2", "0", "2", "6"));
  EXPECT_THAT(split("a 12.5"), ElementsAre("a", " ", "1", "2", ".", "5"));
  EXPECT_THAT(split("f(x):\n"), ElementsAre("f", "(x", "):\n"));
  EXPECT_THAT(split("_foo"), ElementsAre("_foo"));
  EXPECT_THAT(split("ok!!!\n\nyes"), ElementsAre("ok", "!!!\n\n", "yes"));
}

// C3
TEST(Qwen2Split, UsesUnicodeClassesAndContractionsOfAnyCase) {
  const auto split = [](std::string_view text) { return pieces(SplitRule::kQwen2, text); };
  EXPECT_THAT(split("I'LL can't"), ElementsAre("I", "'LL", " can", "'t"));
  EXPECT_THAT(split("don’t"), ElementsAre("don", "’t"));
  EXPECT_THAT(split("'S 'Re"), ElementsAre("'S", " '", "Re"));
  EXPECT_THAT(split("你好，世界123"), ElementsAre("你好", "，世界", "1", "2", "3"));
  EXPECT_THAT(split("½"), ElementsAre("½"));
  EXPECT_THAT(split("²²"), ElementsAre("²", "²"));
  EXPECT_THAT(split("٣٤"), ElementsAre("٣", "٤"));
  EXPECT_THAT(split("\u3000你"), ElementsAre("\u3000你"));
  EXPECT_THAT(split("\u00A0world"), ElementsAre("\u00A0world"));
  EXPECT_THAT(split("'\u017F"), ElementsAre("'\u017F")) << "the long s folds to s";
}

TEST(Qwen2Split, WhiteSpaceLeavesItsLastCharacterToTheNextWordUnlessItHasANewline) {
  const auto split = [](std::string_view text) { return pieces(SplitRule::kQwen2, text); };
  EXPECT_THAT(split("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(split("a   1"), ElementsAre("a", "  ", " ", "1"));
  EXPECT_THAT(split("a \n \r\n  b"), ElementsAre("a", " \n \r\n", " ", " b"));
  EXPECT_THAT(split("a  "), ElementsAre("a", "  "));
  EXPECT_THAT(split("\t\tx"), ElementsAre("\t", "\tx"));
  EXPECT_THAT(split(" "), ElementsAre(" "));
  EXPECT_THAT(split(""), ElementsAre());
}

TEST(Llama3Split, TakesUpToThreeDigits) {
  EXPECT_THAT(pieces(SplitRule::kLlama3, "12345 x"), ElementsAre("123", "45", " x"));
}

TEST(Gpt2Split, GluesOneSpaceToAnyRunAndKnowsLowerCaseContractionsOnly) {
  const auto split = [](std::string_view text) { return pieces(SplitRule::kGpt2, text); };
  EXPECT_THAT(split("it's IT'S 12 ab34 ->x"), ElementsAre("it", "'s", " IT", "'", "S", " 12", " ab", "34", " ->", "x"));
  EXPECT_THAT(split("a  \nb\n\n"), ElementsAre("a", "  ", "\n", "b", "\n\n"));
}

TEST(Gpt2DigitsSplit, CutsDigitsOffBeforeTheRest) {
  const auto split = [](std::string_view text) { return pieces(SplitRule::kGpt2Digits, text); };
  EXPECT_THAT(split("a 12"), ElementsAre("a", " ", "1", "2"));
  EXPECT_THAT(split("a   1"), ElementsAre("a", "   ", "1")) << "white space before a digit ends its stretch of text";
  EXPECT_THAT(split("x½y"), ElementsAre("x", "½", "y"));
}

TEST(SplitRuleOfRegex, KnowsItsOwnAndRefusesOthers) {
  for (const SplitRule rule : {SplitRule::kQwen2, SplitRule::kLlama3, SplitRule::kGpt2}) {
    EXPECT_EQ(split_rule_of_regex(split_regex(rule)), rule);
  }
  EXPECT_EQ(split_rule_of_regex(R"(\p{L}+)"), std::nullopt);
}

}  // namespace
}  // namespace trine
