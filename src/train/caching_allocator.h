// Host memory for large tensors that is kept when they are freed, so that every step finds the pages of the step before.
//
// glibc's heap does two things wrong for training: blocks of many sizes, freed in another order than they were made, leave holes (half as
// much again as the activations of a 0.6B step), and what goes back to the system is faulted in anew by the next step. Here a freed block
// waits in a list of its size class for the next tensor of that class; blocks of 2 MiB and more lie on huge pages where the system has
// them.
#pragma once

#include <cstddef>

namespace trine {

// From now on tensors on the CPU of kSmallestCached bytes and more come from size classes. Call once, before threads allocate; a second
// call does nothing. Does nothing under AddressSanitizer, which must see every free.
void use_caching_allocator();

// Gives idle blocks back to the system; after a phase whose sizes will not return, such as validation.
void release_idle_memory();

struct CachingAllocatorUse {
  size_t live_bytes = 0;  // in tensors, rounded up to their classes
  size_t idle_bytes = 0;  // waiting in lists
};
CachingAllocatorUse caching_allocator_use();

}  // namespace trine
