// The block header that every shared structure begins with, and the checks made at attach.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace fastloop {

constexpr std::uint64_t kCacheLine = 64;
constexpr std::uint64_t kMagic = 0x31504F4F4C545346ull;  // "FSTLOOP1" in memory, little endian
constexpr std::uint32_t kLayoutVersion = 2;

enum class Kind : std::uint32_t { ring = 1, doorbell = 2, weight_board = 3, replay_log = 4 };

// Lock-free atomics are the only ones that work between processes: a lock table is per process.
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint64_t>) == sizeof(std::uint64_t));
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// What is mapped is not what was expected; only create and attach throw it.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Written once by create, read once by attach and never trusted again after that.
struct alignas(kCacheLine) BlockHeader {
  std::atomic<std::uint64_t> magic;
  std::uint32_t layout_version;
  Kind kind;
  std::uint64_t parameter[4];
  std::uint64_t reserved[2];
};
static_assert(sizeof(BlockHeader) == kCacheLine);

// Rounds up; the caller keeps `value` below 2^63.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// a * b, refused where it would not fit in 62 bits: sizes that large are damage, not memory.
inline std::uint64_t checked_product(std::uint64_t a, std::uint64_t b, const char* what) {
  constexpr std::uint64_t limit = std::uint64_t{1} << 62;
  if (a != 0 && b > limit / a)
    throw Refused(std::string(what) + ": " + std::to_string(a) + " x " + std::to_string(b) +
                  " bytes do not fit in an address space");
  return a * b;
}

inline void check_room(const void* memory, std::uint64_t nbytes, std::uint64_t needed,
                       const char* what) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (address % kCacheLine != 0)
    throw Refused(std::string(what) + " needs memory aligned to 64 bytes; got an address " +
                  std::to_string(address % kCacheLine) + " bytes past a multiple. Take regions from an Arena");
  if (nbytes < needed)
    throw Refused(std::string(what) + " needs " + std::to_string(needed) + " bytes; got " +
                  std::to_string(nbytes) + ". Size the region with nbytes()");
}

inline void write_header(BlockHeader& header, Kind kind, std::uint64_t a = 0, std::uint64_t b = 0,
                         std::uint64_t c = 0, std::uint64_t d = 0) {
  header.layout_version = kLayoutVersion;
  header.kind = kind;
  header.parameter[0] = a;
  header.parameter[1] = b;
  header.parameter[2] = c;
  header.parameter[3] = d;
  for (auto& word : header.reserved) word = 0;
  // Release: pairs with the acquire load of magic in check_header.
  header.magic.store(kMagic, std::memory_order_release);
}

inline void check_header(const BlockHeader& header, Kind kind, const char* what) {
  // Acquire: pairs with the release store of magic in write_header.
  const auto magic = header.magic.load(std::memory_order_acquire);
  if (magic != kMagic)
    throw Refused(std::string(what) + ": no FastLoop structure here (magic " +
                  std::to_string(magic) + "). The region was never created, or is damaged");
  if (header.layout_version != kLayoutVersion)
    throw Refused(std::string(what) + ": layout version " + std::to_string(header.layout_version) +
                  ", this build has " + std::to_string(kLayoutVersion) +
                  ". All processes of a run must use one build");
  if (header.kind != kind)
    throw Refused(std::string(what) + ": the region holds kind " +
                  std::to_string(static_cast<std::uint32_t>(header.kind)) + ", not " +
                  std::to_string(static_cast<std::uint32_t>(kind)));
}

}  // namespace fastloop
