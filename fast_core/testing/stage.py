"""One run's plan, memory and channel in this process, for nodes that are driven by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import RunConfig
from fast_core.errors import ContractBroken
from fast_core.launcher.prepare import make_plan, resolve
from fast_core.memory import Structure
from fast_core.messages import Event
from fast_core.messages.inproc import InprocHub
from fast_core.nodes.node import Node, NodeContext
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan

MOST_STEPS = 10_000


def make_run_plan(
    folder: Path,
    config: RunConfig,
    environment: EnvironmentSpec,
    *,
    checkpoint: Path | None = None,
    cores: int = 2,
) -> RunPlan:
    """The plan of a run in ``folder``."""
    (folder / "checkpoints").mkdir(exist_ok=True, parents=True)
    path = str(checkpoint) if checkpoint else None
    return make_plan(resolve(config, environment, cores), environment, str(folder), path, None)


class Stage:
    """Everything a node needs to live in.

    Attributes:
        plan: The plan of the run.
        memory: Its shared memory.
        hub: The scheduler's end of the channel.
    """

    def __init__(self, plan: RunPlan, own: tuple[Structure, ...] = ()) -> None:
        """With memory of ``own`` besides, or that of the plan."""
        self.plan = replace(plan, own=own or plan.own)
        self.memory = RunMemory.create(self.plan)
        self.hub = InprocHub()

    def context(self, name: str, rank: int = 0) -> NodeContext:
        """A context of the node ``name``."""
        return NodeContext(
            name=name,
            rank=rank,
            plan=self.plan,
            memory=self.memory,
            channel=self.hub.connect(name),
        )

    def events(self) -> list[Event]:
        """What nodes have sent since the last call."""
        return self.hub.receive()

    def close(self) -> None:
        """Let go of the memory."""
        self.memory.close()


def drain(node: Node) -> None:
    """Step a node until it has nothing to do.

    Raises:
        ContractBroken: It always has.
    """
    for _ in range(MOST_STEPS):
        if not node.step():
            return
    raise ContractBroken(
        f"{type(node).__name__}: work must return False where there is nothing to do, so that the "
        f"node sleeps; it returned True {MOST_STEPS:,} times. Return whether something was done."
    )
