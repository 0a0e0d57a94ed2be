#include "config/options.h"

#include <gmock/gmock.h>

#include <fstream>
#include <regex>
#include <set>

#include "config/lookup.h"

namespace trine {
namespace {

using testing::HasSubstr;

TEST(OptionTable, DefaultsPassTheirOwnChecks) {
  for (const OptionSection& section : option_table()) {
    for (const Option& option : section.options) {
      if (option.default_value) {
        EXPECT_EQ(accept(option, *option.default_value, "table"), option.default_value) << option.full_name();
      } else {
        EXPECT_TRUE(option.may_be_unset) << option.full_name();
      }
    }
  }
}

TEST(OptionTable, EachOptionSetsTheFieldThatItGets) {
  for (const OptionSection& section : option_table()) {
    for (const Option& option : section.options) {
      Config config = default_config();
      const Value other = std::visit(
          [](auto value) -> Value {
            using T = decltype(value);
            if constexpr (std::is_same_v<T, bool>) return !value;
            else if constexpr (std::is_arithmetic_v<T>) return value + 1;
            else if constexpr (std::is_same_v<T, std::string>) return value + "x";
            else return T(value.size() + 1);
          },
          option.default_value.value_or([&]() -> Value {
            switch (option.type) {
              case OptionType::kBool: return false;
              case OptionType::kInteger: return int64_t{0};
              default: return 0.0;
            }
          }()));
      option.set(config, other);
      EXPECT_EQ(option.get(config), other) << option.full_name();
      // No other option of the table sees the change.
      for (const OptionSection& each : option_table()) {
        for (const Option& bystander : each.options) {
          if (bystander.full_name() != option.full_name())
            EXPECT_EQ(bystander.get(config), bystander.default_value) << bystander.full_name();
        }
      }
    }
  }
}

// A field without a row would be a setting that no recipe can reach.
TEST(OptionTable, HasEveryFieldOfTheStructs) {
  std::ifstream header(TRINE_SOURCE_DIR "/src/config/config.h");
  const std::regex declaration(R"(^  (?:std::\S+|int64_t|double|bool) ([^/;]*);)");
  const std::regex name(R"(([a-z_0-9]+)(?: = [^,]*)?(?:, |$))");
  std::set<std::string> fields;
  for (std::string line; std::getline(header, line) && line != "struct Config {";) {
    std::smatch match;
    if (!std::regex_search(line, match, declaration)) continue;
    const std::string names = match[1];
    for (std::sregex_iterator it(names.begin(), names.end(), name), end; it != end; ++it) fields.insert((*it)[1]);
  }
  std::set<std::string> options;
  for (const OptionSection& section : option_table()) {
    for (const Option& option : section.options) options.insert(option.name);
  }
  EXPECT_GT(fields.size(), 60u);
  EXPECT_EQ(fields, options);
}

TEST(OptionTable, NamesAreUniqueAndNoneBelongsToALaterFeature) {
  std::set<std::string> names;
  for (const OptionSection& section : option_table()) {
    for (const Option& option : section.options) {
      EXPECT_TRUE(names.insert(option.full_name()).second) << option.full_name();
      EXPECT_EQ(later_feature(option.section, option.name), nullptr) << option.full_name();
      EXPECT_FALSE(option.help.empty()) << option.full_name();
    }
  }
}

TEST(OptionTable, HasTorchtitansDefaultsWhereItHasTheOption) {
  const Config config = default_config();
  EXPECT_EQ(config.training.steps, 10000);
  EXPECT_EQ(config.training.seq_len, 2048);
  EXPECT_EQ(config.training.max_norm, 1.0);
  EXPECT_EQ(config.training.dtype, "float32");
  EXPECT_EQ(config.training.mixed_precision_param, "bfloat16");
  EXPECT_EQ(config.training.mixed_precision_reduce, "float32");
  EXPECT_EQ(config.optimizer.lr, 8e-4);
  EXPECT_EQ(config.optimizer.beta1, 0.9);
  EXPECT_EQ(config.optimizer.beta2, 0.95);
  EXPECT_EQ(config.optimizer.eps, 1e-8);
  EXPECT_EQ(config.optimizer.weight_decay, 0.1);
  EXPECT_EQ(config.lr_scheduler.warmup_steps, 200);
  EXPECT_EQ(config.checkpoint.interval, 500);
  EXPECT_EQ(config.checkpoint.keep_latest_k, 10);
}

TEST(Value, TomlTextOfNumbersKeepsTypeAndDigits) {
  EXPECT_EQ(to_toml(Value(1.0)), "1.0");
  EXPECT_EQ(to_toml(Value(1e-8)), "1e-08");
  EXPECT_EQ(to_toml(Value(0.1 + 0.2)), "0.30000000000000004");
  EXPECT_EQ(to_toml(Value(int64_t{1})), "1");
  EXPECT_EQ(to_toml(Value(std::string("a\"b\\c\nd\x01"))), R"("a\"b\\c\nd\u0001")");
  EXPECT_EQ(to_toml(Value(std::vector<std::string>{"a", "b"})), R"(["a", "b"])");
}

}  // namespace
}  // namespace trine
