#include "checkpoint/saver.h"

#include <ATen/Parallel.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <stdexcept>

#include "base/errors.h"
#include "base/files.h"
#include "base/log.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/load_weights.h"

namespace trine {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kCopyChunk = int64_t{8} << 20;  // bytes

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

// Host memory for snapshots of at least `bytes`; huge pages, since it is touched once per save from end to end.
at::Tensor host_buffer(int64_t bytes) {
  at::Tensor buffer = at::empty({bytes}, at::kByte);
  const auto address = reinterpret_cast<uintptr_t>(buffer.data_ptr());
  constexpr uintptr_t kPage = 4096;
  const uintptr_t begin = (address + kPage - 1) / kPage * kPage, end = (address + static_cast<uintptr_t>(bytes)) / kPage * kPage;
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  return buffer;
}

void copy_in_parallel(std::byte* to, const std::byte* from, int64_t bytes) {
  const int64_t chunks = (bytes + kCopyChunk - 1) / kCopyChunk;
  at::parallel_for(0, chunks, 1, [&](int64_t first, int64_t last) {
    const int64_t begin = first * kCopyChunk, end = std::min(last * kCopyChunk, bytes);
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

}  // namespace

struct CheckpointSaver::Job {
  std::unique_ptr<CheckpointWriter> writer;
  int64_t step;
  std::vector<CheckpointParameter> parameters;
  std::vector<SliceData> slices;
  Json state;
  std::vector<std::pair<std::string, std::string>> side_files;
};

CheckpointSaver::CheckpointSaver(SaverOptions options) : options_(std::move(options)) {
  create_folders(options_.folder);
  remove_dead_temporaries(options_.folder);
  if (!options_.mirror_path.empty()) {
    create_folders(options_.mirror_path);
    remove_dead_temporaries(options_.mirror_path);
  }
}

CheckpointSaver::~CheckpointSaver() {
  try {
    wait();
  } catch (const std::exception& e) {
    log::error("the last checkpoint was not saved: {}", e.what());
  }
}

std::vector<SliceData> CheckpointSaver::snapshot(const std::vector<CheckpointParameter>& parameters,
                                                 const std::vector<TensorSlice>& slices) {
  std::map<std::string, const CheckpointParameter*> by_name;
  for (const CheckpointParameter& parameter : parameters) by_name[parameter.name] = &parameter;
  bool on_host = true;
  int64_t total = 0;
  for (const TensorSlice& one : slices) {
    if (!one.values.is_contiguous() || one.values.numel() != one.slice.count() || !by_name.contains(one.slice.parameter)) {
      throw std::logic_error("checkpoint: bad slice of " + one.slice.parameter);
    }
    on_host = on_host && one.values.is_cpu();
    total += aligned(bytes_of(one.values));
  }
  const bool copies = options_.background || !on_host;  // saving at once, from host memory, needs no copy
  if (copies && (!buffer_.defined() || buffer_.numel() < total)) {
    buffer_ = at::Tensor();  // give the old one back first
    buffer_ = host_buffer(total);
  }
  std::vector<SliceData> data;
  int64_t at = 0;
  for (const TensorSlice& one : slices) {
    const int64_t bytes = bytes_of(one.values);
    auto* place = static_cast<std::byte*>(one.values.data_ptr());
    if (copies) {
      place = static_cast<std::byte*>(buffer_.data_ptr()) + at;
      if (one.values.is_cpu()) {
        copy_in_parallel(place, static_cast<const std::byte*>(one.values.data_ptr()), bytes);
      } else {
        at::from_blob(place, one.values.sizes(), one.values.scalar_type()).copy_(one.values.detach());
      }
      at += aligned(bytes);
    }
    data.push_back({one.slice, by_name.at(one.slice.parameter)->shape, to_stored_dtype(one.values.scalar_type()),
                    {place, static_cast<size_t>(bytes)}});
  }
  return data;
}

void CheckpointSaver::save(int64_t step, const std::vector<CheckpointParameter>& parameters, const std::vector<TensorSlice>& slices,
                           Json state, std::vector<std::pair<std::string, std::string>> side_files) {
  wait();
  const at::NoGradGuard no_grad;
  uint64_t bytes = 0;
  for (const TensorSlice& one : slices) bytes += one.values.nbytes();
  Job job{std::make_unique<CheckpointWriter>(options_.folder, step, bytes),
          step,
          parameters,
          snapshot(parameters, slices),
          std::move(state),
          std::move(side_files)};
  if (!options_.background) {
    write(std::move(job));
    return;
  }
  running_ = true;
  thread_ = std::thread([this, job = std::move(job)]() mutable {
    try {
      write(std::move(job));
    } catch (...) {
      error_ = std::current_exception();
    }
    running_ = false;
  });
}

void CheckpointSaver::write(Job job) {
  for (const auto& [name, content] : job.side_files) job.writer->write_side_file(name, content);
  job.writer->write_slices(job.slices);
  const std::filesystem::path published = job.writer->publish(job.parameters, job.state);
  last_published_ = job.step;
  rotate_checkpoints(options_.folder, options_.keep_latest_k);
  if (options_.mirror_path.empty()) return;
  try {
    mirror_checkpoint(published, options_.mirror_path);
    rotate_checkpoints(options_.mirror_path, options_.keep_latest_k);
  } catch (const std::exception& e) {  // the run itself is safe: it goes on, and says so
    log::error("checkpoint of step {} is saved in {}, but not mirrored: {}", job.step, published.string(), e.what());
  }
}

void CheckpointSaver::wait() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void CheckpointSaver::check() {
  if (!running_) wait();
}

void read_slice(const CheckpointReader& reader, const Slice& wanted, at::Tensor destination) {
  const auto dtype = reader.dtype(wanted.parameter, wanted.kind);
  const StoredDtype here = to_stored_dtype(destination.scalar_type());
  if (dtype && *dtype != here) {
    throw UserError(
        "checkpoint {} holds {} of {} as {}, but this run keeps it as {}. Resume with the training.dtype and optimizer.state_dtype "
        "that it was written with, or start from its weights alone with checkpoint.initial_load_path.",
        reader.folder().string(), wanted.kind, wanted.parameter, dtype_name(*dtype), dtype_name(here));
  }
  if (!destination.is_contiguous()) throw std::logic_error("destination of " + wanted.parameter + " must be contiguous");
  const at::NoGradGuard no_grad;
  at::Tensor host = destination.is_cpu() ? destination : at::empty(destination.sizes(), destination.scalar_type());
  reader.read(wanted, {static_cast<std::byte*>(host.data_ptr()), host.nbytes()});
  if (!destination.is_cpu()) destination.detach().copy_(host);
}

}  // namespace trine
