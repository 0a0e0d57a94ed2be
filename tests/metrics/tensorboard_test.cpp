// The files are read back by the tensorboard package in tests/parity/test_tensorboard.py; here is what needs no Python.
#include "metrics/tensorboard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

namespace trine {
namespace {

namespace fs = std::filesystem;

// RFC 3720, appendix B.4, and the check value of the CRC catalogue.
TEST(Crc32c, HasThePublishedValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(""), 0u);
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

TEST(EventFile, FilesOfOneSecondHaveNamesThatSortInTheOrderOfTheirMaking) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("trine-events-{}", ::getpid());
  create_folders(folder);
  for (int run = 0; run < 3; ++run) {
    const std::set<std::string> before = names_in(folder);
    EventFile file(folder, run);
    const std::set<std::string> after = names_in(folder);
    ASSERT_EQ(after.size(), before.size() + 1);
    EXPECT_FALSE(before.contains(*after.rbegin())) << "the newest is last";
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace trine
