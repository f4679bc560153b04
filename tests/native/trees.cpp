// Trees of drawn rules, in arrays that are exactly as large as they must be: what has to hold of
// every search, whatever networks say. What it should be stands in tests/algos/muzero.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "trees.hpp"

using namespace fastloop::search;

namespace {

std::mt19937_64 random_bits(1);

[[noreturn]] void fail(const char* what, double expected, double got) {
  std::printf("FAILED %s: expected %.17g, got %.17g\n", what, expected, got);
  std::exit(1);
}

double uniform() { return std::uniform_real_distribution<double>(0.0, 1.0)(random_bits); }
int below(int most) { return static_cast<int>(random_bits() % most); }

// Numbers of networks that may go to any length.
std::vector<float> drawn(std::size_t count, double scale) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(scale * (2 * uniform() - 1));
  return numbers;
}

// Allocated to the byte, so that the sanitizer sees what is read beyond; with one allowed action a
// row at least.
std::unique_ptr<bool[]> drawn_mask(std::int64_t roots, std::int32_t actions) {
  auto mask = std::make_unique<bool[]>(roots * actions);
  for (std::int64_t b = 0; b < roots; ++b) {
    for (std::int32_t a = 0; a < actions; ++a) mask[b * actions + a] = below(3) == 0;
    mask[b * actions + below(actions)] = true;
  }
  return mask;
}

void search(Trees& trees, std::int64_t roots) {
  const Rules& rules = trees.rules();
  const std::size_t numbers = roots * rules.actions;
  const double spread = std::pow(10.0, below(5) - 1), scale = std::pow(10.0, below(40) - 20);
  const auto mask = below(2) == 0 ? nullptr : drawn_mask(roots, rules.actions);
  std::vector<float> noise(numbers);
  for (float& number : noise) number = below(50) == 0 ? 0.0f : static_cast<float>(uniform());
  const auto logits = drawn(numbers, spread), value = drawn(roots, scale);
  const auto begun = trees.begin(roots, value.data(), logits.data(), mask.get(),
                                 below(3) == 0 ? nullptr : noise.data());
  if (begun.fault != Fault::none) fail("a search begins", 0, static_cast<int>(begun.fault));
  std::vector<std::int64_t> place(roots), action(roots);
  for (std::int32_t node = 1; node <= rules.simulations; ++node) {
    trees.select(place.data(), action.data());
    for (std::int64_t b = 0; b < roots; ++b) {
      if (place[b] % trees.capacity() != b) fail("tree of a place", b, place[b]);
      if (place[b] / trees.capacity() >= node) fail("node of a place", node, place[b]);
      if (action[b] < 0 || action[b] >= rules.actions) fail("an action", 0, action[b]);
    }
    const auto fault = trees.expand(drawn(roots, scale).data(), drawn(roots, scale).data(),
                                    drawn(numbers, spread).data());
    if (fault.fault != Fault::none) fail("a node is added", 0, static_cast<int>(fault.fault));
    trees.backup();
  }
  std::vector<float> policy(numbers), found(roots);
  std::vector<std::int32_t> visits(numbers);
  trees.result(action.data(), policy.data(), found.data(), visits.data());
  for (std::int64_t b = 0; b < roots; ++b) {
    double shares = 0, count = 0;
    for (std::size_t k = b * rules.actions; k < (b + 1) * std::size_t(rules.actions); ++k) {
      shares += policy[k];
      count += visits[k];
      if (mask != nullptr && !mask[k] && (policy[k] != 0.0f || visits[k] != 0))
        fail("share of what is not allowed", 0, policy[k]);
    }
    if (!(std::abs(shares - 1) < 1e-4)) fail("sum of the policy", 1, shares);
    if (count != rules.simulations) fail("visits", rules.simulations, count);
    if (visits[b * rules.actions + action[b]] == 0) fail("visits of the action", 1, 0);
    if (!std::isfinite(found[b])) fail("value", 0, found[b]);
  }
}

Rules drawn_rules() {
  Rules rules{};
  rules.actions = below(2) == 0 ? 1 + below(4) : 1 + below(90);
  rules.simulations = below(10) == 0 ? 800 : 1 + below(50);
  rules.considered = below(2) == 0 ? 0 : std::min(1 + below(20), rules.actions);
  rules.continuation = 2 * uniform() - 1;
  rules.visit_offset = 50;
  rules.value_scale = below(2) == 0 ? 0.1 : 1.0;
  rules.least_span = below(2) == 0 ? 0.01 : 2.0;
  rules.exploration_base = 19652;
  rules.exploration = 1.25;
  rules.noise_share = 0.25;
  rules.noise_shape = std::pow(10.0, 2 * uniform() - 1.5);
  return rules;
}

// Any schedule in which all are visited before one is visited again serves.
std::vector<std::int32_t> schedule(const Rules& rules) {
  std::vector<std::int32_t> visits;
  for (std::int32_t considered = 0; considered <= rules.considered; ++considered)
    for (std::int32_t n = 0; n < rules.simulations; ++n)
      visits.push_back(n / std::max(considered, 1));
  return visits;
}

// What is not finite, and where nothing is allowed, is found in its root.
void refuse() {
  Rules rules = drawn_rules();
  rules.actions = 5;
  rules.considered = std::min(rules.considered, 5);
  Trees trees(rules, 3, schedule(rules).data());
  const float logits[15] = {}, value[3] = {};
  bool mask[15] = {true, false, false, false, false, false, false, false, false, false,
                   false, false, false, false, true};
  if (trees.begin(3, value, logits, mask, nullptr).root != 1) fail("root without action", 1, 0);
  for (float wrong : {NAN, INFINITY, -INFINITY})
    for (int place = 0; place < 21; ++place) {
      if (trees.begin(3, value, logits, nullptr, nullptr).fault != Fault::none)
        fail("begins", 0, 1);
      std::int64_t nodes[3], actions[3];
      trees.select(nodes, actions);
      float all[21] = {};
      all[place] = wrong;
      const auto refusal = trees.expand(all, all + 3, all + 6);
      const int root = place < 6 ? place % 3 : (place - 6) / 5;
      const Fault fault = place < 3 ? Fault::reward : place < 6 ? Fault::value : Fault::logits;
      if (refusal.fault != fault || refusal.root != root) fail("root at fault", root, refusal.root);
    }
}

// The integral of the density up to a quantile is what it is the quantile of; shapes to 1.
void check_quantile(double shape) {
  const double factor = std::lgamma(shape + 1.0);
  for (double wanted : {1e-9, 1e-3, 0.2, 0.5, 0.9, 0.999, 1 - 1e-9}) {
    const double end = std::exp(shape * log_gamma_quantile(wanted, shape, factor));
    double sum = 0;  // over u = x^shape, in which the density has no pole
    const int pieces = 200'000;
    for (int k = 0; k < pieces; ++k)
      sum += std::exp(-std::pow((k + 0.5) / pieces * end, 1 / shape)) * end / pieces;
    const double got = sum / std::exp(factor);
    if (!(std::abs(got - wanted) < 1e-6)) fail("quantile", wanted, got);
  }
}

}  // namespace

int main() {
  for (double shape : {0.03, 0.3, 1.0}) check_quantile(shape);
  for (int turn = 0; turn < 300; ++turn) {
    const Rules rules = drawn_rules();
    const std::int64_t capacity = 1 + below(6);
    Trees trees(rules, capacity, schedule(rules).data());
    for (int again = 0; again < 3; ++again) search(trees, 1 + below(static_cast<int>(capacity)));
    refuse();
  }
  std::puts("ALL GOOD");
  return 0;
}
