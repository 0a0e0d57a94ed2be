// Saving in the background: what is saved is what the tensors held when save() returned.
#include "checkpoint/saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_folder.h"
#include "tests/checkpoint/test_files.h"

namespace trine {
namespace {

using test::TemporaryPlace;
using test::user_error;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

// Weights and one moment of two parameters, in float32 and bfloat16, with a step to change them by.
struct Saving : testing::TestWithParam<bool> {
  CheckpointSaver saver(int64_t keep = 0, const fs::path& mirror = {}) { return CheckpointSaver({folder, keep, mirror, GetParam()}); }
  void save(CheckpointSaver& to, int64_t step) { to.save(step, parameters, slices(), {{"step", step}}); }
  std::vector<TensorSlice> slices() {
    return {{whole_slice("a", kMaster, {300, 7}), a}, {whole_slice("b", kMaster, {11}), b}, {whole_slice("a", kExpAvg, {300, 7}), moment}};
  }
  // Whether step `step` holds exactly these values.
  void expect_saved(int64_t step, const at::Tensor& a_then, const at::Tensor& b_then, const at::Tensor& moment_then) {
    const CheckpointReader reader = open_checkpoint(folder, step);
    const std::vector<TensorSlice> meant = {{whole_slice("a", kMaster, {300, 7}), a_then}, {whole_slice("b", kMaster, {11}), b_then},
                                            {whole_slice("a", kExpAvg, {300, 7}), moment_then}};
    for (const TensorSlice& one : meant) {
      at::Tensor back = at::full_like(one.values, -1);
      read_slice(reader, one.slice, back);
      EXPECT_TRUE(at::equal(back, one.values)) << one.slice.parameter << " " << one.slice.kind;
    }
    EXPECT_EQ(reader.state()["step"], step);
  }

  TemporaryPlace place;
  fs::path folder = place / "checkpoint";
  std::vector<CheckpointParameter> parameters = {{"a", {300, 7}}, {"b", {11}}};
  at::Tensor a = at::randn({300, 7}), b = at::randn({11}).to(at::kBFloat16), moment = at::randn({300, 7});
};

INSTANTIATE_TEST_SUITE_P(Checkpoint, Saving, testing::Bool(), [](const auto& info) { return info.param ? "InBackground" : "AtOnce"; });

TEST_P(Saving, LaterChangesDoNotReachTheCheckpoint) {
  CheckpointSaver saver = this->saver();
  for (int64_t step = 1; step <= 3; ++step) {
    const at::Tensor a_then = a.clone(), b_then = b.clone(), moment_then = moment.clone();
    save(saver, step);
    a.add_(1);
    b.mul_(2);
    moment.zero_();
    saver.wait();
    EXPECT_EQ(saver.last_published_step(), step);
    expect_saved(step, a_then, b_then, moment_then);
  }
}

TEST_P(Saving, RotatesAfterPublishing) {
  CheckpointSaver saver = this->saver(/*keep=*/2);
  for (int64_t step : {9, 10, 100}) save(saver, step);
  saver.wait();
  EXPECT_THAT(checkpoint_steps(folder), ElementsAre(10, 100));
}

TEST_P(Saving, EachCheckpointIsMirrored) {
  CheckpointSaver saver = this->saver(/*keep=*/2, place / "mirror");
  for (int64_t step : {1, 2, 3}) save(saver, step);
  saver.wait();
  EXPECT_THAT(checkpoint_steps(place / "mirror"), ElementsAre(2, 3));
  EXPECT_EQ(open_checkpoint(place / "mirror", 3).step(), 3);
}

TEST_P(Saving, AMirrorThatFailsIsReportedAndTheRunGoesOn) {
  CheckpointSaver saver = this->saver(0, place / "mirror");
  fs::remove_all(place / "mirror");
  test::write_text(place / "mirror", "a file in the way");
  testing::internal::CaptureStderr();
  save(saver, 1);
  saver.wait();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), AllOf(HasSubstr("step 1"), HasSubstr("not mirrored")));
  EXPECT_THAT(checkpoint_steps(folder), ElementsAre(1));
}

TEST_P(Saving, AFailedSaveSurfacesOnceAndTheNextOneWorks) {
  CheckpointSaver saver = this->saver();
  save(saver, 1);
  saver.wait();
  fs::rename(folder, place / "aside");
  test::write_text(folder, "a file in the way");
  EXPECT_ANY_THROW({
    save(saver, 2);
    saver.wait();
  });
  EXPECT_NO_THROW(saver.wait());
  fs::remove(folder);
  fs::rename(place / "aside", folder);
  save(saver, 3);
  saver.wait();
  EXPECT_THAT(checkpoint_steps(folder), ElementsAre(1, 3));
}

TEST_P(Saving, TheDestructorFinishesTheSave) {
  {
    CheckpointSaver saver = this->saver();
    save(saver, 5);
  }
  EXPECT_EQ(open_newest_checkpoint(folder)->step(), 5);
}

TEST(Saver, AnErrorOfTheThreadComesOutOfCheck) {
  const TemporaryPlace place;
  CheckpointSaver saver({place / "checkpoint", 0, {}, true});
  const at::Tensor w = at::zeros({4});
  // A side file whose name cannot be created fails only in the thread.
  saver.save(1, {{"w", {4}}}, {{whole_slice("w", kMaster, {4}), w}}, {}, {{"no/such/folder", "x"}});
  EXPECT_ANY_THROW({
    for (int i = 0; i < 10'000; ++i) {
      saver.check();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_NO_THROW(saver.check());
  EXPECT_TRUE(checkpoint_steps(place / "checkpoint").empty());
}

TEST(Saver, ResumingConvertsNothing) {
  const TemporaryPlace place;
  CheckpointSaver saver({place.path(), 0, {}, false});
  saver.save(1, {{"w", {4}}}, {{whole_slice("w", kMaster, {4}), at::ones({4})}}, {});
  const CheckpointReader reader = open_checkpoint(place.path(), 1);
  EXPECT_THAT(user_error([&] { read_slice(reader, whole_slice("w", kMaster, {4}), at::empty({4}, at::kBFloat16)); }),
              AllOf(HasSubstr("F32"), HasSubstr("BF16"), HasSubstr("training.dtype")));
}

TEST(Saver, SlicesOfFlatUnitsAreSavedAsTheyLie) {  // what a rank that owns part of a flat buffer hands over
  const TemporaryPlace place;
  CheckpointSaver saver({place.path(), 0, {}, true});
  const at::Tensor flat = at::randn({64});
  const std::vector<int64_t> shape = {5, 4};
  saver.save(
      1, {{"w", shape}},
      {{flat_slice("w", kMaster, shape, 0, 7), flat.narrow(0, 0, 7)}, {flat_slice("w", kMaster, shape, 7, 20), flat.narrow(0, 16, 13)}},
      {});
  saver.wait();
  at::Tensor back = at::empty({5, 4});
  read_slice(open_checkpoint(place.path(), 1), whole_slice("w", kMaster, shape), back);
  EXPECT_TRUE(at::equal(back.view({-1}), at::cat({flat.narrow(0, 0, 7), flat.narrow(0, 16, 13)})));
}

}  // namespace
}  // namespace trine
