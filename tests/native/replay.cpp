// Interleavings of a writer and a reader of replay logs, played out in a single thread: at every
// named point inside one of them, the other runs; the writer dies at any point and is replaced.
// The machine is weaker than ours: it delays stores of the commit counter past later stores, and
// repeats old loads of it, as far as the fences allow.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "gather.hpp"

using namespace fastloop;

namespace {

// ---- a machine that reorders ------------------------------------------------------------------

bool delaying = false;  // whether stores of counters wait for a fence
bool writing = false;   // whose code runs
std::map<const SharedCounter*, std::uint64_t> delayed, remembered;

void flush() {
  for (const auto& [counter, value] : delayed)
    const_cast<SharedCounter*>(counter)->store(value);
  delayed.clear();
}

}  // namespace

namespace fastloop {

void store_release(SharedCounter& counter, std::uint64_t value) {
  const auto waiting = delayed.find(&counter);
  if (waiting != delayed.end()) counter.store(waiting->second);
  if (delaying)
    delayed[&counter] = value;
  else
    counter.store(value);
}

std::uint64_t load_acquire(const SharedCounter& counter) {
  return remembered[&counter] = counter.load();
}

// Without a fence since, a load may have been made long ago.
std::uint64_t load_relaxed(const SharedCounter& counter) {
  if (writing) return delayed.count(&counter) ? delayed[&counter] : counter.load();
  const auto old = remembered.find(&counter);
  return old != remembered.end() ? old->second : counter.load();
}

void release_fence() { flush(); }
void acquire_fence() { remembered.clear(); }

}  // namespace fastloop

namespace {

// ---- points -----------------------------------------------------------------------------------

struct Died {};

const char* point = "";
int passes_left = 0;
std::function<void()> action;

void arm(const char* name, int passes, std::function<void()> what) {
  point = name;
  passes_left = passes;
  action = std::move(what);
}

// ---- what is written, and how it is checked -----------------------------------------------------

constexpr std::uint64_t kCapacity = 7, kEnvs = 2, kWords = 3, kSteps = 2, kFrames = 2, kBatch = 12;
constexpr std::uint64_t kIncarnation = 100'000;
std::uint64_t reserve = 0;

[[noreturn]] void fail(const char* what, std::uint64_t expected, std::uint64_t got) {
  std::printf("FAILED %s: expected %llu, got %llu (point %s)\n", what,
              static_cast<unsigned long long>(expected), static_cast<unsigned long long>(got), point);
  std::exit(1);
}

void expect(const char* what, std::uint64_t expected, std::uint64_t got) {
  if (expected != got) fail(what, expected, got);
}

// Observations are numbered; every word of one has its number. An action is that number and the
// one of the episode's first observation, a reward the number as a float.
struct Writer {
  alignas(kCacheLine) static inline char memory[8192];
  std::unique_ptr<ReplayLog> log;
  std::uint64_t incarnation = 0;
  std::uint64_t next[kEnvs], began[kEnvs];
  std::minstd_rand random{1};

  Writer() {
    delayed.clear();
    remembered.clear();
    ReplayLog::create(memory, sizeof memory, kCapacity, kEnvs, {8 * kWords, 16, 4}, reserve);
    restart();
  }

  void restart() {
    log = std::make_unique<ReplayLog>(memory, sizeof memory);
    ++incarnation;
    for (std::uint64_t env = 0; env < kEnvs; ++env)
      next[env] = began[env] = incarnation * kIncarnation + env * kIncarnation / 2;
  }

  void step() {
    std::uint64_t obs[kEnvs][kWords], final_obs[kEnvs][kWords], action[kEnvs][2];
    float reward[kEnvs];
    std::uint8_t terminated[kEnvs], truncated[kEnvs];
    for (std::uint64_t env = 0; env < kEnvs; ++env) {
      std::fill_n(obs[env], kWords, next[env]);
      std::fill_n(final_obs[env], kWords, next[env] + 1);
      action[env][0] = next[env];
      action[env][1] = began[env];
      reward[env] = static_cast<float>(next[env]);
      terminated[env] = random() % 4 == 0;
      truncated[env] = random() % 4 == 0;
    }
    const char* columns[] = {reinterpret_cast<char*>(obs), reinterpret_cast<char*>(action),
                             reinterpret_cast<char*>(reward)};
    writing = true;
    log->append(0, kEnvs, columns, terminated, truncated, reinterpret_cast<char*>(final_obs));
    writing = false;
    for (std::uint64_t env = 0; env < kEnvs; ++env) {
      const bool ended = terminated[env] || truncated[env];
      next[env] += ended ? 2 : 1;
      if (ended) began[env] = next[env];
    }
  }
};

struct Reader {
  ReplayLog log{Writer::memory, sizeof Writer::memory};
  ReplayReader reader{{&log}, kSteps, 0.5, kFrames, {{1, 2}, 0}};
  PriorityTree tree{reader.leaves(), 0.6, 0.1, {{3, 4}, 0}};
  std::uint64_t obs[kBatch][kFrames][kWords], next_obs[kBatch][kFrames][kWords];
  std::uint64_t action[kBatch][2];
  float reward[kBatch], discount[kBatch], weight[kBatch];
  std::int32_t source[kBatch];
  std::int64_t row[kBatch];
  std::uint64_t checked = 0;

  void draw(bool prioritized) {
    const BatchTarget to{reinterpret_cast<char*>(obs), reinterpret_cast<char*>(next_obs),
                         {{reader.log(), 1, Fold::first, reinterpret_cast<char*>(action)},
                          {reader.log(), 2, Fold::sum, reinterpret_cast<char*>(reward)}},
                         discount, weight, source, row};
    const bool was_writing = writing;
    writing = false;
    const auto drawn =
        prioritized ? reader.draw(to, kBatch, tree, 0.5) : reader.draw(to, kBatch);
    writing = was_writing;
    if (drawn == ReplayReader::Draw::lapped) fail("a draw", 0, 1);
    if (drawn == ReplayReader::Draw::drawn)
      for (std::uint64_t k = 0; k < kBatch; ++k) check(k);
  }

  void check(std::uint64_t k) {
    ++checked;
    const auto [at, first] = action[k];
    const auto after = next_obs[k][kFrames - 1][0];
    const auto steps = after - at;
    if (steps < 1 || steps > kSteps) fail("steps of a window", kSteps, steps);
    for (std::uint64_t j = 0; j < kFrames; ++j)
      for (std::uint64_t w = 0; w < kWords; ++w) {
        const auto back = kFrames - 1 - j;
        expect("frame", std::max(at - back, first), obs[k][j][w]);
        expect("frame after", std::max(after - back, first), next_obs[k][j][w]);
      }
    float sum = 0;
    for (std::uint64_t j = 0; j < steps; ++j)
      sum += static_cast<float>(at + j) * (j == 0 ? 1.0f : 0.5f);
    if (sum != reward[k]) fail("reward", static_cast<std::uint64_t>(sum), 0);
    const float left = steps == 1 ? 0.5f : 0.25f;
    if (discount[k] != 0.0f && discount[k] != left) fail("discount", steps, 0);
    expect("environment", at / (kIncarnation / 2) % 2, static_cast<std::uint64_t>(source[k]));
    if (!(weight[k] > 0.0f && weight[k] <= 1.0f)) fail("weight", 1, 0);
  }
};

// Copies the rows of a cut as they lie, as a checkpoint does.
struct Copier {
  ReplayLog log{Writer::memory, sizeof Writer::memory};
  std::uint64_t first[kEnvs], commit[kEnvs];
  std::uint64_t whole_rows = 0, lost_rows = 0;

  void cut() {
    for (std::uint64_t env = 0; env < kEnvs; ++env) {
      commit[env] = load_acquire(log.commit_of(env));
      first[env] = commit[env] - log.live(env, commit[env]);
    }
  }

  void copy() {
    const bool was_writing = writing;
    writing = false;
    constexpr std::uint64_t piece = 3;
    std::vector<char> rows(piece * log.stride());
    for (std::uint64_t env = 0; env < kEnvs; ++env)
      for (auto row = first[env]; row < commit[env]; row += piece) {
        const auto end = std::min(row + piece, commit[env]);
        const auto whole = std::min(log.read(env, row, end - row, rows.data()), end);
        lost_rows += whole - row;
        for (auto at = whole; at < end; ++at) check(rows.data() + (at - row) * log.stride(), at > whole);
      }
    writing = was_writing;
  }

  void check(const char* row, bool follows) {
    std::uint64_t obs[kWords], action;
    std::memcpy(obs, row, sizeof obs);
    std::memcpy(&action, row + sizeof obs, 8);
    const auto bits = static_cast<std::uint8_t>(row[log.stride() - 1]);
    for (const auto word : obs) expect("word of a copied row", obs[0], word);
    if ((bits & kOrigin) != 0) expect("action of a copied row", obs[0], action);
    if (follows && obs[0] / kIncarnation == before / kIncarnation)
      expect("copied row", before + 1, obs[0]);
    before = obs[0];
    ++whole_rows;
  }

  std::uint64_t before = 0;
};

// The copier copies at a point inside the writer, a cut that is some steps old.
std::uint64_t copy_while_writing(const char* where, int passes, int age) {
  Writer writer;
  Copier copier;
  for (int step = 0; step < 40; ++step) {
    if (step % (age + 1) == 0) copier.cut();
    arm(where, passes, [&] { copier.copy(); });
    writer.step();
    action = nullptr;
  }
  return copier.whole_rows;
}

// The writer goes on at a point inside the copier.
std::uint64_t write_while_copying(int passes, int steps) {
  Writer writer;
  Copier copier;
  for (int turn = 0; turn < 12; ++turn) {
    writer.step();
    copier.cut();
    arm("mid_read", passes, [&] {
      for (int k = 0; k < steps; ++k) writer.step();
    });
    copier.copy();
    action = nullptr;
  }
  return copier.lost_rows;
}

// The reader draws at a point inside the writer.
std::uint64_t read_while_writing(const char* where, int passes, bool prioritized) {
  Writer writer;
  Reader reader;
  for (int step = 0; step < 60; ++step) {
    arm(where, passes, [&] { reader.draw(prioritized); });
    writer.step();
    action = nullptr;
  }
  return reader.checked;
}

// The writer goes on at a point inside the reader.
std::uint64_t write_while_reading(int passes, int steps, bool prioritized) {
  Writer writer;
  Reader reader;
  for (int turn = 0; turn < 12; ++turn) {
    writer.step();
    arm("mid_read", passes, [&] {
      for (int k = 0; k < steps; ++k) writer.step();
    });
    reader.draw(prioritized);
    action = nullptr;
  }
  return reader.reader.counters().lapped;
}

// The writer dies at a point; its successor goes on behind what was committed.
void replace_dead(const char* where, int passes, bool prioritized) {
  Writer writer;
  Reader reader;
  for (int turn = 0; turn < 25; ++turn) {
    for (int step = 0; step < turn % 6; ++step) writer.step();
    arm(where, passes, [] { throw Died{}; });
    try {
      writer.step();
    } catch (const Died&) {
      writing = false;
      flush();  // what it has stored does arrive
      writer.restart();
    }
    action = nullptr;
    reader.draw(prioritized);
  }
}

}  // namespace

void fastloop_failpoint(const char* name) {
  if (!action || std::strcmp(name, point) != 0 || passes_left-- > 0) return;
  const auto now = std::move(action);
  action = nullptr;
  now();
}

int main() {
  std::uint64_t checked = 0, lapped = 0, copied = 0, lost = 0;
  for (std::uint64_t rows : {0, 3})
    for (bool delay : {false, true}) {
      reserve = rows;
      delaying = delay;
      for (const char* where : {"after_claim", "mid_payload", "before_commit", "after_commit"})
        for (int passes = 0; passes < 12; ++passes) {
          for (bool prioritized : {false, true}) {
            checked += read_while_writing(where, passes, prioritized);
            replace_dead(where, passes, prioritized);
          }
          for (int age = 0; age < 4; ++age) copied += copy_while_writing(where, passes, age);
        }
      for (int passes = 0; passes < 160; passes += 3)
        for (int steps = 0; steps < 10; ++steps) {
          for (bool prioritized : {false, true})
            lapped += write_while_reading(passes, steps, prioritized);
          if (passes < 30) lost += write_while_copying(passes, steps);
        }
    }
  if (checked < 1000 || lapped < 100) fail("draws checked", 1000, checked);
  if (copied < 1000 || lost < 100) fail("rows copied", 1000, copied);
  std::puts("ALL GOOD");
  return 0;
}
