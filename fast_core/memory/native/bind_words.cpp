// Words: 64-bit integers in shared memory with acquire loads and release stores, for structures
// whose payload Python writes itself (rollout slots, the evaluation slot).
#include <cstring>

#include "bind.hpp"

namespace fastloop::bind {
namespace {

struct Body {
  Buffer memory;
  std::atomic<std::int64_t>* words = nullptr;
  Py_ssize_t count = 0;
};

PyObject* attach(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* exporter;
  if (!PyArg_ParseTuple(args, "O:Words", &exporter)) return nullptr;
  return make<Body>(type, [&](Body& body) {
    if (!body.memory.open(exporter, true)) return false;
    check_room(body.memory.data(), body.memory.size(), 8, "words");
    body.words = reinterpret_cast<std::atomic<std::int64_t>*>(body.memory.data());
    body.count = static_cast<Py_ssize_t>(body.memory.size() / 8);
    return true;
  });
}

std::atomic<std::int64_t>* word_at(PyObject* self, Py_ssize_t index) {
  const Body& body = body_of<Body>(self);
  if (index >= 0 && index < body.count) return body.words + index;
  PyErr_Format(PyExc_IndexError, "word %zd asked of %zd", index, body.count);
  return nullptr;
}

PyObject* load(PyObject* self, PyObject* argument) {
  const Py_ssize_t index = PyLong_AsSsize_t(argument);
  if (index == -1 && PyErr_Occurred() != nullptr) return nullptr;
  const auto* word = word_at(self, index);
  // Acquire: pairs with the release store in store().
  return word == nullptr ? nullptr : PyLong_FromLongLong(word->load(std::memory_order_acquire));
}

PyObject* store(PyObject* self, PyObject* args) {
  Py_ssize_t index;
  long long value;
  if (!PyArg_ParseTuple(args, "nL:store", &index, &value)) return nullptr;
  auto* word = word_at(self, index);
  if (word == nullptr) return nullptr;
  // Release: pairs with the acquire load in load().
  word->store(value, std::memory_order_release);
  return Py_NewRef(Py_None);
}

PyObject* copy(PyObject*, PyObject* args) {
  PyObject *target, *source;
  if (!PyArg_ParseTuple(args, "OO:copy", &target, &source)) return nullptr;
  Buffer to, from;
  if (!from.open(source, false) || !to.open(target, true)) return nullptr;
  if (from.size() != to.size()) {
    PyErr_Format(errors.segment,
                 "source and target of a copy must have one size; got %llu and %llu bytes",
                 static_cast<unsigned long long>(from.size()),
                 static_cast<unsigned long long>(to.size()));
    return nullptr;
  }
  {
    GilRelease released(from.size() >= kReleaseGilBytes);
    std::memmove(to.data(), from.data(), from.size());
  }
  return Py_NewRef(Py_None);
}

PyMethodDef methods[] = {
    {"load", load, METH_O, nullptr},
    {"store", store, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef functions[] = {
    {"copy", copy, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_words(PyObject* module) {
  if (PyModule_AddFunctions(module, functions) != 0) return -1;
  return add_class<Body>(module, "fast_core.memory._native.Words", attach,
                         {{Py_tp_methods, methods}});
}

}  // namespace fastloop::bind
