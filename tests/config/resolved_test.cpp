// The resolved configuration as text, the recipes that come with Trine, and the documentation of the options.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "config/describe.h"
#include "config/options.h"
#include "tests/config/loading.h"

namespace trine {
namespace {

TEST(Resolved, TomlReadsBackToTheSameConfiguration) {
  const Config config = load_text(
      "[job]\ndump_folder = 'x y'\ndescription = '''a \"quoted\" \\ line\nand \u00e9'''\n[training]\nmax_norm = 3\n[model]\nrope_theta = "
      "1e6\n"
      "tie_word_embeddings = true\n[optimizer]\nlr = 0.00012345678901234567\nno_decay = []\n[profiling]\nsteps = [3, 4]\n"
      "[dataloader]\ndataset_path = ['a.jsonl', 'b.txt']\nweights = [1, 0.25]\n");
  const Config again = load_text(resolved_toml(config));
  for (const OptionSection& section : option_table()) {
    for (const Option& option : section.options) EXPECT_EQ(option.get(again), option.get(config)) << option.full_name();
  }
  EXPECT_EQ(resolved_toml(again), resolved_toml(config));
}

TEST(Resolved, ReadingBackGivesNoNewWarnings) {
  const std::string toml = resolved_toml(load_config({}, {}));
  testing::internal::CaptureStderr();
  load_text(toml);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Resolved, JsonHasEveryOptionAndNullForUnsetOnes) {
  const OrderedJson json = resolved_json(load_config({}, std::vector<std::string>{"--model.rope_theta=5e6"}));
  EXPECT_EQ(json["training"]["steps"], 10000);
  EXPECT_EQ(json["optimizer"]["no_decay"][0], "*norm.weight");
  EXPECT_EQ(json["model"]["rope_theta"], 5e6);
  EXPECT_TRUE(json["model"]["hidden_size"].is_null());
  size_t count = 0, expected = 0;
  for (const auto& section : json) count += section.size();
  for (const OptionSection& section : option_table()) expected += section.options.size();
  EXPECT_EQ(count, expected);
}

TEST(Recipes, ThatComeWithTrineLoad) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TRINE_SOURCE_DIR "/recipes")) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(error_of([&] { load_config(entry.path(), {}); }), "no error") << entry.path();
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << entry.path();
    ++count;
  }
  EXPECT_GE(count, 5);
}

TEST(Docs, OptionTablesAreThoseOfTheCode) {
  const std::string page = read_file(TRINE_SOURCE_DIR "/docs/options.md");
  const size_t tables = page.find("\n## ");
  ASSERT_NE(tables, std::string::npos);
  std::istringstream documented(page.substr(tables + 1)), stated(option_markdown());
  for (std::string in_page, in_code; std::getline(stated, in_code);) {
    std::getline(documented, in_page);
    ASSERT_EQ(in_page, in_code) << "docs/config.md says how to write the page anew";
  }
  EXPECT_EQ(documented.peek(), EOF);
}

}  // namespace
}  // namespace trine
