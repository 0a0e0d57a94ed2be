// TensorBoard event files, written without TensorFlow: TFRecord frames (length, masked CRC-32C) around protobuf Event messages.
//
// Formats: tensorflow/core/lib/io/record_writer (frames), tensorflow/core/util/event.proto (Event: wall_time 1, step 2,
// file_version 3, summary 5, session_log 7), summary.proto (Value: tag 1, simple_value 2).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/files.h"

namespace trine {

// CRC-32C (Castagnoli) of `bytes`.
uint32_t crc32c(std::string_view bytes);

// One event file, new for each process; TensorBoard reads those of a folder in order of their names.
class EventFile {
 public:
  // Creates `folder` and in it a file that sorts behind those already there. With `resumed_step` > 0, TensorBoard is told to forget what
  // earlier files hold past that step. Throws UserError if it cannot.
  EventFile(const std::filesystem::path& folder, int64_t resumed_step);

  // One event of several scalars. Throws RunStopped on a full disk.
  void scalars(int64_t step, std::span<const std::pair<std::string_view, double>> values);

 private:
  void write_event(std::string_view event);
  FileWriter writer_;
};

}  // namespace trine
