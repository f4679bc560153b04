// The Python module fast_core.memory._native: nothing but the registration of its parts.
#include "bind.hpp"

namespace fastloop::bind {

Errors errors;

namespace {

bool load_errors() {
  PyObject* module = PyImport_ImportModule("fast_core.errors");
  if (module == nullptr) return false;
  errors.segment = PyObject_GetAttrString(module, "SegmentError");
  errors.transport = PyObject_GetAttrString(module, "TransportError");
  errors.ring_full = PyObject_GetAttrString(module, "RingFull");
  errors.ring_empty = PyObject_GetAttrString(module, "RingEmpty");
  Py_DECREF(module);
  return errors.segment != nullptr && errors.transport != nullptr &&
         errors.ring_full != nullptr && errors.ring_empty != nullptr;
}

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "fast_core.memory._native",
    "Rings, doorbells and boards in shared memory; see the modules of fast_core.memory.",
    -1,  // one state per process: the exception types above
    nullptr, nullptr, nullptr, nullptr, nullptr,
};

}  // namespace
}  // namespace fastloop::bind

PyMODINIT_FUNC PyInit__native() {
  using namespace fastloop::bind;
  PyObject* module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
  const bool whole =
      load_errors() && add_ring(module) == 0 && add_doorbell(module) == 0 &&
      add_weights(module) == 0 && add_words(module) == 0 && add_pulse(module) == 0 &&
      add_mapping(module) == 0 && add_sum_tree(module) == 0 && add_replay_log(module) == 0 &&
      add_replay(module) == 0 &&
      PyModule_AddIntConstant(module, "LAYOUT_VERSION", fastloop::kLayoutVersion) == 0;
  if (whole) return module;
  Py_DECREF(module);
  return nullptr;
}
