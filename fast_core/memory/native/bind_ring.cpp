// Ring for Python.
#include "bind.hpp"
#include "ring.hpp"

namespace fastloop::bind {
namespace {

struct Body : Attached<Ring> {
  Reference region;      // the memoryview that slices come from
  bool claimed = false;  // between claim and commit
  bool peeked = false;   // between peek and release
};

Ring& ring_of(PyObject* self) { return *body_of<Body>(self).view; }
bool is_large(std::uint64_t nbytes) { return nbytes >= kReleaseGilBytes; }

PyObject* misuse(const char* what) {
  PyErr_SetString(errors.transport, what);
  return nullptr;
}

bool refuse_claimed(PyObject* self) {
  if (!body_of<Body>(self).claimed) return false;
  misuse("a record of this ring is claimed; commit() it before the next push");
  return true;
}

bool refuse_peeked(PyObject* self) {
  if (!body_of<Body>(self).peeked) return false;
  misuse("a record of this ring is peeked at; release() it before the next pop");
  return true;
}

// True when a record is ready; false with or without an exception set.
bool one_ready(Ring& ring) {
  bool damaged = false;
  if (ring.has_record(damaged)) return true;
  if (damaged)
    PyErr_SetString(errors.segment,
                    "ring: head and tail are further apart than its capacity; the memory is damaged");
  return false;
}

// ---- making and attaching ---------------------------------------------------------------

PyObject* ring_nbytes(PyObject*, PyObject* args) {
  unsigned long long capacity, record_bytes;
  if (!PyArg_ParseTuple(args, "KK:ring_nbytes", &capacity, &record_bytes)) return nullptr;
  return guarded<PyObject*>(nullptr, [&] {
    return PyLong_FromUnsignedLongLong(Ring::nbytes(capacity, record_bytes));
  });
}

PyObject* ring_create(PyObject*, PyObject* args) {
  PyObject* exporter;
  unsigned long long capacity, record_bytes;
  if (!PyArg_ParseTuple(args, "OKK:ring_create", &exporter, &capacity, &record_bytes))
    return nullptr;
  return create_in(exporter, [&](void* memory, std::uint64_t size) {
    Ring::create(memory, size, capacity, record_bytes);
  });
}

PyObject* ring_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* exporter;
  if (!PyArg_ParseTuple(args, "O:Ring", &exporter)) return nullptr;
  return make<Body>(type, [&](Body& body) {
    if (!body.memory.open(exporter, true)) return false;
    body.view = std::make_unique<Ring>(body.memory.data(), body.memory.size());
    body.region.object = PyMemoryView_FromObject(exporter);
    return body.region.object != nullptr;
  });
}

// ---- producer ---------------------------------------------------------------------------

// 1 pushed, 0 full, -1 error.
int push_once(PyObject* self, PyObject* record) {
  Ring& ring = ring_of(self);
  if (refuse_claimed(self)) return -1;
  Buffer from;
  if (!from.open_exactly(record, false, ring.record_bytes(), "a record")) return -1;
  GilRelease released(is_large(ring.record_bytes()));
  return ring.try_push(from.data()) ? 1 : 0;
}

PyObject* try_push(PyObject* self, PyObject* record) {
  const int pushed = push_once(self, record);
  return pushed < 0 ? nullptr : PyBool_FromLong(pushed);
}

// A memoryview of one record's place. A slice, so that it keeps the mapping alive.
PyObject* slot_view(PyObject* self, const char* place) {
  Ring& ring = ring_of(self);
  const auto begin = static_cast<Py_ssize_t>(place - ring.base());
  return PySequence_GetSlice(body_of<Body>(self).region.object, begin,
                             begin + static_cast<Py_ssize_t>(ring.record_bytes()));
}

PyObject* claim_once(PyObject* self) {
  Ring& ring = ring_of(self);
  if (!ring.has_room()) return nullptr;
  PyObject* place = slot_view(self, ring.claimed());
  if (place != nullptr) body_of<Body>(self).claimed = true;
  return place;
}

PyObject* commit(PyObject* self, PyObject*) {
  bool& claimed = body_of<Body>(self).claimed;
  if (!claimed) return misuse("commit() without a claimed record; claim one first");
  claimed = false;
  ring_of(self).publish();
  return Py_NewRef(Py_None);
}

// ---- consumer ---------------------------------------------------------------------------

PyObject* pop_once(PyObject* self) {
  Ring& ring = ring_of(self);
  if (refuse_peeked(self) || !one_ready(ring)) return nullptr;
  PyObject* record =
      PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(ring.record_bytes()));
  if (record == nullptr) return nullptr;
  char* to = PyBytes_AsString(record);
  GilRelease released(is_large(ring.record_bytes()));
  ring.take(to);
  return record;
}

PyObject* peek_once(PyObject* self) {
  Ring& ring = ring_of(self);
  if (!one_ready(ring)) return nullptr;
  PyObject* place = slot_view(self, ring.oldest());
  if (place != nullptr) body_of<Body>(self).peeked = true;
  return place;
}

PyObject* release(PyObject* self, PyObject*) {
  bool& peeked = body_of<Body>(self).peeked;
  if (!peeked) return misuse("release() without a peeked record; peek first");
  peeked = false;
  ring_of(self).give_back();
  return Py_NewRef(Py_None);
}

// ---- waiting ------------------------------------------------------------------------------

PyObject* ran_out(PyObject* self, bool full, PyObject* timeout_s) {
  Ring& ring = ring_of(self);
  PyErr_Format(full ? errors.ring_full : errors.ring_empty,
               full ? "a ring of %llu records of %llu bytes stayed full for %S s; nothing was "
                      "written. Its consumer is slow or gone"
                    : "a ring of %llu records of %llu bytes stayed empty for %S s. Its producer "
                      "is slow or gone",
               static_cast<unsigned long long>(ring.capacity()),
               static_cast<unsigned long long>(ring.record_bytes()), timeout_s);
  return nullptr;
}

// Repeats `attempt` until it returns an object or sets an exception, sleeping on `bell` between.
template <class Attempt>
PyObject* wait_for(PyObject* self, DoorbellWords& bell, bool full, PyObject* timeout_s,
                   Attempt attempt) {
  PyObject* result = attempt();
  if (result != nullptr || PyErr_Occurred() != nullptr) return result;
  Deadline deadline;
  if (!deadline.parse(timeout_s)) return nullptr;
  for (;;) {
    const auto seen = doorbell_value(bell);  // before the attempt, see doorbell.hpp
    result = attempt();
    if (result != nullptr || PyErr_Occurred() != nullptr) return result;
    switch (sleep_slice(bell, seen, deadline)) {
      case Sleep::over: return ran_out(self, full, timeout_s);
      case Sleep::interrupted: return nullptr;
      case Sleep::again: break;
    }
  }
}

// Once, without waiting: None where there is nothing.
template <PyObject* (*once)(PyObject*)>
PyObject* attempted(PyObject* self, PyObject*) {
  PyObject* found = once(self);
  return found != nullptr || PyErr_Occurred() != nullptr ? found : Py_NewRef(Py_None);
}

PyObject* none_if(int done) { return done == 1 ? Py_NewRef(Py_None) : nullptr; }

PyObject* push(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  PyObject *record, *timeout_s;
  if (!read_timed_call(args, nargs, names, &record, &timeout_s, "push(record, timeout_s=None)"))
    return nullptr;
  return wait_for(self, ring_of(self).space(), true, timeout_s,
                  [&] { return none_if(push_once(self, record)); });
}

constexpr char kPop[] = "pop(timeout_s=None)";
constexpr char kClaim[] = "claim(timeout_s=None)";
constexpr char kPeek[] = "peek(timeout_s=None)";

// The same, waiting for room or for a record.
template <PyObject* (*once)(PyObject*), bool for_room, const char* usage>
PyObject* timed(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  PyObject* timeout_s;
  if (!read_timed_call(args, nargs, names, nullptr, &timeout_s, usage)) return nullptr;
  DoorbellWords& bell = for_room ? ring_of(self).space() : ring_of(self).data();
  return wait_for(self, bell, for_room, timeout_s, [&] { return once(self); });
}

// ---- figures and the type ---------------------------------------------------------------

Py_ssize_t length(PyObject* self) { return static_cast<Py_ssize_t>(ring_of(self).used()); }

constexpr int kTimed = METH_FASTCALL | METH_KEYWORDS;

PyMethodDef methods[] = {
    {"try_push", try_push, METH_O, nullptr},
    {"try_claim", attempted<claim_once>, METH_NOARGS, nullptr},
    {"commit", commit, METH_NOARGS, nullptr},
    {"try_pop", attempted<pop_once>, METH_NOARGS, nullptr},
    {"try_peek", attempted<peek_once>, METH_NOARGS, nullptr},
    {"release", release, METH_NOARGS, nullptr},
    {"push", method(push), kTimed, nullptr},
    {"claim", method(timed<claim_once, true, kClaim>), kTimed, nullptr},
    {"pop", method(timed<pop_once, false, kPop>), kTimed, nullptr},
    {"peek", method(timed<peek_once, false, kPeek>), kTimed, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"capacity", get<Body, &Ring::capacity>, nullptr, nullptr, nullptr},
    {"record_bytes", get<Body, &Ring::record_bytes>, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef functions[] = {
    {"ring_nbytes", ring_nbytes, METH_VARARGS, nullptr},
    {"ring_create", ring_create, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_ring(PyObject* module) {
  if (PyModule_AddFunctions(module, functions) != 0) return -1;
  return add_class<Body>(module, "fast_core.memory._native.Ring", ring_new,
                         {{Py_tp_methods, methods},
                          {Py_tp_getset, properties},
                          {Py_sq_length, reinterpret_cast<void*>(length)}});
}

}  // namespace fastloop::bind
