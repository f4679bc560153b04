// Copies between private and shared memory, by what makes them safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "failpoint.hpp"

namespace fastloop {

// Ownership (a ring slot between claim and commit) protects the bytes: nobody else touches them.
inline void copy_owned(void* to, const void* from, std::size_t nbytes) {
#ifdef FASTLOOP_FAILPOINTS
  const std::size_t half = nbytes / 2;
  std::memcpy(to, from, half);
  FASTLOOP_FAILPOINT("mid_payload");
  std::memcpy(static_cast<char*>(to) + half, static_cast<const char*>(from) + half, nbytes - half);
#else
  std::memcpy(to, from, nbytes);
#endif
}

// A version checked afterwards protects the bytes: they may change while they are copied, and
// then the copy is thrown away. The language calls a plain memcpy a data race here although no
// value of it is used; release builds accept that, because relaxed words are several times
// slower. ThreadSanitizer builds copy relaxed words, so that a real race elsewhere stands out.
#ifdef FASTLOOP_TSAN
// `shared` is aligned to 8 bytes and padded to a multiple of 8.
inline void store_shared(void* shared, const void* from, std::size_t nbytes) {
  auto* words = static_cast<std::atomic<std::uint64_t>*>(shared);
  for (std::size_t done = 0; done < nbytes; done += 8, ++words) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(from) + done, nbytes - done < 8 ? nbytes - done : 8);
    words->store(word, std::memory_order_relaxed);  // ordered by the fences round the copy
  }
}

inline void load_shared(void* to, const void* shared, std::size_t nbytes) {
  const auto* words = static_cast<const std::atomic<std::uint64_t>*>(shared);
  for (std::size_t done = 0; done < nbytes; done += 8, ++words) {
    const std::uint64_t word = words->load(std::memory_order_relaxed);  // see store_shared
    std::memcpy(static_cast<char*>(to) + done, &word, nbytes - done < 8 ? nbytes - done : 8);
  }
}
#else
inline void store_shared(void* shared, const void* from, std::size_t nbytes) {
  copy_owned(shared, from, nbytes);
}

inline void load_shared(void* to, const void* shared, std::size_t nbytes) {
#ifdef FASTLOOP_FAILPOINTS
  const std::size_t half = nbytes / 2;
  std::memcpy(to, shared, half);
  FASTLOOP_FAILPOINT("mid_read");
  std::memcpy(static_cast<char*>(to) + half, static_cast<const char*>(shared) + half,
              nbytes - half);
#else
  std::memcpy(to, shared, nbytes);
#endif
}
#endif

}  // namespace fastloop
