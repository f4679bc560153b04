// Kills real processes at every named point inside the native calls, many times each, and
// checks what is left: RING-02, RING-03 and the death of a publisher.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ring.hpp"
#include "seqlock.hpp"

using namespace fastloop;

namespace {

const char* armed_point = nullptr;  // in a child: where to die
int passes_left = 0;                // and after how many passes
pid_t living = 0;                   // in the parent: the child that may not outlive it

constexpr std::uint64_t kWords = 9;
constexpr int kKills = 50;

[[noreturn]] void fail(const char* point, const char* what) {
  std::printf("FAILED at %s: %s\n", point, what);
  if (living != 0) kill(living, SIGKILL);
  std::exit(1);
}

void* shared(std::uint64_t nbytes) {
  void* memory = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::exit(2);
  return memory;
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Body>
pid_t start(const char* point, int passes, Body body) {
  living = fork();
  if (living != 0) return living;
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // also where this program is itself killed
#endif
  armed_point = point;
  passes_left = passes;
  body();
  _exit(3);  // it should have died
}

void reap_killed(const char* point, pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  living = 0;
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) fail(point, "was not killed there");
}

using Record = std::uint64_t[kWords];

void fill(Record& record, std::uint64_t number) {
  for (auto& word : record) word = number;
}

bool whole(const Record& record, std::uint64_t number) {
  for (auto word : record)
    if (word != number) return false;
  return true;
}

// Pushes numbers from `next` on; `attempts` says in shared memory how far it tried.
void push_for_ever(void* memory, std::uint64_t nbytes, std::uint64_t next,
                   volatile std::uint64_t* attempts) {
  Ring ring(memory, nbytes);
  Record record;
  for (;; ++next) {
    fill(record, next);
    *attempts = next + 1;
    for (;;) {
      const auto seen = doorbell_value(ring.space());
      if (ring.try_push(record)) break;
      doorbell_wait(ring.space(), seen, 100'000'000);
    }
  }
}

bool pop_number(Ring& ring, const char* point, std::uint64_t number) {
  Record record;
  bool damaged = false;
  if (!ring.has_record(damaged)) {
    if (damaged) fail(point, "head and tail are damaged");
    return false;
  }
  ring.take(record);
  if (!whole(record, number)) fail(point, "a record is torn, lost or doubled");
  return true;
}

void kill_producers(const char* point) {
  const auto nbytes = Ring::nbytes(4, sizeof(Record));
  void* memory = shared(nbytes);
  auto* attempts = static_cast<volatile std::uint64_t*>(shared(4096));
  Ring::create(memory, nbytes, 4, sizeof(Record));
  auto* block = static_cast<RingBlock*>(memory);
  block->head.store(~std::uint64_t{0} - 20);  // wraps on the way
  block->tail.store(~std::uint64_t{0} - 20);
  Ring consumer(memory, nbytes);
  std::uint64_t next = 0;
  for (int k = 0; k < kKills; ++k) {
    const auto first = next;
    const pid_t pid = start(point, k % 7, [&] { push_for_ever(memory, nbytes, next, attempts); });
    int status = 0;
    pid_t reaped = 0;
    // The consumer works on beside the dying producer, as a node would.
    while (reaped == 0) {
      const auto seen = doorbell_value(consumer.data());
      reaped = waitpid(pid, &status, WNOHANG);
      while (pop_number(consumer, point, next)) ++next;
      if (reaped == 0) doorbell_wait(consumer.data(), seen, 2'000'000);
    }
    living = 0;
    if (!WIFSIGNALED(status)) fail(point, "the producer was not killed there");
    while (pop_number(consumer, point, next)) ++next;
    if (*attempts - next > 1) fail(point, "more than the open record was lost");
    if (next - first > 8) fail(point, "the producer outlived its point");
  }
  // All places are free again, and a successor gets through within a second.
  Ring successor(memory, nbytes);
  const double begin_s = now_s();
  for (int k = 0; k < 1000; ++k, ++next) {
    Record record;
    fill(record, next);
    if (!successor.try_push(record)) fail(point, "a place was not freed");
    if (!pop_number(consumer, point, next)) fail(point, "a record did not arrive");
  }
  if (now_s() - begin_s > 1.0) fail(point, "the successor needs more than a second");
  for (int k = 0; k < 4; ++k) {
    Record record;
    fill(record, 0);
    if (!successor.try_push(record)) fail(point, "not every place is free at the end");
  }
}

void kill_consumers(const char* point) {
  const auto nbytes = Ring::nbytes(4, sizeof(Record));
  void* memory = shared(nbytes);
  Ring::create(memory, nbytes, 4, sizeof(Record));
  Ring producer(memory, nbytes);
  std::uint64_t next = 0;
  for (int k = 0; k < kKills; ++k) {
    const auto first = next;
    const pid_t pid = start(point, 0, [&] {
      Ring consumer(memory, nbytes);
      for (auto number = first;;)
        number += std::uint64_t{pop_number(consumer, point, number)};
    });
    for (int left = 4; left > 0; --left, ++next) {
      Record record;
      fill(record, next);
      if (!producer.try_push(record)) fail(point, "a live producer was stopped");
    }
    reap_killed(point, pid);
    // A successor goes on with the oldest record that was not given back.
    Ring successor(memory, nbytes);
    const auto unread = successor.used();
    if (unread != 4 && unread != 3) fail(point, "more than one record was consumed");
    for (auto number = next - unread; number != next; ++number)
      if (!pop_number(successor, point, number)) fail(point, "an unread record is gone");
  }
}

void publish_for_ever(void* memory, std::uint64_t nbytes, std::int64_t version) {
  WeightBoard board(memory, nbytes);
  std::vector<std::int64_t> payload(500);
  for (;; ++version) {
    for (auto& word : payload) word = version;
    board.publish(version, payload.data());
  }
}

void kill_publishers(const char* point) {
  const auto nbytes = WeightBoard::nbytes(500 * 8);
  void* memory = shared(nbytes);
  WeightBoard::create(memory, nbytes, 500 * 8);
  WeightBoard reader(memory, nbytes);
  std::vector<std::int64_t> payload(500);
  for (int k = 0; k < kKills; ++k) {
    const auto before = reader.version();
    // The version and the payload are two copies, hence two passes of mid_payload each.
    reap_killed(point, start(point, 4 + k % 5, [&] {
                  publish_for_ever(memory, nbytes, before + 1);
                }));
    std::int64_t version = 0;
    if (reader.read_into(payload.data(), before, version) != WeightBoard::Read::copied)
      fail(point, "no complete version was left");
    for (auto word : payload)
      if (word != version) fail(point, "a torn version was read");
  }
}

}  // namespace

void fastloop_failpoint(const char* name) {
  if (armed_point == nullptr || std::strcmp(name, armed_point) != 0) return;
  if (passes_left-- == 0) kill(getpid(), SIGKILL);
}

int main() {
  for (const char* point :
       {"after_claim", "mid_payload", "before_commit", "after_commit", "before_wake"})
    kill_producers(point);
  for (const char* point :
       {"after_peek", "mid_payload", "before_release", "after_release", "before_wake"})
    kill_consumers(point);
  for (const char* point : {"after_claim", "mid_payload", "before_commit", "after_commit"})
    kill_publishers(point);
  std::puts("ALL GOOD");
  return 0;
}
