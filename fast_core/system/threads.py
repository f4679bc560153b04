"""How many threads a process computes with: a budget, not a library's default."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fast_core.system.surroundings import variables_kept

if TYPE_CHECKING:
    import threadpoolctl

# Before any numerical library is loaded: one thread each, and threads that wait sleep instead of
# spinning on a core that somebody else needs. What the user has set stays. GNU's spin for some
# 20 us first: the pause between two operations of an update is shorter than that, and to be put to
# sleep and woken in each costs half of what two threads gain (SAC with bf16 passes on HalfCheetah:
# 105 updates a second without, 190 with it, 150 on one thread).
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "2000",
    "KMP_BLOCKTIME": "0",  # LLVM's and Intel's, which spin for 200 ms otherwise
}


@contextlib.contextmanager
def threads_kept() -> Iterator[None]:
    """Give every library that is loaded already its number of threads back."""
    libraries = [(each, each.num_threads) for each in _libraries(len(sys.modules)).lib_controllers]
    torch = sys.modules.get("torch")
    count = 0 if torch is None else torch.get_num_threads()
    try:
        yield
    finally:
        for library, threads in libraries:
            library.set_num_threads(threads)
        if torch is not None:
            torch.set_num_threads(count)


def default_threads() -> int:
    """Threads of a node that is not the learner: one, or what the user set in the environment."""
    text = os.environ.get("OMP_NUM_THREADS", "1").partition(",")[0]
    return max(1, int(text)) if text.isdecimal() else 1


def set_threads(count: int) -> None:
    """Compute with ``count`` threads from now on, in every library that is loaded.

    The number is part of the numerics: sums are split by it. So inline mode, where libraries were
    loaded before FastLoop could say anything, sets the same number as a node's process.
    """
    _libraries(len(sys.modules)).limit(limits=count)
    if "torch" in sys.modules:
        importlib.import_module("torch").set_num_threads(count)


def numpy_blas() -> str:
    """NumPy's own library of linear algebra, with the processor that it computes for."""
    importlib.import_module("numpy")
    return " ".join(
        f"{each['internal_api']} {each['version']} {each.get('architecture', '')}".strip()
        for each in _libraries(len(sys.modules)).info()
        if each["user_api"] == "blas" and "numpy" in each["filepath"]
    )


@functools.lru_cache(maxsize=1)
def _libraries(modules: int) -> threadpoolctl.ThreadpoolController:
    """Every numerical library that is loaded; looked for anew where a module has come since.

    Looking takes half a millisecond, and inline mode sets threads for every node in turn.
    """
    with variables_kept(["KMP_DUPLICATE_LIB_OK"]):  # which it sets when it is imported
        import threadpoolctl
    return threadpoolctl.ThreadpoolController()


def yield_to_others() -> None:
    """Let the calling thread compute only when no other one wants its core, where that works."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
