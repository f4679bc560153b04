// PriorityTree for Python. Arrays come as contiguous buffers of 64-bit values; the classes of
// priorities.py see to their types.
#include "bind_sum_tree.hpp"

namespace fastloop::bind {
namespace {

struct Body {
  Buffer leaves, owners;  // where they are shared
  std::unique_ptr<PriorityTree> view;
};

PriorityTree& tree_of(PyObject* self) { return *body_of<Body>(self).view; }

PyTypeObject* type_ = nullptr;

PyObject* attach(PyTypeObject* type, PyObject* args, PyObject*) {
  unsigned long long leaves, key0, key1;
  double alpha, epsilon;
  if (!PyArg_ParseTuple(args, "KddKK:PriorityTree", &leaves, &alpha, &epsilon, &key0, &key1))
    return nullptr;
  return make<Body>(type, [&](Body& body) {
    const CounterRandom::State seed{{key0, key1}, 0};
    body.view = std::make_unique<PriorityTree>(leaves, alpha, epsilon, seed);
    return true;
  });
}

template <class T>
T* as(const Buffer& buffer) {
  return reinterpret_cast<T*>(buffer.data());
}

PyObject* read(PyObject* self, PyObject* args) {
  PyObject *priorities, *owners;
  if (!PyArg_ParseTuple(args, "OO:read", &priorities, &owners)) return nullptr;
  PriorityTree& tree = tree_of(self);
  Buffer to, owner;
  if (!to.open_exactly(priorities, true, 8 * tree.leaves(), "the array of priorities") ||
      !owner.open_exactly(owners, true, 4 * tree.leaves(), "the array of owners"))
    return nullptr;
  std::memcpy(to.data(), tree.all(), to.size());
  std::memcpy(owner.data(), tree.owners(), owner.size());
  return Py_NewRef(Py_None);
}

PyObject* restore(PyObject* self, PyObject* args) {
  PyObject *priorities, *owners;
  unsigned long long refused[2], key[2], counter;
  if (!PyArg_ParseTuple(args, "OO(KK)(KKK):restore", &priorities, &owners, &refused[0],
                        &refused[1], &key[0], &key[1], &counter))
    return nullptr;
  PriorityTree& tree = tree_of(self);
  Buffer from, owner;
  if (!from.open_exactly(priorities, false, 8 * tree.leaves(), "the array of priorities") ||
      !owner.open_exactly(owners, false, 4 * tree.leaves(), "the array of owners"))
    return nullptr;
  return guarded<PyObject*>(nullptr, [&] {
    tree.restore(as<double>(from), as<std::uint32_t>(owner), {refused[0], refused[1]});
    tree.random().set_state({{key[0], key[1]}, counter});
    return Py_NewRef(Py_None);
  });
}

// Goes on with leaves in shared memory.
PyObject* share(PyObject* self, PyObject* args) {
  PyObject *leaves, *owners;
  if (!PyArg_ParseTuple(args, "OO:share", &leaves, &owners)) return nullptr;
  Body& body = body_of<Body>(self);
  PriorityTree& tree = *body.view;
  const auto nbytes = PriorityTree::leaves_nbytes(tree.leaves());
  if (!body.leaves.open_exactly(leaves, true, nbytes, "the shared priorities") ||
      !body.owners.open_exactly(owners, true, 4 * tree.leaves(), "the shared owners"))
    return nullptr;
  tree.share(as<double>(body.leaves), as<std::uint32_t>(body.owners));
  return Py_NewRef(Py_None);
}

// Sets what is neither leaf nor owner: counters and the random stream.
PyObject* resume(PyObject* self, PyObject* args) {
  unsigned long long refused[2], key[2], counter;
  if (!PyArg_ParseTuple(args, "(KK)(KKK):resume", &refused[0], &refused[1], &key[0], &key[1],
                        &counter))
    return nullptr;
  tree_of(self).set_counters({refused[0], refused[1]});
  tree_of(self).random().set_state({{key[0], key[1]}, counter});
  return Py_NewRef(Py_None);
}

PyObject* stream(PyObject* self, PyObject*) { return stream_of(tree_of(self).random()); }

PyObject* refused(PyObject* self, PyObject*) {
  const auto& counters = tree_of(self).counters();
  return Py_BuildValue("(KK)", static_cast<unsigned long long>(counters.refused_value),
                       static_cast<unsigned long long>(counters.refused_stale));
}

PyObject* get_total(PyObject* self, void*) { return PyFloat_FromDouble(tree_of(self).total()); }
Py_ssize_t length(PyObject* self) { return static_cast<Py_ssize_t>(tree_of(self).live()); }

PyMethodDef methods[] = {
    {"read", read, METH_VARARGS, nullptr},
    {"restore", restore, METH_VARARGS, nullptr},
    {"share", share, METH_VARARGS, nullptr},
    {"resume", resume, METH_VARARGS, nullptr},
    {"stream", stream, METH_NOARGS, nullptr},
    {"_refused", refused, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"total", get_total, nullptr, nullptr, nullptr},
    {"leaves", get<Body, &PriorityTree::leaves>, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace

PriorityTree* as_tree(PyObject* object) {
  if (PyObject_TypeCheck(object, type_)) return &tree_of(object);
  PyErr_Format(PyExc_TypeError, "a PriorityTree is needed; got %R", object);
  return nullptr;
}

int add_sum_tree(PyObject* module) {
  if (add_class<Body>(module, "fast_core.memory._native.PriorityTree", attach,
                      {{Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {Py_sq_length, reinterpret_cast<void*>(length)}}) != 0)
    return -1;
  type_ = reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(module, "PriorityTree"));
  return type_ == nullptr ? -1 : 0;
}

}  // namespace fastloop::bind
