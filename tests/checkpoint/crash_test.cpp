// cases.md I1, I4: processes killed in the middle of saving, and disks that fill up. Whatever happens, the newest complete checkpoint
// opens, is verified, and holds exactly the values of its step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "base/random.h"
#include "checkpoint/checkpoint_folder.h"
#include "tests/checkpoint/store_fixture.h"

namespace trine {
namespace {

using test::TemporaryPlace;

namespace fs = std::filesystem;

constexpr int64_t kRepeat = 20'000;  // 2.6 MB a checkpoint: a save takes long enough to be hit in every phase

// The step of the newest complete checkpoint after checking all its values; -1 if there is none.
int64_t newest_verified(const fs::path& folder) {
  const auto reader = open_newest_checkpoint(folder);
  if (!reader) return -1;
  for (const CheckpointParameter& parameter : reader->parameters()) {
    for (const std::string& kind : reader->kinds()) {
      std::vector<float> values(static_cast<size_t>(element_count(parameter.shape)));
      reader->read(whole_slice(parameter.name, kind, parameter.shape), std::as_writable_bytes(std::span(values)));
      EXPECT_EQ(values, test::expected(parameter.name, kind, reader->step(), kRepeat));
    }
  }
  return reader->step();
}

// Runs `action` in a child process and returns its wait status.
int in_child(const std::function<int()>& action, const std::function<void(pid_t)>& meanwhile = {}) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(action());
  if (meanwhile) meanwhile(child);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(Crash, KilledAtRandomMomentsOfASaveTheFolderAlwaysResumes) {  // I1
  const TemporaryPlace place;
  const CounterRandom random(1, "kill");
  int64_t newest = 0;
  test::save(place.path(), newest, kRepeat);
  for (uint64_t round = 0; round < 25; ++round) {
    const int status = in_child(
        [&] {
          remove_dead_temporaries(place.path());
          for (int64_t step = newest + 1;; ++step) {
            test::save(place.path(), step, kRepeat);
            rotate_checkpoints(place.path(), 2);
          }
          return 0;
        },
        [&](pid_t child) {
          std::this_thread::sleep_for(std::chrono::microseconds(2000 + random.below(round, 60'000)));
          ::kill(child, SIGKILL);
        });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    testing::internal::CaptureStderr();
    const int64_t found = newest_verified(place.path());
    EXPECT_EQ(testing::internal::GetCapturedStderr().find("passed over"),
              std::string::npos);  // rename comes last: nothing half-made has the name
    ASSERT_GE(found, newest);
    EXPECT_LE(checkpoint_steps(place.path()).size(), 3u);
    newest = found;
  }
  EXPECT_GT(newest, 0);  // some saves got through
  remove_dead_temporaries(place.path());
  EXPECT_EQ(static_cast<size_t>(std::distance(fs::directory_iterator(place.path()), {})), checkpoint_steps(place.path()).size());
}

// Saves step 1, then step 2 under a limit set by `tighten`; the second must stop with RunStopped and leave nothing.
int save_until_full(const fs::path& folder, const std::function<void()>& tighten, uint64_t bytes_expected) {
  tighten();
  try {
    test::save(folder, 2, kRepeat, bytes_expected);
  } catch (const RunStopped& e) {
    const bool names_path = std::string(e.what()).find(folder.string()) != std::string::npos;
    const bool clean = std::distance(fs::directory_iterator(folder), {}) == 1;
    return names_path && clean && checkpoint_steps(folder) == std::vector<int64_t>{1} ? 0 : 2;
  }
  return 1;
}

TEST(Crash, AWriteThatFailsLeavesTheOlderCheckpoint) {  // I4, by a limit on file sizes
  const TemporaryPlace place;
  test::save(place.path(), 1, kRepeat);
  const int status = in_child([&] {
    return save_until_full(place.path(), [] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit = {500'000, 500'000};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }, 0);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(newest_verified(place.path()), 1);
}

TEST(Crash, AFullDiskLeavesTheOlderCheckpoint) {  // I4, on a small file system of its own
  const TemporaryPlace place;
  constexpr int kCannotMount = 77;
  const int status = in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", place.path().c_str(), "tmpfs", 0, "size=4m") != 0) {
      return kCannotMount;
    }
    test::save(place.path(), 1, kRepeat);  // 2.6 of 4 MB: room for one and a half
    for (const uint64_t expected : {uint64_t{0}, uint64_t{2'600'000}}) {  // found while writing, and by the early check
      if (const int fault = save_until_full(place.path(), [] {}, expected); fault != 0) return fault;
    }
    return newest_verified(place.path()) == 1 && !testing::Test::HasFailure() ? 0 : 3;
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotMount) GTEST_SKIP() << "a file system cannot be mounted here";
  EXPECT_EQ(status, 0);
}

TEST(Crash, AFileSystemWithoutRoomIsSeenBeforeWriting) {
  const TemporaryPlace place;
  try {
    CheckpointWriter writer(place.path(), 1, uint64_t{1} << 60);
    FAIL();
  } catch (const RunStopped& e) {
    EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr(place.path().string()), testing::HasSubstr("are free")));
  }
  EXPECT_TRUE(fs::is_empty(place.path()));
}

}  // namespace
}  // namespace trine
