// Threads stand in for processes: ThreadSanitizer follows one process only. Each check prints
// what went wrong and ends with status 1; a test runs it from headers with one bug put in.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "doorbell.hpp"
#include "pulse.hpp"
#include "ring.hpp"
#include "seqlock.hpp"

using namespace fastloop;

namespace {

struct FreeAligned {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, FreeAligned>;

Memory new_memory(std::uint64_t nbytes) {
  const auto size = round_up(nbytes, kCacheLine);
  Memory memory(std::aligned_alloc(kCacheLine, size));
  std::memset(memory.get(), 0, size);
  return memory;
}

[[noreturn]] void fail(const char* what, std::uint64_t expected, std::uint64_t got) {
  std::printf("FAILED %s: expected %llu, got %llu\n", what,
              static_cast<unsigned long long>(expected), static_cast<unsigned long long>(got));
  std::exit(1);
}

void expect(const char* what, std::uint64_t expected, std::uint64_t got) {
  if (expected != got) fail(what, expected, got);
}

// Waits long enough that only a lost wake call reaches the limit.
void sleep_on(DoorbellWords& bell, std::uint32_t seen) {
  constexpr std::int64_t limit_ns = 5'000'000'000;
  const auto begin = std::chrono::steady_clock::now();
  doorbell_wait(bell, seen, limit_ns);
  const auto slept = std::chrono::steady_clock::now() - begin;
  if (slept > std::chrono::nanoseconds(limit_ns / 2)) fail("lost wake call", 0, 1);
}

// A ring whose counters are at `start`, so that they wrap on the way.
Memory new_ring(std::uint64_t capacity, std::uint64_t record_bytes, std::uint64_t start) {
  const auto nbytes = Ring::nbytes(capacity, record_bytes);
  auto memory = new_memory(nbytes);
  Ring::create(memory.get(), nbytes, capacity, record_bytes);
  auto* block = static_cast<RingBlock*>(memory.get());
  block->head.store(start);
  block->tail.store(start);
  return memory;
}

// One producer and one consumer; every word of a record holds its number.
void ring_case(std::uint64_t capacity, std::uint64_t words, std::uint64_t count,
               std::uint64_t start) {
  const auto nbytes = Ring::nbytes(capacity, words * 8);
  auto memory = new_ring(capacity, words * 8, start);
  std::thread producer([&] {
    Ring ring(memory.get(), nbytes);
    std::vector<std::uint64_t> record(words);
    for (std::uint64_t next = 0; next < count;) {
      std::fill(record.begin(), record.end(), next);
      const auto seen = doorbell_value(ring.space());
      if (ring.try_push(record.data()))
        ++next;
      else
        sleep_on(ring.space(), seen);
    }
  });
  Ring ring(memory.get(), nbytes);
  std::vector<std::uint64_t> record(words);
  for (std::uint64_t next = 0; next < count;) {
    const auto seen = doorbell_value(ring.data());
    bool damaged = false;
    const bool ready = ring.has_record(damaged);
    if (damaged) fail("undamaged ring", 0, 1);
    if (!ready) {
      sleep_on(ring.data(), seen);
      continue;
    }
    ring.take(record.data());
    for (auto word : record) expect("word of a record", next, word);
    ++next;
  }
  producer.join();
  expect("records left", 0, ring.used());
}

// An onlooker asks for the figures while both sides run.
void onlooker_case() {
  const auto nbytes = Ring::nbytes(3, 8);
  auto memory = new_ring(3, 8, ~std::uint64_t{0} - 100);
  std::atomic<bool> over{false};
  std::thread pusher([&] {
    Ring ring(memory.get(), nbytes);
    for (std::uint64_t k = 0; k < 5000; k += std::uint64_t{ring.try_push(&k)}) {
    }
  });
  std::thread popper([&] {
    Ring ring(memory.get(), nbytes);
    std::uint64_t got;
    bool damaged = false;
    for (std::uint64_t k = 0; k < 5000;) {
      if (!ring.has_record(damaged)) continue;
      ring.take(&got);
      ++k;
    }
    over.store(true);
  });
  while (!over.load()) {
    Ring ring(memory.get(), nbytes);
    if (ring.used() > 3) fail("used at most the capacity", 3, ring.used());
  }
  pusher.join();
  popper.join();
}

// One writer, three readers; every word of a payload holds its version.
void board_case(std::uint64_t words, std::int64_t versions) {
  const auto nbytes = WeightBoard::nbytes(words * 8);
  auto memory = new_memory(nbytes);
  WeightBoard::create(memory.get(), nbytes, words * 8);
  std::vector<std::thread> readers;
  for (int k = 0; k < 3; ++k)
    readers.emplace_back([&] {
      WeightBoard board(memory.get(), nbytes);
      std::vector<std::uint64_t> payload(words);
      for (std::int64_t last = WeightBoard::kNothing; last < versions - 1;) {
        std::int64_t version = 0;
        const auto read = board.read_into(payload.data(), last, version);
        if (read != WeightBoard::Read::copied) {
          std::this_thread::yield();
          continue;
        }
        if (version <= last) fail("newer version", static_cast<std::uint64_t>(last),
                                  static_cast<std::uint64_t>(version));
        last = version;
        for (auto word : payload) expect("word of a payload", static_cast<std::uint64_t>(version), word);
      }
    });
  WeightBoard board(memory.get(), nbytes);
  std::vector<std::uint64_t> payload(words);
  for (std::int64_t version = 0; version < versions; ++version) {
    std::fill(payload.begin(), payload.end(), static_cast<std::uint64_t>(version));
    board.publish(version, payload.data());
  }
  for (auto& reader : readers) reader.join();
  expect("newest version", static_cast<std::uint64_t>(versions - 1),
         static_cast<std::uint64_t>(board.version()));
}

// Many ringers, one sleeper that counts work which each ringer left before ringing.
void doorbell_case(int ringers, std::uint64_t each) {
  auto memory = new_memory(sizeof(DoorbellBlock));
  doorbell_create(memory.get(), sizeof(DoorbellBlock));
  DoorbellWords& bell = *doorbell_attach(memory.get(), sizeof(DoorbellBlock));
  bell.word.store(~0u - 50);  // wraps on the way
  std::vector<std::uint64_t> payload(static_cast<std::size_t>(ringers));
  std::atomic<std::uint64_t> left{0}, taken{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < ringers; ++k)
    threads.emplace_back([&] {
      for (std::uint64_t round = 0; round < each; ++round) {
        left.fetch_add(1, std::memory_order_relaxed);
        doorbell_ring(bell);
        // Once in a while wait until all is taken, so that the sleeper does sleep.
        while (round % 8 == 0 && taken.load(std::memory_order_relaxed) <
                                     left.load(std::memory_order_relaxed))
          std::this_thread::yield();
      }
    });
  const auto total = static_cast<std::uint64_t>(ringers) * each;
  while (taken.load() < total) {
    const auto seen = doorbell_value(bell);
    const auto now = left.load(std::memory_order_relaxed);
    if (now > taken.load())
      taken.store(now);
    else
      sleep_on(bell, seen);
  }
  for (auto& thread : threads) thread.join();
}

// Begun and ended again and again while somebody reads: it goes on from where the last one ended.
void pulse_case(int times) {
  std::atomic<std::int64_t> word{0};
  std::atomic<bool> over{false};
  std::thread reader([&] {
    std::int64_t last = 0;
    while (!over.load(std::memory_order_relaxed)) {
      const auto count = word.load(std::memory_order_relaxed);
      if (count < last) fail("pulse went back", last, count);
      last = count;
    }
  });
  for (int k = 0; k < times; ++k) {
    Pulse pulse{};
    const auto before = word.load(std::memory_order_relaxed);
    expect("pulse begins", 0, pulse.start(&word, k % 2 == 0 ? 1000 : 3'600'000'000'000));
    while (word.load(std::memory_order_relaxed) == before) std::this_thread::yield();
    pulse.stop();
    pulse.stop();
    const auto after = word.load(std::memory_order_relaxed);
    std::this_thread::yield();
    expect("pulse after its end", after, word.load(std::memory_order_relaxed));
  }
  over.store(true, std::memory_order_relaxed);
  reader.join();
}

}  // namespace

int main() {
  for (std::uint64_t capacity : {1, 2, 3, 8}) {
    ring_case(capacity, 3, 4000, 0);
    ring_case(capacity, 17, 2000, ~std::uint64_t{0} - 500);
  }
  ring_case(4, 1024, 500, (std::uint64_t{1} << 32) - 200);
  onlooker_case();
  board_case(1, 3000);
  board_case(300, 1000);
  doorbell_case(3, 2000);
  pulse_case(200);
  std::puts("ALL GOOD");
  return 0;
}
