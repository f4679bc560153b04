// A word that anybody rings and one node sleeps on.
//
// Protocol of the sleeper: read value, check every source of work, wait(value). A source that
// was filled after the check has rung since, so the word differs and the wait does not sleep.
//
// The sleeper says which value it sleeps on. Whoever moves the word away from that value makes
// the wake call, and nobody else: with a plain flag, every ring until the sleeper has run again
// (5 to 50 us) would be a system call. A ringer killed between the two leaves the word changed
// and the sleeper asleep, so sleepers look up now and then: wait in slices.
#pragma once

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>

#include "failpoint.hpp"
#include "layout.hpp"

// Tests build the other branch on Linux, too.
#if defined(__linux__) && !defined(FASTLOOP_NO_FUTEX)
#define FASTLOOP_HAS_FUTEX 1
#endif

#ifdef FASTLOOP_HAS_FUTEX
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace fastloop {

// Both words share a line on purpose: whoever rings needs both.
struct alignas(kCacheLine) DoorbellWords {
  std::atomic<std::uint32_t> word;  // written by anybody, fetch-add only; its wrap is harmless
  // Written by the one node that waits. Stale outside a wait, which costs a needless wake call
  // when the word comes round to it again, once in 2^32 rings.
  std::atomic<std::uint32_t> asleep_on;
};
static_assert(sizeof(DoorbellWords) == kCacheLine);

namespace detail {

// Sleeps until somebody wakes, `timeout_ns` passed, a signal came, or for no reason at all.
inline void sleep_while_equal(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                              std::int64_t timeout_ns) {
#ifdef FASTLOOP_HAS_FUTEX
  // Not FUTEX_PRIVATE: the sleeper and the ringer are different processes.
  timespec limit{static_cast<time_t>(timeout_ns / 1000000000),
                 static_cast<long>(timeout_ns % 1000000000)};
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &limit, nullptr, 0);
#else
  // No futex here: look again every half millisecond, without spinning in between.
  constexpr std::int64_t step_ns = 500000;
  // Relaxed: only ends the sleep; the caller reads again with acquire.
  while (timeout_ns > 0 && word.load(std::memory_order_relaxed) == seen) {
    timespec pause{0, static_cast<long>(timeout_ns < step_ns ? timeout_ns : step_ns)};
    if (nanosleep(&pause, nullptr) != 0) return;
    timeout_ns -= step_ns;
  }
#endif
}

inline void wake_all(std::atomic<std::uint32_t>& word) {
#ifdef FASTLOOP_HAS_FUTEX
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr,
          0);
#else
  (void)word;
#endif
}

}  // namespace detail

inline std::uint32_t doorbell_value(const DoorbellWords& bell) {
  // Acquire: pairs with the fetch-add in doorbell_ring, so what was filled before it is seen.
  return bell.word.load(std::memory_order_acquire);
}

inline void doorbell_ring(DoorbellWords& bell) {
  // Release half: pairs with the acquire loads of word in doorbell_value and doorbell_wait.
  const auto before = bell.word.fetch_add(1, std::memory_order_seq_cst);
  FASTLOOP_FAILPOINT("before_wake");
  // Full fence: pairs with the one in doorbell_wait. Either the sleeper sees the new word, or
  // its value is seen here; without both fences each could miss the other.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // Relaxed: ordered by the fence above, pairs with the store in doorbell_wait.
  if (bell.asleep_on.load(std::memory_order_relaxed) == before) detail::wake_all(bell.word);
}

// Sleeps at most `timeout_ns` and returns whether the word differs from `seen`. May return early.
inline bool doorbell_wait(DoorbellWords& bell, std::uint32_t seen, std::int64_t timeout_ns) {
  // Relaxed: ordered by the fence below, pairs with the load of asleep_on in doorbell_ring.
  bell.asleep_on.store(seen, std::memory_order_relaxed);
  // Full fence: pairs with the one in doorbell_ring.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // Relaxed: pairs through the fence with the fetch-add in doorbell_ring.
  if (bell.word.load(std::memory_order_relaxed) == seen && timeout_ns > 0) {
    FASTLOOP_FAILPOINT("before_sleep");
    detail::sleep_while_equal(bell.word, seen, timeout_ns);
  }
  // Acquire: pairs with the fetch-add in doorbell_ring.
  return bell.word.load(std::memory_order_acquire) != seen;
}

inline void doorbell_clear(DoorbellWords& bell) {
  // Relaxed: create publishes with the magic word.
  bell.word.store(0, std::memory_order_relaxed);
  bell.asleep_on.store(~std::uint32_t{0}, std::memory_order_relaxed);
}

// A doorbell with a region of its own.
struct DoorbellBlock {
  BlockHeader header;
  DoorbellWords words;
};

inline void doorbell_create(void* memory, std::uint64_t nbytes) {
  check_room(memory, nbytes, sizeof(DoorbellBlock), "doorbell");
  auto* block = static_cast<DoorbellBlock*>(memory);
  doorbell_clear(block->words);
  write_header(block->header, Kind::doorbell);
}

inline DoorbellWords* doorbell_attach(void* memory, std::uint64_t nbytes) {
  check_room(memory, nbytes, sizeof(DoorbellBlock), "doorbell");
  auto* block = static_cast<DoorbellBlock*>(memory);
  check_header(block->header, Kind::doorbell, "doorbell");
  return &block->words;
}

}  // namespace fastloop
