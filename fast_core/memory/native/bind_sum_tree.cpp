// PriorityTree for Python. Arrays come as contiguous buffers of 64-bit values; the classes of
// priorities.py see to their types.
#include "bind_sum_tree.hpp"

namespace fastloop::bind {
namespace {

PriorityTree& tree_of(PyObject* self) { return *reinterpret_cast<TreeObject*>(self)->view.tree; }

PyTypeObject* type_ = nullptr;

PyObject* attach(PyTypeObject* type, PyObject* args, PyObject*) {
  unsigned long long leaves, key0, key1;
  double alpha, epsilon;
  if (!PyArg_ParseTuple(args, "KddKK:PriorityTree", &leaves, &alpha, &epsilon, &key0, &key1))
    return nullptr;
  auto* self = allocate<TreeObject>(type);  // zeroed
  if (self == nullptr) return nullptr;
  const bool made = guarded<bool>(false, [&] {
    self->view.tree = new PriorityTree(leaves, alpha, epsilon, {{key0, key1}, 0});
    return true;
  });
  if (made) return reinterpret_cast<PyObject*>(self);
  Py_DECREF(self);
  return nullptr;
}

void dealloc(PyObject* self) {
  auto& view = reinterpret_cast<TreeObject*>(self)->view;
  delete view.tree;
  view.leaves.release();
  view.owners.release();
  free_object(self);
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
  auto& view = reinterpret_cast<TreeObject*>(self)->view;
  PriorityTree& tree = *view.tree;
  const auto nbytes = PriorityTree::leaves_nbytes(tree.leaves());
  if (!view.leaves.open_exactly(leaves, true, nbytes, "the shared priorities") ||
      !view.owners.open_exactly(owners, true, 4 * tree.leaves(), "the shared owners"))
    return nullptr;
  tree.share(as<double>(view.leaves), as<std::uint32_t>(view.owners));
  return Py_NewRef(Py_None);
}

// Sets what is neither leaf nor owner: counters and the random stream.
PyObject* resume(PyObject* self, PyObject* args) {
  unsigned long long refused[2], key[2], counter;
  if (!PyArg_ParseTuple(args, "(KK)(KKK):_resume", &refused[0], &refused[1], &key[0], &key[1],
                        &counter))
    return nullptr;
  tree_of(self).set_counters({refused[0], refused[1]});
  tree_of(self).random().set_state({{key[0], key[1]}, counter});
  return Py_NewRef(Py_None);
}

PyObject* stream(PyObject* self, PyObject*) {
  const auto& state = tree_of(self).random().state();
  return Py_BuildValue("(KKK)", static_cast<unsigned long long>(state.key[0]),
                       static_cast<unsigned long long>(state.key[1]),
                       static_cast<unsigned long long>(state.counter));
}

PyObject* refused(PyObject* self, PyObject*) {
  const auto& counters = tree_of(self).counters();
  return Py_BuildValue("(KK)", static_cast<unsigned long long>(counters.refused_value),
                       static_cast<unsigned long long>(counters.refused_stale));
}

PyObject* get_total(PyObject* self, void*) { return PyFloat_FromDouble(tree_of(self).total()); }
PyObject* get_leaves(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(tree_of(self).leaves());
}
Py_ssize_t length(PyObject* self) { return static_cast<Py_ssize_t>(tree_of(self).live()); }

PyMethodDef methods[] = {
    {"read", read, METH_VARARGS, nullptr},
    {"restore", restore, METH_VARARGS, nullptr},
    {"share", share, METH_VARARGS, nullptr},
    {"_resume", resume, METH_VARARGS, nullptr},
    {"_stream", stream, METH_NOARGS, nullptr},
    {"_refused", refused, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"total", get_total, nullptr, nullptr, nullptr},
    {"leaves", get_leaves, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(attach)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_sq_length, reinterpret_cast<void*>(length)},
    {0, nullptr},
};

PyType_Spec spec = {"fast_core.memory._native.PriorityTree", sizeof(TreeObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

PriorityTree* as_tree(PyObject* object) {
  if (PyObject_TypeCheck(object, type_)) return &tree_of(object);
  PyErr_Format(PyExc_TypeError, "a PriorityTree is needed; got %R", object);
  return nullptr;
}

int add_sum_tree(PyObject* module) {
  if (add_type(module, &spec, "PriorityTree") != 0) return -1;
  type_ = reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(module, "PriorityTree"));
  return type_ == nullptr ? -1 : 0;
}

}  // namespace fastloop::bind
