// Recipes read from TOML, and the errors for what they get wrong (cases J6).
#include <gmock/gmock.h>

#include "tests/config/loading.h"

namespace trine {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Recipe, SetsWhatItGivesAndLeavesTheRestAtTheDefaults) {
  const Config config = load_text(
      "[training]\nsteps = 7\nmax_norm = 2\n[optimizer]\nlr = 1e-3\nno_decay = ['a', 'b']\n[validation]\nenable = true\n"
      "[model]\ntie_word_embeddings = false\nrope_theta = 5e6\n");
  EXPECT_EQ(config.training.steps, 7);
  EXPECT_EQ(config.training.max_norm, 2.0);  // a whole number is a number
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_EQ(config.optimizer.no_decay, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(config.validation.enable);
  EXPECT_EQ(config.model.tie_word_embeddings, false);
  EXPECT_EQ(config.model.rope_theta, 5e6);
  EXPECT_EQ(config.model.hidden_size, std::nullopt);
  EXPECT_EQ(config.training.seq_len, 2048);
}

TEST(Recipe, TakesOneTextForAListAndDottedKeysForSections) {
  const Config config = load_text("dataloader.dataset = 'sample'\ntraining.steps = 3\n");
  EXPECT_EQ(config.dataloader.dataset, std::vector<std::string>{"sample"});
  EXPECT_EQ(config.training.steps, 3);
}

TEST(Recipe, MisspeltKeyNamesFileLineSectionAndNearestKey) {  // J6
  EXPECT_THAT(recipe_error("[training]\nsteps = 1\n\nsecq_len = 5\n"),
              AllOf(HasSubstr("MisspeltKeyNamesFileLineSectionAndNearestKey.toml:4: "), HasSubstr("training.secq_len"),
                    HasSubstr("training.seq_len")));
  EXPECT_THAT(recipe_error("[optimizer]\nlearning_rte = 1\n"), AllOf(HasSubstr(".toml:2: "), HasSubstr("Did you mean optimizer.lr?")));
  EXPECT_THAT(recipe_error("[optimiser]\nlr = 1\n"), AllOf(HasSubstr(".toml:1: "), HasSubstr("[optimiser]"), HasSubstr("\"optimizer\"")));
}

TEST(Recipe, KeyInTheWrongSectionNamesTheRightOne) {  // J6
  EXPECT_THAT(recipe_error("[training]\nlr = 1\n"),
              AllOf(HasSubstr(".toml:2: training.lr"), HasSubstr("wrong section"), HasSubstr("optimizer.lr")));
  EXPECT_THAT(recipe_error("[model]\nsteps = 1\n"), AllOf(HasSubstr("training.steps"), HasSubstr("profiling.steps")));
}

TEST(Recipe, KeyOutsideASectionIsAnError) {
  EXPECT_THAT(recipe_error("steps = 5\n"), AllOf(HasSubstr(".toml:1: steps stands outside a section")));
}

TEST(Recipe, WrongTypeNamesValueAndTypeWanted) {  // J6
  EXPECT_THAT(recipe_error("[optimizer]\nlr = \"1e-3\"\n"),
              AllOf(HasSubstr(".toml:2: optimizer.lr = \"1e-3\""), HasSubstr("takes a number")));
  EXPECT_THAT(recipe_error("[training]\nsteps = 1.5\n"), AllOf(HasSubstr("training.steps = 1.5"), HasSubstr("a whole number, at least 1")));
  EXPECT_THAT(recipe_error("[training]\nsteps = true\n"), HasSubstr("wrong type"));
  EXPECT_THAT(recipe_error("[validation]\nenable = 1\n"), HasSubstr("takes true or false"));
  EXPECT_THAT(recipe_error("[model]\nflavor = 4\n"), HasSubstr("takes text"));
  EXPECT_THAT(recipe_error("[model]\nflavor = 2020-01-01\n"), AllOf(HasSubstr("2020-01-01"), HasSubstr("takes text")));
  EXPECT_THAT(recipe_error("[training]\nsteps = [1]\n"), HasSubstr("wrong type"));
  EXPECT_THAT(recipe_error("[training.steps]\nx = 1\n"), HasSubstr("wrong type"));
  EXPECT_THAT(recipe_error("[optimizer]\nno_decay = ['a', 1]\n"), HasSubstr("takes a list of texts"));
}

TEST(Recipe, ImpossibleValueNamesWhatIsAllowed) {
  EXPECT_THAT(recipe_error("[training]\nsteps = 0\n"), AllOf(HasSubstr(".toml:2: training.steps = 0"), HasSubstr("at least 1")));
  EXPECT_THAT(recipe_error("[training]\nglobal_batch_size = -2\n"), HasSubstr("at least 1, or -1"));
  EXPECT_THAT(recipe_error("[optimizer]\nbeta1 = 1.0\n"), HasSubstr("from 0 to"));
  EXPECT_THAT(recipe_error("[optimizer]\nlr = nan\n"), HasSubstr("is not possible"));
  EXPECT_THAT(recipe_error("[training]\ntime_limit = inf\n"), HasSubstr("is not possible"));
  EXPECT_THAT(recipe_error("[training]\ndtype = 'bflaot16'\n"),
              AllOf(HasSubstr("float32, bfloat16"), HasSubstr("Did you mean \"bfloat16\"?")));
  EXPECT_THAT(recipe_error("[dataloader]\ndataset = ['jsonl', 'jsn']\ndataset_path = ['a', 'b']\n"), HasSubstr("is not possible"));
}

TEST(Recipe, MalformedTomlNamesTheLine) {
  EXPECT_THAT(recipe_error("[training]\nsteps = \n"), AllOf(HasSubstr(".toml:2: not valid TOML")));
  EXPECT_THAT(recipe_error("[training]\nsteps = 1\nsteps = 2\n"), AllOf(HasSubstr(".toml:3: not valid TOML")));
}

TEST(Recipe, MissingFileIsNamed) {
  EXPECT_THAT(error_of([] { load_config("no/such/recipe.toml", {}); }), HasSubstr("no/such/recipe.toml"));
}

TEST(Recipe, FeaturesToComeAreRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"[compile]\nenable = true\n", "compile.enable"},
      {"[parallelism]\npipeline_parallel_degree = 2\n", "pipeline"},
      {"[parallelism]\ntensor_parallel_degree = 4\n", "several ranks"},
      {"[lora]\nrank = 8\n", "LoRA"},
      {"[override]\nimports = ['rope']\n", "replace parts"},
      {"[device]\nplugin = 'x'\n", "device"},
      {"[comm]\ntimeout_seconds = 5\n", "several ranks"},
      {"[model]\npath = 'transformers'\n", "takes native"},
      {"[model]\nkernels = 'fused'\n", "takes reference"},
      {"[model]\nscale = 'small'\n", "takes full"},
      {"[device]\ntype = 'neuron'\n", "takes cpu, cuda"},
      {"[[override.imports]]\nname = 'rope'\n", "replace parts"},
  };
  for (const auto& [recipe, what] : cases) {
    EXPECT_THAT(recipe_error(recipe), AllOf(HasSubstr(".toml:"), HasSubstr("this version of Trine cannot"), HasSubstr(what))) << recipe;
  }
}

TEST(Recipe, TurningAFeatureToComeOffIsNoError) {
  EXPECT_EQ(recipe_error("[compile]\nenable = false\n[parallelism]\ndata_parallel_shard_degree = -1\npipeline_parallel_degree = 1\n"),
            "no error");
}

TEST(Recipe, OpenOptionsAreFilledIn) {
  EXPECT_EQ(load_text("").job.dump_folder, "runs/Recipe_OpenOptionsAreFilledIn");
  EXPECT_EQ(load_text("[job]\ndump_folder = 'x'").job.dump_folder, "x");
  EXPECT_EQ(load_text("").dataloader.dataset, std::vector<std::string>{"sample"});
  EXPECT_EQ(load_text("validation.enable = true").validation.dataset, std::vector<std::string>{"sample"});
  const Config by_ending = load_text("[dataloader]\ndataset_path = ['a.jsonl', 'b.txt', 'c.jsonl.zst', 'd.parquet', 'e.tokens']");
  EXPECT_EQ(by_ending.dataloader.dataset, (std::vector<std::string>{"jsonl", "text", "jsonl", "parquet", "shards"}));
  EXPECT_TRUE(by_ending.validation.dataset.empty());
  const Config chats =
      load_text("[dataloader]\ndataset = 'chat'\ndataset_path = 'a.jsonl'\n[validation]\nenable = true\ndataset_path = 'b.jsonl'");
  EXPECT_EQ(chats.validation.dataset, std::vector<std::string>{"chat"});
  const Config from_assets = load_text("[model]\nhf_assets_path = 'folder'\n[checkpoint]\ninitial_load_in_hf = true");
  EXPECT_EQ(from_assets.checkpoint.initial_load_path, "folder");
}

TEST(Recipe, UntellingFileNameAsksForTheFormat) {
  EXPECT_THAT(recipe_error("[dataloader]\ndataset_path = 'folder'"), AllOf(HasSubstr("\"folder\""), HasSubstr("Give dataloader.dataset")));
}

}  // namespace
}  // namespace trine
