// Ring for Python.
#include "bind.hpp"
#include "ring.hpp"

namespace fastloop::bind {
namespace {

struct RingView {
  Ring* ring;           // owned
  bool claimed;         // between try_claim and commit or abort
  bool peeked;          // between try_peek and release
  std::uint64_t waits;  // calls that had to sleep
};
using RingObject = Attached<RingView>;

RingObject* cast(PyObject* self) { return reinterpret_cast<RingObject*>(self); }
Ring& ring_of(PyObject* self) { return *cast(self)->view.ring; }
bool is_large(std::uint64_t nbytes) { return nbytes >= kReleaseGilBytes; }

PyObject* misuse(const char* what) {
  PyErr_SetString(errors.transport, what);
  return nullptr;
}

bool refuse_claimed(PyObject* self) {
  if (!cast(self)->view.claimed) return false;
  misuse("a record of this ring is claimed; commit() or abort() it before the next push");
  return true;
}

bool refuse_peeked(PyObject* self) {
  if (!cast(self)->view.peeked) return false;
  misuse("a record of this ring is peeked at; release() it before the next pop");
  return true;
}

// True when a record is ready; false with or without an exception set.
bool one_ready(Ring& ring) {
  bool damaged = false;
  if (ring.ready_for(1, damaged) == 1) return true;
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
  unsigned long long capacity, record_bytes, start;
  if (!PyArg_ParseTuple(args, "OKKK:ring_create", &exporter, &capacity, &record_bytes, &start))
    return nullptr;
  Buffer memory;
  if (!memory.open(exporter, true)) return nullptr;
  return guarded<PyObject*>(nullptr, [&] {
    Ring::create(memory.data(), memory.size(), capacity, record_bytes, start);
    return Py_NewRef(Py_None);
  });
}

void ring_dealloc(PyObject* self) {
  delete cast(self)->view.ring;
  Py_CLEAR(cast(self)->region);
  cast(self)->memory.release();
  free_object(self);
}

PyObject* ring_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* exporter;
  if (!PyArg_ParseTuple(args, "O:Ring", &exporter)) return nullptr;
  auto* self = allocate<RingObject>(type);  // zeroed
  if (self == nullptr) return nullptr;
  const bool attached =
      self->memory.open(exporter, true) && guarded<bool>(false, [&] {
        self->view.ring = new Ring(self->memory.data(), self->memory.size());
        return true;
      });
  if (attached) self->region = PyMemoryView_FromObject(exporter);
  if (self->region != nullptr) return reinterpret_cast<PyObject*>(self);
  Py_DECREF(self);
  return nullptr;
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

PyObject* try_push_many(PyObject* self, PyObject* records) {
  Ring& ring = ring_of(self);
  if (refuse_claimed(self)) return nullptr;
  Buffer from;
  if (!from.open(records, false)) return nullptr;
  if (from.size() % ring.record_bytes() != 0) {
    PyErr_Format(errors.segment, "records must fill a multiple of %llu bytes; got %llu",
                 static_cast<unsigned long long>(ring.record_bytes()),
                 static_cast<unsigned long long>(from.size()));
    return nullptr;
  }
  std::uint64_t pushed;
  {
    GilRelease released(is_large(from.size()));
    pushed = ring.try_push_many(from.data(), from.size() / ring.record_bytes());
  }
  return PyLong_FromUnsignedLongLong(pushed);
}

// A memoryview of one record's place. A slice, so that it keeps the mapping alive.
PyObject* slot_view(PyObject* self, const char* place) {
  Ring& ring = ring_of(self);
  const auto begin = static_cast<Py_ssize_t>(place - ring.base());
  return PySequence_GetSlice(cast(self)->region, begin,
                             begin + static_cast<Py_ssize_t>(ring.record_bytes()));
}

PyObject* claim_once(PyObject* self) {
  Ring& ring = ring_of(self);
  if (ring.free_for(1) == 0) return nullptr;
  PyObject* place = slot_view(self, ring.claimed());
  if (place != nullptr) cast(self)->view.claimed = true;
  return place;
}

PyObject* try_claim(PyObject* self, PyObject*) {
  PyObject* place = claim_once(self);
  return place != nullptr || PyErr_Occurred() != nullptr ? place : Py_NewRef(Py_None);
}

PyObject* commit(PyObject* self, PyObject*) {
  if (!cast(self)->view.claimed) return misuse("commit() without a claimed record; claim one first");
  cast(self)->view.claimed = false;
  ring_of(self).publish(1);
  return Py_NewRef(Py_None);
}

PyObject* abort_claim(PyObject* self, PyObject*) {
  cast(self)->view.claimed = false;
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
  ring.take(to, 1);
  return record;
}

PyObject* try_pop(PyObject* self, PyObject*) {
  PyObject* record = pop_once(self);
  return record != nullptr || PyErr_Occurred() != nullptr ? record : Py_NewRef(Py_None);
}

// 1 popped, 0 empty, -1 error.
int pop_into_once(PyObject* self, PyObject* target) {
  Ring& ring = ring_of(self);
  if (refuse_peeked(self)) return -1;
  Buffer to;
  if (!to.open_exactly(target, true, ring.record_bytes(), "the target of a record")) return -1;
  if (!one_ready(ring)) return PyErr_Occurred() != nullptr ? -1 : 0;
  GilRelease released(is_large(ring.record_bytes()));
  ring.take(to.data(), 1);
  return 1;
}

PyObject* try_pop_into(PyObject* self, PyObject* target) {
  const int popped = pop_into_once(self, target);
  return popped < 0 ? nullptr : PyBool_FromLong(popped);
}

PyObject* try_pop_many(PyObject* self, PyObject* most) {
  Ring& ring = ring_of(self);
  const auto wanted = PyLong_AsUnsignedLongLong(most);
  if (PyErr_Occurred() != nullptr || refuse_peeked(self)) return nullptr;
  const bool any = wanted > 0 && one_ready(ring);
  if (!any && PyErr_Occurred() != nullptr) return nullptr;
  bool damaged = false;
  const auto count = any ? ring.ready_for(wanted, damaged) : 0;
  const auto nbytes = count * ring.record_bytes();
  PyObject* records = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(nbytes));
  if (records == nullptr || count == 0) return records;
  char* to = PyBytes_AsString(records);
  GilRelease released(is_large(nbytes));
  ring.take(to, count);
  return records;
}

PyObject* peek_once(PyObject* self) {
  Ring& ring = ring_of(self);
  if (!one_ready(ring)) return nullptr;
  PyObject* place = slot_view(self, ring.oldest());
  if (place != nullptr) cast(self)->view.peeked = true;
  return place;
}

PyObject* try_peek(PyObject* self, PyObject*) {
  PyObject* place = peek_once(self);
  return place != nullptr || PyErr_Occurred() != nullptr ? place : Py_NewRef(Py_None);
}

PyObject* release(PyObject* self, PyObject*) {
  if (!cast(self)->view.peeked) return misuse("release() without a peeked record; peek first");
  cast(self)->view.peeked = false;
  ring_of(self).give_back(1);
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
  ++cast(self)->view.waits;
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

PyObject* none_if(int done) { return done == 1 ? Py_NewRef(Py_None) : nullptr; }

PyObject* push(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  PyObject *record, *timeout_s;
  if (!read_timed_call(args, nargs, names, &record, &timeout_s, "push(record, timeout_s=None)"))
    return nullptr;
  return wait_for(self, ring_of(self).space(), true, timeout_s,
                  [&] { return none_if(push_once(self, record)); });
}

PyObject* pop(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  PyObject* timeout_s;
  if (!read_timed_call(args, nargs, names, nullptr, &timeout_s, "pop(timeout_s=None)"))
    return nullptr;
  return wait_for(self, ring_of(self).data(), false, timeout_s, [&] { return pop_once(self); });
}

PyObject* pop_into(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  PyObject *target, *timeout_s;
  if (!read_timed_call(args, nargs, names, &target, &timeout_s, "pop_into(target, timeout_s=None)"))
    return nullptr;
  return wait_for(self, ring_of(self).data(), false, timeout_s,
                  [&] { return none_if(pop_into_once(self, target)); });
}

PyObject* claim(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  PyObject* timeout_s;
  if (!read_timed_call(args, nargs, names, nullptr, &timeout_s, "claim(timeout_s=None)"))
    return nullptr;
  return wait_for(self, ring_of(self).space(), true, timeout_s, [&] { return claim_once(self); });
}

PyObject* peek(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  PyObject* timeout_s;
  if (!read_timed_call(args, nargs, names, nullptr, &timeout_s, "peek(timeout_s=None)"))
    return nullptr;
  return wait_for(self, ring_of(self).data(), false, timeout_s, [&] { return peek_once(self); });
}

// ---- after a death, and figures -------------------------------------------------------------

PyObject* reset_producer(PyObject* self, PyObject*) {
  cast(self)->view.claimed = false;
  ring_of(self).reset_producer();
  return Py_NewRef(Py_None);
}

PyObject* reset_consumer(PyObject* self, PyObject*) {
  cast(self)->view.peeked = false;
  return PyLong_FromUnsignedLongLong(ring_of(self).reset_consumer());
}

PyObject* counters(PyObject* self, PyObject*) {
  Ring& ring = ring_of(self);
  return Py_BuildValue("(KKKK)", static_cast<unsigned long long>(ring.pushed()),
                       static_cast<unsigned long long>(ring.popped()),
                       static_cast<unsigned long long>(ring.used()),
                       static_cast<unsigned long long>(cast(self)->view.waits));
}

Py_ssize_t length(PyObject* self) { return static_cast<Py_ssize_t>(ring_of(self).used()); }

PyObject* get_capacity(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(ring_of(self).capacity());
}

PyObject* get_record_bytes(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(ring_of(self).record_bytes());
}

template <class Function>
PyCFunction method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

constexpr int kTimed = METH_FASTCALL | METH_KEYWORDS;

PyMethodDef methods[] = {
    {"try_push", try_push, METH_O, nullptr},
    {"try_push_many", try_push_many, METH_O, nullptr},
    {"try_claim", try_claim, METH_NOARGS, nullptr},
    {"commit", commit, METH_NOARGS, nullptr},
    {"abort", abort_claim, METH_NOARGS, nullptr},
    {"try_pop", try_pop, METH_NOARGS, nullptr},
    {"try_pop_into", try_pop_into, METH_O, nullptr},
    {"try_pop_many", try_pop_many, METH_O, nullptr},
    {"try_peek", try_peek, METH_NOARGS, nullptr},
    {"release", release, METH_NOARGS, nullptr},
    {"push", method(push), kTimed, nullptr},
    {"claim", method(claim), kTimed, nullptr},
    {"pop", method(pop), kTimed, nullptr},
    {"pop_into", method(pop_into), kTimed, nullptr},
    {"peek", method(peek), kTimed, nullptr},
    {"reset_producer", reset_producer, METH_NOARGS, nullptr},
    {"reset_consumer", reset_consumer, METH_NOARGS, nullptr},
    {"_counters", counters, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"capacity", get_capacity, nullptr, nullptr, nullptr},
    {"record_bytes", get_record_bytes, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(ring_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(ring_dealloc)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_sq_length, reinterpret_cast<void*>(length)},
    {0, nullptr},
};

PyType_Spec spec = {"fast_core.memory._native.Ring", sizeof(RingObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

PyMethodDef functions[] = {
    {"ring_nbytes", ring_nbytes, METH_VARARGS, nullptr},
    {"ring_create", ring_create, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_ring(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0 ? add_type(module, &spec, "Ring") : -1;
}

}  // namespace fastloop::bind
