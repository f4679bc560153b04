// The Python object of a priority tree, for bindings that take one.
#pragma once

#include <cstring>

#include "bind.hpp"
#include "sum_tree.hpp"

namespace fastloop::bind {

struct TreeView {
  PriorityTree* tree;  // owned
  Buffer leaves, owners;  // where they are shared
};
using TreeObject = Attached<TreeView>;

// The tree of a Python object; null with TypeError set where it is none.
PriorityTree* as_tree(PyObject* object);

}  // namespace fastloop::bind
