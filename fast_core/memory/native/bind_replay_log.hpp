// The Python object of a replay log, for bindings that take one.
#pragma once

#include "bind.hpp"
#include "replay_log.hpp"

namespace fastloop::bind {

// The log of a Python object; null with TypeError set where it is none.
const ReplayLog* as_log(PyObject* object);

}  // namespace fastloop::bind
