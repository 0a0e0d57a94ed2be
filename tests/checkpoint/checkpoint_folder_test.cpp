// cases.md I1, I2: which checkpoint a run resumes from, rotation, clean-up, mirrors.
#include "checkpoint/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "tests/checkpoint/store_fixture.h"

namespace trine {
namespace {

using test::TemporaryPlace;
using test::user_error;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

TEST(CheckpointFolder, StepsCompareAsNumbers) {  // I2
  const TemporaryPlace place;
  for (int64_t step : {100, 9, 10}) test::save(place.path(), step);
  EXPECT_THAT(checkpoint_steps(place.path()), ElementsAre(9, 10, 100));
  EXPECT_EQ(open_newest_checkpoint(place.path())->step(), 100);
  rotate_checkpoints(place.path(), 2);
  EXPECT_THAT(checkpoint_steps(place.path()), ElementsAre(10, 100));
}

TEST(CheckpointFolder, OtherNamesAreNoSteps) {
  const TemporaryPlace place;
  for (const char* name : {"step-", "step-1x", "step--1", "step-007", "step-99999999999999999999", ".tmp-step-3-1", "xstep-1"}) {
    fs::create_directory(place / name);
  }
  test::write_text(place / "step-5", "a file");
  EXPECT_THAT(checkpoint_steps(place.path()), ElementsAre());
  EXPECT_FALSE(open_newest_checkpoint(place.path()));
  EXPECT_FALSE(open_newest_checkpoint(place / "absent"));
}

TEST(CheckpointFolder, IncompleteOnesArePassedOverWithAWarningThatSaysWhy) {  // I1
  const TemporaryPlace place;
  for (int64_t step : {10, 20, 30, 40}) test::save(place.path(), step);
  fs::remove(place / "step-40/manifest.json");
  fs::remove(place / "step-30/exp_avg-00000.safetensors");
  testing::internal::CaptureStderr();
  EXPECT_EQ(open_newest_checkpoint(place.path())->step(), 20);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("step-40 is passed over"), HasSubstr("manifest.json"), HasSubstr("step-30 is passed over"),
                    HasSubstr("exp_avg-00000.safetensors")));
}

TEST(CheckpointFolder, ANewerFormatIsAnErrorAndIsNeverPassedOver) {
  const TemporaryPlace place;
  for (int64_t step : {10, 20}) test::save(place.path(), step);
  std::string manifest = read_file(place / "step-20/manifest.json");
  manifest.replace(manifest.find("\"version\": 1"), 12, "\"version\": 9");
  test::write_text(place / "step-20/manifest.json", manifest);
  EXPECT_THROW(open_newest_checkpoint(place.path()), NewerFormat);
}

TEST(CheckpointFolder, ANamedButMissingStepIsAnError) {
  const TemporaryPlace place;
  EXPECT_THAT(user_error([&] { open_checkpoint(place.path(), 7); }), HasSubstr("holds no checkpoints"));
  for (int64_t step : {10, 20}) test::save(place.path(), step);
  EXPECT_EQ(open_checkpoint(place.path(), 10).step(), 10);
  EXPECT_THAT(user_error([&] { open_checkpoint(place.path(), 7); }), AllOf(HasSubstr("step-7 does not exist"), HasSubstr("10, 20")));
}

TEST(CheckpointFolder, RotationCountsCompleteOnesOnly) {
  const TemporaryPlace place;
  for (int64_t step : {1, 2, 3, 4, 5}) test::save(place.path(), step);
  fs::remove(place / "step-5/state.json");
  fs::remove(place / "step-2/state.json");
  rotate_checkpoints(place.path(), 0);
  EXPECT_EQ(checkpoint_steps(place.path()).size(), 5u);  // 0 keeps all
  rotate_checkpoints(place.path(), 2);
  EXPECT_THAT(checkpoint_steps(place.path()), ElementsAre(3, 4, 5));  // 5 is damaged: it neither counts nor costs a good one
  EXPECT_EQ(std::distance(fs::directory_iterator(place.path()), {}), 3);
}

TEST(CheckpointFolder, SavingOverADamagedStepReplacesIt) {
  const TemporaryPlace place;
  test::save(place.path(), 10);
  fs::remove(place / "step-10/manifest.json");
  test::write_text(place / "step-10/stray", "x");
  test::save(place.path(), 10);
  EXPECT_EQ(open_newest_checkpoint(place.path())->step(), 10);
  EXPECT_FALSE(fs::exists(place / "step-10/stray"));
  EXPECT_EQ(std::distance(fs::directory_iterator(place.path()), {}), 1);
}

TEST(CheckpointFolder, LeftoversOfDeadProcessesAreRemovedAndThoseOfLiveOnesKept) {
  const TemporaryPlace place;
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const auto name = [&](pid_t pid) { return fmt::format(".tmp-step-3-{}", pid); };
  for (const std::string& folder : {name(dead), name(::getpid()), name(::getppid()), std::string(".tmp-foreign"), std::string("step-1")}) {
    fs::create_directory(place / folder);
    test::write_text(place / folder / "part", "x");
  }
  remove_dead_temporaries(place.path());
  EXPECT_FALSE(fs::exists(place / name(dead)));
  EXPECT_FALSE(fs::exists(place / name(::getpid())));  // in a container a new process often has the number of the one before
  EXPECT_TRUE(fs::exists(place / name(::getppid())));
  EXPECT_TRUE(fs::exists(place / ".tmp-foreign"));
  EXPECT_TRUE(fs::exists(place / "step-1"));
}

TEST(CheckpointFolder, AMirrorIsAVerifiedCopy) {
  const TemporaryPlace place, mirror;
  const fs::path original = test::save(place.path(), 10);
  mirror_checkpoint(original, mirror / "deep/er");
  const CheckpointReader copy(mirror / "deep/er/step-10");
  for (const FileRecord& record : copy.manifest().files) {
    EXPECT_EQ(read_file(original / record.name), read_file(copy.folder() / record.name));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(mirror / "deep/er"), {}), 1);
}

TEST(CheckpointFolder, ADamagedCheckpointIsNotMirrored) {
  const TemporaryPlace place, mirror;
  const fs::path original = test::save(place.path(), 10);
  std::string data = read_file(original / "master-00000.safetensors");
  data.back() ^= 1;
  test::write_text(original / "master-00000.safetensors", data);
  EXPECT_THAT(user_error([&] { mirror_checkpoint(original, mirror.path()); }), HasSubstr("does not match its hash"));
  EXPECT_TRUE(fs::is_empty(mirror.path()));
}

TEST(CheckpointFolder, WeightsOpenFromEveryPathThatNamesThem) {
  const TemporaryPlace place;
  test::save(place / "checkpoint", 9);
  test::save(place / "checkpoint", 10);
  for (const auto& path : {place.path(), place / "checkpoint", place / "checkpoint/step-10"}) {
    EXPECT_THAT(open_weights(path)->description(), HasSubstr("step 10")) << path;
  }
  EXPECT_THAT(open_weights(place / "checkpoint/step-9")->description(), HasSubstr("step 9"));
  EXPECT_THAT(user_error([&] { open_weights(place / "nowhere"); }), HasSubstr("does not exist"));
  for (const char* step : {"step-9", "step-10"}) fs::remove(place / "checkpoint" / step / "manifest.json");
  EXPECT_THAT(user_error([&] { open_weights(place.path()); }), HasSubstr("no complete checkpoint"));
}

}  // namespace
}  // namespace trine
