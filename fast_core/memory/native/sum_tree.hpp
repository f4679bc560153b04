// Priorities of rows and draws in proportion to them.
//
// A tree of sixteen children per node: two cache lines per level, and a fifteenth of the leaves'
// memory for all inner nodes. A parent is computed from its children, never adjusted by a
// difference, so that errors of rounding don't add up and the tree follows from its leaves. The
// greatest leaf is known in the same way. So the leaves alone need to outlive a process, and they may
// lie in shared memory.
//
// A process that is killed there leaves some of its changes. Its successor makes all of them once
// more, from what the process had begun with, and comes to the same leaves: an error sets what it had
// set, who was evicted is evicted, and newcomers get the greatest priority of those that are left,
// which no newcomer exceeds. A row is named before it has a priority, and has none any more before
// its name goes, so that no leaf has a priority without a row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "layout.hpp"
#include "order.hpp"
#include "random.hpp"

namespace fastloop {

template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{kCacheLine}));
  }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, std::align_val_t{kCacheLine}); }
  template <class U>
  bool operator==(const LineAllocator<U>&) const { return true; }
  template <class U>
  bool operator!=(const LineAllocator<U>&) const { return false; }
};

// Private to one process and one thread, but for leaves that are shared with its successor.
class PriorityTree {
 public:
  static constexpr std::uint64_t kFan = 16;
  static constexpr std::uint64_t kMaxLeaves = std::uint64_t{1} << 40;
  // No sum of leaves up to this reaches infinity.
  static constexpr double kMaxPriority = 1e290;

  struct Counters {
    std::uint64_t refused_value;  // NaN, infinite or negative
    std::uint64_t refused_stale;  // of a row that is no longer there
  };

  PriorityTree(std::uint64_t leaves, double alpha, double epsilon, const CounterRandom::State& seed)
      : leaves_(leaves), alpha_(alpha), epsilon_(epsilon), random_(seed) {
    if (leaves < 1 || leaves > kMaxLeaves)
      throw Refused("a priority tree has 1..2^40 leaves; got " + std::to_string(leaves));
    if (!(alpha >= 0.0) || !(epsilon >= 0.0) || std::isinf(alpha) || std::isinf(epsilon))
      throw Refused("alpha and epsilon of a priority tree are finite and at least 0");
    owned_.assign(leaves, 0);
    owner_ = owned_.data();
    for (auto count = leaves;; count = (count + kFan - 1) / kFan) {
      levels_.emplace_back(round_up(count, kFan), 0.0);
      greatest_.emplace_back(levels_.size() == 1 ? 0 : levels_.back().size(), 0.0);
      if (count == 1) break;
    }
    leaf_ = levels_[0].data();
  }
  PriorityTree(const PriorityTree&) = delete;
  PriorityTree& operator=(const PriorityTree&) = delete;

  // Bytes of the array of leaves in shared memory.
  static std::uint64_t leaves_nbytes(std::uint64_t leaves) { return 8 * round_up(leaves, kFan); }

  // Takes the leaves that lie in shared memory in the place of its own; zeros are an empty tree.
  void share(double* leaf, std::uint32_t* owner) {
    leaf_ = leaf;
    owner_ = owner;
    Doubles().swap(levels_[0]);
    std::vector<std::uint32_t>().swap(owned_);
    rebuild();
  }

  void set_counters(const Counters& counters) { counters_ = counters; }

  std::uint64_t leaves() const { return leaves_; }
  std::uint64_t live() const { return live_; }
  double total() const { return nodes(levels_.size() - 1)[0]; }
  double greatest() const { return levels_.size() == 1 ? leaf_[0] : greatest_.back()[0]; }
  double priority(std::uint64_t leaf) const { return leaf_[leaf]; }
  const double* all() const { return leaf_; }
  const std::uint32_t* owners() const { return owner_; }
  const Counters& counters() const { return counters_; }
  CounterRandom& random() { return random_; }

  // ---- changes: any number of them, then one repair ---------------------------------------

  // A new row gets what the greatest row there is has: at least one more draw as likely as any.
  double newcomer() const { return live_ == 0 || greatest() == 0.0 ? 1.0 : greatest(); }

  void insert(std::uint64_t leaf, std::uint64_t serial, double priority) {
    live_ += owner_[leaf] == 0;
    owner_[leaf] = owner_of(serial);
    release_fence();
    put(leaf, priority);
  }

  void evict(std::uint64_t leaf) {
    if (owner_[leaf] == 0) return;
    --live_;
    put(leaf, 0.0);
    release_fence();
    owner_[leaf] = 0;
  }

  // Only if the leaf is still that row's.
  void evict(std::uint64_t leaf, std::uint64_t serial) {
    if (owner_[leaf] == owner_of(serial)) evict(leaf);
  }

  // Takes the absolute error of a row that was drawn; false, and counted, if it can't.
  bool update(std::uint64_t leaf, std::uint64_t serial, double error) {
    const double priority = error >= 0.0 ? std::pow(error + epsilon_, alpha_) : -1.0;
    if (!(priority >= 0.0 && priority <= kMaxPriority) || std::isinf(error)) {
      ++counters_.refused_value;
      return false;
    }
    if (leaf >= leaves_ || owner_[leaf] != owner_of(serial)) {
      ++counters_.refused_stale;
      return false;
    }
    put(leaf, priority);
    return true;
  }

  // Computes the ancestors of what was changed.
  void repair() {
    for (std::size_t level = 1; level < levels_.size(); ++level) {
      const auto parents = (level == 1 ? round_up(leaves_, kFan) : levels_[level - 1].size()) / kFan;
      if (changed_.size() >= parents) {
        changed_.clear();
        for (std::uint64_t node = 0; node < parents; ++node) changed_.push_back(node * kFan);
      }
      std::size_t kept = 0;
      for (const auto child : changed_) {
        const auto node = child / kFan;
        if (kept != 0 && changed_[kept - 1] == node) continue;
        changed_[kept++] = node;
        compute(level, node);
      }
      changed_.resize(kept);
    }
    changed_.clear();
  }

  // Sets everything from saved leaves and owners.
  void restore(const double* priorities, const std::uint32_t* owners, const Counters& counters) {
    for (std::uint64_t leaf = 0; leaf < leaves_; ++leaf) {
      const bool sound = priorities[leaf] >= 0.0 && priorities[leaf] <= kMaxPriority;
      if (!sound || (owners[leaf] == 0 && priorities[leaf] != 0.0))
        throw Refused("saved priorities are damaged at leaf " + std::to_string(leaf));
    }
    std::copy_n(owners, leaves_, owner_);
    std::copy_n(priorities, leaves_, leaf_);
    counters_ = counters;
    rebuild();
  }

  // ---- draws ------------------------------------------------------------------------------

  // Draws a leaf for each of `count`, with replacement, in proportion to its priority; only if
  // total() is above 0.
  void draw(std::uint64_t* leaf, std::uint64_t count) {
    left_.resize(count);
    for (auto& left : left_) left = random_.unit() * total();
    find(leaf, left_.data(), count);
  }

  // The leaf at which the running sum of priorities exceeds `left`, for each of `count`; the last
  // leaf above 0 where it never does. Level by level, so that the loads of different ones overlap.
  void find(std::uint64_t* leaf, double* left, std::uint64_t count) const {
    std::fill_n(leaf, count, 0);
    for (auto level = levels_.size() - 1; level-- > 0;)
      for (std::uint64_t k = 0; k < count; ++k) {
        leaf[k] = leaf[k] * kFan + choose(&nodes(level)[leaf[k] * kFan], left[k]);
        if (level != 0) {
          __builtin_prefetch(&nodes(level - 1)[leaf[k] * kFan]);
          __builtin_prefetch(&nodes(level - 1)[leaf[k] * kFan + kFan / 2]);
        }
      }
  }

 private:
  static std::uint32_t owner_of(std::uint64_t serial) {
    return static_cast<std::uint32_t>(serial % std::numeric_limits<std::uint32_t>::max()) + 1;
  }

  const double* nodes(std::size_t level) const {
    return level == 0 ? leaf_ : levels_[level].data();
  }

  void put(std::uint64_t leaf, double priority) {
    leaf_[leaf] = priority;
    changed_.push_back(leaf);
  }

  // Everything that follows from the leaves.
  void rebuild() {
    live_ = 0;
    for (std::uint64_t leaf = 0; leaf < leaves_; ++leaf) {
      live_ += owner_[leaf] != 0;
      if (leaf % kFan == 0) changed_.push_back(leaf);  // one child of each node says enough
    }
    repair();
  }

  void compute(std::size_t level, std::uint64_t node) {
    const double* child = &nodes(level - 1)[node * kFan];
    const double* top = level == 1 ? child : &greatest_[level - 1][node * kFan];
    double sum[4] = {}, most[4] = {};
    for (std::size_t k = 0; k < kFan; k += 4)
      for (std::size_t lane = 0; lane < 4; ++lane) {
        sum[lane] += child[k + lane];
        most[lane] = top[k + lane] > most[lane] ? top[k + lane] : most[lane];
      }
    levels_[level][node] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    const double low = most[0] > most[1] ? most[0] : most[1];
    const double high = most[2] > most[3] ? most[2] : most[3];
    greatest_[level][node] = low > high ? low : high;
  }

  // The first of sixteen children at which the running sum exceeds `left`, so never one of 0;
  // `left` becomes what is left for it.
  static std::uint64_t choose(const double* child, double& left) {
    double sum = 0.0, before = 0.0;
    std::uint64_t chosen = 0;
    for (std::uint64_t k = 0; k < kFan; ++k) {
      sum += child[k];
      const bool passed = sum <= left;
      chosen += passed;
      before = passed ? sum : before;
    }
    if (chosen < kFan) {
      left -= before;
      return chosen;
    }
    // Rounding left a rest beyond the last child: it belongs to the last that has a share.
    for (chosen = kFan - 1; chosen > 0 && child[chosen] == 0.0; --chosen) {
    }
    left = child[chosen];
    return chosen;
  }

  using Doubles = std::vector<double, LineAllocator<double>>;

  std::uint64_t leaves_;
  double alpha_, epsilon_;
  CounterRandom random_;
  std::uint64_t live_ = 0;
  Counters counters_{};
  // levels_[0] are the leaves, the last has the root; greatest_ likewise, but for the leaves.
  std::vector<Doubles> levels_, greatest_;
  std::vector<std::uint32_t> owned_;
  double* leaf_;  // in levels_[0], or shared
  // Of each leaf, 0 where there is no row, otherwise a remainder of its row's serial number; in
  // owned_, or shared.
  std::uint32_t* owner_;
  std::vector<std::uint64_t> changed_;
  std::vector<double> left_;
};

}  // namespace fastloop
