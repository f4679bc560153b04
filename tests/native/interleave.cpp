// Interleavings played out one by one in a single thread. WeightBoard: at a point inside a read,
// the writer publishes several versions and may die inside another. Doorbell: it is rung between
// the last look at the word and the sleep.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "doorbell.hpp"
#include "seqlock.hpp"

using namespace fastloop;

namespace {

constexpr std::uint64_t kWords = 6;
using Payload = std::int64_t[kWords];

struct Died {};

// What to do at the n-th pass of a point; the callback runs once.
const char* point = "";
int passes_left = 0;
std::function<void()> action;

void arm(const char* name, int passes, std::function<void()> what) {
  point = name;
  passes_left = passes;
  action = std::move(what);
}

void publish(WeightBoard& board, std::int64_t version) {
  Payload payload;
  for (auto& word : payload) word = version;
  board.publish(version, payload);
}

void publish_and_die(WeightBoard& board, std::int64_t version, const char* where, int passes) {
  arm(where, passes, [] { throw Died{}; });
  try {
    publish(board, version);
  } catch (const Died&) {
    return;
  }
  std::printf("FAILED the writer passed %s alive\n", where);
  std::exit(1);
}

struct Death {
  const char* where;  // null: it lives
  int passes;         // publish copies twice, the version and the payload
};

constexpr Death kDeaths[] = {{nullptr, 0},       {"after_claim", 0},   {"mid_payload", 0},
                             {"mid_payload", 1}, {"before_commit", 0}, {"after_commit", 0}};

// Returns how often the reader was lapped.
std::uint64_t play(int read_pass, int publications, const Death& death, int offset) {
  alignas(kCacheLine) static char memory[4096];
  WeightBoard::create(memory, sizeof memory, sizeof(Payload));
  WeightBoard writer(memory, sizeof memory), reader(memory, sizeof memory);
  std::int64_t version = 0;
  for (int k = 0; k <= offset; ++k) publish(writer, version++);
  const std::int64_t before = version - 1;
  arm("mid_read", read_pass, [&] {
    for (int k = 0; k < publications; ++k) publish(writer, version++);
    if (death.where != nullptr) publish_and_die(writer, version++, death.where, death.passes);
  });
  Payload payload;
  std::int64_t got = WeightBoard::kNothing;
  const auto read = reader.read_into(payload, before - 1, got);
  bool good = read == WeightBoard::Read::copied && got >= before && got < version;
  for (auto word : payload) good = good && word == got;
  if (!good || action) {
    std::printf("FAILED torn or lost: read pass %d, %d publications, death at %s, version %lld\n",
                read_pass, publications, death.where == nullptr ? "-" : death.where,
                static_cast<long long>(got));
    std::exit(1);
  }
  return reader.retries();
}

void ring_just_before_sleep() {
  alignas(kCacheLine) static char memory[sizeof(DoorbellBlock)];
  doorbell_create(memory, sizeof memory);
  DoorbellWords& bell = *doorbell_attach(memory, sizeof memory);
  const auto seen = doorbell_value(bell);
  arm("before_sleep", 0, [&] { doorbell_ring(bell); });
  const auto begin = std::chrono::steady_clock::now();
  const bool changed = doorbell_wait(bell, seen, 2'000'000'000);
  if (changed && std::chrono::steady_clock::now() - begin < std::chrono::seconds(1)) return;
  std::puts("FAILED a ring just before the sleep was slept through");
  std::exit(1);
}

}  // namespace

void fastloop_failpoint(const char* name) {
  if (!action || std::strcmp(name, point) != 0 || passes_left-- > 0) return;
  const auto now = std::move(action);
  action = nullptr;
  now();
}

int main() {
  ring_just_before_sleep();
  std::uint64_t lapped = 0;
  // Passes of mid_read: 0 inside the copy of the version, 1 inside that of the payload.
  for (int read_pass : {0, 1})
    for (int publications = 0; publications < 8; ++publications)
      for (const auto& death : kDeaths)
        for (int offset = 0; offset < 3; ++offset)
          lapped += play(read_pass, publications, death, offset);
  // A whole publication and the beginning of the next do not disturb a reader of three copies.
  const bool patient = play(1, 1, kDeaths[3], 0) == 0;
  if (lapped == 0 || !patient) {
    std::printf("FAILED the reader retries never, or needlessly\n");
    return 1;
  }
  std::puts("ALL GOOD");
  return 0;
}
