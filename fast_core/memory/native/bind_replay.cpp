// ReplayReader for Python.
#include <vector>

#include "bind_replay_log.hpp"
#include "bind_sum_tree.hpp"
#include "gather.hpp"

namespace fastloop::bind {
namespace {

struct Body {
  Reference logs;  // the tuple of them, which it keeps alive
  std::unique_ptr<ReplayReader> view;
  // Bit c is set where column c of a window is a sum, or of a sequence that of its first row.
  unsigned long long summed = 0, entered = 0;

  Fold fold(std::size_t c) const {
    if (view->shape().length != 0) return entered >> c & 1 ? Fold::first : Fold::each;
    return summed >> c & 1 ? Fold::sum : Fold::first;
  }
};

ReplayReader& reader_of(PyObject* self) { return *body_of<Body>(self).view; }

PyObject* reader_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* tuple;
  unsigned long long steps, frames, key0, key1, summed, entered, before, length;
  double gamma;
  if (!PyArg_ParseTuple(args, "O!KdKKKKKKK:ReplayReader", &PyTuple_Type, &tuple, &steps, &gamma,
                        &frames, &key0, &key1, &summed, &entered, &before, &length))
    return nullptr;
  if (length != 0 && length != before + steps) {
    PyErr_Format(errors.segment, "a sequence of %llu rows before %llu steps has no length %llu",
                 before, steps, length);
    return nullptr;
  }
  std::vector<const ReplayLog*> logs;
  for (Py_ssize_t k = 0; k < PyTuple_Size(tuple); ++k) {
    PyObject* log = PyTuple_GetItem(tuple, k);
    logs.push_back(as_log(log));
    if (logs.back() == nullptr) return nullptr;
  }
  for (std::size_t c = 0; !logs.empty() && c < logs[0]->columns(); ++c)
    if (summed >> c & 1 && logs[0]->row_bytes(c) % sizeof(float) != 0) {
      PyErr_Format(errors.segment, "column %zu can't be summed: its rows are no floats", c);
      return nullptr;
    }
  return make<Body>(type, [&](Body& body) {
    const Shape shape{length == 0 ? 0 : before, length};
    const CounterRandom::State seed{{key0, key1}, 0};
    body.view = std::make_unique<ReplayReader>(logs, steps, gamma, frames, seed, shape);
    body.summed = summed;
    body.entered = entered;
    body.logs.object = Py_NewRef(tuple);
    return true;
  });
}

PriorityTree* tree_for(PyObject* self, PyObject* object) {
  PriorityTree* tree = as_tree(object);
  if (tree == nullptr || tree->leaves() == reader_of(self).leaves()) return tree;
  PyErr_Format(errors.segment, "this reader needs a tree of %llu leaves; got %llu",
               static_cast<unsigned long long>(reader_of(self).leaves()),
               static_cast<unsigned long long>(tree->leaves()));
  return nullptr;
}

// The arrays of a batch, opened and checked.
struct Opened {
  std::vector<Buffer> buffers;
  BatchTarget target;

  bool open(const Body& body, PyObject* tuple, std::uint64_t count) {
    const ReplayReader& reader = *body.view;
    const ReplayLog& log = reader.log();
    const auto obs = reader.frames() * log.row_bytes(ReplayLog::obs);
    const auto length = reader.shape().length;
    std::vector<std::uint64_t> sizes = {obs, obs, 4, 4, 4, 8};
    if (length != 0) sizes = {(length + 1) * obs, length, length, length, 4, 4, 8};
    const auto further = sizes.size();
    for (std::size_t c = 1; c < log.columns(); ++c)
      sizes.push_back((body.fold(c) == Fold::each ? length : 1) * log.row_bytes(c));
    if (PyTuple_Size(tuple) != static_cast<Py_ssize_t>(sizes.size())) {
      PyErr_Format(errors.segment, "a batch of these logs has %zu arrays; got %zd", sizes.size(),
                   PyTuple_Size(tuple));
      return false;
    }
    buffers = std::vector<Buffer>(sizes.size());
    for (std::size_t k = 0; k < sizes.size(); ++k)
      if (!buffers[k].open_exactly(PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(k)), true,
                                   count * sizes[k], "an array of a batch"))
        return false;
    const auto at = [&](std::size_t k) { return buffers[k].data(); };
    target.obs = at(0);
    if (length == 0) {
      target.next_obs = at(1);
      target.discount = reinterpret_cast<float*>(at(2));
    } else {
      target.terminated = reinterpret_cast<std::uint8_t*>(at(1));
      target.truncated = reinterpret_cast<std::uint8_t*>(at(2));
      target.mask = reinterpret_cast<std::uint8_t*>(at(3));
    }
    target.weight = reinterpret_cast<float*>(at(further - 3));
    target.log = reinterpret_cast<std::int32_t*>(at(further - 2));
    target.row = reinterpret_cast<std::int64_t*>(at(further - 1));
    for (std::size_t c = 1; c < log.columns(); ++c)
      target.columns.emplace_back(log, c, body.fold(c), at(further + c - 1));
    return true;
  }
};

PyObject* result_of(ReplayReader::Draw drawn) {
  if (drawn != ReplayReader::Draw::lapped)
    return PyBool_FromLong(drawn == ReplayReader::Draw::drawn);
  PyErr_Format(errors.segment,
               "the writers of the replay logs overtook each of %d draws; replay.capacity is too "
               "small for the rate of the environments",
               ReplayReader::kMaxTries);
  return nullptr;
}

PyObject* reader_draw(PyObject* self, PyObject* args) {
  PyObject *arrays, *tree_object = Py_None;
  unsigned long long count;
  double beta = 0.0;
  if (!PyArg_ParseTuple(args, "O!K|Od:draw", &PyTuple_Type, &arrays, &count, &tree_object, &beta))
    return nullptr;
  PriorityTree* tree = nullptr;
  if (tree_object != Py_None && (tree = tree_for(self, tree_object)) == nullptr) return nullptr;
  Opened opened;
  if (count < 1 || count > std::uint64_t{1} << 31) {
    PyErr_Format(PyExc_ValueError, "a batch has 1 to 2^31 rows; got %llu", count);
    return nullptr;
  }
  ReplayReader& reader = reader_of(self);
  if (!opened.open(body_of<Body>(self), arrays, count)) return nullptr;
  ReplayReader::Draw drawn;
  {
    GilRelease released(true);
    drawn = tree == nullptr ? reader.draw(opened.target, count)
                            : reader.draw(opened.target, count, *tree, beta);
  }
  return result_of(drawn);
}

PyObject* reader_sync(PyObject* self, PyObject* object) {
  PriorityTree* tree = tree_for(self, object);
  if (tree == nullptr) return nullptr;
  {
    GilRelease released(true);
    reader_of(self).sync(*tree);
  }
  return Py_NewRef(Py_None);
}

PyObject* reader_update(PyObject* self, PyObject* args) {
  PyObject *object, *logs, *rows, *found;
  if (!PyArg_ParseTuple(args, "OOOO:update", &object, &logs, &rows, &found)) return nullptr;
  PriorityTree* tree = tree_for(self, object);
  Buffer log, row, error;
  if (tree == nullptr || !error.open(found, false)) return nullptr;
  const auto count = error.size() / 4;
  if (!log.open_exactly(logs, false, count * 4, "the array of logs") ||
      !row.open_exactly(rows, false, count * 8, "the array of rows"))
    return nullptr;
  std::uint64_t accepted;
  {
    GilRelease released(true);
    accepted = reader_of(self).update(*tree, reinterpret_cast<std::int32_t*>(log.data()),
                                      reinterpret_cast<std::int64_t*>(row.data()),
                                      reinterpret_cast<float*>(error.data()), count);
  }
  return PyLong_FromUnsignedLongLong(accepted);
}

template <std::uint64_t (ReplayReader::*figure)()>
PyObject* reader_figure(PyObject* self, PyObject*) {
  std::uint64_t value;
  {
    GilRelease released(true);
    value = (reader_of(self).*figure)();
  }
  return PyLong_FromUnsignedLongLong(value);
}

PyObject* reader_counters(PyObject* self, PyObject*) {
  const auto& counters = reader_of(self).counters();
  return Py_BuildValue("(KKK)", static_cast<unsigned long long>(counters.drawn),
                       static_cast<unsigned long long>(counters.rejected),
                       static_cast<unsigned long long>(counters.lapped));
}

PyObject* reader_stream(PyObject* self, PyObject*) {
  return stream_of(reader_of(self).random());
}

PyObject* reader_set_stream(PyObject* self, PyObject* args) {
  unsigned long long key[2], counter;
  if (!PyArg_ParseTuple(args, "KKK:_set_stream", &key[0], &key[1], &counter)) return nullptr;
  reader_of(self).random().set_state({{key[0], key[1]}, counter});
  return Py_NewRef(Py_None);
}

// Gives `each` the number of every log and its `count` 64-bit numbers in an array.
template <class Each>
bool visit(PyObject* self, PyObject* array, bool writable, std::uint64_t count, const char* what,
           Each each) {
  const auto sources = reader_of(self).sources();
  Buffer buffer;
  if (!buffer.open_exactly(array, writable, 8 * count * sources, what)) return false;
  auto* words = reinterpret_cast<std::uint64_t*>(buffer.data());
  for (std::uint64_t k = 0; k < sources; ++k) each(k, words + count * k);
  return true;
}

// Positions of the tree in the logs.
PyObject* reader_positions(PyObject* self, PyObject* array) {
  ReplayReader& reader = reader_of(self);
  const bool written =
      visit(self, array, true, 2, "the array of positions", [&](auto log, auto* words) {
        words[0] = reader.seen(log);
        words[1] = reader.gone(log);
      });
  return written ? Py_NewRef(Py_None) : nullptr;
}

PyObject* reader_set_positions(PyObject* self, PyObject* array) {
  const bool read =
      visit(self, array, false, 2, "the array of positions", [&](auto log, auto* words) {
        reader_of(self).set_seen(log, words[0], words[1]);
      });
  return read ? Py_NewRef(Py_None) : nullptr;
}

// Rows that the last draw looked at; whether they alone decided it.
PyObject* reader_looked_at(PyObject* self, PyObject* array) {
  ReplayReader& reader = reader_of(self);
  const bool written = visit(self, array, true, 1, "the array of rows", [&](auto log, auto* rows) {
    *rows = reader.looked_at(log);
  });
  return written ? PyBool_FromLong(reader.undisturbed()) : nullptr;
}

PyObject* reader_look_at(PyObject* self, PyObject* array) {
  const bool read = visit(self, array, false, 1, "the array of rows", [&](auto log, auto* rows) {
    reader_of(self).look_at(log, *rows);
  });
  return read ? Py_NewRef(Py_None) : nullptr;
}

PyMethodDef reader_methods[] = {
    {"_draw", reader_draw, METH_VARARGS, nullptr},
    {"sync", reader_sync, METH_O, nullptr},
    {"_update", reader_update, METH_VARARGS, nullptr},
    {"committed", reader_figure<&ReplayReader::committed>, METH_NOARGS, nullptr},
    {"live", reader_figure<&ReplayReader::live>, METH_NOARGS, nullptr},
    {"valid", reader_figure<&ReplayReader::valid>, METH_NOARGS, nullptr},
    {"counters", reader_counters, METH_NOARGS, nullptr},
    {"stream", reader_stream, METH_NOARGS, nullptr},
    {"_set_stream", reader_set_stream, METH_VARARGS, nullptr},
    {"positions", reader_positions, METH_O, nullptr},
    {"_set_positions", reader_set_positions, METH_O, nullptr},
    {"looked_at", reader_looked_at, METH_O, nullptr},
    {"look_at", reader_look_at, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef reader_properties[] = {
    {"leaves", get<Body, &ReplayReader::leaves>, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace

int add_replay(PyObject* module) {
  return add_class<Body>(module, "fast_core.memory._native.ReplayReader", reader_new,
                         {{Py_tp_methods, reader_methods}, {Py_tp_getset, reader_properties}});
}

}  // namespace fastloop::bind
