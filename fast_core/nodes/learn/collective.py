"""Averaging through torch.distributed: gloo on CPUs, NCCL between GPUs.

Nothing listens beyond this machine: processes find one another by a file in the run's private
folder, and both libraries are bound to the loopback interface.
"""

from __future__ import annotations

import importlib
import os
import secrets
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fast_core.errors import TransportError
from fast_core.nodes.learn.averaging import Averaged
from fast_core.nodes.learn.devices import check_nccl, own_gpus, replica_device
from fast_core.run.mail import Meeting
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.system.remains import RUN_FOLDER

F32 = NDArray[np.float32]
Collective = Literal["shared", "gloo", "nccl"]

MEETING_S = 120.0  # until all optimizers have built their learners
# No optimizer may be this late with a step: longer than any checkpoint takes, yet finite. The end
# of a run does not wait for it, since nobody blocks in a collective.
LATEST_S = 1800.0
FAREWELL_S = 10.0  # for the run to end, when another optimizer is gone
_DRAWN, _HIGH, _LOW = range(3)  # of the tail of a vector
_SPLIT = 4096  # keeps both halves of a length exact in float32


def chosen_collective(plan: RunPlan) -> Collective:
    """What averages; auto is NCCL where every optimizer has a GPU of its own.

    Raises:
        ConfigError: NCCL was asked for and there are too few GPUs: it refuses to share one.
    """
    optimizer, mode = plan.config.nodes.optimizer, plan.config.mode
    asked = optimizer.collective
    if asked in ("shared", "gloo"):
        return asked
    if asked == "auto":
        return "nccl" if own_gpus(optimizer) and mode != "inline" else "shared"
    check_nccl(optimizer)
    return "nccl"


class CollectiveExchange:
    """Averages by an all-reduce; implements `fast_core.nodes.learn.averaging.Exchange`.

    A vector travels whole with three more numbers: whether there was a batch, and its length.

    Concurrency: gloo reduces on a thread of its own, which rings this node's doorbell when it is
    over, so the node never blocks in it. NCCL is waited for: if another optimizer has died, until
    the launcher ends this one. A reduction that fails is not the cause of anything, so the node
    goes on without a word until the run ends, or `FAREWELL_S` are over.

    Args:
        plan: The plan of the run.
        memory: Its memory.
        rank: This optimizer's.
        backend: gloo or nccl.
    """

    def __init__(
        self, plan: RunPlan, memory: RunMemory, rank: int, backend: Literal["gloo", "nccl"]
    ) -> None:
        torch, self._dist = _libraries()
        self._count, self._rank, self._backend = plan.optimizers, rank, backend
        size = plan.blueprint.exchanged(plan.environment)
        device = replica_device(plan.config.nodes.optimizer.device, plan.optimizers, rank)
        self._host = torch.zeros(size + 3, pin_memory=backend == "nccl")
        self._vector: F32 = self._host.numpy()
        on_gpu = backend == "nccl"
        self._reduced = torch.zeros(size + 3, device=device) if on_gpu else self._host
        self._digests = [torch.zeros(32, dtype=torch.uint8) for _ in range(self._count)]
        if on_gpu:
            torch.cuda.set_device(device)
            self._digests = [digest.to(device) for digest in self._digests]
        self._doorbell = memory.doorbell(plan.names.optimizers[rank])
        self._works: list[Any] = []
        self._over: list[int] = []  # what torch's thread said is over, with an error or without
        self._step = self._length = 0
        self._compares = False
        self._failed_at_s: float | None = None
        self._error: RuntimeError | None = None
        self._open = False
        self._meet(_meeting_point(plan, memory, rank))

    def offer(self, step: int, gradient: F32 | None, digest: bytes) -> None:
        """Begin to reduce the own vector with those of the others."""
        self._step, self._compares = step, bool(digest)
        self._length = 0 if gradient is None else len(gradient)
        vector = self._vector
        vector[self._length :] = 0.0
        if gradient is not None:
            vector[: self._length] = gradient
            vector[-3:] = 1.0, self._length // _SPLIT, self._length % _SPLIT
        if self._reduced is not self._host:
            self._reduced.copy_(self._host, non_blocking=True)
        self._begin(lambda: self._dist.all_reduce(self._reduced, async_op=True))
        if digest:
            own = self._digests[self._rank].clone()
            own.copy_(
                importlib.import_module("torch").frombuffer(bytearray(digest), dtype=own.dtype)
            )
            self._begin(lambda: self._dist.all_gather(self._digests, own, async_op=True))

    def collect(self) -> Averaged | None:
        """The mean, when the reduction is over.

        Raises:
            TransportError: Another optimizer is gone, and the run did not end for it.
        """
        if not self._reduced_all():
            return None
        self._works.clear()
        self._over.clear()
        if self._reduced is not self._host:
            self._host.copy_(self._reduced)
        digests = [bytes(d.cpu().numpy()) for d in self._digests] if self._compares else []
        return Averaged(self._mean(), tuple(digests or [b""] * self._count))

    def close(self) -> None:
        """Leave the group. With a reduction under way that would wait for the others."""
        if self._open and not self._works:
            self._dist.destroy_process_group()
        if self._open:
            self._path.unlink(missing_ok=True)
        self._open = False

    def _begin(self, start: Callable[[], Any]) -> None:
        try:
            work = start()
        except RuntimeError as error:  # another one died before
            self._farewell(error)
            return
        self._works.append(work)
        work.get_future().then(self._say_over)

    def _say_over(self, _: object) -> None:
        """On torch's thread, a little before `Work.is_completed` says so."""
        self._over.append(self._step)
        self._doorbell.ring()

    def _reduced_all(self) -> bool:
        if self._failed_at_s is not None:
            self._farewell(None)
            return False
        # What NCCL calls complete is only in the queue of the GPU: that is waited for.
        if self._backend == "gloo" and len(self._over) < len(self._works):
            return False
        try:
            for work in self._works:
                work.wait()
        except RuntimeError as error:
            self._farewell(error)
            return False
        return True

    def _mean(self) -> F32 | None:
        vector, count = self._vector, self._count
        if vector[-3:][_DRAWN] != count:
            return None
        length = self._length
        if vector[-3:][_HIGH] != count * (length // _SPLIT) or (
            vector[-3:][_LOW] != count * (length % _SPLIT)
        ):
            raise TransportError(
                f"optimizers that average must give gradients of one length at step {self._step}; "
                f"optimizer-{self._rank} has {length}, others have not. They have not taken the "
                "same steps."
            )
        with np.errstate(all="ignore"):  # what is not finite is a step that `apply` skips
            return np.divide(vector[:length], np.float32(count), out=vector[:length])

    def _farewell(self, error: RuntimeError | None) -> None:
        """Give the run time to end for its real cause, which is not this one."""
        now_s = time.monotonic()
        if self._failed_at_s is None:
            self._failed_at_s, self._error = now_s, error
        if now_s - self._failed_at_s > FAREWELL_S:
            raise TransportError(
                f"the {self._backend} reduction of step {self._step} failed at "
                f"optimizer-{self._rank}, and all optimizers seem to be alive: {self._error}. Use "
                "nodes.optimizer.collective: shared, which needs no network."
            ) from self._error

    def _meet(self, path: Path) -> None:
        loopback = "lo0" if sys.platform == "darwin" else "lo"
        for library in ("GLOO", "NCCL"):
            os.environ[f"{library}_SOCKET_IFNAME"] = loopback
        self._dist.init_process_group(
            self._backend,
            store=self._dist.FileStore(str(path), self._count),
            rank=self._rank,
            world_size=self._count,
            timeout=timedelta(seconds=LATEST_S),
        )
        self._open, self._path = True, path


def _meeting_point(plan: RunPlan, memory: RunMemory, rank: int) -> Path:
    """A file that no other start of this run uses; the first optimizer draws its number.

    Raises:
        TransportError: It did not, in `MEETING_S`.
    """
    box = memory.meeting()
    if rank == 0:
        box.publish(1, Meeting(secrets.randbits(62)))
    until_s = time.monotonic() + MEETING_S
    while box.number() == 0:
        if time.monotonic() > until_s:
            raise TransportError(
                f"optimizer-{rank} waited {MEETING_S:g} s for optimizer-0, which has not said "
                "where they meet"
            )
        time.sleep(0.01)
    folder = os.environ.get(RUN_FOLDER, plan.run_directory)  # the first one outlives nobody
    return Path(folder) / f"optimizers-{box.words.key:x}"


def _libraries() -> tuple[Any, Any]:
    return importlib.import_module("torch"), importlib.import_module("torch.distributed")
