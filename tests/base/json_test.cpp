#include "base/json.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace trine {
namespace {

std::string message_of(const std::string& text) {
  try {
    parse_json(text, "file.json");
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(ParseJson, ReadsOrdinaryText) { EXPECT_EQ(parse_json(R"({"a": [1, 2.5, "x", null]})", "t")["a"][1], 2.5); }

TEST(ParseJson, RefusesAKeyGivenTwiceAndNamesIt) {
  EXPECT_THAT(message_of(R"({"a": {"b": 1, "b": 2}})"), testing::AllOf(testing::HasSubstr("file.json"), testing::HasSubstr("\"b\"")));
  EXPECT_EQ(message_of(R"([{"b": 1}, {"b": 2}])"), "");
}

TEST(ParseJson, RefusesEndlessNesting) { EXPECT_THAT(message_of(std::string(100000, '[')), testing::HasSubstr("nested deeper")); }

TEST(ParseJson, SaysWhereTheTextIsBroken) { EXPECT_THAT(message_of("{\"a\": }"), testing::HasSubstr("line 1, column 7")); }

}  // namespace
}  // namespace trine
