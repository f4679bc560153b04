// Circular logs of transitions, one per environment of a shard: one writer, any readers.
//
// A step takes a row (what was observed, done and got), and where its episode ends a second row
// for the true final observation, which is no origin of a transition. The observation after a
// step is that of the next row, so nothing is stored twice. Bits of one byte per row say what the
// row is; the first row of an episode or of a writer's incarnation is marked, and nothing may be
// joined across that mark.
//
// The columns of a row lie side by side, and the next row behind it: a draw of one transition in a
// million then misses the caches in one place, which can be asked for ahead; an array per column
// would miss in five places.
//
// The last `capacity` rows are live: they can be drawn. `reserve` rows before them are still whole,
// for who copies rows that were live a while ago: a checkpoint, or a draw.
//
// Row r lies at place r % places. Rows up to `commit` are whole. A writer overwrites at most
// kOpenRows places between two commits, so a reader that copied row r, and after an acquire
// fence still finds r >= commit - (places - kOpenRows), has a whole copy; these are capacity and
// reserve.
// (The 64-bit counter of rows does not wrap: at ten million a second it would take 58,000 years.)
#pragma once

#include <algorithm>
#include <vector>

#include "copy.hpp"
#include "layout.hpp"
#include "order.hpp"

namespace fastloop {

// Bits of a row.
constexpr std::uint8_t kOrigin = 1;      // a step; without it, only the observation means anything
constexpr std::uint8_t kTerminated = 2;  // the next row is the final observation
constexpr std::uint8_t kTruncated = 4;   // likewise
constexpr std::uint8_t kBegins = 8;      // nothing before it belongs to it
constexpr std::uint8_t kCut = 16;        // what follows does not belong to it; for writers only
constexpr std::uint8_t kEnded = kTerminated | kTruncated;

// The most rows written between two commits: a step and a final observation.
constexpr std::uint64_t kOpenRows = 2;

// Bytes validated by the commit counter, of any size and alignment: see copy.hpp.
#ifdef FASTLOOP_TSAN
inline void store_row(void* shared, const void* from, std::size_t nbytes) {
  auto* bytes = static_cast<std::atomic<unsigned char>*>(shared);
  for (std::size_t k = 0; k < nbytes; ++k)
    bytes[k].store(static_cast<const unsigned char*>(from)[k], std::memory_order_relaxed);
}
inline void load_row(void* to, const void* shared, std::size_t nbytes) {
  const auto* bytes = static_cast<const std::atomic<unsigned char>*>(shared);
  for (std::size_t k = 0; k < nbytes; ++k)
    static_cast<unsigned char*>(to)[k] = bytes[k].load(std::memory_order_relaxed);
}
#else
inline void store_row(void* shared, const void* from, std::size_t nbytes) {
  store_shared(shared, from, nbytes);
}
inline void load_row(void* to, const void* shared, std::size_t nbytes) {
  load_shared(to, shared, nbytes);
}
#endif

class ReplayLog {
 public:
  static constexpr std::size_t obs = 0;  // the column that a final observation has too
  static constexpr std::uint64_t kMaxColumns = 64;

  static std::uint64_t nbytes(std::uint64_t capacity, std::uint64_t envs,
                              const std::vector<std::uint64_t>& row_bytes,
                              std::uint64_t reserve = 0) {
    return Plan(capacity, envs, row_bytes, reserve).nbytes;
  }

  static void create(void* memory, std::uint64_t size, std::uint64_t capacity, std::uint64_t envs,
                     const std::vector<std::uint64_t>& row_bytes, std::uint64_t reserve = 0) {
    const Plan plan(capacity, envs, row_bytes, reserve);
    check_room(memory, size, plan.nbytes, "replay log");
    char* base = static_cast<char*>(memory);
    std::memcpy(base + sizeof(BlockHeader), row_bytes.data(), 8 * row_bytes.size());
    auto* commits = reinterpret_cast<SharedCounter*>(base + plan.commits);
    // Relaxed: published by the magic word in write_header.
    for (std::uint64_t k = 0; k < 2 * envs; ++k) commits[k].store(0, std::memory_order_relaxed);
    write_header(*static_cast<BlockHeader*>(memory), Kind::replay_log, capacity, envs,
                 row_bytes.size(), reserve);
  }

  // Attaches; what the header says is checked here and kept, nothing is written. A writer that
  // attaches is a new incarnation: the first row it writes of each environment is marked. One that
  // `continues` goes on where the rows end, as if it had written them.
  ReplayLog(void* memory, std::uint64_t size, bool continues = false)
      : base_(static_cast<char*>(memory)),
        plan_(read_plan(memory, size)),
        next_(plan_.envs, continues ? Next::ask : Next::begins) {}

  std::uint64_t capacity() const { return plan_.capacity; }
  std::uint64_t places() const { return plan_.places; }
  std::uint64_t envs() const { return plan_.envs; }
  std::size_t columns() const { return plan_.row_bytes.size(); }
  std::uint64_t row_bytes(std::size_t column) const { return plan_.row_bytes[column]; }
  // Of a column within its row.
  std::uint64_t offset(std::size_t column) const { return plan_.offset[column]; }
  // From a column of a row to that of the next one.
  std::uint64_t stride() const { return plan_.stride; }

  const SharedCounter& commit_of(std::uint64_t env) const {
    return reinterpret_cast<const SharedCounter*>(base_ + plan_.commits)[env];
  }
  // Rows before it were never in this memory: 0, but in logs restored from a checkpoint.
  const SharedCounter& start_of(std::uint64_t env) const { return (&commit_of(0))[envs() + env]; }
  // How many of the rows before `commit` are live then.
  std::uint64_t live(std::uint64_t env, std::uint64_t commit) const {
    return std::min(there(env, commit), plan_.capacity);
  }
  // How many of them no writer touches until the next commit: the live ones and the reserve.
  std::uint64_t whole(std::uint64_t env, std::uint64_t commit) const {
    return std::min(there(env, commit), plan_.places - kOpenRows);
  }
  // A column of an environment's first place.
  char* column_of(std::size_t column, std::uint64_t env) const {
    return base_ + plan_.rows + env * plan_.places * plan_.stride + plan_.offset[column];
  }
  char* bits_of(std::uint64_t env) const { return column_of(plan_.row_bytes.size(), env); }

  // ---- writer -------------------------------------------------------------------------------

  // Appends one step of `count` environments from `first` on. `columns` are their rows one after
  // the other; `final_obs` is read where an episode ended.
  void append(std::uint64_t first, std::uint64_t count, const char* const* columns,
              const std::uint8_t* terminated, const std::uint8_t* truncated,
              const char* final_obs) {
    // Release fence: pairs with the acquire fence in ReplayReader. Whoever sees a byte stored
    // below also sees the commits of the last append, and knows that the old rows are going.
    release_fence();
    FASTLOOP_FAILPOINT("after_claim");
    for (std::uint64_t k = 0; k < count; ++k) {
      const auto env = first + k;
      // Relaxed: the writer reads back its own word.
      const auto row = load_own(env);
      const std::uint8_t end = (terminated[k] ? kTerminated : 0) | (truncated[k] ? kTruncated : 0);
      write_step(env, row, k, columns, kOrigin | end | (begins(env, row) ? kBegins : 0));
      if (end != 0)
        write_final(env, row + 1, final_obs + k * row_bytes(obs));
      FASTLOOP_FAILPOINT("before_commit");
      // Release: pairs with the acquire load in ReplayReader::snapshot; publishes the rows.
      store_release(commit_word(env), row + (end == 0 ? 1 : 2));
      next_[env] = end != 0 ? Next::begins : Next::follows;
      FASTLOOP_FAILPOINT("after_commit");
    }
  }

  // Whatever is appended next to the log of `env` follows from nothing before it. The last row says
  // so to a writer that continues: readers look at other bits of that byte.
  void cut(std::uint64_t env) {
    next_[env] = Next::begins;
    const auto row = load_own(env);
    if (there(env, row) == 0) return;
    const auto bits = static_cast<std::uint8_t>(last_bits(env, row) | kCut);
    store_row(bits_of(env) + (row - 1) % places() * stride(), &bits, 1);
  }

  // ---- checkpoints --------------------------------------------------------------------------

  // Copies rows `first` to `first + count - 1` as they lie, and returns the number of the first one
  // that is whole: those before it were overwritten meanwhile. At most `places` rows.
  std::uint64_t read(std::uint64_t env, std::uint64_t first, std::uint64_t count, char* to) const {
    const auto begin = first % plan_.places;
    const auto ahead = std::min(count, plan_.places - begin);
    load_row(to, column_of(0, env) + begin * plan_.stride, ahead * plan_.stride);
    load_row(to + ahead * plan_.stride, column_of(0, env), (count - ahead) * plan_.stride);
    // Acquire fence: pairs with the release fence in append.
    acquire_fence();
    // Relaxed: ordered by the fence above.
    const auto commit = load_relaxed(commit_of(env));
    return std::max(first, commit - whole(env, commit));
  }

  // Puts `count` rows back, the first of them with number `first`, into a log without a writer:
  // behind the rows that are there if it is the next one, else in their place. With readers, as in
  // a mirror, at most kOpenRows at a time.
  void restore(std::uint64_t env, std::uint64_t first, std::uint64_t count, const char* rows) {
    release_fence();  // pairs with the acquire fence in ReplayReader, as in append
    for (std::uint64_t k = 0; k < count; ++k, rows += plan_.stride)
      store_row(column_of(0, env) + (first + k) % plan_.places * plan_.stride, rows, plan_.stride);
    if (first != load_own(env))
      // Relaxed: published by the store below.
      const_cast<SharedCounter&>(start_of(env)).store(first, std::memory_order_relaxed);
    // Release: pairs with the acquire load in ReplayReader::snapshot.
    store_release(commit_word(env), first + count);
  }

 private:
  struct Plan {
    Plan(std::uint64_t live, std::uint64_t count, const std::vector<std::uint64_t>& sizes,
         std::uint64_t reserve)
        : capacity(live), places(live + reserve + kOpenRows), envs(count), row_bytes(sizes) {
      constexpr std::uint64_t most = std::uint64_t{1} << 40;
      if (capacity < 1 || capacity > most)
        throw Refused("a replay log's capacity must lie in 1..2^40 rows; got " +
                      std::to_string(capacity));
      if (reserve > most)
        throw Refused("a replay log's reserve must lie in 0..2^40 rows; got " +
                      std::to_string(reserve));
      if (envs < 1 || envs > std::uint64_t{1} << 31)
        throw Refused("replay logs need 1..2^31 environments; got " + std::to_string(envs));
      if (sizes.empty() || sizes.size() > kMaxColumns)
        throw Refused("a replay log has 1..64 columns; got " + std::to_string(sizes.size()));
      for (const auto size : sizes) {
        if (size > most) throw Refused("replay log: a row of " + std::to_string(size) + " bytes");
        offset.push_back(stride);
        stride += size;
      }
      offset.push_back(stride++);  // the bits
      // Long rows begin at cache lines, which costs 3 % of them at most.
      if (stride > kLongRow) stride = round_up(stride, kCacheLine);
      commits = round_up(sizeof(BlockHeader) + 8 * sizes.size(), kCacheLine);
      rows = round_up(commits + 2 * 8 * envs, kCacheLine);
      const auto rows_nbytes =
          checked_product(checked_product(places, envs, "replay log"), stride, "replay log");
      nbytes = round_up(rows + rows_nbytes, kCacheLine);
    }

    static constexpr std::uint64_t kLongRow = 2048;
    std::uint64_t capacity, places, envs;
    std::vector<std::uint64_t> row_bytes;
    std::vector<std::uint64_t> offset;  // of each column within a row, and last of the bits
    std::uint64_t stride = 0;
    std::uint64_t commits = 0, rows = 0;  // offsets from the beginning
    std::uint64_t nbytes = 0;
  };

  static Plan read_plan(void* memory, std::uint64_t size) {
    check_room(memory, size, sizeof(BlockHeader), "replay log");
    const auto& header = *static_cast<const BlockHeader*>(memory);
    check_header(header, Kind::replay_log, "replay log");
    const auto columns = header.parameter[2];
    if (columns < 1 || columns > kMaxColumns) throw Refused("replay log: the header is damaged");
    check_room(memory, size, sizeof(BlockHeader) + 8 * columns, "replay log");
    std::vector<std::uint64_t> row_bytes(columns);
    std::memcpy(row_bytes.data(), static_cast<char*>(memory) + sizeof(BlockHeader), 8 * columns);
    const Plan plan(header.parameter[0], header.parameter[1], row_bytes, header.parameter[3]);
    check_room(memory, size, plan.nbytes, "replay log");
    return plan;
  }

  SharedCounter& commit_word(std::uint64_t env) {
    return reinterpret_cast<SharedCounter*>(base_ + plan_.commits)[env];
  }
  std::uint64_t load_own(std::uint64_t env) const { return load_relaxed(commit_of(env)); }

  // How many rows before `commit` were ever in this memory.
  std::uint64_t there(std::uint64_t env, std::uint64_t commit) const {
    // Relaxed: written before the readers exist.
    return commit - start_of(env).load(std::memory_order_relaxed);
  }

  // ---- writer's -----------------------------------------------------------------------------

  std::uint8_t last_bits(std::uint64_t env, std::uint64_t row) const {
    std::uint8_t bits;
    load_row(&bits, bits_of(env) + (row - 1) % places() * stride(), 1);
    return bits;
  }

  // Whether `row`, which is written next, follows from nothing before it.
  bool begins(std::uint64_t env, std::uint64_t row) const {
    if (next_[env] != Next::ask) return next_[env] == Next::begins;
    // What it follows from was not restored: stacks that need it are not drawn.
    if (there(env, row) == 0) return false;
    const auto bits = last_bits(env, row);
    return (bits & kOrigin) == 0 || (bits & kCut) != 0;
  }

  void write_step(std::uint64_t env, std::uint64_t row, std::uint64_t k,
                  const char* const* columns, int bits) {
    const auto place = row % plan_.places;
    const auto byte = static_cast<std::uint8_t>(bits);
    for (std::size_t c = 0; c < plan_.row_bytes.size(); ++c) {
      const auto nbytes = plan_.row_bytes[c];
      store_row(column_of(c, env) + place * stride(), columns[c] + k * nbytes, nbytes);
    }
    store_row(bits_of(env) + place * stride(), &byte, 1);
  }

  void write_final(std::uint64_t env, std::uint64_t row, const char* observation) {
    const auto place = row % plan_.places;
    const std::uint8_t bits = 0;
    store_row(column_of(obs, env) + place * stride(), observation, row_bytes(obs));
    store_row(bits_of(env) + place * stride(), &bits, 1);
  }

  char* base_;
  Plan plan_;
  // Private to the writer: what the next row is to the last one. `ask`: the last one says it, which
  // is looked up when the next one is written, since a checkpoint may be restored until then.
  enum class Next : std::uint8_t { follows, begins, ask };
  std::vector<Next> next_;
};

}  // namespace fastloop
