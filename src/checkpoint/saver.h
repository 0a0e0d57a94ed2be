// Saving in the background: a snapshot is taken at once, and a thread writes, publishes, rotates and mirrors it.
#pragma once

#include <torch/torch.h>

#include <atomic>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/store.h"

namespace trine {

struct SaverOptions {
  std::filesystem::path folder;       // .../checkpoint
  int64_t keep_latest_k = 0;          // 0: all
  std::filesystem::path mirror_path;  // empty: none
  bool background = true;             // false: save() returns when the checkpoint is published, and needs no snapshot memory
};

struct TensorSlice {
  Slice slice;
  at::Tensor values;  // contiguous, slice.count() elements, any device
};

class CheckpointSaver {
 public:
  explicit CheckpointSaver(SaverOptions options);  // creates the folder and removes leftovers of dead processes
  ~CheckpointSaver();                              // waits; an error nobody asked for is logged
  CheckpointSaver(const CheckpointSaver&) = delete;

  // Waits for the save before, throws its error if it had one, copies all values to host buffers (kept and reused), and starts
  // writing. The caller may change the tensors when this returns. `side_files`: (name, content), such as the model's config.json.
  void save(int64_t step, const std::vector<CheckpointParameter>& parameters, const std::vector<TensorSlice>& slices, Json state,
            std::vector<std::pair<std::string, std::string>> side_files = {});

  // Returns when nothing is being written. Throws the error of the last save, once.
  void wait();

  // Throws the error of a save that has failed in the background, once; does not wait. For the training loop, each step.
  void check();

  int64_t last_published_step() const { return last_published_; }  // -1: none yet; valid after wait()

 private:
  struct Job;
  void write(Job job);
  std::vector<SliceData> snapshot(const std::vector<CheckpointParameter>& parameters, const std::vector<TensorSlice>& slices);

  SaverOptions options_;
  at::Tensor buffer_;  // host memory of the snapshots
  std::thread thread_;
  std::atomic<bool> running_ = false;
  std::exception_ptr error_;           // written by the thread before running_ falls
  int64_t last_published_ = -1;        // likewise
};

// Copies one slice of a checkpoint into `destination` (contiguous, wanted.count() elements). The stored type must be the
// destination's: resuming converts nothing. Throws UserError naming both.
void read_slice(const CheckpointReader& reader, const Slice& wanted, at::Tensor destination);

}  // namespace trine
