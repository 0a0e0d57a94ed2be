#include "text/unicode.h"

#include <gtest/gtest.h>

namespace trine {
namespace {

std::string nfc(std::string_view text, EditMap* edits = nullptr) {
  std::string out;
  append_nfc(text, out, edits);
  return out;
}

std::string valid(std::string_view text) {
  std::string out;
  append_valid_utf8(text, out);
  return out;
}

TEST(Nfc, ComposesMarksInCanonicalOrder) {
  EXPECT_EQ(nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(nfc("a\u0301\u0323"), "\u1EA1\u0301") << "the mark below goes first";
  EXPECT_EQ(nfc("\u212B"), "\u00C5");
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C") << "excluded from composition";
  EXPECT_EQ(nfc("\u0301x"), "\u0301x") << "a mark without a base";
  EXPECT_EQ(nfc("x\u0301y"), "x\u0301y") << "no composite exists";
  EXPECT_EQ(nfc("か\u3099"), "が");
}

TEST(Nfc, ComposesHangulByArithmetic) {
  EXPECT_EQ(nfc("\u1112\u1161\u11AB"), "한");
  EXPECT_EQ(nfc("하\u11AB"), "한");
  EXPECT_EQ(nfc("한\u11AB"), "한\u11AB");
}

TEST(Nfc, LeavesTextBetweenChangesAndMapsPositionsBack) {
  EditMap edits;
  EXPECT_EQ(nfc("abe\u0301cd\u212B!", &edits), "ab\u00E9cd\u00C5!");
  EXPECT_EQ(edits.to_original(2), 2u);
  EXPECT_EQ(edits.to_original(4), 5u) << "after the e with its mark";
  EXPECT_EQ(edits.to_original(3), 5u) << "inside a changed stretch";
  EXPECT_EQ(edits.to_original(6), 7u);
  EXPECT_EQ(edits.to_original(9), 11u);
}

TEST(SurelyNfc, HoldsForPlainTextAndNotBesideMarks) {
  EXPECT_TRUE(is_surely_nfc("plain, \u00E9, 你好, 한, 😀"));
  EXPECT_FALSE(is_surely_nfc("e\u0301"));
  EXPECT_FALSE(is_surely_nfc("\u1112\u1161"));
  EXPECT_FALSE(is_surely_nfc("\u2126"));
}

// Unicode 15.0, tables 3-8 to 3-11.
TEST(ValidUtf8, ReplacesEveryMaximalIllFormedPartOnce) {
  const std::string r = "\uFFFD";
  EXPECT_EQ(valid("ok\xFF!"), "ok" + r + "!");
  EXPECT_EQ(valid("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(valid("\xED\xA0\x80"), r + r + r) << "a surrogate";
  EXPECT_EQ(valid("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(valid("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(valid("你\xE5\xA5"), "你" + r);
}

TEST(CompletePrefix, EndsBeforeACharacterThatMayGoOn) {
  EXPECT_EQ(complete_utf8_prefix("ab"), 2u);
  EXPECT_EQ(complete_utf8_prefix("a\xE4\xBD"), 1u);
  EXPECT_EQ(complete_utf8_prefix("a\xF0"), 1u);
  EXPECT_EQ(complete_utf8_prefix("a\xE4\xBD\xA0"), 4u);
  EXPECT_EQ(complete_utf8_prefix("a\xBD"), 2u) << "nothing completes a stray continuation byte";
  EXPECT_EQ(complete_utf8_prefix("a\xED\xA0"), 3u) << "nor a surrogate";
}

}  // namespace
}  // namespace trine
