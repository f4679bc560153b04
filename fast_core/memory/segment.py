"""Shared-memory segments: reserved for real, without a name, and gone with their last user."""

from __future__ import annotations

import errno
import hashlib
import itertools
import mmap
import os
import secrets
import sys
from collections.abc import Callable
from typing import Literal, Self

import posix_ipc

from fast_core.errors import SegmentError
from fast_core.memory import _native
from fast_core.memory.available import MemoryAvailable, memory_available

Chosen = Literal["posix", "memfd"]
Backing = Literal["auto"] | Chosen

# macOS allows 31 bytes with the slash and the terminating zero.
NAME_BYTES = 30
_COUNTER_DIGITS = 13
_AT_ONCE_BYTES = 64 << 20
_counter = itertools.count()


def segment_name(run: str, counter: int) -> str:
    """Name of the ``counter``-th segment of ``run``, at most 30 bytes with the slash.

    Names of one run differ because their counters do; names of two runs because of 48 bits of
    hash, and creation is exclusive, so that a collision is seen and the next counter tried.

    Raises:
        SegmentError: ``counter`` is negative or needs more than 13 hexadecimal digits.
    """
    if not 0 <= counter < 16**_COUNTER_DIGITS:
        raise SegmentError(
            f"a segment counter must lie in 0..{16**_COUNTER_DIGITS - 1}; got {counter!r}"
        )
    digest = hashlib.blake2s(run.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"/fl{digest}-{counter:x}"


class Segment:
    """One mapping of anonymous shared memory; every structure lies at an offset in it.

    The launcher creates segments and owns them. Others get the descriptor (inherited or over a
    Unix socket) and attach; attaching registers with nobody, so the exit of an attached process
    takes nothing away.

    Concurrency:
        The name is unlinked before the memory is filled, so the kernel frees the pages when the
        last descriptor and mapping are gone, also after SIGKILL of every process. Views of
        ``buffer`` keep the mapping alive after ``close``; reading them is always safe.
    """

    def __init__(self, fd: int, nbytes: int, backing: str, *, owns_fd: bool) -> None:
        """Maps ``fd``; use ``create`` or ``attach``."""
        self.nbytes = nbytes
        self.backing = backing
        self._fd = fd
        self._owns_fd = owns_fd
        self._mapping: _native.Mapping | None = _map(fd, nbytes)
        self._buffer: memoryview | None = memoryview(self._mapping)

    @classmethod
    def create(
        cls,
        nbytes: int,
        *,
        backing: Backing = "auto",
        between: Callable[[], None] | None = None,
        private: int = 0,
    ) -> Self:
        """Reserves ``nbytes`` and maps them; the memory is zero.

        ``memfd`` is an anonymous memory file (Linux): it never has a name, so nothing can be
        left of it, and RAM and cgroup alone limit it. ``posix`` is POSIX shared memory
        (``/dev/shm``, which containers often cap at 64 MiB); a process killed in the few
        microseconds between making and unlinking the name would leave it. ``auto`` takes
        ``memfd`` where there is one.

        ``between`` is called now and then, since reserving takes seconds where memory is large
        (the kernel clears it); what it raises ends the reservation and gives everything back.
        ``private`` bytes, which processes will take by themselves, have to fit beside it.

        Raises:
            SegmentError: It can't fit; the message carries the arithmetic and the remedy.
        """
        chosen = cls.check(nbytes, backing, private)
        fd = _reserve(_OPENERS[chosen], nbytes, chosen, between)
        try:
            return cls(fd, nbytes, chosen, owns_fd=True)
        except SegmentError:
            os.close(fd)
            raise

    @staticmethod
    def check(nbytes: int, backing: Backing, private: int) -> Chosen:
        """Refuse what `create` would, without reserving anything; returns the backing it takes.

        Raises:
            SegmentError: It can't fit.
        """
        if nbytes < 1:
            raise SegmentError(f"a segment must have at least 1 byte; got {nbytes!r}")
        if backing not in ("auto", "posix", "memfd"):
            raise SegmentError(f"backing must be 'auto', 'posix' or 'memfd'; got {backing!r}")
        chosen = choose_backing(backing)
        check_fits(nbytes, chosen, memory_available(), private)
        return chosen

    @classmethod
    def attach(cls, fd: int, nbytes: int) -> Self:
        """Maps the segment behind ``fd``, which stays the caller's to close.

        Raises:
            SegmentError: The descriptor is bad or the segment smaller than ``nbytes``.
        """
        try:
            found = os.fstat(fd).st_size
        except OSError as error:
            raise SegmentError(
                f"descriptor {fd!r} of a segment of {nbytes} bytes can't be used: {error}. "
                "Pass it on open, by inheritance or over a Unix socket"
            ) from error
        if nbytes < 1 or found < nbytes:
            raise SegmentError(
                f"asked to attach {nbytes} bytes of a segment; descriptor {fd} has {found}. "
                "Launcher and node disagree on the layout"
            )
        return cls(fd, nbytes, "attached", owns_fd=False)

    @property
    def fd(self) -> int:
        """Descriptor to hand on; SegmentError once closed."""
        self._refuse_closed()
        return self._fd

    @property
    def buffer(self) -> memoryview:
        """Writable view of the whole mapping; SegmentError once closed."""
        self._refuse_closed()
        assert self._buffer is not None
        return self._buffer

    def touch(self) -> None:
        """Maps every page now, so that first use costs no fault. Safe beside any writer."""
        self._refuse_closed()
        assert self._mapping is not None
        self._mapping.touch()

    def close(self) -> None:
        """Closes an owned descriptor and lets the mapping go once no view of it lives."""
        if self._mapping is None:
            return
        self._mapping = self._buffer = None
        if self._owns_fd:
            os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_closed(self) -> None:
        if self._mapping is None:
            raise SegmentError(f"this segment of {self.nbytes} bytes is closed; keep it open")


def has_memfd() -> bool:
    """Whether this system has anonymous memory files."""
    return sys.platform == "linux"


def choose_backing(backing: Backing) -> Chosen:
    """What ``auto`` means on this system."""
    if backing != "auto":
        return backing
    return "memfd" if has_memfd() else "posix"


def check_fits(nbytes: int, backing: Chosen, available: MemoryAvailable, private: int = 0) -> None:
    """Refuses a segment that can't fit, with the arithmetic.

    Raises:
        SegmentError: RAM or the cgroup leaves less than ``nbytes`` and ``private`` together, or
            the backing less than ``nbytes``.
    """
    limits = [
        ("RAM", available.ram_bytes, "Make it smaller"),
        (
            "the cgroup",
            available.cgroup_bytes,
            "Make it smaller, or raise the container's memory limit",
        ),
    ]
    if backing == "posix":
        remedy = "Use memory.backing=memfd, or give the container more (docker run --shm-size)"
        limits.append(("/dev/shm", available.shm_bytes, remedy))
    beside = f" and {_size(private)} beside it" if private else ""
    for what, free_bytes, remedy in limits:
        needed = nbytes if what == "/dev/shm" else nbytes + private
        if free_bytes is not None and free_bytes < needed:
            raise SegmentError(
                f"this run needs {_size(nbytes)} of shared memory{beside}; {what} has "
                f"{_size(free_bytes)} left. {remedy}."
            )


def _size(nbytes: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if nbytes >= scale:
            return f"{nbytes / scale:.1f} {unit} ({nbytes} bytes)"
    return f"{nbytes} bytes"


def _map(fd: int, nbytes: int) -> _native.Mapping:
    try:
        return _native.Mapping(fd, nbytes)
    except OSError as error:
        raise SegmentError(
            f"a segment of {_size(nbytes)} can't be mapped: {error}. "
            "Check `ulimit -v` and vm.max_map_count"
        ) from error


def _reserve(
    opener: Callable[[], int], nbytes: int, backing: str, between: Callable[[], None] | None
) -> int:
    """Opens a nameless file and takes its pages now: a promise would be a SIGBUS later."""
    fd = opener()
    try:
        _allocate(fd, nbytes, between)
    except OSError as error:
        os.close(fd)
        free = memory_available()
        raise SegmentError(
            f"{_size(nbytes)} of shared memory can't be reserved ({backing}): {error}. Left: RAM "
            f"{_size(free.ram_bytes)}, /dev/shm {_size(free.shm_bytes or 0)}. "
            "Make it smaller, or use memory.backing=memfd."
        ) from error
    except BaseException:
        os.close(fd)
        raise
    return fd


def _allocate(fd: int, nbytes: int, between: Callable[[], None] | None) -> None:
    page = mmap.PAGESIZE
    os.ftruncate(fd, -(-nbytes // page) * page)
    if hasattr(os, "posix_fallocate"):
        for offset in range(0, nbytes, _AT_ONCE_BYTES):
            os.posix_fallocate(fd, offset, min(_AT_ONCE_BYTES, nbytes - offset))
            if between is not None:
                between()


def _open_posix() -> int:
    run = f"{os.getpid()} {secrets.token_hex(8)}"
    while True:
        name = segment_name(run, next(_counter))
        try:
            memory = posix_ipc.SharedMemory(name, posix_ipc.O_CREX, mode=0o600)
        except posix_ipc.ExistentialError:
            continue
        except OSError as error:
            raise SegmentError(
                f"POSIX shared memory can't be made: {error}. Is /dev/shm mounted and writable? "
                "memory.backing=memfd does without"
            ) from error
        # At once, and before anything can fail: nothing is left whoever dies when.
        memory.unlink()
        return int(memory.fd)


def _open_memfd() -> int:
    if not has_memfd():
        raise SegmentError(
            f"memory.backing=memfd needs Linux; this is {sys.platform}. Use posix or auto"
        )
    try:
        return os.memfd_create("fastloop", os.MFD_CLOEXEC)
    except OSError as error:
        raise SegmentError(
            f"an anonymous memory file can't be made: {error} "
            f"({errno.errorcode.get(error.errno or 0, '?')}). Use memory.backing=posix"
        ) from error


_OPENERS: dict[str, Callable[[], int]] = {"posix": _open_posix, "memfd": _open_memfd}
