#include "metrics/peaks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files.h"

namespace trine {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(KnownPeak, IsFoundByTheNamesThatRuntimesGive) {
  const auto flops = [](std::string_view name) { return known_peak(name, "bfloat16").flops; };
  EXPECT_EQ(flops("NVIDIA H100 80GB HBM3"), 989e12);
  EXPECT_EQ(flops("NVIDIA H100 PCIe"), 756e12);
  EXPECT_EQ(flops("NVIDIA H100 NVL"), 835e12);
  EXPECT_EQ(flops("NVIDIA H200"), 989e12);
  EXPECT_EQ(flops("NVIDIA A100-SXM4-80GB"), 312e12);
  EXPECT_EQ(flops("NVIDIA A100 80GB PCIe"), 312e12);
  EXPECT_EQ(flops("NVIDIA B200"), 2.25e15);
  EXPECT_EQ(flops("NVIDIA GB200"), 2.5e15);
}

TEST(KnownPeak, OfTrainiumIsThatOfOneLogicalCore) {
  EXPECT_EQ(known_peak("trn2", "bfloat16").flops, 158e12);
  EXPECT_EQ(known_peak("trn2", "bfloat16", 1).flops, 79e12);
}

TEST(KnownPeak, AnUnknownDeviceNeverGetsTheFigureOfAnother) {
  for (const char* name : {"NVIDIA H20", "NVIDIA H2000", "NVIDIA GH200 480GB", "NVIDIA A10", "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
                           "NVIDIA RTX A1000", "Tesla V100-SXM2-16GB", "trn1", "AMD Instinct MI300X", ""}) {
    const Peak peak = known_peak(name, "bfloat16");
    EXPECT_EQ(peak.flops, 0) << name;
    EXPECT_THAT(peak.source, HasSubstr("no figure"));
  }
  EXPECT_EQ(known_peak("NVIDIA H100 80GB HBM3", "float32").flops, 0) << "the table is of 16-bit products";
}

class CpuPeak : public testing::Test {
 protected:
  void SetUp() override { folder_ = fs::temp_directory_path() / fmt::format("trine-peaks-{}", ::getpid()); }
  void TearDown() override { fs::remove_all(folder_); }

  double peak(const CpuPeakKey& key, double measured, bool undisturbed = true) {
    return cpu_peak(
               key,
               [&] {
                 ++num_measurements_;
                 return PeakMeasurement{measured, undisturbed};
               },
               folder_ / "trine" / "peaks.json")
        .flops;
  }

  fs::path folder_;
  int num_measurements_ = 0;
  const CpuPeakKey key_{.cpu = "AMD EPYC", .num_threads = 2, .torch_version = "2.13.0", .dtype = "bfloat16"};
};

TEST_F(CpuPeak, IsMeasuredOnceAndKeptForItsCpuThreadsTorchAndType) {
  EXPECT_EQ(peak(key_, 1e12), 1e12);
  EXPECT_EQ(peak(key_, 5e12), 1e12);
  EXPECT_EQ(num_measurements_, 1);
  for (CpuPeakKey other : {CpuPeakKey{"Xeon", 2, "2.13.0", "bfloat16"}, CpuPeakKey{"AMD EPYC", 1, "2.13.0", "bfloat16"},
                           CpuPeakKey{"AMD EPYC", 2, "2.14.0", "bfloat16"}, CpuPeakKey{"AMD EPYC", 2, "2.13.0", "float32"}}) {
    EXPECT_EQ(peak(other, 3e12), 3e12);
  }
  EXPECT_EQ(num_measurements_, 5);
  EXPECT_EQ(peak(key_, 5e12), 1e12) << "the others did not push it out";
}

TEST_F(CpuPeak, ADisturbedMeasurementIsSaidAndNotKept) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(peak(key_, 1e11, false), 1e11);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("100.0 GFLOP/s is too low"));
  EXPECT_EQ(peak(key_, 1e12), 1e12);
}

TEST_F(CpuPeak, ADamagedOrForeignCacheIsMeasuredAgainAndSaid) {
  create_folders(folder_ / "trine");
  for (const char* content : {"{\"version\":1,\"pea", "[]", R"({"version":2,"peaks":{}})"}) {
    write_file_atomically(folder_ / "trine" / "peaks.json", content);
    testing::internal::CaptureStderr();
    num_measurements_ = 0;
    EXPECT_EQ(peak(key_, 2e12), 2e12);
    EXPECT_EQ(peak(key_, 4e12), 2e12);
    EXPECT_EQ(num_measurements_, 1);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("measuring again"));
  }
}

TEST_F(CpuPeak, ACacheThatCannotBeWrittenIsOnlyAWarning) {
  create_folders(folder_);
  write_file_atomically(folder_ / "trine", "a file where the folder should be");
  testing::internal::CaptureStderr();
  EXPECT_EQ(peak(key_, 2e12), 2e12);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("not cached"));
}

TEST(PeakCacheFile, FollowsTheCacheFolderOfTheUser) {
  ::setenv("XDG_CACHE_HOME", "/somewhere/cache", 1);
  EXPECT_EQ(peak_cache_file(), "/somewhere/cache/trine/matmul_peaks.json");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/home/user", 1);
  EXPECT_EQ(peak_cache_file(), "/home/user/.cache/trine/matmul_peaks.json");
}

}  // namespace
}  // namespace trine
