// Pulse for Python.
#include "pulse.hpp"

#include <cerrno>

#include "bind.hpp"

namespace fastloop::bind {
namespace {

using PulseObject = Attached<Pulse>;

PulseObject* cast(PyObject* self) { return reinterpret_cast<PulseObject*>(self); }

PyObject* begin(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* exporter;
  double period_s;
  if (!PyArg_ParseTuple(args, "Od:Pulse", &exporter, &period_s)) return nullptr;
  if (!(period_s > 0 && period_s < 3600)) {
    PyErr_SetString(PyExc_ValueError, "period_s must be above 0 and below 3600");
    return nullptr;
  }
  auto* self = allocate<PulseObject>(type);  // zeroed
  if (self == nullptr) return nullptr;
  const bool attached = self->memory.open(exporter, true) && guarded<bool>(false, [&] {
    check_room(self->memory.data(), self->memory.size(), 8, "pulse");
    return true;
  });
  if (attached) {
    auto* word = reinterpret_cast<std::atomic<std::int64_t>*>(self->memory.data());
    errno = self->view.start(word, static_cast<std::int64_t>(period_s * 1e9));
    if (errno == 0) return reinterpret_cast<PyObject*>(self);
    PyErr_SetFromErrno(PyExc_OSError);
  }
  Py_DECREF(self);
  return nullptr;
}

void dealloc(PyObject* self) {
  cast(self)->view.stop();
  cast(self)->memory.release();
  free_object(self);
}

PyObject* close(PyObject* self, PyObject*) {
  cast(self)->view.stop();
  return Py_NewRef(Py_None);
}

PyMethodDef methods[] = {
    {"close", close, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(begin)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

PyType_Spec spec = {"fast_core.memory._native.Pulse", sizeof(PulseObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                    slots};

}  // namespace

int add_pulse(PyObject* module) { return add_type(module, &spec, "Pulse"); }

}  // namespace fastloop::bind
