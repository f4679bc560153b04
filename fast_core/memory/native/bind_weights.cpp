// WeightBoard for Python.
#include "bind.hpp"
#include "seqlock.hpp"

namespace fastloop::bind {
namespace {

using WeightObject = Attached<WeightBoard*>;  // owned

WeightObject* cast(PyObject* self) { return reinterpret_cast<WeightObject*>(self); }
WeightBoard& board_of(PyObject* self) { return *cast(self)->view; }

PyObject* nbytes(PyObject*, PyObject* args) {
  unsigned long long payload_bytes;
  if (!PyArg_ParseTuple(args, "K:weights_nbytes", &payload_bytes)) return nullptr;
  return guarded<PyObject*>(nullptr, [&] {
    return PyLong_FromUnsignedLongLong(WeightBoard::nbytes(payload_bytes));
  });
}

PyObject* create(PyObject*, PyObject* args) {
  PyObject* exporter;
  unsigned long long payload_bytes;
  if (!PyArg_ParseTuple(args, "OK:weights_create", &exporter, &payload_bytes)) return nullptr;
  Buffer memory;
  if (!memory.open(exporter, true)) return nullptr;
  return guarded<PyObject*>(nullptr, [&] {
    WeightBoard::create(memory.data(), memory.size(), payload_bytes);
    return Py_NewRef(Py_None);
  });
}

PyObject* attach(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* exporter;
  if (!PyArg_ParseTuple(args, "O:WeightBoard", &exporter)) return nullptr;
  auto* self = allocate<WeightObject>(type);  // zeroed
  if (self == nullptr) return nullptr;
  const bool attached =
      self->memory.open(exporter, true) && guarded<bool>(false, [&] {
        self->view = new WeightBoard(self->memory.data(), self->memory.size());
        return true;
      });
  if (attached) return reinterpret_cast<PyObject*>(self);
  Py_DECREF(self);
  return nullptr;
}

void dealloc(PyObject* self) {
  delete cast(self)->view;
  cast(self)->memory.release();
  free_object(self);
}

PyObject* publish(PyObject* self, PyObject* args) {
  long long version;
  PyObject* payload;
  if (!PyArg_ParseTuple(args, "LO:publish", &version, &payload)) return nullptr;
  WeightBoard& board = board_of(self);
  if (version < 0 || version <= board.version()) {
    PyErr_Format(errors.segment,
                 "versions of a weight board start at 0 and only grow; got %lld after %lld. "
                 "Readers would take it for old weights",
                 version, static_cast<long long>(board.version()));
    return nullptr;
  }
  Buffer from;
  if (!from.open_exactly(payload, false, board.payload_bytes(), "the payload")) return nullptr;
  {
    GilRelease released(board.payload_bytes() >= kReleaseGilBytes);
    board.publish(version, from.data());
  }
  return Py_NewRef(Py_None);
}

PyObject* read_into(PyObject* self, PyObject* args, PyObject* names) {
  static const char* keywords[] = {"target", "newer_than", nullptr};
  PyObject* target;
  long long newer_than = WeightBoard::kNothing;
  if (!PyArg_ParseTupleAndKeywords(args, names, "O|L:read_into", const_cast<char**>(keywords),
                                   &target, &newer_than))
    return nullptr;
  WeightBoard& board = board_of(self);
  Buffer to;
  if (!to.open_exactly(target, true, board.payload_bytes(), "the target")) return nullptr;
  std::int64_t version = WeightBoard::kNothing;
  WeightBoard::Read read;
  {
    GilRelease released(board.payload_bytes() >= kReleaseGilBytes);
    read = board.read_into(to.data(), newer_than, version);
  }
  if (read == WeightBoard::Read::nothing_newer) return PyLong_FromLongLong(newer_than);
  if (read == WeightBoard::Read::copied) return PyLong_FromLongLong(version);
  PyErr_Format(errors.segment,
               "the writer of the weight board overtook each of %d reads of %llu bytes; the target "
               "holds torn bytes. Publish less often",
               WeightBoard::kMaxTries, static_cast<unsigned long long>(board.payload_bytes()));
  return nullptr;
}

PyObject* version(PyObject* self, PyObject*) {
  return PyLong_FromLongLong(board_of(self).version());
}

PyObject* get_payload_bytes(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(board_of(self).payload_bytes());
}

PyMethodDef methods[] = {
    {"publish", publish, METH_VARARGS, nullptr},
    {"read_into", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(read_into)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"version", version, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"payload_bytes", get_payload_bytes, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(attach)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, nullptr},
};

PyType_Spec spec = {"fast_core.memory._native.WeightBoard", sizeof(WeightObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

PyMethodDef functions[] = {
    {"weights_nbytes", nbytes, METH_VARARGS, nullptr},
    {"weights_create", create, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_weights(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0 ? add_type(module, &spec, "WeightBoard")
                                                       : -1;
}

}  // namespace fastloop::bind
