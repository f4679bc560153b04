"""How many runs at once, and which cores each gets. Pure.

Every run of a sweep gets the same number of cores, also the last one of it: what ``auto`` stands
for in a configuration follows from that number, and the learner's threads are part of its numerics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fast_core.config import RunConfig
from fast_core.run.parts import names_of

PROCESS_BYTES = 64 << 20  # of one process beside shared memory, with torch and a small simulator


@dataclass(frozen=True)
class Need:
    """What one run needs.

    Attributes:
        cores: That it keeps busy at least, as its configuration says.
        nbytes: Of memory, what its simulator takes aside.
    """

    cores: int
    nbytes: int


@dataclass(frozen=True)
class MachineShare:
    """What each of the runs at once gets.

    Attributes:
        slots: The cores of each.
        why: What limits the number of runs at once.
    """

    slots: tuple[tuple[int, ...], ...]
    why: str

    @property
    def jobs(self) -> int:
        """Runs at once."""
        return len(self.slots)


def needed_cores(config: RunConfig) -> int:
    """Cores that a run keeps busy with the counts that its configuration states; auto is one."""
    nodes = config.nodes
    env = 1 if nodes.env.count == "auto" or config.mode == "inline" else nodes.env.count
    threads = 1 if nodes.optimizer.threads == "auto" else nodes.optimizer.threads
    learning = nodes.optimizer.count * (threads if nodes.optimizer.device == "cpu" else 1)
    env += len(names_of(config).policy)
    take_turns = config.degree == 0 or config.mode == "inline"
    return max(env, learning) if take_turns else env + learning


def share(
    runs: int,
    need: Need,
    ids: Sequence[int],
    granted: int,
    free_bytes: int | None,
    jobs: int | Literal["auto"],
) -> MachineShare:
    """Divide the cores ``ids``, of which ``granted`` can be busy at a time.

    Args:
        runs: How many there are in all.
        need: What the one that needs most needs.
        ids: Numbers of the cores.
        granted: How many of them may compute all the time.
        free_bytes: Memory that can be taken, None if unknown.
        jobs: Runs at once, or ``"auto"``.
    """
    limits = {f"{runs} in all": runs}
    if jobs != "auto":
        limits["as `jobs` says"] = jobs
    else:
        each = f"{need.cores} core{'s' if need.cores > 1 else ''} or more each"
        limits[f"{each} of {granted}"] = granted // need.cores
        if free_bytes is not None:
            mebibytes = (need.nbytes / 2**20, free_bytes / 2**20)
            text = "about {:,.0f} MiB each of {:,.0f} MiB free, simulators aside".format(*mebibytes)
            limits[text] = free_bytes // max(1, need.nbytes)
    why = min(limits, key=lambda text: limits[text])
    count = max(1, limits[why])
    width = max(1, granted // count)
    chosen = list(ids)[:granted]
    slots = (
        tuple(chosen[(n * width + i) % len(chosen)] for i in range(width)) for n in range(count)
    )
    return MachineShare(tuple(slots), why)
