// What every binding of module.cpp needs: memory from the buffer protocol, errors, timed waits.
#pragma once

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <vector>

#include "doorbell.hpp"

namespace fastloop::bind {

// Below this a copy is cheaper than giving the GIL up and taking it back.
constexpr std::uint64_t kReleaseGilBytes = 32 * 1024;
// A sleeper looks up this often: signals get handled, and a record whose producer died between
// publishing and ringing is found.
constexpr std::int64_t kSliceNs = 200'000'000;

// Exceptions of fast_core.errors; filled when the module is imported, alive as long as it.
struct Errors {
  PyObject* segment;
  PyObject* transport;
  PyObject* ring_full;
  PyObject* ring_empty;
};
extern Errors errors;

// Runs `body`, turning what the headers throw into SegmentError. Returns `failed` then.
template <class Result, class Body>
Result guarded(Result failed, Body body) {
  try {
    return body();
  } catch (const Refused& refused) {
    PyErr_SetString(errors.segment, refused.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return failed;
}

// Releases the GIL for as long as it lives, if told to.
class GilRelease {
 public:
  explicit GilRelease(bool release) : state_(release ? PyEval_SaveThread() : nullptr) {}
  ~GilRelease() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

// A buffer held for one call or for the life of an object. A held one keeps its exporter, so
// the mapping, alive.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  bool open(PyObject* exporter, bool writable) {
    release();
    held_ = PyObject_GetBuffer(exporter, &view_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) == 0;
    return held_;
  }
  // Opens and insists on the size; `what` begins the message.
  bool open_exactly(PyObject* exporter, bool writable, std::uint64_t nbytes, const char* what) {
    if (!open(exporter, writable)) return false;
    if (size() == nbytes) return true;
    PyErr_Format(errors.segment, "%s must have exactly %llu bytes; got %llu", what,
                 static_cast<unsigned long long>(nbytes), static_cast<unsigned long long>(size()));
    return false;
  }
  void release() {
    if (held_) PyBuffer_Release(&view_);
    held_ = false;
  }
  char* data() const { return static_cast<char*>(view_.buf); }
  std::uint64_t size() const { return static_cast<std::uint64_t>(view_.len); }

 private:
  Py_buffer view_{};
  bool held_ = false;
};

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  // None waits for ever; a number is seconds from now. False with an exception set otherwise.
  bool parse(PyObject* timeout_s) {
    endless_ = timeout_s == nullptr || timeout_s == Py_None;
    if (endless_) return true;
    const double seconds = PyFloat_AsDouble(timeout_s);
    if (seconds == -1.0 && PyErr_Occurred() != nullptr) return false;
    if (!(seconds >= 0.0)) {
      PyErr_Format(PyExc_ValueError, "timeout_s must be None or at least 0; got %R", timeout_s);
      return false;
    }
    // Beyond a century the sum below could overflow, and nobody can tell it from for ever.
    endless_ = seconds > 3e9;
    if (!endless_)
      end_ = Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    return true;
  }

  // Nanoseconds to sleep before looking up again; 0 when the time is over.
  std::int64_t slice_ns() const {
    if (endless_) return kSliceNs;
    const auto left =
        std::chrono::duration_cast<std::chrono::nanoseconds>(end_ - Clock::now()).count();
    return left <= 0 ? 0 : (left < kSliceNs ? left : kSliceNs);
  }

 private:
  Clock::time_point end_{};
  bool endless_ = true;
};

enum class Sleep { over, again, interrupted };

// One slice of sleep without the GIL. `over` when no time is left, `interrupted` when a Python
// signal handler raised.
inline Sleep sleep_slice(DoorbellWords& bell, std::uint32_t seen, const Deadline& deadline) {
  const auto slice_ns = deadline.slice_ns();
  if (slice_ns == 0) return Sleep::over;
  {
    GilRelease released(true);
    doorbell_wait(bell, seen, slice_ns);
  }
  return PyErr_CheckSignals() == 0 ? Sleep::again : Sleep::interrupted;
}

// Reads (first[, timeout_s]) from a fast call; timeout_s may be named. `first` is null when
// the method takes only timeout_s. False with TypeError set when the call does not fit.
inline bool read_timed_call(PyObject* const* args, Py_ssize_t nargs, PyObject* names,
                            PyObject** first, PyObject** timeout_s, const char* usage) {
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_Size(names);
  const Py_ssize_t leading = first == nullptr ? 0 : 1;
  const Py_ssize_t total = nargs + named;
  bool fits = nargs >= leading && total <= leading + 1;
  if (fits && named == 1)
    fits = PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "timeout_s") == 0;
  if (!fits) {
    PyErr_Format(PyExc_TypeError, "call it as %s", usage);
    return false;
  }
  if (first != nullptr) *first = args[0];
  *timeout_s = total > leading ? args[leading] : nullptr;
  return true;
}

// A method that takes its arguments otherwise than by a tuple alone.
template <class Function>
PyCFunction method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// ---- classes: a C++ body after the object head, constructed and destroyed with the object --------

template <class Body>
struct Object {
  PyObject_HEAD
  Body body;
};

template <class Body>
Body& body_of(PyObject* self) {
  return reinterpret_cast<Object<Body>*>(self)->body;
}

// A reference that is held; empty at first.
struct Reference {
  Reference() = default;
  ~Reference() { Py_XDECREF(object); }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  PyObject* object = nullptr;
};

// The body of an attached structure: the memory, which is let go last, and its C++ view.
template <class View>
struct Attached {
  Buffer memory;
  std::unique_ptr<View> view;
};

// A new object, unless `begin`, which is given its body, returns false with an exception set or
// throws what the headers do.
template <class Body, class Begin>
PyObject* make(PyTypeObject* type, Begin begin) {
  PyObject* self = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self == nullptr) return nullptr;
  Body& body = *new (&body_of<Body>(self)) Body;
  if (guarded<bool>(false, [&] { return begin(body); })) return self;
  Py_DECREF(self);
  return nullptr;
}

template <class Body>
void drop(PyObject* self) {
  body_of<Body>(self).~Body();
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// A property that a method of the view gives.
template <class Body, auto figure>
PyObject* get(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(((*body_of<Body>(self).view).*figure)());
}

// Lets `create` make a structure in the memory of an exporter.
template <class Create>
PyObject* create_in(PyObject* exporter, Create create) {
  Buffer memory;
  if (!memory.open(exporter, true)) return nullptr;
  return guarded<PyObject*>(nullptr, [&] {
    create(memory.data(), memory.size());
    return Py_NewRef(Py_None);
  });
}

// Adds what each binding file defines; -1 with an exception set on failure.
int add_ring(PyObject* module);
int add_doorbell(PyObject* module);
int add_weights(PyObject* module);
int add_words(PyObject* module);
int add_pulse(PyObject* module);
int add_mapping(PyObject* module);
int add_sum_tree(PyObject* module);
int add_replay_log(PyObject* module);
int add_replay(PyObject* module);

// Makes the class `name`, in full, and adds it to the module; `more` are slots of its own.
template <class Body>
int add_class(PyObject* module, const char* name, newfunc create,
              std::initializer_list<PyType_Slot> more) {
  std::vector<PyType_Slot> slots(more);
  slots.push_back({Py_tp_new, reinterpret_cast<void*>(create)});
  slots.push_back({Py_tp_dealloc, reinterpret_cast<void*>(drop<Body>)});
  slots.push_back({0, nullptr});
  PyType_Spec spec = {name, sizeof(Object<Body>), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                      slots.data()};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) return -1;
  const int status = PyModule_AddObjectRef(module, std::strrchr(name, '.') + 1, type);
  Py_DECREF(type);
  return status;
}

}  // namespace fastloop::bind
