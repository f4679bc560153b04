// A counter-based generator: number i of a stream is a hash of the stream's key and i. Its whole
// state is the key and the counter.
#pragma once

#include <cstdint>

namespace fastloop {

class CounterRandom {
 public:
  struct State {
    std::uint64_t key[2];
    std::uint64_t counter;
  };

  explicit CounterRandom(const State& state) : state_(state) {}

  const State& state() const { return state_; }
  void set_state(const State& state) { state_ = state; }

  std::uint64_t next() {
    constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ull;
    return mix(mix(state_.key[0] + ++state_.counter * golden) + state_.key[1]);
  }

  // Exactly uniform over 0 .. n - 1: Lemire 2019, "Fast random integer generation in an interval",
  // arXiv:1805.10941, algorithm 5.
  std::uint64_t below(std::uint64_t n) {
    __extension__ using Wide = unsigned __int128;
    Wide product = Wide(next()) * n;
    if (static_cast<std::uint64_t>(product) < n) {
      const std::uint64_t biased = (0 - n) % n;
      while (static_cast<std::uint64_t>(product) < biased) product = Wide(next()) * n;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  // Uniform over the multiples of 2^-53 in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  // Finaliser of SplitMix64: Steele, Lea, Flood 2014, with Stafford's constants (mix 13).
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }

  State state_;
};

}  // namespace fastloop
