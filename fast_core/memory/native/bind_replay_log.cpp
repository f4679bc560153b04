// ReplayLog for Python.
#include "bind_replay_log.hpp"

#include <vector>

namespace fastloop::bind {
namespace {

using Body = Attached<ReplayLog>;

PyTypeObject* log_type = nullptr;

ReplayLog& log_of(PyObject* self) { return *body_of<Body>(self).view; }

// Sizes of rows from a tuple of integers.
bool read_sizes(PyObject* tuple, std::vector<std::uint64_t>& sizes) {
  const auto count = PyTuple_Size(tuple);
  for (Py_ssize_t k = 0; k < count; ++k) {
    sizes.push_back(PyLong_AsUnsignedLongLong(PyTuple_GetItem(tuple, k)));
    if (PyErr_Occurred() != nullptr) return false;
  }
  return count >= 0;
}

PyObject* log_nbytes(PyObject*, PyObject* args) {
  unsigned long long capacity, envs, reserve;
  PyObject* tuple;
  std::vector<std::uint64_t> sizes;
  if (!PyArg_ParseTuple(args, "KKO!K:replay_nbytes", &capacity, &envs, &PyTuple_Type, &tuple,
                        &reserve) ||
      !read_sizes(tuple, sizes))
    return nullptr;
  return guarded<PyObject*>(nullptr, [&] {
    return PyLong_FromUnsignedLongLong(ReplayLog::nbytes(capacity, envs, sizes, reserve));
  });
}

PyObject* log_create(PyObject*, PyObject* args) {
  unsigned long long capacity, envs, reserve;
  PyObject *exporter, *tuple;
  std::vector<std::uint64_t> sizes;
  if (!PyArg_ParseTuple(args, "OKKO!K:replay_create", &exporter, &capacity, &envs, &PyTuple_Type,
                        &tuple, &reserve) ||
      !read_sizes(tuple, sizes))
    return nullptr;
  return create_in(exporter, [&](void* memory, std::uint64_t size) {
    ReplayLog::create(memory, size, capacity, envs, sizes, reserve);
  });
}

PyObject* log_attach(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* exporter;
  int continues = 0;
  if (!PyArg_ParseTuple(args, "O|p:ReplayLog", &exporter, &continues)) return nullptr;
  return make<Body>(type, [&](Body& body) {
    const auto& memory = body.memory;
    if (!body.memory.open(exporter, true)) return false;
    body.view = std::make_unique<ReplayLog>(memory.data(), memory.size(), continues != 0);
    return true;
  });
}

// What one call of append takes, opened and checked.
struct Step {
  std::vector<Buffer> column;
  Buffer terminated, truncated, final_obs;
  std::vector<const char*> rows;

  bool open_columns(const ReplayLog& log, PyObject* columns, std::uint64_t envs) {
    if (PyTuple_Size(columns) != static_cast<Py_ssize_t>(log.columns())) {
      PyErr_Format(errors.segment, "the replay log has %zu columns; got %zd", log.columns(),
                   PyTuple_Size(columns));
      return false;
    }
    column = std::vector<Buffer>(log.columns());
    rows.resize(log.columns());
    for (std::size_t c = 0; c < log.columns(); ++c) {
      if (!column[c].open_exactly(PyTuple_GetItem(columns, static_cast<Py_ssize_t>(c)), false,
                                  envs * log.row_bytes(c), "rows of a replay column"))
        return false;
      rows[c] = column[c].data();
    }
    return true;
  }

  // The final observations may be None where no episode ended.
  bool open_final(const ReplayLog& log, PyObject* rows_or_none, std::uint64_t envs) {
    if (rows_or_none != Py_None)
      return final_obs.open_exactly(rows_or_none, false, envs * log.row_bytes(ReplayLog::obs),
                                    "final observations");
    for (std::uint64_t k = 0; k < envs; ++k)
      if (terminated.data()[k] || truncated.data()[k]) {
        PyErr_SetString(errors.segment, "an episode ended, and its final observation is missing");
        return false;
      }
    return true;
  }
};

PyObject* log_append(PyObject* self, PyObject* args) {
  unsigned long long first;
  PyObject *columns, *terminated, *truncated, *final_obs;
  if (!PyArg_ParseTuple(args, "KO!OOO:append", &first, &PyTuple_Type, &columns, &terminated,
                        &truncated, &final_obs))
    return nullptr;
  ReplayLog& log = log_of(self);
  Step step;
  if (!step.terminated.open(terminated, false)) return nullptr;
  const auto envs = step.terminated.size();
  if (first > log.envs() || envs > log.envs() - first) {
    PyErr_Format(errors.segment, "rows of environments %llu to %llu; the replay log has 0 to %llu",
                 first, first + envs - 1, static_cast<unsigned long long>(log.envs() - 1));
    return nullptr;
  }
  if (!step.truncated.open_exactly(truncated, false, envs, "truncated") ||
      !step.open_columns(log, columns, envs) || !step.open_final(log, final_obs, envs))
    return nullptr;
  {
    GilRelease released(envs * log.row_bytes(ReplayLog::obs) >= kReleaseGilBytes);
    log.append(first, envs, step.rows.data(), reinterpret_cast<std::uint8_t*>(step.terminated.data()),
               reinterpret_cast<std::uint8_t*>(step.truncated.data()), step.final_obs.data());
  }
  return Py_NewRef(Py_None);
}

bool known_env(PyObject* self, unsigned long long env) {
  if (env < log_of(self).envs()) return true;
  PyErr_Format(PyExc_IndexError, "environment %llu asked of %llu", env,
               static_cast<unsigned long long>(log_of(self).envs()));
  return false;
}

PyObject* log_cut(PyObject* self, PyObject* argument) {
  const auto env = PyLong_AsUnsignedLongLong(argument);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (!known_env(self, env)) return nullptr;
  log_of(self).cut(env);
  return Py_NewRef(Py_None);
}

// What `make_item` makes of the number and the commit counter of each environment.
template <class MakeItem>
PyObject* list_of(const ReplayLog& log, MakeItem make_item) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(log.envs()));
  for (std::uint64_t env = 0; list != nullptr && env < log.envs(); ++env) {
    // Acquire: pairs with the release store in ReplayLog::append.
    PyObject* item = make_item(env, load_acquire(log.commit_of(env)));
    if (item == nullptr || PyList_SetItem(list, static_cast<Py_ssize_t>(env), item) != 0)
      Py_CLEAR(list);
  }
  return list;
}

PyObject* log_committed(PyObject* self, PyObject*) {
  return list_of(log_of(self), [](std::uint64_t, std::uint64_t commit) {
    return PyLong_FromUnsignedLongLong(commit);
  });
}

// Of each environment: number of the oldest live row, and of the next one to be written.
PyObject* log_spans(PyObject* self, PyObject*) {
  const ReplayLog& log = log_of(self);
  return list_of(log, [&](std::uint64_t env, unsigned long long commit) {
    const unsigned long long first = commit - log.live(env, commit);
    return Py_BuildValue("(KK)", first, commit);
  });
}

// Fills a buffer with rows from `first` on; returns the number of the first one that is whole.
PyObject* log_read(PyObject* self, PyObject* args) {
  unsigned long long env, first;
  PyObject* exporter;
  if (!PyArg_ParseTuple(args, "KKO:read", &env, &first, &exporter) || !known_env(self, env))
    return nullptr;
  const ReplayLog& log = log_of(self);
  Buffer rows;
  if (!rows.open(exporter, true)) return nullptr;
  const auto count = rows.size() / log.stride();
  if (rows.size() % log.stride() != 0 || count > log.places()) {
    PyErr_Format(errors.segment, "at most %llu rows of %llu bytes are read; got %llu bytes",
                 static_cast<unsigned long long>(log.places()),
                 static_cast<unsigned long long>(log.stride()),
                 static_cast<unsigned long long>(rows.size()));
    return nullptr;
  }
  std::uint64_t whole;
  {
    GilRelease released(rows.size() >= kReleaseGilBytes);
    whole = log.read(env, first, count, rows.data());
  }
  return PyLong_FromUnsignedLongLong(whole);
}

PyObject* log_restore(PyObject* self, PyObject* args) {
  unsigned long long env, first;
  PyObject* exporter;
  if (!PyArg_ParseTuple(args, "KKO:restore", &env, &first, &exporter) || !known_env(self, env))
    return nullptr;
  ReplayLog& log = log_of(self);
  Buffer rows;
  if (!rows.open(exporter, false)) return nullptr;
  const auto count = rows.size() / log.stride();
  if (rows.size() % log.stride() != 0 || count > log.capacity() || first > std::uint64_t{1} << 62) {
    PyErr_Format(errors.segment,
                 "saved rows must be at most %llu times %llu bytes; got %llu bytes. "
                 "They are of a run with other columns",
                 static_cast<unsigned long long>(log.capacity()),
                 static_cast<unsigned long long>(log.stride()),
                 static_cast<unsigned long long>(rows.size()));
    return nullptr;
  }
  {
    GilRelease released(rows.size() >= kReleaseGilBytes);
    log.restore(env, first, count, rows.data());
  }
  return Py_NewRef(Py_None);
}

PyObject* log_reserve(PyObject* self, void*) {
  const ReplayLog& log = log_of(self);
  return PyLong_FromUnsignedLongLong(log.places() - kOpenRows - log.capacity());
}

PyMethodDef log_methods[] = {
    {"append", log_append, METH_VARARGS, nullptr},
    {"cut", log_cut, METH_O, nullptr},
    {"committed", log_committed, METH_NOARGS, nullptr},
    {"spans", log_spans, METH_NOARGS, nullptr},
    {"read", log_read, METH_VARARGS, nullptr},
    {"restore", log_restore, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef log_properties[] = {
    {"capacity", get<Body, &ReplayLog::capacity>, nullptr, nullptr, nullptr},
    {"envs", get<Body, &ReplayLog::envs>, nullptr, nullptr, nullptr},
    {"reserve", log_reserve, nullptr, nullptr, nullptr},
    {"stride", get<Body, &ReplayLog::stride>, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef functions[] = {
    {"replay_nbytes", log_nbytes, METH_VARARGS, nullptr},
    {"replay_create", log_create, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

const ReplayLog* as_log(PyObject* object) {
  if (PyObject_TypeCheck(object, log_type)) return &log_of(object);
  PyErr_Format(PyExc_TypeError, "a replay reader needs ReplayLogs; got %R", object);
  return nullptr;
}

int add_replay_log(PyObject* module) {
  if (PyModule_AddFunctions(module, functions) != 0 ||
      add_class<Body>(module, "fast_core.memory._native.ReplayLog", log_attach,
                      {{Py_tp_methods, log_methods}, {Py_tp_getset, log_properties}}) != 0)
    return -1;
  log_type = reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(module, "ReplayLog"));
  return log_type == nullptr ? -1 : 0;
}

}  // namespace fastloop::bind
