// Single-producer single-consumer ring of fixed-size records between processes.
//
// Words: `head` is written by the producer alone, `tail` by the consumer alone, each on its own
// cache line. A record is published by the release store of head and given back by the release
// store of tail. A producer that dies anywhere before that store leaves an unpublished record,
// which its successor overwrites; a consumer that dies leaves its record unread. Nobody waits
// for a dead party: there is no lock and no cell with an owner.
//
// Both counters run through all 64 bits. The number of slots is the capacity rounded up to a
// power of two, so that the slot of a counter stays right where the counter wraps.
#pragma once

#include "copy.hpp"
#include "doorbell.hpp"
#include "layout.hpp"

namespace fastloop {

struct RingBlock {
  BlockHeader header;  // parameters: capacity, record bytes
  alignas(kCacheLine) std::atomic<std::uint64_t> head;
  alignas(kCacheLine) std::atomic<std::uint64_t> tail;
  DoorbellWords data;   // rung by the producer, slept on by the consumer
  DoorbellWords space;  // rung by the consumer, slept on by the producer
};
static_assert(sizeof(RingBlock) == 5 * kCacheLine);

class Ring {
 public:
  static constexpr std::uint64_t kMaxCapacity = std::uint64_t{1} << 31;

  static std::uint64_t nbytes(std::uint64_t capacity, std::uint64_t record_bytes) {
    if (capacity < 1 || capacity > kMaxCapacity)
      throw Refused("a ring's capacity must lie in 1..2147483648 records; got " +
                    std::to_string(capacity));
    if (record_bytes < 1 || record_bytes > std::uint64_t{1} << 40)
      throw Refused("a ring's record must have 1..2^40 bytes; got " + std::to_string(record_bytes));
    return sizeof(RingBlock) +
           checked_product(slots_of(capacity), round_up(record_bytes, 8), "ring");
  }

  static void create(void* memory, std::uint64_t size, std::uint64_t capacity,
                     std::uint64_t record_bytes) {
    check_room(memory, size, nbytes(capacity, record_bytes), "ring");
    auto* block = static_cast<RingBlock*>(memory);
    // Relaxed: published by the magic word in write_header.
    block->head.store(0, std::memory_order_relaxed);
    block->tail.store(0, std::memory_order_relaxed);
    doorbell_clear(block->data);
    doorbell_clear(block->space);
    write_header(block->header, Kind::ring, capacity, record_bytes);
  }

  // Attaches; what the header says is checked here and kept, so that later damage to it is
  // never followed out of the region.
  Ring(void* memory, std::uint64_t size) : block_(static_cast<RingBlock*>(memory)) {
    check_room(memory, size, sizeof(RingBlock), "ring");
    check_header(block_->header, Kind::ring, "ring");
    capacity_ = block_->header.parameter[0];
    record_bytes_ = block_->header.parameter[1];
    check_room(memory, size, nbytes(capacity_, record_bytes_), "ring");
    mask_ = slots_of(capacity_) - 1;
    stride_ = round_up(record_bytes_, 8);
    check_distance();
  }

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t record_bytes() const { return record_bytes_; }
  DoorbellWords& data() { return block_->data; }
  DoorbellWords& space() { return block_->space; }
  char* base() const { return reinterpret_cast<char*>(block_); }

  // Records published and not yet given back; never above capacity, for anybody who asks.
  std::uint64_t used() const {
    const auto tail = load_tail();
    const auto used = load_head() - tail;
    return used < capacity_ ? used : capacity_;
  }

  // ---- producer -------------------------------------------------------------------------

  // Whether there is room for a record. More used than the capacity counts as full.
  bool has_room() {
    const auto head = own_head();
    if (head - cached_tail_ >= capacity_) cached_tail_ = load_tail();
    return head - cached_tail_ < capacity_;
  }

  // Place of the next record; only after has_room().
  char* claimed() {
    FASTLOOP_FAILPOINT("after_claim");
    return slot(own_head());
  }

  void publish() {
    FASTLOOP_FAILPOINT("before_commit");
    // Release: pairs with the acquire load in load_head; publishes the payload.
    block_->head.store(own_head() + 1, std::memory_order_release);
    FASTLOOP_FAILPOINT("after_commit");
    doorbell_ring(block_->data);
  }

  bool try_push(const void* record) {
    if (!has_room()) return false;
    copy_owned(claimed(), record, record_bytes_);
    publish();
    return true;
  }

  // ---- consumer -------------------------------------------------------------------------

  // Whether there is a record. `damaged` is set when head and tail can't both be right.
  bool has_record(bool& damaged) {
    const auto tail = own_tail();
    if (cached_head_ - tail - 1 >= capacity_) cached_head_ = load_head();
    damaged = cached_head_ - tail > capacity_;
    return !damaged && cached_head_ != tail;
  }

  // Place of the oldest record; only after has_record().
  const char* oldest() {
    FASTLOOP_FAILPOINT("after_peek");
    return slot(own_tail());
  }

  void give_back() {
    FASTLOOP_FAILPOINT("before_release");
    // Release: pairs with the acquire load in load_tail; the reads of the record end before it.
    block_->tail.store(own_tail() + 1, std::memory_order_release);
    FASTLOOP_FAILPOINT("after_release");
    doorbell_ring(block_->space);
  }

  // Copies out the record that has_record() promised.
  void take(void* to) {
    copy_owned(to, oldest(), record_bytes_);
    give_back();
  }

 private:
  static std::uint64_t slots_of(std::uint64_t capacity) {
    std::uint64_t slots = 1;
    while (slots < capacity) slots *= 2;
    return slots;
  }

  char* slot(std::uint64_t counter) const {
    return base() + sizeof(RingBlock) + (counter & mask_) * stride_;
  }

  // Head and tail belong together only if tail stood still while head was read.
  void check_distance() {
    do {
      cached_tail_ = load_tail();
      cached_head_ = load_head();
    } while (cached_tail_ != load_tail());
    if (cached_head_ - cached_tail_ > capacity_)
      throw Refused("ring: head " + std::to_string(cached_head_) + " and tail " +
                    std::to_string(cached_tail_) + " are further apart than its capacity of " +
                    std::to_string(capacity_) + "; the region is damaged");
  }

  // Acquire: pairs with the release store of head in publish.
  std::uint64_t load_head() const { return block_->head.load(std::memory_order_acquire); }
  // Acquire: pairs with the release store of tail in give_back.
  std::uint64_t load_tail() const { return block_->tail.load(std::memory_order_acquire); }
  // Relaxed: each side reads back only what it wrote itself.
  std::uint64_t own_head() const { return block_->head.load(std::memory_order_relaxed); }
  std::uint64_t own_tail() const { return block_->tail.load(std::memory_order_relaxed); }

  RingBlock* block_;
  std::uint64_t capacity_ = 0;
  std::uint64_t record_bytes_ = 0;
  std::uint64_t stride_ = 0;
  std::uint64_t mask_ = 0;
  // Last seen index of the other side. Private to this attach, so that a full or empty check
  // rarely touches the other side's cache line and a successor starts with fresh ones.
  std::uint64_t cached_tail_ = 0;
  std::uint64_t cached_head_ = 0;
};

}  // namespace fastloop
