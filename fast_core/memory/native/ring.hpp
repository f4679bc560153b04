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

#include <algorithm>

#include "copy.hpp"
#include "doorbell.hpp"
#include "layout.hpp"

namespace fastloop {

struct RingBlock {
  BlockHeader header;  // parameters: capacity, record bytes, first counter value
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
                     std::uint64_t record_bytes, std::uint64_t start) {
    check_room(memory, size, nbytes(capacity, record_bytes), "ring");
    auto* block = static_cast<RingBlock*>(memory);
    // Relaxed: published by the magic word in write_header.
    block->head.store(start, std::memory_order_relaxed);
    block->tail.store(start, std::memory_order_relaxed);
    doorbell_clear(block->data);
    doorbell_clear(block->space);
    write_header(block->header, Kind::ring, capacity, record_bytes, start);
  }

  // Attaches; what the header says is checked here and kept, so that later damage to it is
  // never followed out of the region.
  Ring(void* memory, std::uint64_t size) : block_(static_cast<RingBlock*>(memory)) {
    check_room(memory, size, sizeof(RingBlock), "ring");
    check_header(block_->header, Kind::ring, "ring");
    capacity_ = block_->header.parameter[0];
    record_bytes_ = block_->header.parameter[1];
    start_ = block_->header.parameter[2];
    check_room(memory, size, nbytes(capacity_, record_bytes_), "ring");
    mask_ = slots_of(capacity_) - 1;
    stride_ = round_up(record_bytes_, 8);
    check_distance();
  }

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t record_bytes() const { return record_bytes_; }
  std::uint64_t pushed() const { return load_head() - start_; }
  std::uint64_t popped() const { return load_tail() - start_; }
  DoorbellWords& data() { return block_->data; }
  DoorbellWords& space() { return block_->space; }
  char* base() const { return reinterpret_cast<char*>(block_); }

  // Records published and not yet given back; never above capacity, for anybody who asks.
  std::uint64_t used() const {
    const auto tail = load_tail();
    return std::min(load_head() - tail, capacity_);
  }

  // ---- producer -------------------------------------------------------------------------

  // Free records, up to `wanted`. More used than there is room counts as full: the subtraction
  // below would otherwise wrap to a huge free space.
  std::uint64_t free_for(std::uint64_t wanted) {
    const auto head = own_head();
    auto used = head - cached_tail_;
    if (used > capacity_ || capacity_ - used < wanted) {
      cached_tail_ = load_tail();
      used = head - cached_tail_;
    }
    return used > capacity_ ? 0 : std::min(capacity_ - used, wanted);
  }

  // Place of the next record; only after free_for(1) said 1.
  char* claimed() {
    FASTLOOP_FAILPOINT("after_claim");
    return slot(own_head());
  }

  void publish(std::uint64_t count) {
    FASTLOOP_FAILPOINT("before_commit");
    // Release: pairs with the acquire load in load_head; publishes the payload.
    block_->head.store(own_head() + count, std::memory_order_release);
    FASTLOOP_FAILPOINT("after_commit");
    doorbell_ring(block_->data);
  }

  bool try_push(const void* record) {
    if (free_for(1) == 0) return false;
    copy_owned(claimed(), record, record_bytes_);
    publish(1);
    return true;
  }

  // Copies as many of `count` records as there is room for and publishes them with one store.
  std::uint64_t try_push_many(const void* records, std::uint64_t count) {
    const auto pushed = free_for(count);
    if (pushed == 0) return 0;
    const auto head = own_head();
    const auto* from = static_cast<const char*>(records);
    for_spans(head, pushed, [&](char* place, std::uint64_t done, std::uint64_t run) {
      copy_owned(place, from + done * record_bytes_, run * record_bytes_);
    });
    publish(pushed);
    return pushed;
  }

  // ---- consumer -------------------------------------------------------------------------

  // Records ready, up to `wanted`. `damaged` is set when head and tail can't both be right.
  std::uint64_t ready_for(std::uint64_t wanted, bool& damaged) {
    const auto tail = own_tail();
    auto ready = cached_head_ - tail;
    if (ready > capacity_ || ready < wanted) {
      cached_head_ = load_head();
      ready = cached_head_ - tail;
    }
    damaged = ready > capacity_;
    return damaged ? 0 : std::min(ready, wanted);
  }

  // Place of the oldest record; only after ready_for(1) said 1.
  const char* oldest() {
    FASTLOOP_FAILPOINT("after_peek");
    return slot(own_tail());
  }

  void give_back(std::uint64_t count) {
    FASTLOOP_FAILPOINT("before_release");
    // Release: pairs with the acquire load in load_tail; the reads of the record end before it.
    block_->tail.store(own_tail() + count, std::memory_order_release);
    FASTLOOP_FAILPOINT("after_release");
    doorbell_ring(block_->space);
  }

  // Copies out `count` records that ready_for promised.
  void take(void* to, std::uint64_t count) {
    for_spans(own_tail(), count, [&](char* place, std::uint64_t done, std::uint64_t run) {
      copy_owned(static_cast<char*>(to) + done * record_bytes_, place, run * record_bytes_);
    });
    give_back(count);
  }

  bool try_pop(void* to, bool& damaged) {
    if (ready_for(1, damaged) == 0) return false;
    copy_owned(to, oldest(), record_bytes_);
    give_back(1);
    return true;
  }

  // ---- after a death, by whoever reaped the dead side ---------------------------------------

  // The dead producer published whole records or nothing, so nothing is taken back. A consumer
  // that missed the wake call is woken.
  void reset_producer() {
    doorbell_ring(block_->data);
  }

  // Drops what the dead consumer had not given back and returns how many records that were.
  std::uint64_t reset_consumer() {
    const auto head = load_head();
    const auto dropped = head - own_tail();
    cached_head_ = head;
    // Release: pairs with the acquire load in load_tail.
    block_->tail.store(head, std::memory_order_release);
    doorbell_ring(block_->space);
    return dropped;
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
  // Acquire: pairs with the release stores of tail in give_back and reset_consumer.
  std::uint64_t load_tail() const { return block_->tail.load(std::memory_order_acquire); }
  // Relaxed: each side reads back only what it wrote itself.
  std::uint64_t own_head() const { return block_->head.load(std::memory_order_relaxed); }
  std::uint64_t own_tail() const { return block_->tail.load(std::memory_order_relaxed); }

  // Calls use(place, records done, records in this run) for each contiguous run of slots.
  template <class Use>
  void for_spans(std::uint64_t counter, std::uint64_t count, Use use) {
    for (std::uint64_t done = 0; done < count;) {
      const auto to_end = mask_ + 1 - ((counter + done) & mask_);
      // Padded records are not contiguous, so they go one by one.
      const auto run = stride_ == record_bytes_ ? std::min(count - done, to_end) : 1;
      use(slot(counter + done), done, run);
      done += run;
    }
  }

  RingBlock* block_;
  std::uint64_t capacity_ = 0;
  std::uint64_t record_bytes_ = 0;
  std::uint64_t stride_ = 0;
  std::uint64_t mask_ = 0;
  std::uint64_t start_ = 0;
  // Last seen index of the other side. Private to this attach, so that a full or empty check
  // rarely touches the other side's cache line and a successor starts with fresh ones.
  std::uint64_t cached_tail_ = 0;
  std::uint64_t cached_head_ = 0;
};

}  // namespace fastloop
