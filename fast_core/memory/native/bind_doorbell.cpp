// Doorbell for Python.
#include "bind.hpp"

namespace fastloop::bind {
namespace {

using DoorbellObject = Attached<DoorbellWords*>;

DoorbellObject* cast(PyObject* self) { return reinterpret_cast<DoorbellObject*>(self); }
DoorbellWords& words_of(PyObject* self) { return *cast(self)->view; }

PyObject* create(PyObject*, PyObject* exporter) {
  Buffer memory;
  if (!memory.open(exporter, true)) return nullptr;
  return guarded<PyObject*>(nullptr, [&] {
    doorbell_create(memory.data(), memory.size());
    return Py_NewRef(Py_None);
  });
}

PyObject* attach(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* exporter;
  if (!PyArg_ParseTuple(args, "O:Doorbell", &exporter)) return nullptr;
  auto* self = allocate<DoorbellObject>(type);  // zeroed
  if (self == nullptr) return nullptr;
  const bool attached =
      self->memory.open(exporter, true) && guarded<bool>(false, [&] {
        self->view = doorbell_attach(self->memory.data(), self->memory.size());
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
    {"wait", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(wait)),
     METH_FASTCALL | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(attach)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

PyType_Spec spec = {"fast_core.memory._native.Doorbell", sizeof(DoorbellObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

PyMethodDef functions[] = {
    {"doorbell_create", create, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_doorbell(PyObject* module) {
  if (PyModule_AddFunctions(module, functions) != 0) return -1;
  if (PyModule_AddIntConstant(module, "DOORBELL_NBYTES", sizeof(DoorbellBlock)) != 0) return -1;
  return add_type(module, &spec, "Doorbell");
}

}  // namespace fastloop::bind
