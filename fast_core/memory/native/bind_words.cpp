// Words: 64-bit integers in shared memory with acquire loads and release stores, for structures
// whose payload Python writes itself (rollout slots, the evaluation slot).
#include <cstring>

#include "bind.hpp"

namespace fastloop::bind {
namespace {

struct WordsView {
  std::atomic<std::int64_t>* words;
  Py_ssize_t count;
};
using WordsObject = Attached<WordsView>;

WordsObject* cast(PyObject* self) { return reinterpret_cast<WordsObject*>(self); }

PyObject* attach(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* exporter;
  if (!PyArg_ParseTuple(args, "O:Words", &exporter)) return nullptr;
  auto* self = allocate<WordsObject>(type);  // zeroed
  if (self == nullptr) return nullptr;
  const bool attached = self->memory.open(exporter, true) && guarded<bool>(false, [&] {
    check_room(self->memory.data(), self->memory.size(), 8, "words");
    self->view.words = reinterpret_cast<std::atomic<std::int64_t>*>(self->memory.data());
    self->view.count = static_cast<Py_ssize_t>(self->memory.size() / 8);
    return true;
  });
  if (attached) return reinterpret_cast<PyObject*>(self);
  Py_DECREF(self);
  return nullptr;
}

void dealloc(PyObject* self) {
  cast(self)->memory.release();
  free_object(self);
}

std::atomic<std::int64_t>* word_at(PyObject* self, Py_ssize_t index) {
  if (index >= 0 && index < cast(self)->view.count) return cast(self)->view.words + index;
  PyErr_Format(PyExc_IndexError, "word %zd asked of %zd", index, cast(self)->view.count);
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

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(attach)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

PyType_Spec spec = {"fast_core.memory._native.Words", sizeof(WordsObject), 0, Py_TPFLAGS_DEFAULT,
                    slots};

PyMethodDef functions[] = {
    {"copy", copy, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_words(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0 ? add_type(module, &spec, "Words") : -1;
}

}  // namespace fastloop::bind
