// The orders of memory that a replay log rests on, by name.
//
// Tests replace them (FASTLOOP_WEAK_ORDER) by a machine that delays stores and repeats old loads
// as far as the fences allow: x86 never does, so that a missing fence would show nowhere else.
#pragma once

#include <atomic>
#include <cstdint>

namespace fastloop {

using SharedCounter = std::atomic<std::uint64_t>;

#ifdef FASTLOOP_WEAK_ORDER
void store_release(SharedCounter& counter, std::uint64_t value);
std::uint64_t load_acquire(const SharedCounter& counter);
std::uint64_t load_relaxed(const SharedCounter& counter);
void release_fence();
void acquire_fence();
#else
inline void store_release(SharedCounter& counter, std::uint64_t value) {
  counter.store(value, std::memory_order_release);
}
inline std::uint64_t load_acquire(const SharedCounter& counter) {
  return counter.load(std::memory_order_acquire);
}
inline std::uint64_t load_relaxed(const SharedCounter& counter) {
  return counter.load(std::memory_order_relaxed);
}
inline void release_fence() { std::atomic_thread_fence(std::memory_order_release); }
inline void acquire_fence() { std::atomic_thread_fence(std::memory_order_acquire); }
#endif

}  // namespace fastloop
