// Doorbell for Python.
#include "bind.hpp"

namespace fastloop::bind {
namespace {

struct Body {
  Buffer memory;
  DoorbellWords* words = nullptr;
};

DoorbellWords& words_of(PyObject* self) { return *body_of<Body>(self).words; }

PyObject* create(PyObject*, PyObject* exporter) {
  return create_in(exporter, doorbell_create);
}

PyObject* attach(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* exporter;
  if (!PyArg_ParseTuple(args, "O:Doorbell", &exporter)) return nullptr;
  return make<Body>(type, [&](Body& body) {
    if (!body.memory.open(exporter, true)) return false;
    body.words = doorbell_attach(body.memory.data(), body.memory.size());
    return true;
  });
}

PyObject* value(PyObject* self, PyObject*) {
  return PyLong_FromUnsignedLong(doorbell_value(words_of(self)));
}

PyObject* ring(PyObject* self, PyObject*) {
  doorbell_ring(words_of(self));
  return Py_NewRef(Py_None);
}

PyObject* wait(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  PyObject *seen_object, *timeout_s;
  if (!read_timed_call(args, nargs, names, &seen_object, &timeout_s, "wait(seen, timeout_s=None)"))
    return nullptr;
  const auto seen = static_cast<std::uint32_t>(PyLong_AsUnsignedLongMask(seen_object));
  Deadline deadline;
  if (PyErr_Occurred() != nullptr || !deadline.parse(timeout_s)) return nullptr;
  if (doorbell_value(words_of(self)) != seen) return Py_NewRef(Py_True);
  for (;;) {
    const Sleep slept = sleep_slice(words_of(self), seen, deadline);
    if (slept == Sleep::interrupted) return nullptr;
    if (doorbell_value(words_of(self)) != seen) return Py_NewRef(Py_True);
    if (slept == Sleep::over) return Py_NewRef(Py_False);
  }
}

PyMethodDef methods[] = {
    {"value", value, METH_NOARGS, nullptr},
    {"ring", ring, METH_NOARGS, nullptr},
    {"wait", method(wait), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef functions[] = {
    {"doorbell_create", create, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_doorbell(PyObject* module) {
  if (PyModule_AddFunctions(module, functions) != 0) return -1;
  if (PyModule_AddIntConstant(module, "DOORBELL_NBYTES", sizeof(DoorbellBlock)) != 0) return -1;
  return add_class<Body>(module, "fast_core.memory._native.Doorbell", attach,
                         {{Py_tp_methods, methods}});
}

}  // namespace fastloop::bind
