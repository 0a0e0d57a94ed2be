// Helpers of the configuration tests: a recipe from text, and the message of the error that loading it gives.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/errors.h"
#include "config/load.h"

namespace trine {

// A recipe file that lives as long as the object. Its name is unique to the running test.
class TemporaryRecipe {
 public:
  explicit TemporaryRecipe(const std::string& text) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path = std::filesystem::path(testing::TempDir()) / (std::string(test->test_suite_name()) + "_" + test->name() + ".toml");
    std::ofstream(path) << text;
  }
  ~TemporaryRecipe() { std::filesystem::remove(path); }

  std::filesystem::path path;
};

inline Config load_text(const std::string& recipe, const std::vector<std::string>& options = {}) {
  const TemporaryRecipe file(recipe);
  return load_config(file.path, options);
}

inline Config load_options(const std::vector<std::string>& options) { return load_config({}, options); }

template <class Load>
std::string error_of(Load load) {
  try {
    load();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

inline std::string recipe_error(const std::string& recipe) {
  return error_of([&] { load_text(recipe); });
}

inline std::string option_error(const std::vector<std::string>& options) {
  return error_of([&] { load_options(options); });
}

}  // namespace trine
