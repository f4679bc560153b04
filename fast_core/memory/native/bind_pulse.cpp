// Pulse for Python.
#include "pulse.hpp"

#include <cerrno>

#include "bind.hpp"

namespace fastloop::bind {
namespace {

struct Body {
  ~Body() { pulse.stop(); }

  Buffer memory;
  Pulse pulse{};
};

PyObject* begin(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* exporter;
  double period_s;
  if (!PyArg_ParseTuple(args, "Od:Pulse", &exporter, &period_s)) return nullptr;
  if (!(period_s > 0 && period_s < 3600)) {
    PyErr_SetString(PyExc_ValueError, "period_s must be above 0 and below 3600");
    return nullptr;
  }
  return make<Body>(type, [&](Body& body) {
    if (!body.memory.open(exporter, true)) return false;
    check_room(body.memory.data(), body.memory.size(), 8, "pulse");
    auto* word = reinterpret_cast<std::atomic<std::int64_t>*>(body.memory.data());
    errno = body.pulse.start(word, static_cast<std::int64_t>(period_s * 1e9));
    return errno == 0 || PyErr_SetFromErrno(PyExc_OSError) != nullptr;
  });
}

PyObject* close(PyObject* self, PyObject*) {
  body_of<Body>(self).pulse.stop();
  return Py_NewRef(Py_None);
}

PyMethodDef methods[] = {
    {"close", close, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_pulse(PyObject* module) {
  return add_class<Body>(module, "fast_core.memory._native.Pulse", begin,
                         {{Py_tp_methods, methods}});
}

}  // namespace fastloop::bind
