// Draws of windows from replay logs: uniform over all that are valid, or by priority.
#pragma once

#include <utility>

#include "sum_tree.hpp"
#include "windows.hpp"

namespace fastloop {

class ReplayReader : public ReplayWindows {
 public:
  static constexpr int kMaxTries = 1000;

  enum class Draw { drawn, nothing_valid, lapped };

  struct Counters {
    std::uint64_t drawn;     // windows given out
    std::uint64_t rejected;  // rows that were drawn and were not valid
    std::uint64_t lapped;    // windows that were overwritten while they were copied
  };

  ReplayReader(const std::vector<const ReplayLog*>& logs, std::uint64_t steps, double gamma,
               std::uint64_t frames, const CounterRandom::State& seed, const Shape& shape = {})
      : ReplayWindows(logs, steps, gamma, frames, shape), random_(seed) {}

  const Counters& counters() const { return counters_; }
  CounterRandom& random() { return random_; }
  // For checkpoints: rows of a log before this are known to the tree.
  std::uint64_t seen(std::uint64_t source) const { return sources_[source].seen; }
  std::uint64_t gone(std::uint64_t source) const { return sources_[source].gone; }
  void set_seen(std::uint64_t source, std::uint64_t seen, std::uint64_t gone) {
    sources_[source].seen = seen;
    sources_[source].gone = gone;
  }

  // To draw again what was drawn before: the rows of a log that the last draw looked at, and how
  // many the next ones shall look at. A draw is decided by these, unless the writers got in its way.
  std::uint64_t looked_at(std::uint64_t source) const { return sources_[source].commit; }
  void look_at(std::uint64_t source, std::uint64_t most) { sources_[source].most = most; }
  bool undisturbed() const { return !moved_ && counters_.lapped == lapped_before_; }

  // Rows committed since the logs were made, over all logs; rows live now.
  std::uint64_t committed() {
    snapshot();
    std::uint64_t sum = 0;
    for (const auto& source : sources_) sum += source.commit;
    return sum;
  }
  std::uint64_t live() {
    snapshot();
    return live_;
  }

  // Valid windows, counted one by one.
  std::uint64_t valid() {
    snapshot();
    scan();
    return valid_.size();
  }

  // ---- uniform draws ------------------------------------------------------------------------

  // Draws `count` windows, each uniformly over all valid ones, with replacement.
  Draw draw(const BatchTarget& to, std::uint64_t count) {
    begin();
    valid_.clear();
    windows_.resize(count);
    // In passes, so that memory answers for many rows at once.
    for (auto& window : windows_)
      if (!pick(window)) return Draw::nothing_valid;
    for (auto& window : windows_)
      if (!settle(window)) return Draw::nothing_valid;
    std::fill_n(to.weight, count, 1.0f);
    copy(windows_.data(), to, 0, count);
    refresh();
    for (std::uint64_t k = 0; k < count; ++k)
      if (!still_whole(windows_[k])) {
        const auto drawn = draw_again(windows_[k], to, k);
        if (drawn != Draw::drawn) return drawn;
      }
    counters_.drawn += count;
    return Draw::drawn;
  }

  // ---- draws by priority ----------------------------------------------------------------------

  // Gives new valid rows a leaf, and takes it from rows that are no longer valid.
  void sync(PriorityTree& tree) {
    snapshot();
    follow(tree);
  }
  void follow(PriorityTree& tree) {
    for (std::uint64_t at = 0; at < sources_.size(); ++at) evict_gone(tree, at);
    tree.repair();  // newcomers get the greatest priority of those that are left
    const double newcomer = tree.newcomer();
    for (std::uint64_t at = 0; at < sources_.size(); ++at) insert_new(tree, at, newcomer);
    tree.repair();
  }

  // Draws `count` windows in proportion to their priorities, with replacement. Weights are
  // (P(least likely of the batch) / P(i))^beta: Schaul et al. 2016, arXiv:1511.05952,
  // algorithm 1, line 10 (the number of rows cancels).
  Draw draw(const BatchTarget& to, std::uint64_t count, PriorityTree& tree, double beta) {
    begin();
    follow(tree);
    if (!(tree.total() > 0.0)) return Draw::nothing_valid;
    windows_.resize(count);
    leaf_.resize(count);
    share_.resize(count);
    tree.draw(leaf_.data(), count);
    for (std::uint64_t k = 0; k < count; ++k) {
      share_[k] = tree.priority(leaf_[k]) / tree.total();
      locate(leaf_[k], windows_[k]);
      prefetch(windows_[k]);
    }
    for (std::uint64_t k = 0; k < count; ++k)
      if (examine(windows_[k]) != State::valid && !replace(tree, k)) return Draw::nothing_valid;
    copy(windows_.data(), to, 0, count);
    refresh();
    for (std::uint64_t k = 0; k < count; ++k)
      for (int tries = 0; !still_whole(windows_[k]); ++tries) {
        ++counters_.lapped;
        if (tries == kMaxTries) return Draw::lapped;
        if (!replace(tree, k)) return Draw::nothing_valid;
        copy(&windows_[k], to, k, 1);
        refresh();
      }
    weigh(to.weight, count, beta);
    counters_.drawn += count;
    return Draw::drawn;
  }

  // Takes absolute errors of rows that were drawn; returns how many were accepted.
  std::uint64_t update(PriorityTree& tree, const std::int32_t* log, const std::int64_t* row,
                       const float* error, std::uint64_t count) {
    std::uint64_t accepted = 0;
    for (std::uint64_t k = 0; k < count; ++k) {
      // Numbers that no row has become a leaf that no tree has.
      const bool known = log[k] >= 0 && row[k] >= 0 &&
                         static_cast<std::uint64_t>(log[k]) < sources();
      const auto number = static_cast<std::uint64_t>(row[k]);
      const auto leaf = known ? leaf_of(static_cast<std::uint64_t>(log[k]), number) : leaves();
      accepted += tree.update(leaf, serial_of(number), static_cast<double>(error[k]));
    }
    tree.repair();
    return accepted;
  }

 private:
  void begin() {
    snapshot();
    moved_ = false;
    lapped_before_ = counters_.lapped;
  }

  // ---- picking --------------------------------------------------------------------------------

  // A row, uniformly over all live ones.
  bool pick(Window& window) {
    if (live_ == 0) return false;
    const auto number = random_.below(live_);
    window.source = source_of(number);
    const auto& source = sources_[window.source];
    const auto back = ends_[window.source] - number;
    window.row = source.commit - back;
    window.place = behind(source.head, back);
    prefetch(window);
    return true;
  }

  // Picks again until the window is valid. Where hardly any is, the valid ones are counted out, so
  // that this ends, and says so when there is none.
  bool settle(Window& window) {
    for (int tries = 1; examine(window) != State::valid; ++tries) {
      ++counters_.rejected;
      if (tries < kMaxTries && valid_.empty()) {
        if (!pick(window)) return false;
        continue;
      }
      // Counted out again if what was found has been overwritten since.
      if (!valid_.empty()) snapshot();
      scan();
      if (valid_.empty() || tries > 2 * kMaxTries) return false;
      const auto& found = valid_[random_.below(valid_.size())];
      window.source = found.first;
      move(window, found.second);
    }
    return true;
  }

  void scan() {
    valid_.clear();
    Window window{};
    for (window.source = 0; window.source < sources_.size(); ++window.source) {
      const auto& source = sources_[window.source];
      for (auto row = source.first(); row < source.commit; ++row) {
        move(window, row);
        if (examine(window) == State::valid) valid_.emplace_back(window.source, row);
      }
    }
  }

  // One window anew, its rows having been overwritten while they were copied.
  Draw draw_again(Window& window, const BatchTarget& to, std::uint64_t k) {
    for (int tries = 0; tries < kMaxTries; ++tries) {
      ++counters_.lapped;
      snapshot();
      valid_.clear();
      if (!pick(window)) return Draw::nothing_valid;
      if (!settle(window)) return Draw::nothing_valid;
      copy(&window, to, k, 1);
      refresh();
      if (still_whole(window)) return Draw::drawn;
    }
    return Draw::lapped;
  }

  // ---- priorities -----------------------------------------------------------------------------

  // A row drawn in the place of one that is no longer valid.
  bool replace(PriorityTree& tree, std::uint64_t k) {
    ++counters_.rejected;
    // Its leaf may be another row's by now.
    tree.evict(leaf_[k], serial_of(windows_[k].row));
    for (;;) {
      sync(tree);
      if (!(tree.total() > 0.0)) return false;
      tree.draw(&leaf_[k], 1);
      share_[k] = tree.priority(leaf_[k]) / tree.total();
      locate(leaf_[k], windows_[k]);
      if (examine(windows_[k]) == State::valid) return true;
      ++counters_.rejected;
      // The tree has just followed the logs: whatever the leaf says, no valid row has it.
      tree.evict(leaf_[k]);
    }
  }

  void evict_gone(PriorityTree& tree, std::uint64_t at) {
    auto& source = sources_[at];
    const auto last = std::min(source.first(), source.seen);
    // Rows a whole log apart share a leaf, and how far it was behind is what a checkpoint says.
    auto row = last - std::min(last, capacity());
    for (row = std::max(row, source.gone); row < last; ++row) tree.evict(leaf_of(at, row));
    source.gone = std::max(source.gone, source.first());
    source.seen = std::max(source.seen, source.first());
    // Rows that are there, but not those before them that they need.
    Window window{};
    window.source = at;
    const auto end = std::min(source.seen, source.first() + reach());
    for (auto row = source.first(); row < end; ++row) {
      move(window, row);
      if (examine(window) != State::valid) tree.evict(leaf_of(at, row));
    }
  }

  void insert_new(PriorityTree& tree, std::uint64_t at, double newcomer) {
    auto& source = sources_[at];
    Window window{};
    window.source = at;
    for (; source.seen < source.commit; ++source.seen) {
      move(window, source.seen);
      const auto state = examine(window);
      if (state == State::open) break;
      if (state == State::valid)
        tree.insert(leaf_of(at, window.row), serial_of(window.row), newcomer);
    }
  }

  void weigh(float* weight, std::uint64_t count, double beta) const {
    const double least = *std::min_element(share_.begin(), share_.end());
    for (std::uint64_t k = 0; k < count; ++k)
      weight[k] = std::pow(static_cast<float>(least / share_[k]), static_cast<float>(beta));
  }

  CounterRandom random_;
  Counters counters_{};
  std::uint64_t lapped_before_ = 0;  // the last draw
  // Of one call, kept for their memory.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> valid_;
  std::vector<Window> windows_;
  std::vector<std::uint64_t> leaf_;
  std::vector<double> share_;
};

}  // namespace fastloop
