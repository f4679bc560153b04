// The priority tree against running sums of its leaves, borders and rests of rounding included.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "sum_tree.hpp"

using namespace fastloop;

namespace {

[[noreturn]] void fail(const char* what, double expected, double got) {
  std::printf("FAILED %s: expected %.17g, got %.17g\n", what, expected, got);
  std::exit(1);
}

// Whole numbers, so that every sum is exact and every border can be hit.
void compare(std::uint64_t leaves, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  PriorityTree tree(leaves, 1.0, 0.0, {{seed, 1}, 0});
  for (int turn = 0; turn < 6; ++turn) {
    for (std::uint64_t k = 0; k < leaves; ++k) {
      if (random() % 3 == 0) tree.evict(k);
      if (random() % 3 == 0) tree.insert(k, 1, static_cast<double>(random() % 4));
    }
    tree.repair();
    double sum = 0.0, greatest = 0.0;
    std::uint64_t last = leaves;
    for (std::uint64_t k = 0; k < leaves; ++k) {
      const double priority = tree.priority(k);
      if (priority == 0.0) continue;
      for (double left : {sum, sum + 0.5, sum + priority - 0.25}) {
        std::uint64_t leaf = 0;
        tree.find(&leaf, &left, 1);
        if (leaf != k) fail("leaf of a sum", static_cast<double>(k), static_cast<double>(leaf));
      }
      sum += priority;
      greatest = priority > greatest ? priority : greatest;
      last = k;
    }
    if (tree.total() != sum) fail("total", sum, tree.total());
    if (tree.greatest() != greatest) fail("greatest", greatest, tree.greatest());
    for (double beyond : {sum, sum * 1.5 + 1}) {
      std::uint64_t leaf = 0;
      if (last < leaves) tree.find(&leaf, &beyond, 1);
      if (last < leaves && leaf != last)
        fail("last leaf", static_cast<double>(last), static_cast<double>(leaf));
    }
  }
}

// Draws meet only leaves that have a share, however large, small or unlike the shares are.
void draw(std::uint64_t leaves, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const double scale = std::pow(10.0, static_cast<double>(random() % 580) - 300.0);
  for (double unlike : {1.0, 1e-17, 5e-324 / scale}) {
    PriorityTree tree(leaves, 1.0, 0.0, {{seed, 1}, 0});
    for (int k = 0; k < 3; ++k)
      tree.insert(random() % leaves, 1, scale * (k == 0 ? 1.0 : unlike) * (1 + 1e-16 * k));
    tree.repair();
    if (!(tree.total() > 0.0)) continue;  // all were put on one leaf, the last of them a zero
    std::uint64_t drawn[200];
    tree.draw(drawn, 200);
    for (const auto leaf : drawn)
      if (leaf >= leaves || tree.priority(leaf) == 0.0)
        fail("a leaf with a share", 1.0, static_cast<double>(leaf));
  }
}

}  // namespace

int main() {
  for (std::uint64_t leaves : {1, 2, 15, 16, 17, 255, 256, 257, 4097})
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      compare(leaves, seed);
      draw(leaves, seed);
    }
  std::puts("ALL GOOD");
  return 0;
}
