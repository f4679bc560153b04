// The Python object of a priority tree, for bindings that take one.
#pragma once

#include <cstring>

#include "bind.hpp"
#include "sum_tree.hpp"

namespace fastloop::bind {

// Where a random stream is.
inline PyObject* stream_of(CounterRandom& random) {
  const auto& state = random.state();
  return Py_BuildValue("(KKK)", static_cast<unsigned long long>(state.key[0]),
                       static_cast<unsigned long long>(state.key[1]),
                       static_cast<unsigned long long>(state.counter));
}

// The tree of a Python object; null with TypeError set where it is none.
PriorityTree* as_tree(PyObject* object);

}  // namespace fastloop::bind
