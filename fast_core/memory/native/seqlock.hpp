// Three rotating copies of one payload and a publication counter: one writer, any readers.
//
// Publication p lies in copy p % 3. Its bytes are overwritten by publication p + 3, whose
// writing begins when the counter says p + 2. So a reader that copied p and then still finds
// the counter at p or p + 1 has a whole copy; otherwise it was lapped and reads again. The
// writer never waits, and a writer that dies leaves the last complete publication readable.
// (A thousand publications a second would wrap the counter after 584 million years; it does not.)
#pragma once

#include "copy.hpp"
#include "layout.hpp"

namespace fastloop {

struct WeightBlock {
  BlockHeader header;  // parameter: payload bytes
  alignas(kCacheLine) std::atomic<std::uint64_t> published;  // written by the owning optimizer
};
static_assert(sizeof(WeightBlock) == 2 * kCacheLine);

class WeightBoard {
 public:
  static constexpr int kMaxTries = 1000;
  static constexpr std::int64_t kNothing = -1;

  static std::uint64_t nbytes(std::uint64_t payload_bytes) {
    return sizeof(WeightBlock) + checked_product(3, stride_of(payload_bytes), "weight board");
  }

  static void create(void* memory, std::uint64_t size, std::uint64_t payload_bytes) {
    check_room(memory, size, nbytes(payload_bytes), "weight board");
    auto* block = static_cast<WeightBlock*>(memory);
    // Relaxed: published by the magic word in write_header.
    block->published.store(0, std::memory_order_relaxed);
    write_header(block->header, Kind::weight_board, payload_bytes);
  }

  WeightBoard(void* memory, std::uint64_t size) : block_(static_cast<WeightBlock*>(memory)) {
    check_room(memory, size, sizeof(WeightBlock), "weight board");
    check_header(block_->header, Kind::weight_board, "weight board");
    payload_bytes_ = block_->header.parameter[0];
    check_room(memory, size, nbytes(payload_bytes_), "weight board");
  }

  std::uint64_t payload_bytes() const { return payload_bytes_; }
  // Acquire: pairs with the release store in publish.
  std::uint64_t published() const { return block_->published.load(std::memory_order_acquire); }

  void publish(std::int64_t version, const void* payload) {
    // Relaxed: the writer reads back its own word.
    const auto next = block_->published.load(std::memory_order_relaxed) + 1;
    // Release fence: pairs with the acquire fence in still_whole. Whoever sees a byte stored
    // below also sees the counter's present value, and knows that the old copy is going.
    std::atomic_thread_fence(std::memory_order_release);
    FASTLOOP_FAILPOINT("after_claim");
    char* place = copy_of(next);
    store_shared(place, &version, sizeof version);
    store_shared(place + kCacheLine, payload, payload_bytes_);
    FASTLOOP_FAILPOINT("before_commit");
    // Release: pairs with the acquire load in published().
    block_->published.store(next, std::memory_order_release);
    FASTLOOP_FAILPOINT("after_commit");
  }

  // Version of the newest publication, kNothing before the first.
  std::int64_t version() {
    for (;;) {
      const auto at = published();
      if (at == 0) return kNothing;
      std::int64_t version;
      load_shared(&version, copy_of(at), sizeof version);
      if (still_whole(at)) return version;
      ++retries_;
    }
  }

  enum class Read { copied, nothing_newer, lapped };

  // Copies the newest publication if its version is above `newer_than`. After `lapped`
  // the bytes at `to` are torn.
  Read read_into(void* to, std::int64_t newer_than, std::int64_t& version) {
    for (int tries = 0; tries < kMaxTries; ++tries) {
      const auto at = published();
      if (at == 0) return Read::nothing_newer;
      load_shared(&version, copy_of(at), sizeof version);
      if (!still_whole(at)) {
        ++retries_;
        continue;
      }
      if (version <= newer_than) return Read::nothing_newer;
      load_shared(to, copy_of(at) + kCacheLine, payload_bytes_);
      if (still_whole(at)) return Read::copied;
      ++retries_;
    }
    return Read::lapped;
  }

  std::uint64_t retries() const { return retries_; }

 private:
  static std::uint64_t stride_of(std::uint64_t payload_bytes) {
    if (payload_bytes < 1 || payload_bytes > std::uint64_t{1} << 48)
      throw Refused("a weight board's payload must have 1..2^48 bytes; got " +
                    std::to_string(payload_bytes));
    return kCacheLine + round_up(payload_bytes, kCacheLine);
  }

  // Of one publication; the first cache line of each copy holds its version.
  char* copy_of(std::uint64_t publication) const {
    return reinterpret_cast<char*>(block_) + sizeof(WeightBlock) +
           publication % 3 * stride_of(payload_bytes_);
  }

  bool still_whole(std::uint64_t publication) const {
    // Acquire fence: pairs with the release fence in publish.
    std::atomic_thread_fence(std::memory_order_acquire);
    // Relaxed: ordered by the fence above.
    return block_->published.load(std::memory_order_relaxed) - publication < 2;
  }

  WeightBlock* block_;
  std::uint64_t payload_bytes_ = 0;
  std::uint64_t retries_ = 0;  // private to this attach
};

}  // namespace fastloop
