// Threads stand in for processes: one writer, replaced now and then, readers that draw as fast as
// they can, and one that copies rows as they lie. Every word of a row has its number.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "gather.hpp"

using namespace fastloop;

namespace {

constexpr std::uint64_t kCapacity = 9, kEnvs = 3, kWords = 5, kBatch = 16, kSteps = 3;
constexpr std::uint64_t kIncarnation = 1'000'000, kReserve = 4;

struct FreeAligned {
  void operator()(void* memory) const { std::free(memory); }
};

[[noreturn]] void fail(const char* what, std::uint64_t expected, std::uint64_t got) {
  std::printf("FAILED %s: expected %llu, got %llu\n", what,
              static_cast<unsigned long long>(expected), static_cast<unsigned long long>(got));
  std::exit(1);
}

void write(void* memory, std::uint64_t nbytes, std::uint64_t incarnation, std::uint64_t steps) {
  ReplayLog log(memory, nbytes);
  auto next = incarnation * kIncarnation;
  for (std::uint64_t step = 0; step < steps; ++step) {
    std::uint64_t obs[kEnvs][kWords], final_obs[kEnvs][kWords], action[kEnvs];
    float reward[kEnvs] = {1, 1, 1};
    std::uint8_t terminated[kEnvs], truncated[kEnvs] = {};
    for (std::uint64_t env = 0; env < kEnvs; ++env) {
      std::fill_n(obs[env], kWords, next);
      std::fill_n(final_obs[env], kWords, next + 1);
      action[env] = next;
      terminated[env] = (step + env) % 4 == 0;
    }
    const char* columns[] = {reinterpret_cast<char*>(obs), reinterpret_cast<char*>(action),
                             reinterpret_cast<char*>(reward)};
    log.append(0, kEnvs, columns, terminated, truncated, reinterpret_cast<char*>(final_obs));
    ++next;
    if (step % 8 == 0) std::this_thread::yield();
  }
}

void read(void* memory, std::uint64_t nbytes, const std::atomic<bool>& over, bool prioritized) {
  ReplayLog log(memory, nbytes);
  ReplayReader reader({&log}, kSteps, 0.5, 1, {{7, 8}, 0});
  PriorityTree tree(reader.leaves(), 0.6, 0.1, {{9, 10}, 0});
  std::uint64_t obs[kBatch][kWords], next_obs[kBatch][kWords], action[kBatch];
  float reward[kBatch], discount[kBatch], weight[kBatch], error[kBatch];
  std::int32_t source[kBatch];
  std::int64_t row[kBatch];
  const BatchTarget to{reinterpret_cast<char*>(obs), reinterpret_cast<char*>(next_obs),
                       {{reader.log(), 1, Fold::first, reinterpret_cast<char*>(action)},
                        {reader.log(), 2, Fold::sum, reinterpret_cast<char*>(reward)}},
                       discount, weight, source, row};
  while (!over.load()) {
    const auto drawn =
        prioritized ? reader.draw(to, kBatch, tree, 0.5) : reader.draw(to, kBatch);
    if (drawn != ReplayReader::Draw::drawn) continue;
    for (std::uint64_t k = 0; k < kBatch; ++k) {
      const auto steps = next_obs[k][0] - obs[k][0];
      if (steps < 1 || steps > kSteps) fail("steps of a window", kSteps, steps);
      if (action[k] != obs[k][0]) fail("action", obs[k][0], action[k]);
      for (std::uint64_t w = 0; w < kWords; ++w) {
        if (obs[k][w] != obs[k][0]) fail("word of a row", obs[k][0], obs[k][w]);
        if (next_obs[k][w] != next_obs[k][0]) fail("word of a row", next_obs[k][0], next_obs[k][w]);
      }
      if (reward[k] != 2.0f - std::ldexp(1.0f, 1 - static_cast<int>(steps)))
        fail("reward of so many steps", steps, static_cast<std::uint64_t>(reward[k] * 100));
      error[k] = static_cast<float>(k);
    }
    if (prioritized) reader.update(tree, source, row, error, kBatch);
  }
}

// Copies what was live a moment ago, as a checkpoint does.
void copy(void* memory, std::uint64_t nbytes, const std::atomic<bool>& over) {
  ReplayLog log(memory, nbytes);
  std::vector<char> rows(log.stride() * kCapacity);
  while (!over.load())
    for (std::uint64_t env = 0; env < kEnvs; ++env) {
      const auto commit = load_acquire(log.commit_of(env));
      const auto first = commit - log.live(env, commit);
      const auto whole = log.read(env, first, commit - first, rows.data());
      for (auto row = whole; row < commit; ++row) {
        std::uint64_t obs[kWords];
        std::memcpy(obs, rows.data() + (row - first) * log.stride(), sizeof obs);
        for (const auto word : obs)
          if (word != obs[0]) fail("word of a copied row", obs[0], word);
      }
    }
}

}  // namespace

int main() {
  const std::vector<std::uint64_t> row_bytes = {8 * kWords, 8, 4};
  const auto nbytes = ReplayLog::nbytes(kCapacity, kEnvs, row_bytes, kReserve);
  std::unique_ptr<void, FreeAligned> memory(std::aligned_alloc(kCacheLine, nbytes));
  std::memset(memory.get(), 0, nbytes);
  ReplayLog::create(memory.get(), nbytes, kCapacity, kEnvs, row_bytes, kReserve);
  std::atomic<bool> over{false};
  std::thread uniform([&] { read(memory.get(), nbytes, over, false); });
  std::thread prioritized([&] { read(memory.get(), nbytes, over, true); });
  std::thread copier([&] { copy(memory.get(), nbytes, over); });
  for (std::uint64_t incarnation = 1; incarnation <= 100; ++incarnation)
    write(memory.get(), nbytes, incarnation, 60 + incarnation % 7);
  over.store(true);
  uniform.join();
  prioritized.join();
  copier.join();
  std::puts("ALL GOOD");
  return 0;
}
