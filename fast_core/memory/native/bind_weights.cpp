// WeightBoard for Python.
#include "bind.hpp"
#include "seqlock.hpp"

namespace fastloop::bind {
namespace {

using Body = Attached<WeightBoard>;

WeightBoard& board_of(PyObject* self) { return *body_of<Body>(self).view; }

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
  return create_in(exporter, [&](void* memory, std::uint64_t size) {
    WeightBoard::create(memory, size, payload_bytes);
  });
}

PyObject* attach(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* exporter;
  if (!PyArg_ParseTuple(args, "O:WeightBoard", &exporter)) return nullptr;
  return make<Body>(type, [&](Body& body) {
    if (!body.memory.open(exporter, true)) return false;
    body.view = std::make_unique<WeightBoard>(body.memory.data(), body.memory.size());
    return true;
  });
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

PyMethodDef methods[] = {
    {"publish", publish, METH_VARARGS, nullptr},
    {"read_into", method(read_into), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"version", version, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"payload_bytes", get<Body, &WeightBoard::payload_bytes>, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef functions[] = {
    {"weights_nbytes", nbytes, METH_VARARGS, nullptr},
    {"weights_create", create, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_weights(PyObject* module) {
  if (PyModule_AddFunctions(module, functions) != 0) return -1;
  return add_class<Body>(module, "fast_core.memory._native.WeightBoard", attach,
                         {{Py_tp_methods, methods}, {Py_tp_getset, properties}});
}

}  // namespace fastloop::bind
