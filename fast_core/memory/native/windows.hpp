// Windows of replay logs: which are valid, and copies of them.
//
// A window begins at an origin row and has n steps, or fewer where its episode ends. It is valid
// when its last observation is there, nothing in it crosses the mark of a new beginning, and the
// frames stacked for its first observation are still there. It becomes one transition, or a
// sequence of all its rows, with those of its episode before it.
#pragma once

#include <algorithm>

#include "replay_log.hpp"

namespace fastloop {

// What a window has of a column: that of its first row, the discounted sum of its floats, or, as a
// sequence, that of each row.
enum class Fold : std::uint8_t { first, sum, each };

// Where a column of a batch goes; row i lies at i times its size.
struct ColumnTarget {
  ColumnTarget(const ReplayLog& log, std::size_t column, Fold window, char* to)
      : offset(log.offset(column)), nbytes(log.row_bytes(column)), fold(window), rows(to) {}

  std::uint64_t offset;  // within a row of the log
  std::uint64_t nbytes;
  Fold fold;
  char* rows;
};

// Where a batch goes.
struct BatchTarget {
  char* obs;       // stacked frames, the newest last
  char* next_obs;  // likewise
  std::vector<ColumnTarget> columns;  // the others
  float* discount;
  float* weight;
  std::int32_t* log;
  std::int64_t* row;
  // Of sequences, which have no next_obs and no discount.
  std::uint8_t* terminated = nullptr;
  std::uint8_t* truncated = nullptr;
  std::uint8_t* mask = nullptr;
};

// What a window becomes: a transition if it has no length, or a sequence of so many rows, of which
// at most `before` lie before the one that is drawn.
struct Shape {
  std::uint64_t before = 0;
  std::uint64_t length = 0;
};

// The logs of all environments as one reader sees them.
class ReplayWindows {
 public:
  static constexpr std::uint64_t kMaxFrames = 255;

  ReplayWindows(const std::vector<const ReplayLog*>& logs, std::uint64_t steps, double gamma,
                std::uint64_t frames, const Shape& shape)
      : steps_(steps), frames_(frames), shape_(shape) {
    if (logs.empty()) throw Refused("a replay reader needs at least one log");
    log_ = logs[0];
    if (!(gamma >= 0.0 && gamma <= 1.0)) throw Refused("gamma must lie in 0..1");
    if (steps < 1 || frames < 1 || frames > kMaxFrames)
      throw Refused("a replay reader needs n-step windows of at least 1 step and 1..255 frames");
    const auto& first = *logs[0];
    if (steps > first.capacity() || first.capacity() - steps <= reach())
      throw Refused("replay logs of " + std::to_string(first.capacity()) +
                    " rows hold no window of " + std::to_string(steps) + " steps, " +
                    std::to_string(shape.before) + " rows before them and " +
                    std::to_string(frames) + " frames; raise replay.capacity");
    for (const auto* log : logs) {
      bool alike = log->capacity() == first.capacity() && log->places() == first.places() &&
                   log->columns() == first.columns();
      for (std::size_t c = 0; alike && c < first.columns(); ++c)
        alike = log->row_bytes(c) == first.row_bytes(c);
      if (!alike) throw Refused("replay logs of one reader must have equal capacities and columns");
      for (std::uint64_t env = 0; env < log->envs(); ++env) sources_.emplace_back(log, env);
    }
    stride_ = first.stride();
    for (std::uint64_t k = 0; k <= steps; ++k)
      power_.push_back(k == 0 ? 1.0 : power_.back() * gamma);
  }

  const ReplayLog& log() const { return *log_; }
  std::uint64_t sources() const { return sources_.size(); }
  // A row's leaf is that of its number modulo the capacity, so no two live rows share one.
  std::uint64_t leaves() const { return sources_.size() * capacity(); }
  std::uint64_t frames() const { return frames_; }
  const Shape& shape() const { return shape_; }

 protected:
  // One environment's log, and where it stood at the last snapshot.
  struct Source {
    Source(const ReplayLog* from, std::uint64_t number)
        : log(from), env(number), bits(from->bits_of(number)) {
      for (std::size_t c = 0; c < from->columns(); ++c) column.push_back(from->column_of(c, number));
    }

    std::uint64_t first() const { return commit - count; }

    const ReplayLog* log;
    std::uint64_t env;
    const char* bits;
    std::vector<const char*> column;
    std::uint64_t commit = 0;  // rows before it are whole
    std::uint64_t count = 0;   // live rows, which are the last ones
    std::uint64_t head = 0;    // place of row `commit`
    std::uint64_t tip = 0;     // its leaf, among those of this log
    std::uint64_t kept = 0;    // rows before it may have been overwritten, after a refresh
    std::uint64_t seen = 0;    // rows before it have their leaf, or will never have one
    std::uint64_t gone = 0;    // rows before it have lost it
    std::uint64_t most = ~std::uint64_t{0};  // rows from it on are not looked at
  };

  enum class State { valid, open, never };

  struct Window {
    std::uint64_t source;
    std::uint64_t row;
    std::uint64_t place;  // of the row in its log
    std::uint64_t age;    // rows of the same episode before the row, at most reach()
    std::uint64_t steps;  // from the row to its last observation
    bool terminated;
  };

  // Rows before the drawn one that a window may need.
  std::uint64_t reach() const { return shape_.before + frames_ - 1; }
  std::uint64_t capacity() const { return log().capacity(); }
  std::uint64_t places() const { return log().places(); }
  std::uint64_t place_of(std::uint64_t row) const { return row % places(); }
  std::uint64_t leaf_of(std::uint64_t source, std::uint64_t row) const {
    return source * capacity() + row % capacity();
  }
  // Tells the rows that have had a leaf apart.
  std::uint64_t serial_of(std::uint64_t row) const { return row / capacity(); }
  // Less than a whole log away, without a division.
  std::uint64_t ahead(std::uint64_t place, std::uint64_t rows) const {
    place += rows;
    return place < places() ? place : place - places();
  }
  std::uint64_t behind(std::uint64_t place, std::uint64_t rows) const {
    return place < rows ? place + places() - rows : place - rows;
  }
  // The row that has a leaf: of the last `capacity` ones, one does.
  void locate(std::uint64_t leaf, Window& window) const {
    window.source = leaf / capacity();
    const auto& source = sources_[window.source];
    const auto at = leaf % capacity();
    const auto back = source.tip - at + (at < source.tip ? 0 : capacity());
    // Before the log is full that may be a row before the first one, which examine refuses.
    window.row = source.commit - back;
    window.place = behind(source.head, back);
  }

  void move(Window& window, std::uint64_t row) const {
    window.row = row;
    window.place = place_of(row);
  }

  // ---- where the logs stand -------------------------------------------------------------------

  // Live rows as of now; everything that follows is decided by these, until the next refresh.
  void snapshot() {
    live_ = 0;
    for (auto& source : sources_) {
      // Acquire: pairs with the release store in ReplayLog::append.
      const auto commit = load_acquire(source.log->commit_of(source.env));
      const auto before = source.commit;
      source.commit = std::min(commit, source.most);
      moved_ |= source.commit != before;
      source.count = source.log->live(source.env, source.commit);
      source.head = place_of(source.commit);
      source.tip = source.commit % capacity();
      live_ += source.count;
    }
    ends_.clear();
    std::uint64_t end = 0;
    for (const auto& source : sources_) ends_.push_back(end += source.count);
  }

  // Whose live row has this number in a count of all. Each step halves what is left without a
  // branch, which a processor would guess wrong every other time.
  std::uint64_t source_of(std::uint64_t number) const {
    const std::uint64_t* const ends = ends_.data();
    std::uint64_t first = 0;
    for (auto left = ends_.size(); left > 1;) {
      const auto half = left / 2;
      first += ends[first + half - 1] <= number ? half : 0;
      left -= half;
    }
    return first;
  }

  // After copies: which of their rows have stayed.
  void refresh() {
    // Acquire fence: pairs with the release fence in ReplayLog::append.
    acquire_fence();
    for (auto& source : sources_) {
      // Relaxed: ordered by the fence above.
      const auto commit = load_relaxed(source.log->commit_of(source.env));
      source.kept = commit - source.log->whole(source.env, commit);
    }
  }

  bool still_whole(const Window& window) const {
    return window.row - window.age >= sources_[window.source].kept;
  }

  // ---- windows --------------------------------------------------------------------------------

  // Fills in what the bits of the rows say of the window that begins at `window.row`.
  State examine(Window& window) const {
    const auto& source = sources_[window.source];
    if (window.row < source.first() || window.row >= source.commit) return State::never;
    auto bits = bits_at(source, window.place);
    if ((bits & kOrigin) == 0) return State::never;
    if (!find_age(source, window, bits)) return State::never;
    for (window.steps = 1;; ++window.steps) {
      const auto next = window.row + window.steps;
      window.terminated = (bits & kTerminated) != 0;
      if (next >= source.commit) return State::open;
      if ((bits & kEnded) != 0) return State::valid;
      bits = bits_at(source, ahead(window.place, window.steps));
      // The writer was replaced, and what came next was never written.
      if ((bits & kBegins) != 0) return State::never;
      if (window.steps == steps_) return State::valid;
    }
  }

  // ---- copies ---------------------------------------------------------------------------------

  // What examine and copy will touch of a window's rows; of long rows the bits and the first lines,
  // the processor sees to the rest.
  void prefetch(const Window& window) const {
    const auto& source = sources_[window.source];
    const char* row = source.column[ReplayLog::obs] + window.place * stride_;
    // GCC takes a function that only prefetches for one without effect, and drops its calls.
    __asm__ volatile("");
    const auto rows = (steps_ + 1) * stride_;
    for (std::uint64_t at = 0; at < std::min(rows, 8 * kCacheLine); at += kCacheLine)
      __builtin_prefetch(row + at);
    __builtin_prefetch(source.bits + (window.place + 1) * stride_);
    if (2 * stride_ > 8 * kCacheLine) __builtin_prefetch(source.bits + window.place * stride_);
  }

  // Copies `count` windows to the rows of a batch from `first` on. Column by column, so that the
  // sizes of copies, by which the library's memcpy branches, come in runs.
  void copy(const Window* windows, const BatchTarget& to, std::uint64_t first,
            std::uint64_t count) const {
    for (std::uint64_t k = 0; k < count; ++k) {
      to.log[first + k] = static_cast<std::int32_t>(windows[k].source);
      to.row[first + k] = static_cast<std::int64_t>(windows[k].row);
      if (shape_.length == 0)
        copy_ends(windows[k], to, first + k);
      else
        copy_sequence(windows[k], to, first + k);
    }
    if (shape_.length != 0) return;
    for (const auto& column : to.columns)
      copy_column(windows, column, column.rows + first * column.nbytes, count);
  }

  std::vector<Source> sources_;
  std::uint64_t live_ = 0;           // rows, at the last snapshot
  std::vector<std::uint64_t> ends_;  // of each source, in a count of all live rows
  bool moved_ = false;               // whether a snapshot found other rows than the one before

 private:
  // Both observations of a transition, and how much of what follows counts.
  void copy_ends(const Window& window, const BatchTarget& to, std::uint64_t k) const {
    const auto& source = sources_[window.source];
    const auto obs_bytes = frames_ * log().row_bytes(ReplayLog::obs);
    const auto next_age = std::min(window.age + window.steps, frames_ - 1);
    copy_stack(to.obs + k * obs_bytes, source, window.place, window.age);
    copy_stack(to.next_obs + k * obs_bytes, source, ahead(window.place, window.steps), next_age);
    to.discount[k] = window.terminated ? 0.0f : static_cast<float>(power_[window.steps]);
  }

  void copy_column(const Window* windows, const ColumnTarget& column, char* row,
                   std::uint64_t count) const {
    // Bytes written through `char*` may be anything's, so what doesn't change is at hand.
    const Source* const sources = sources_.data();
    const auto stride = stride_, nbytes = column.nbytes;
    const auto offset = column.offset;
    if (column.fold == Fold::first)
      for (std::uint64_t k = 0; k < count; ++k, row += nbytes)
        load_row(row, rows_of(sources[windows[k].source]) + windows[k].place * stride + offset,
                 nbytes);
    else
      for (std::uint64_t at = 0; at < nbytes; at += sizeof(float))
        sum(windows, row + at, nbytes, offset + at, count);
  }

  // The drawn row stands at place `before`; what is no row of the sequence is zero.
  // Apart, so that transitions are copied where they are drawn.
  [[gnu::noinline]] void copy_sequence(const Window& window, const BatchTarget& to,
                                       std::uint64_t k) const {
    const auto& source = sources_[window.source];
    const auto obs_bytes = frames_ * log().row_bytes(ReplayLog::obs);
    const auto length = shape_.length;
    const auto begun = std::min(window.age, shape_.before);
    const auto first = shape_.before - begun, rows = begun + window.steps;
    const auto at = [&](std::uint64_t row) {
      return row < begun ? behind(window.place, begun - row) : ahead(window.place, row - begun);
    };
    char* obs = to.obs + k * (length + 1) * obs_bytes;
    std::memset(obs, 0, (length + 1) * obs_bytes);
    for (std::uint64_t row = 0; row <= rows; ++row) {
      const auto age = std::min(window.age - begun + row, frames_ - 1);
      copy_stack(obs + (first + row) * obs_bytes, source, at(row), age);
    }
    for (const auto& each : to.columns) {
      const char* from = rows_of(source) + each.offset;
      if (each.fold == Fold::first) {
        load_row(each.rows + k * each.nbytes, from + at(0) * stride_, each.nbytes);
        continue;
      }
      char* column = each.rows + k * length * each.nbytes;
      std::memset(column, 0, length * each.nbytes);
      for (std::uint64_t row = 0; row < rows; ++row)
        load_row(column + (first + row) * each.nbytes, from + at(row) * stride_, each.nbytes);
    }
    for (auto* flags : {to.terminated, to.truncated, to.mask})
      std::fill_n(flags + k * length, length, std::uint8_t{0});
    std::fill_n(to.mask + k * length + first, rows, std::uint8_t{1});
    const auto last = bits_at(source, at(rows - 1));
    to.terminated[k * length + first + rows - 1] = (last & kTerminated) != 0;
    to.truncated[k * length + first + rows - 1] = (last & kTruncated) != 0;
  }

  std::uint8_t bits_at(const Source& source, std::uint64_t place) const {
    std::uint8_t bits;
    load_row(&bits, source.bits + place * stride_, 1);
    return bits;
  }

  // How far back the stack of the first observation reaches; false if that is gone.
  bool find_age(const Source& source, Window& window, std::uint8_t bits) const {
    window.age = 0;
    while (window.age < reach() && (bits & kBegins) == 0) {
      if (window.row - window.age == source.first()) return false;
      ++window.age;
      bits = bits_at(source, behind(window.place, window.age));
    }
    return true;
  }

  // The observation at a place and the `age` ones before it; the oldest stands again for what is
  // missing.
  void copy_stack(char* to, const Source& source, std::uint64_t place, std::uint64_t age) const {
    const auto nbytes = log().row_bytes(ReplayLog::obs);
    for (auto back = frames_; back-- > 0; to += nbytes) {
      const auto from = behind(place, std::min(back, age));
      load_row(to, source.column[ReplayLog::obs] + from * stride_, nbytes);
    }
  }

  // Of each window the discounted sum of the floats at `offset` of its rows; one in `apart` bytes.
  void sum(const Window* windows, char* to, std::uint64_t apart, std::uint64_t offset,
           std::uint64_t count) const {
    const Source* const sources = sources_.data();
    const double* const power = power_.data();
    const auto stride = stride_, round = places();
    for (std::uint64_t k = 0; k < count; ++k, to += apart) {
      const auto place = windows[k].place, steps = windows[k].steps;
      const char* const first = rows_of(sources[windows[k].source]) + offset;
      double sum = 0.0;
      for (std::uint64_t step = 0; step < steps; ++step) {
        const auto at = place + step;  // the log begins anew at its end
        float value;
        load_row(&value, first + (at < round ? at : at - round) * stride, sizeof value);
        sum += power[step] * static_cast<double>(value);
      }
      const auto folded = static_cast<float>(sum);
      std::memcpy(to, &folded, sizeof folded);
    }
  }

  static const char* rows_of(const Source& source) { return source.column[ReplayLog::obs]; }

  const ReplayLog* log_ = nullptr;  // the first; all outlive the reader
  std::uint64_t steps_, frames_;
  Shape shape_;
  std::uint64_t stride_ = 0;   // of rows
  std::vector<double> power_;  // gamma^k
};

}  // namespace fastloop
