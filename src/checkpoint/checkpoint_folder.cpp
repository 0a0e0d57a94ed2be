#include "checkpoint/checkpoint_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "checkpoint/temporary_folder.h"

namespace trine {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStepPrefix = "step-";

// N of "step-N", with nothing else around it.
std::optional<int64_t> step_of(const std::string& name) {
  int64_t step = 0;
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kStepPrefix.size(), end, step);
  return error == std::errc() && stop == end && step >= 0 ? std::optional(step) : std::nullopt;
}

// Whether it counts for rotation.
bool looks_complete(const fs::path& step_folder) {
  try {
    return quick_fault(step_folder).empty();
  } catch (const NewerFormat&) {
    return true;  // not ours to judge, and never to be thrown away
  }
}

}  // namespace

std::vector<int64_t> checkpoint_steps(const fs::path& folder) {
  std::vector<int64_t> steps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (const auto step = step_of(name); step && entry.is_directory(ignored) && step_folder(folder, *step).filename() == name) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string quick_fault(const fs::path& step_folder) {
  try {
    for (const FileRecord& record : read_manifest(step_folder / kManifestName).files) check_size(step_folder, record);
    return "";
  } catch (const NewerFormat&) {
    throw;
  } catch (const UserError& e) {
    return e.what();
  }
}

fs::path step_folder(const fs::path& folder, int64_t step) { return folder / fmt::format("{}{}", kStepPrefix, step); }

std::optional<CheckpointReader> open_newest_checkpoint(const fs::path& folder, const std::vector<std::string>& kinds) {
  const std::vector<int64_t> steps = checkpoint_steps(folder);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      return CheckpointReader(step_folder(folder, *step), kinds);
    } catch (const NewerFormat&) {
      throw;
    } catch (const UserError& e) {
      log::warning("checkpoint {} is passed over: {}", step_folder(folder, *step).string(), e.what());
    }
  }
  return std::nullopt;
}

CheckpointReader open_checkpoint(const fs::path& folder, int64_t step) {
  const std::vector<int64_t> steps = checkpoint_steps(folder);
  if (!std::binary_search(steps.begin(), steps.end(), step)) {
    throw UserError(
        "{} does not exist. {}", step_folder(folder, step).string(),
        steps.empty() ? fmt::format("{} holds no checkpoints.", folder.string()) : fmt::format("Steps there: {}.", fmt::join(steps, ", ")));
  }
  return CheckpointReader(step_folder(folder, step));
}

void rotate_checkpoints(const fs::path& folder, int64_t keep_latest) {
  if (keep_latest <= 0) return;
  const std::vector<int64_t> steps = checkpoint_steps(folder);
  int64_t complete = 0;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const fs::path one = step_folder(folder, *step);
    if (complete >= keep_latest) {
      remove_folder_atomically(one);
    } else if (looks_complete(one)) {
      ++complete;
    }
  }
}

void mirror_checkpoint(const fs::path& step_folder, const fs::path& mirror) {
  const Manifest manifest = read_manifest(step_folder / kManifestName);
  const std::string name = step_folder.filename().string();
  TemporaryFolder copy(mirror, name);
  const auto copy_file = [&](const std::string& file) {
    const MappedFile source(step_folder / file);
    FileWriter target(copy.path() / file);
    target.write(source.bytes());
    target.sync_and_close();
  };
  for (const FileRecord& record : manifest.files) copy_file(record.name);
  copy_file(kManifestName);
  const CheckpointReader verified(copy.path());  // reads the copy back and compares every hash
  copy.publish(name);
}

}  // namespace trine
