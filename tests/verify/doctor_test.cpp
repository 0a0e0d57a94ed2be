#include "verify/doctor.h"

#include <gmock/gmock.h>

#include <fstream>

namespace trine {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(MatrixInstructions, ListsKnownSetsOfTheFirstCoreInAFixedOrder) {
  EXPECT_THAT(matrix_instructions("processor\t: 0\nflags\t\t: fpu avx512f amx_bf16 avx2 avx512_bf16 sse2\n\nprocessor\t: 1\nflags\t\t: fma\n"),
              ElementsAre("avx2", "avx512f", "avx512_bf16", "amx_bf16"));
  EXPECT_THAT(matrix_instructions("Features\t: fp asimd sve bf16\n"), ElementsAre("asimd", "sve", "bf16"));
  EXPECT_THAT(matrix_instructions("flags : avx avx512 avx22\n"), IsEmpty());  // whole words only
  EXPECT_THAT(matrix_instructions(""), IsEmpty());
}

TEST(TorchVersionBeside, ReadsThePackagesVersionFile) {
  const fs::path package = fs::path(testing::TempDir()) / "doctor_torch";
  fs::create_directories(package / "lib");
  EXPECT_EQ(torch_version_beside(package / "lib"), "");
  std::ofstream(package / "version.py") << "from typing import Optional\n__all__ = ['__version__', 'debug']\n__version__ = '2.13.0+cpu'\ndebug = False\n";
  EXPECT_EQ(torch_version_beside(package / "lib"), "2.13.0+cpu");
  fs::remove_all(package);
}

TEST(ExamineMachine, GivesEveryFindingATextAndNoNegativeSizes) {
  const std::vector<Finding> findings = examine_machine(".");
  EXPECT_GT(findings.size(), 12u);
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.group.empty());
    if (finding.name != "instructions") EXPECT_FALSE(finding.text.empty()) << finding.name;
    if (const auto* number = std::get_if<int64_t>(&finding.value)) EXPECT_GE(*number, finding.group == "limits" ? -1 : 1) << finding.name;
  }
}

}  // namespace
}  // namespace trine
