// Options that are each possible, and together are not; and those that would have no effect.
#include <gmock/gmock.h>

#include "tests/config/loading.h"

namespace trine {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Together, GlobalBatchIsAMultipleOfTheLocalOne) {
  EXPECT_THAT(option_error({"--training.global_batch_size", "12", "--training.local_batch_size=8"}),
              AllOf(HasSubstr("training.global_batch_size (command line)"), HasSubstr("12 rows"), HasSubstr("of 8")));
  EXPECT_EQ(option_error({"--training.global_batch_size", "16"}), "no error");
}

TEST(Together, ErrorSaysWhereEachOptionWasGiven) {
  EXPECT_THAT(recipe_error("[training]\nglobal_batch_size = 12\n"),
              AllOf(HasSubstr("global_batch_size ("), HasSubstr(".toml:2)"), HasSubstr("local_batch_size (default)")));
}

TEST(Together, DtypesThatGiveUpMoreThanTheySaySoAreRefused) {
  EXPECT_THAT(option_error({"--training.dtype=bfloat16", "--training.mixed_precision_param=float32"}), HasSubstr("master weights"));
  EXPECT_THAT(option_error({"--training.mixed_precision_reduce=bfloat16"}), HasSubstr("one micro-batch"));
  EXPECT_THAT(option_error({"--training.mixed_precision_reduce=bfloat16", "--training.dtype=bfloat16", "--training.global_batch_size=16"}),
              HasSubstr("one micro-batch"));
  EXPECT_EQ(option_error({"--training.mixed_precision_reduce=bfloat16", "--training.dtype=bfloat16"}), "no error");
  EXPECT_EQ(option_error({"--training.mixed_precision_param=float32"}), "no error");
}

TEST(Together, OnlyBf16MasterWeightsAreRoundedAtRandom) {
  EXPECT_THAT(option_error({"--optimizer.stochastic_rounding"}),
              AllOf(HasSubstr("optimizer.stochastic_rounding (command line)"), HasSubstr("float32 master"), HasSubstr("bfloat16")));
  EXPECT_EQ(option_error({"--optimizer.stochastic_rounding", "--training.dtype=bfloat16"}), "no error");
}

TEST(Together, DatasetsAndPathsGoWithEachOther) {
  EXPECT_THAT(option_error({"--dataloader.dataset=c4_test"}), AllOf(HasSubstr("dataloader.dataset_path"), HasSubstr("sample")));
  EXPECT_THAT(option_error({"--dataloader.dataset=jsonl"}), HasSubstr("give the files as dataloader.dataset_path"));
  EXPECT_THAT(option_error({"--dataloader.dataset=sample", "--dataloader.dataset_path=a.jsonl"}), HasSubstr("takes no path"));
  EXPECT_THAT(option_error({"--dataloader.dataset=text,jsonl", "--dataloader.dataset_path=a,b,c"}), HasSubstr("2 datasets for 3 paths"));
  EXPECT_THAT(option_error({"--dataloader.dataset=text", "--dataloader.dataset_path=a,b", "--dataloader.weights=1"}),
              HasSubstr("1 weights for 2"));
  EXPECT_EQ(option_error({"--dataloader.dataset=c4_test", "--dataloader.dataset_path=folder"}), "no error");
}

TEST(Together, ValidationNeedsText) {
  EXPECT_THAT(option_error({"--dataloader.dataset_path=a.jsonl", "--validation.enable"}), HasSubstr("validation.dataset_path"));
  EXPECT_EQ(option_error({"--validation.enable"}), "no error");  // the sample corpus has a held-out part
}

TEST(Together, ExportNeedsSavingAndLoadingNeedsAFolder) {
  EXPECT_THAT(option_error({"--checkpoint.last_save_in_hf"}), HasSubstr("Set checkpoint.enable = true"));
  EXPECT_THAT(option_error({"--checkpoint.initial_load_in_hf"}), HasSubstr("model.hf_assets_path"));
  EXPECT_THAT(option_error({"--checkpoint.enable", "--job.dump_folder=runs/a", "--checkpoint.mirror_path=runs/../runs/a"}),
              HasSubstr("mirror"));
}

std::string warnings_of(const std::vector<std::string>& options) {
  testing::internal::CaptureStderr();
  load_options(options);
  return testing::internal::GetCapturedStderr();
}

TEST(Together, SchedulesThatDoNotFitAreWarnedOf) {
  EXPECT_THAT(warnings_of({"--training.steps=100"}), AllOf(HasSubstr("warmup_steps (200)"), HasSubstr("training.steps (100)")));
  EXPECT_THAT(warnings_of({"--training.steps=300", "--lr_scheduler.decay_ratio=0.5"}), HasSubstr("overlap"));
  EXPECT_THAT(warnings_of({"--training.steps=5", "--lr_scheduler.warmup_steps=1", "--profiling.steps=6"}), HasSubstr("step 6"));
  EXPECT_EQ(warnings_of({}), "");
}

TEST(Together, OptionsWithoutEffectAreWarnedOf) {
  EXPECT_THAT(warnings_of({"--validation.interval=5"}),
              AllOf(HasSubstr("validation.interval has no effect"), HasSubstr("validation.enable is false")));
  EXPECT_THAT(warnings_of({"--checkpoint.async_mode=async"}), HasSubstr("checkpoint.async_mode has no effect"));
  EXPECT_THAT(warnings_of({"--activation_checkpoint.selective_ac_option=3"}), HasSubstr("no effect"));
  EXPECT_THAT(warnings_of({"--expect.first_loss_tolerance=1"}), HasSubstr("no effect"));
  // The initial load does not depend on checkpoint.enable.
  EXPECT_EQ(warnings_of({"--checkpoint.initial_load_path=folder"}), "");
  // A default that is spelt out changes nothing and hides nothing.
  EXPECT_EQ(warnings_of({"--validation.interval=100"}), "");
}

// Biases are no part of published weights, and of no export.
TEST(Together, BalancingBiasesWithLoadedWeightsAreAskedForTwice) {
  EXPECT_THAT(option_error({"--moe.bias_update_rate=1e-3", "--checkpoint.initial_load_path=folder"}),
              AllOf(HasSubstr("moe.bias_update_rate (command line)"), HasSubstr("moe.allow_bias_with_loaded_weights")));
  EXPECT_EQ(option_error({"--moe.bias_update_rate=1e-3"}), "no error");
  EXPECT_EQ(warnings_of({"--moe.bias_update_rate=1e-3", "--checkpoint.initial_load_path=folder", "--moe.allow_bias_with_loaded_weights"}),
            "");
}

TEST(Together, OptionsOfExpertsWithoutEffectAreWarnedOf) {
  EXPECT_THAT(warnings_of({"--moe.aux_loss_weight=0.01"}), AllOf(HasSubstr("moe.aux_loss_weight has no effect"), HasSubstr("is none")));
  EXPECT_THAT(warnings_of({"--moe.aux_loss=per_layer", "--moe.aux_loss_weight=0"}), HasSubstr("moe.aux_loss has no effect"));
  EXPECT_THAT(warnings_of({"--moe.force_balance", "--moe.bias_update_rate=1e-3"}), HasSubstr("moe.bias_update_rate has no effect"));
  EXPECT_THAT(warnings_of({"--moe.allow_bias_with_loaded_weights"}), HasSubstr("moe.allow_bias_with_loaded_weights has no effect"));
  EXPECT_EQ(warnings_of({"--moe.aux_loss=transformers", "--moe.aux_loss_weight=0.01", "--moe.z_loss_weight=1e-3"}), "");
}

TEST(Together, ValidatingOnTrainingTextIsWarnedOf) {
  EXPECT_THAT(warnings_of({"--dataloader.dataset_path=a.jsonl", "--validation.enable", "--validation.dataset_path=a.jsonl"}),
              HasSubstr("both trained on and validated on"));
}

}  // namespace
}  // namespace trine
