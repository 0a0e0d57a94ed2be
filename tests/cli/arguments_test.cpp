#include "cli/arguments.h"

#include <gmock/gmock.h>

#include "base/errors.h"

namespace trine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Taken {
  std::string model, prompt = "none given";
  int64_t count = 64;
  double temperature = 1;
  std::optional<int64_t> seed;
  Words stops, rest, options;
  bool json = false;
};

Arguments arguments_into(Taken& taken) {
  Arguments arguments("trine try", "Tries things.");
  arguments.positional("MODEL", taken.model, "a folder");
  arguments.optional_positional("OTHER", taken.prompt, "another word");
  arguments.option("--max-new-tokens", "N", taken.count, "at most this many");
  arguments.option("--temperature", "T", taken.temperature, "of the draw");
  arguments.option("--seed", "N", taken.seed, "of the draw");
  arguments.option("--stop", "TEXT", taken.stops, "where to stop");
  arguments.flag("--json", taken.json, "print JSON");
  arguments.recipe_options(taken.options);
  return arguments;
}

Taken take(const Words& words) {
  Taken taken;
  EXPECT_TRUE(arguments_into(taken).parse(words));
  return taken;
}

std::string error_of(const Words& words) {
  try {
    take(words);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Arguments, TakesFlagsInEveryFormAroundTheWords) {
  const Taken taken =
      take({"--max_new_tokens", "5", "model", "--temperature=0.5", "--seed", "-1", "--json", "other", "--stop", "a", "--stop=b=c"});
  EXPECT_EQ(taken.model, "model");
  EXPECT_EQ(taken.prompt, "other");
  EXPECT_EQ(taken.count, 5);
  EXPECT_EQ(taken.temperature, 0.5);
  EXPECT_EQ(taken.seed, -1);
  EXPECT_TRUE(taken.json);
  EXPECT_THAT(taken.stops, ElementsAre("a", "b=c"));
}

TEST(Arguments, LeavesWhatIsNotGivenAsItWas) {
  const Taken taken = take({"model"});
  EXPECT_EQ(taken.prompt, "none given");
  EXPECT_EQ(taken.count, 64);
  EXPECT_EQ(taken.seed, std::nullopt);
  EXPECT_FALSE(taken.json);
  EXPECT_THAT(taken.options, IsEmpty());
}

TEST(Arguments, CollectsRecipeOptionsWithTheirValues) {
  const Taken taken = take({"--training.steps", "5", "model", "--debug.deterministic", "other", "--training.seq-len=6", "--json"});
  EXPECT_THAT(taken.options, ElementsAre("--training.steps", "5", "--debug.deterministic", "--training.seq-len=6"));
  EXPECT_EQ(taken.model, "model");
  EXPECT_EQ(taken.prompt, "other");
}

TEST(Arguments, RestTakesAllRemainingWords) {
  Taken taken;
  Arguments arguments("trine report", "Reports.");
  arguments.positional("RUN", taken.model, "a run folder");
  arguments.rest("RUN", taken.rest, "more of them");
  EXPECT_TRUE(arguments.parse({"a", "b", "c"}));
  EXPECT_EQ(taken.model, "a");
  EXPECT_THAT(taken.rest, ElementsAre("b", "c"));
}

TEST(Arguments, MistakesAreUserErrorsThatSayWhatIsWanted) {
  EXPECT_THAT(error_of({"model", "--temprature", "1"}), AllOf(HasSubstr("no flag \"--temprature\""), HasSubstr("--temperature")));  // J6
  EXPECT_THAT(error_of({}), AllOf(HasSubstr("needs MODEL: a folder"), HasSubstr("--help")));
  EXPECT_THAT(error_of({"a", "b", "c"}), HasSubstr("\"c\" is one too many"));
  EXPECT_THAT(error_of({"a", "--seed"}), HasSubstr("--seed needs a value: --seed N"));
  EXPECT_THAT(error_of({"a", "--seed", "--json"}), HasSubstr("--seed needs a value"));
  EXPECT_THAT(error_of({"a", "--seed", "x"}), HasSubstr("--seed needs a whole number, not \"x\""));
  EXPECT_THAT(error_of({"a", "--temperature=warm"}), HasSubstr("--temperature needs a number"));
  EXPECT_THAT(error_of({"a", "--json=1"}), HasSubstr("--json takes no value"));
  EXPECT_THAT(error_of({"a", "--training.setps", "1"}), HasSubstr("training.steps"));
}

TEST(Arguments, HelpShowsUsageDefaultsAndEveryFlag) {
  Taken taken;
  const Arguments arguments = arguments_into(taken);
  const std::string help = arguments.help();
  EXPECT_THAT(help, AllOf(HasSubstr("Usage: trine try MODEL [OTHER] [flags] [options]"), HasSubstr("Tries things."), HasSubstr("[64]"),
                          HasSubstr("--stop TEXT"), HasSubstr("--json"), HasSubstr("--section.name VALUE")));
  testing::internal::CaptureStdout();
  EXPECT_FALSE(arguments_into(taken).parse({"--seed", "x", "--help"}));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), help);
}

}  // namespace
}  // namespace trine
