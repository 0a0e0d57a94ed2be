#include "base/errors.h"

#include <gmock/gmock.h>

namespace trine {
namespace {

const std::vector<std::string> kNames = {"learning_rate", "weight_decay", "lr", "seq_len"};

TEST(Nearest, FindsTypingMistakesAndIgnoresCaseAndDashes) {
  EXPECT_EQ(nearest("learning_rte", kNames), "learning_rate");
  EXPECT_EQ(nearest("Seq-Len", kNames), "seq_len");
  EXPECT_EQ(nearest("weigth_decay", kNames), "weight_decay");
}

TEST(Nearest, SaysNothingWhenNothingIsNear) {
  EXPECT_EQ(nearest("zzzzzzzz", kNames), "");
  EXPECT_EQ(nearest("", kNames), "");
  EXPECT_EQ(nearest(std::string(100000, 'l'), kNames), "");
}

TEST(Suggest, ListsKnownNamesWhenNoneIsNear) {
  EXPECT_THAT(suggest("zzzzzzzz", kNames, 2), testing::HasSubstr("Known: learning_rate, weight_decay, and 2 more"));
  EXPECT_THAT(suggest("lerning_rate", kNames), testing::HasSubstr("Did you mean \"learning_rate\"?"));
}

}  // namespace
}  // namespace trine
