#include "metrics/memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>

#include "base/files.h"

namespace trine {
namespace {

namespace fs = std::filesystem;

// Fills `size` bytes of fresh memory and gives them back.
void touch(size_t size) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, size);
  ::munmap(memory, size);
}

TEST(ProcessMemory, APeakWithinTheWindowCountsThoughItIsGoneAndTheNextWindowStartsBelow) {
  ProcessMemory memory;
  if (memory.method().find("VmHWM") == std::string::npos) GTEST_SKIP() << "resetting the peak is refused here";
  const uint64_t before = memory.take().peak_bytes;
  touch(64 << 20);
  const uint64_t during = memory.take().peak_bytes;
  const uint64_t after = memory.take().peak_bytes;
  EXPECT_GT(during, before + (60 << 20));
  EXPECT_LT(after, during - (50 << 20));
  EXPECT_GT(after, 1u << 20);
}

TEST(ProcessMemory, CapacityIsAtMostThatOfTheMachine) {
  const uint64_t capacity = memory_capacity_bytes();
  EXPECT_GT(capacity, 1u << 20);
  EXPECT_LE(capacity, static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(ProcessMemory().take().capacity_bytes, capacity);
}

class CgroupLimit : public testing::Test {
 protected:
  void SetUp() override { folder_ = fs::temp_directory_path() / fmt::format("trine-cgroup-{}", ::getpid()); }
  void TearDown() override { fs::remove_all(folder_); }
  void put(const fs::path& file, std::string_view content) {
    create_folders((folder_ / file).parent_path());
    write_file_atomically(folder_ / file, content);
  }
  uint64_t limit() { return cgroup_memory_limit(folder_ / "cgroup", folder_ / "fs"); }
  fs::path folder_;
};

TEST_F(CgroupLimit, OfVersion2IsTheLowestOfTheGroupAndItsParents) {
  put("cgroup", "0::/user.slice/job.scope\n");
  put("fs/user.slice/job.scope/memory.max", "max\n");
  put("fs/user.slice/memory.max", "4294967296\n");
  EXPECT_EQ(limit(), 4294967296u);
  put("fs/user.slice/job.scope/memory.max", "1073741824\n");
  EXPECT_EQ(limit(), 1073741824u);
}

TEST_F(CgroupLimit, OfVersion1IsThatOfTheMemoryController) {
  put("cgroup", "9:cpu,cpuacct:/a\n4:memory:/job/1\n0::/\n");
  put("fs/memory/job/1/memory.limit_in_bytes", "2147483648\n");
  put("fs/cpu/a/memory.limit_in_bytes", "7\n");
  EXPECT_EQ(limit(), 2147483648u);
}

TEST_F(CgroupLimit, InAContainerIsAtTheRootOfTheMount) {
  put("cgroup", "0::/docker/abc\n");
  put("fs/memory.max", "536870912\n");
  EXPECT_EQ(limit(), 536870912u);
}

TEST_F(CgroupLimit, WithoutOneIsTheLargestNumber) {
  put("cgroup", "0::/\n");
  EXPECT_EQ(limit(), std::numeric_limits<uint64_t>::max());
}

}  // namespace
}  // namespace trine
