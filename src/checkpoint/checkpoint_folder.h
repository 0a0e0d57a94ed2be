// The folder `checkpoint/` of a run: which steps it holds, which one to resume from, rotation, clean-up and mirroring.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/store.h"

namespace trine {

// Numbers N of the folders `step-N`, ascending as numbers; complete or not.
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& folder);
std::filesystem::path step_folder(const std::filesystem::path& folder, int64_t step);

// What is wrong with a checkpoint as far as its manifest and the sizes of its files tell, without reading the files; empty if nothing.
// Throws NewerFormat.
std::string quick_fault(const std::filesystem::path& step_folder);

// The newest complete checkpoint, verified; none if there is none. One that is incomplete or damaged is passed over with a warning
// that says why. One of a newer format version is an error (UserError), since passing over it would lose work.
std::optional<CheckpointReader> open_newest_checkpoint(const std::filesystem::path& folder, const std::vector<std::string>& kinds = {});

// The named one. Throws UserError if it is missing (naming those that exist) or damaged.
CheckpointReader open_checkpoint(const std::filesystem::path& folder, int64_t step);

// Removes all checkpoints older than the `keep_latest` newest complete ones. 0 keeps all.
void rotate_checkpoints(const std::filesystem::path& folder, int64_t keep_latest);

// Copies a published checkpoint into `mirror`, verifies the copy by hash, publishes it by rename. Throws on failure.
void mirror_checkpoint(const std::filesystem::path& step_folder, const std::filesystem::path& mirror);

}  // namespace trine
