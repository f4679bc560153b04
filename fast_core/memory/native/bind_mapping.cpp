// Mapping: one mmap of a descriptor, unmapped when the last view of it is gone.
//
// Python's mmap keeps a duplicate of the descriptor for as long as it maps and refuses to close
// while views live; this one holds no descriptor and has nothing to close.
#include <sys/mman.h>
#include <unistd.h>

#include "bind.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace fastloop::bind {
namespace {

struct Body {
  ~Body() {
    if (address != MAP_FAILED) munmap(address, static_cast<std::size_t>(nbytes));
  }

  void* address = MAP_FAILED;
  Py_ssize_t nbytes = 0;
};

PyObject* map(PyTypeObject* type, PyObject* args, PyObject*) {
  int fd;
  Py_ssize_t nbytes;
  if (!PyArg_ParseTuple(args, "in:Mapping", &fd, &nbytes)) return nullptr;
  return make<Body>(type, [&](Body& body) {
    body.nbytes = nbytes;
    body.address = mmap(nullptr, static_cast<std::size_t>(nbytes), PROT_READ | PROT_WRITE,
                        MAP_SHARED, fd, 0);
    return body.address != MAP_FAILED || PyErr_SetFromErrno(PyExc_OSError) != nullptr;
  });
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Body& body = body_of<Body>(self);
  return PyBuffer_FillInfo(view, self, body.address, body.nbytes, 0, flags);
}

// Adds zero to one word of each page: writes the page without changing what another process
// writes to it at the same time.
void touch_pages(char* begin, Py_ssize_t nbytes, Py_ssize_t page) {
  for (Py_ssize_t at = 0; at < nbytes; at += page)
    // Relaxed: pairs with nothing, no data are handed over.
    reinterpret_cast<std::atomic<std::uint64_t>*>(begin + at)
        ->fetch_add(0, std::memory_order_relaxed);
}

PyObject* touch(PyObject* self, PyObject*) {
  const auto nbytes = body_of<Body>(self).nbytes;
  auto* begin = static_cast<char*>(body_of<Body>(self).address);
  GilRelease released(true);
  if (madvise(begin, static_cast<std::size_t>(nbytes), MADV_POPULATE_WRITE) != 0)
    touch_pages(begin, nbytes, static_cast<Py_ssize_t>(sysconf(_SC_PAGESIZE)));
  return Py_NewRef(Py_None);
}

PyMethodDef methods[] = {
    {"touch", touch, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_mapping(PyObject* module) {
  return add_class<Body>(
      module, "fast_core.memory._native.Mapping", map,
      {{Py_tp_methods, methods}, {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}});
}

}  // namespace fastloop::bind
