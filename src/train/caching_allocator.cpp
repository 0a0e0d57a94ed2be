#include "train/caching_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace trine {
namespace {

constexpr size_t kSmallestCached = size_t{256} << 10;  // smaller ones are malloc's, which is good at them
constexpr size_t kHugePage = size_t{2} << 20;
// Idle memory beyond this, and beyond a quarter of what is live, goes back before more is taken from the system.
constexpr size_t kMostIdle = size_t{256} << 20;

// Eight classes to each power of two: at most an eighth of a block is unused.
size_t class_of(size_t bytes) {
  const size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

void* map_block(size_t bytes) {
  if (bytes < kHugePage) {
    void* block = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return block == MAP_FAILED ? nullptr : block;
  }
  // A huge page more than needed, so that the block can begin on one; what sticks out on either side is given back.
  auto* raw = static_cast<std::byte*>(::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (raw == MAP_FAILED) return nullptr;
  auto* block = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(raw) + kHugePage - 1) / kHugePage * kHugePage);
  if (block > raw) ::munmap(raw, static_cast<size_t>(block - raw));
  const size_t used = (bytes + 4095) / 4096 * 4096;
  const size_t behind = static_cast<size_t>(raw + bytes + kHugePage - (block + used));
  if (behind > 0) ::munmap(block + used, behind);
  ::madvise(block, used, MADV_HUGEPAGE);
  return block;
}

class CachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes < kSmallestCached) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    const size_t size = class_of(bytes);
    void* block = take(size);
    if (!block) {
      release(/*most_idle=*/0);
      block = take(size);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, block, "can't allocate memory: you tried to allocate ", bytes, " bytes");
    return {block, block, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back_any; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  void release(size_t most_idle) {
    const std::lock_guard lock(mutex_);
    release_locked(most_idle);
  }
  CachingAllocatorUse use() {
    const std::lock_guard lock(mutex_);
    return {live_, idle_};
  }

 private:
  void* take(size_t size) {
    const std::lock_guard lock(mutex_);
    auto& waiting = idle_blocks_[size];
    void* block = nullptr;
    if (!waiting.empty()) {
      block = waiting.back();
      waiting.pop_back();
      idle_ -= size;
    } else {
      const size_t most_idle = std::max(kMostIdle, live_ / 4);
      if (idle_ > most_idle) release_locked(most_idle > size ? most_idle - size : 0);
      block = map_block(size);
      if (!block) return nullptr;
      sizes_.emplace(block, size);
    }
    live_ += size;
    return block;
  }

  static void give_back(void* block);
  static void give_back_any(void* block);  // a cached block or a small one

  // False if the block is not one of ours.
  bool keep(void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(block);
    if (found == sizes_.end()) return false;
    const size_t size = found->second;
    idle_blocks_[size].push_back(block);
    live_ -= size;
    idle_ += size;
    return true;
  }

  // Largest classes first: fewest calls.
  void release_locked(size_t most_idle) {
    for (auto entry = idle_blocks_.rbegin(); entry != idle_blocks_.rend(); ++entry) {
      while (!entry->second.empty() && idle_ > most_idle) {
        void* block = entry->second.back();
        entry->second.pop_back();
        ::munmap(block, entry->first);
        sizes_.erase(block);
        idle_ -= entry->first;
      }
    }
  }

  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> idle_blocks_;
  std::unordered_map<void*, size_t> sizes_;
  size_t live_ = 0, idle_ = 0;
};

CachingAllocator& allocator() {
  static CachingAllocator* instance = new CachingAllocator;  // never destroyed: tensors may be freed while the process ends
  return *instance;
}

void CachingAllocator::give_back(void* block) { allocator().keep(block); }

void CachingAllocator::give_back_any(void* block) {
  if (!allocator().keep(block)) c10::GetDefaultCPUAllocator()->raw_deleter()(block);
}

}  // namespace

void use_caching_allocator() {
#if !__has_feature(address_sanitizer)
  constexpr uint8_t kPriority = 100;
  if (c10::GetCPUAllocator() != &allocator()) c10::SetCPUAllocator(&allocator(), kPriority);
#endif
}

void release_idle_memory() { allocator().release(0); }

CachingAllocatorUse caching_allocator_use() { return allocator().use(); }

}  // namespace trine
