// The Python module fast_core.algos.muzero._native. Arrays come as contiguous buffers; search.py,
// support.py and model.py see to their types.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <exception>
#include <memory>
#include <vector>

#include "heads.hpp"
#include "trees.hpp"

namespace {

using fastloop::search::Fault;
using fastloop::search::Refusal;
using fastloop::search::Rules;
using fastloop::search::Trees;

// Of fewer trees a call is shorter than giving the GIL up and taking it back is worth.
constexpr std::int64_t kReleaseRoots = 16;

class GilRelease {
 public:
  explicit GilRelease(std::int64_t roots)
      : state_(roots < kReleaseRoots ? nullptr : PyEval_SaveThread()) {}
  ~GilRelease() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

// An array for one call; None is one without memory.
class Array {
 public:
  Array() = default;
  ~Array() {
    if (held_) PyBuffer_Release(&view_);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  bool open(PyObject* exporter, std::int64_t numbers, std::size_t size, bool writable) {
    if (exporter == Py_None) return true;
    held_ = PyObject_GetBuffer(exporter, &view_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) == 0;
    if (!held_) return false;
    const auto nbytes = numbers * static_cast<std::int64_t>(size);
    if (view_.len == nbytes) return true;
    PyErr_Format(PyExc_ValueError, "an array must have %lld bytes; got %lld",
                 static_cast<long long>(nbytes), static_cast<long long>(view_.len));
    return false;
  }
  template <class T>
  bool read(PyObject* exporter, std::int64_t numbers) {
    return open(exporter, numbers, sizeof(T), false);
  }
  template <class T>
  bool write(PyObject* exporter, std::int64_t numbers) {
    return open(exporter, numbers, sizeof(T), true);
  }
  template <class T>
  T* as() const {
    return held_ ? static_cast<T*>(view_.buf) : nullptr;
  }

 private:
  Py_buffer view_{};
  bool held_ = false;
};

struct Object {
  PyObject_HEAD
  std::unique_ptr<Trees> trees;
};

Trees& trees_of(PyObject* self) { return *reinterpret_cast<Object*>(self)->trees; }

PyObject* create(PyTypeObject* type, PyObject* args, PyObject*) {
  Rules rules;
  long long capacity;
  PyObject* rows;
  if (!PyArg_ParseTuple(args, "L(iii)(dddddddd)O:Trees", &capacity, &rules.actions,
                        &rules.simulations, &rules.considered, &rules.continuation,
                        &rules.visit_offset, &rules.value_scale, &rules.least_span,
                        &rules.exploration_base, &rules.exploration, &rules.noise_share, &rules.noise_shape, &rows))
    return nullptr;
  Array schedule;
  if (!schedule.read<std::int32_t>(rows, static_cast<std::int64_t>(rules.scheduled())))
    return nullptr;
  auto* self = reinterpret_cast<Object*>(
      reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0));
  if (self == nullptr) return nullptr;
  new (&self->trees) std::unique_ptr<Trees>;
  try {
    self->trees = std::make_unique<Trees>(rules, capacity, schedule.as<const std::int32_t>());
    return reinterpret_cast<PyObject*>(self);
  } catch (const std::exception&) {  // more than there is, or than numbers can count
    PyErr_NoMemory();
  }
  Py_DECREF(self);
  return nullptr;
}

void drop(PyObject* self) {
  reinterpret_cast<Object*>(self)->trees.~unique_ptr();
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// None, or what is at fault and in which root.
PyObject* answer(const Refusal& refusal) {
  if (refusal.fault == Fault::none) return Py_NewRef(Py_None);
  static const char* const names[] = {"", "reward", "value", "logits", "mask"};
  return Py_BuildValue("(sL)", names[static_cast<int>(refusal.fault)],
                       static_cast<long long>(refusal.root));
}

PyObject* refuse(const char* why) {
  PyErr_SetString(PyExc_ValueError, why);
  return nullptr;
}

PyObject* begin(PyObject* self, PyObject* args) {
  long long roots;
  PyObject *value, *logits, *allowed, *noise;
  if (!PyArg_ParseTuple(args, "LOOOO:begin", &roots, &value, &logits, &allowed, &noise))
    return nullptr;
  Trees& trees = trees_of(self);
  if (roots < 0 || roots > trees.capacity()) return refuse("there is no room for as many roots");
  const std::int64_t numbers = roots * trees.rules().actions;
  Array values, scores, mask, uniform;
  if (!values.read<float>(value, roots) || !scores.read<float>(logits, numbers) ||
      !mask.read<bool>(allowed, numbers) || !uniform.read<float>(noise, numbers))
    return nullptr;
  Refusal refusal;
  {
    GilRelease released(roots);
    refusal = trees.begin(roots, values.as<const float>(), scores.as<const float>(),
                          mask.as<const bool>(), uniform.as<const float>());
  }
  return answer(refusal);
}

PyObject* select(PyObject* self, PyObject* args) {
  PyObject *place, *action;
  if (!PyArg_ParseTuple(args, "OO:select", &place, &action)) return nullptr;
  Trees& trees = trees_of(self);
  Array places, actions;
  if (!places.write<std::int64_t>(place, trees.roots()) ||
      !actions.write<std::int64_t>(action, trees.roots()))
    return nullptr;
  if (trees.done() >= trees.rules().simulations) return refuse("every node was added");
  {
    GilRelease released(trees.roots());
    trees.select(places.as<std::int64_t>(), actions.as<std::int64_t>());
  }
  return Py_NewRef(Py_None);
}

PyObject* expand(PyObject* self, PyObject* args) {
  PyObject *reward, *value, *logits;
  if (!PyArg_ParseTuple(args, "OOO:expand", &reward, &value, &logits)) return nullptr;
  Trees& trees = trees_of(self);
  const std::int64_t roots = trees.roots();
  Array rewards, values, scores;
  if (!rewards.read<float>(reward, roots) || !values.read<float>(value, roots) ||
      !scores.read<float>(logits, roots * trees.rules().actions))
    return nullptr;
  if (trees.done() >= trees.rules().simulations) return refuse("every node was added");
  Refusal refusal;
  {
    GilRelease released(roots);
    refusal = trees.expand(rewards.as<const float>(), values.as<const float>(),
                           scores.as<const float>());
  }
  return answer(refusal);
}

PyObject* backup(PyObject* self, PyObject*) {
  {
    GilRelease released(trees_of(self).roots());
    trees_of(self).backup();
  }
  return Py_NewRef(Py_None);
}

PyObject* result(PyObject* self, PyObject* args) {
  PyObject *action, *policy, *value, *visits;
  if (!PyArg_ParseTuple(args, "OOOO:result", &action, &policy, &value, &visits)) return nullptr;
  Trees& trees = trees_of(self);
  const std::int64_t roots = trees.roots(), numbers = roots * trees.rules().actions;
  Array actions, policies, values, counts;
  if (!actions.write<std::int64_t>(action, roots) || !policies.write<float>(policy, numbers) ||
      !values.write<float>(value, roots) || !counts.write<std::int32_t>(visits, numbers))
    return nullptr;
  if (trees.done() == 0) return refuse("nothing was searched");
  {
    GilRelease released(roots);
    trees.result(actions.as<std::int64_t>(), policies.as<float>(), values.as<float>(),
                 counts.as<std::int32_t>());
  }
  return Py_NewRef(Py_None);
}

PyMethodDef methods[] = {
    {"begin", begin, METH_VARARGS, nullptr},   {"select", select, METH_VARARGS, nullptr},
    {"expand", expand, METH_VARARGS, nullptr}, {"backup", backup, METH_NOARGS, nullptr},
    {"result", result, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(create)},
    {Py_tp_dealloc, reinterpret_cast<void*>(drop)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

// Room for what is summed up, which grows to the most rows so far.
float* room(std::size_t numbers) {
  static thread_local std::vector<float> work;
  if (work.size() < numbers) work.resize(numbers);
  return work.data();
}

PyObject* decode(PyObject*, PyObject* args) {
  PyObject *said, *found;
  long long outputs, rows;
  if (!PyArg_ParseTuple(args, "OLLO:decode", &said, &outputs, &rows, &found)) return nullptr;
  Array numbers, decoded;
  if (!numbers.read<float>(said, outputs * rows) || !decoded.write<float>(found, rows))
    return nullptr;
  fastloop::heads::decode(numbers.as<const float>(), outputs, rows, room(3 * rows),
                          decoded.as<float>());
  return Py_NewRef(Py_None);
}

PyObject* centre(PyObject*, PyObject* args) {
  PyObject *latent, *before;
  long long features, rows;
  float epsilon;
  if (!PyArg_ParseTuple(args, "OOLLf:centre", &latent, &before, &features, &rows, &epsilon))
    return nullptr;
  Array states, added;
  if (!states.write<float>(latent, features * rows) ||
      !added.read<float>(before, features * rows))
    return nullptr;
  fastloop::heads::centre(states.as<float>(), added.as<const float>(), features, rows, epsilon,
                          room(2 * rows));
  return Py_NewRef(Py_None);
}

PyMethodDef functions[] = {
    {"decode", decode, METH_VARARGS, nullptr},
    {"centre", centre, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Spec spec = {"fast_core.algos.muzero._native.Trees", sizeof(Object), 0, Py_TPFLAGS_DEFAULT,
                    slots};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "fast_core.algos.muzero._native",
    "The trees of searches, and what networks say to them.",
    0,
    functions, nullptr, nullptr, nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__native() {
  PyObject* module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
  PyObject* type = PyType_FromSpec(&spec);
  if (type != nullptr && PyModule_AddObjectRef(module, "Trees", type) == 0) {
    Py_DECREF(type);
    return module;
  }
  Py_XDECREF(type);
  Py_DECREF(module);
  return nullptr;
}
