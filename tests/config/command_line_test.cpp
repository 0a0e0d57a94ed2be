#include "config/command_line.h"

#include <gmock/gmock.h>

#include "tests/config/loading.h"

namespace trine {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(CommandLine, TakesEveryFormOfAnOption) {
  EXPECT_EQ(load_options({"--training.steps", "5"}).training.steps, 5);
  EXPECT_EQ(load_options({"--training.steps=5"}).training.steps, 5);
  EXPECT_EQ(load_options({"--training.seq-len", "64"}).training.seq_len, 64);
  EXPECT_EQ(load_options({"--lr-scheduler.warmup_steps=3"}).lr_scheduler.warmup_steps, 3);
  EXPECT_EQ(load_options({"--training.global_batch_size", "-1"}).training.global_batch_size, -1);
  EXPECT_EQ(load_options({"--optimizer.lr", "1e-3"}).optimizer.lr, 1e-3);
  EXPECT_EQ(load_options({"--job.description=a=b"}).job.description, "a=b");
}

TEST(CommandLine, TakesEveryFormOfABoolean) {
  EXPECT_TRUE(load_options({"--debug.deterministic"}).debug.deterministic);
  EXPECT_TRUE(load_options({"--debug.deterministic", "--training.steps", "5"}).debug.deterministic);
  EXPECT_TRUE(load_options({"--debug.deterministic", "true"}).debug.deterministic);
  EXPECT_FALSE(load_options({"--debug.deterministic", "false"}).debug.deterministic);
  EXPECT_FALSE(load_options({"--debug.deterministic=false"}).debug.deterministic);
  EXPECT_FALSE(load_text("[debug]\ndeterministic = true\n", {"--debug.no-deterministic"}).debug.deterministic);
  EXPECT_FALSE(load_text("[debug]\ndeterministic = true\n", {"--debug.no_deterministic"}).debug.deterministic);
  EXPECT_EQ(load_options({"--model.no-tie-word-embeddings"}).model.tie_word_embeddings, false);
}

TEST(CommandLine, ListsAreCommaSeparatedOrRepeatedAndReplaceTheRecipes) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(load_options({"--optimizer.no_decay", "a,b"}).optimizer.no_decay, (Names{"a", "b"}));  // no_decay is no negation of decay
  EXPECT_EQ(load_options({"--optimizer.no-decay=a", "--optimizer.no_decay", "b"}).optimizer.no_decay, (Names{"a", "b"}));
  EXPECT_EQ(load_options({"--optimizer.no_decay="}).optimizer.no_decay, Names{});
  EXPECT_EQ(load_text("[profiling]\nsteps = [1, 2]\n", {"--profiling.steps", "7,8", "--profiling.steps=9"}).profiling.steps,
            (std::vector<int64_t>{7, 8, 9}));
}

TEST(CommandLine, ComesBeforeTheRecipeAndTheLastSingleValueCounts) {
  EXPECT_EQ(load_text("[training]\nsteps = 5\n", {"--training.steps", "6"}).training.steps, 6);
  EXPECT_EQ(load_options({"--training.steps", "6", "--training.steps", "7"}).training.steps, 7);
}

TEST(CommandLine, NoneUnsetsWhatMayBeUnset) {
  EXPECT_EQ(load_text("[expect]\nfirst_loss = 6.54\n", {"--expect.first_loss", "none"}).expect.first_loss, std::nullopt);
  EXPECT_THAT(option_error({"--training.steps", "none"}), HasSubstr("wrong type"));
}

TEST(CommandLine, UnknownOptionNamesTheNearest) {  // J6
  EXPECT_THAT(option_error({"--training.setps", "3"}),
              AllOf(HasSubstr("command line: "), HasSubstr("training.setps"), HasSubstr("training.steps")));
  EXPECT_THAT(option_error({"--training.lr", "3"}), AllOf(HasSubstr("wrong section"), HasSubstr("optimizer.lr")));
  EXPECT_THAT(option_error({"--debug.no-determinstic"}), HasSubstr("debug.deterministic"));
  EXPECT_THAT(option_error({"--zzzz.qqqqqqqq", "3"}), AllOf(HasSubstr("no section [zzzz]"), HasSubstr("training")));
}

TEST(CommandLine, WrongTypeAndImpossibleValueNameOptionAndValue) {  // J6
  EXPECT_THAT(option_error({"--training.steps", "many"}),
              AllOf(HasSubstr("command line: training.steps = \"many\""), HasSubstr("whole number")));
  EXPECT_THAT(option_error({"--training.steps", "1e3"}), HasSubstr("whole number"));
  EXPECT_THAT(option_error({"--training.steps", "99999999999999999999"}), HasSubstr("whole number"));
  EXPECT_THAT(option_error({"--training.steps=0"}), HasSubstr("at least 1"));
  EXPECT_THAT(option_error({"--optimizer.lr", "nan"}), HasSubstr("not possible"));
  EXPECT_THAT(option_error({"--debug.deterministic=yes"}), HasSubstr("true or false"));
  EXPECT_THAT(option_error({"--profiling.steps", "1,x"}), HasSubstr("list of whole numbers"));
  EXPECT_THAT(option_error({"--training.no-steps"}), HasSubstr("only an option that is true or false can be negated"));
}

TEST(CommandLine, MissingValueIsNamed) {
  EXPECT_THAT(option_error({"--training.steps"}), HasSubstr("needs a value"));
  EXPECT_THAT(option_error({"--training.steps", "--debug.deterministic"}), HasSubstr("needs a value"));
}

TEST(CommandLine, FeaturesToComeAreRefusedByName) {
  EXPECT_THAT(option_error({"--compile.enable"}), HasSubstr("cannot compile models yet"));
  EXPECT_THAT(option_error({"--parallelism.pipeline_parallel_degree", "2"}), HasSubstr("pipeline"));
  EXPECT_THAT(option_error({"--lora.rank=8"}), HasSubstr("LoRA"));
  EXPECT_EQ(option_error({"--compile.no-enable", "--parallelism.tensor_parallel_degree", "1"}), "no error");
}

TEST(NumOptionWords, KnowsWhichOptionsTakeTheNextWord) {
  const auto count = [](const std::vector<std::string>& words) { return num_option_words(words); };
  EXPECT_EQ(count({"--training.steps", "5", "recipe.toml"}), 2u);
  EXPECT_EQ(count({"--training.steps=5", "recipe.toml"}), 1u);
  EXPECT_EQ(count({"--debug.deterministic", "recipe.toml"}), 1u);
  EXPECT_EQ(count({"--debug.deterministic", "false"}), 2u);
  EXPECT_EQ(count({"--debug.no-deterministic", "false"}), 1u);
  EXPECT_EQ(count({"--compile.enable", "recipe.toml"}), 1u);
  EXPECT_EQ(count({"--training.steps"}), 1u);
}

}  // namespace
}  // namespace trine
