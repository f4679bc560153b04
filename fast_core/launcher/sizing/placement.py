"""Where the policy acts fastest: the arithmetic behind ``policy.placement: auto``. Pure.

A trial of whole runs would cost seconds where environments are slow to make or to step, so the
parts are measured (`fast_core.launcher.sizing.measuring`) and the two ways put together from them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil
from typing import Literal

# Policy nodes are more processes and more memory: they must be worth it.
GAIN = 1.05


@dataclass(frozen=True)
class Timings:
    """What was measured, in microseconds.

    Attributes:
        shard_us: A step of all environments of a shard at once, as beside the policy.
        shard_cpu_us: Processor time of it; less where a step waits, more with several threads.
        group_us: A step of all environments of a group.
        group_cpu_us: Processor time of it.
        act_beside_us: One forward pass over a whole shard, as in an env node.
        act_node_us: One forward pass over a group, its reply written, as in a policy node.
        handover_us: From request to reply, beyond ``act_node_us``.
    """

    shard_us: float
    shard_cpu_us: float
    group_us: float
    group_cpu_us: float
    act_beside_us: float
    act_node_us: float
    handover_us: float


@dataclass(frozen=True)
class Shape:
    """What of the run matters here.

    Attributes:
        shards: Number of shards.
        envs: Environments of each.
        groups: Groups of each that would take turns.
        env_nodes: Processes that step.
        policy_nodes: Processes that would act.
        policy_threads: Threads of each of those.
        cores: Cores granted.
    """

    shards: int
    envs: int
    groups: int
    env_nodes: int
    policy_nodes: int
    policy_threads: int
    cores: int


@dataclass(frozen=True)
class Choice:
    """Where the policy acts, and why.

    Attributes:
        placement: ``"env"`` or ``"node"``.
        parts: What was measured.
        env_rate: Env steps per second to be expected beside the environments.
        node_rate: Env steps per second to be expected with policy nodes.
    """

    placement: Literal["env", "node"]
    parts: Timings
    env_rate: float
    node_rate: float

    @property
    def measured(self) -> dict[str, float]:
        """The figures, for ``policy.measured``."""
        rates = {
            "env_expected_env_steps_per_s": self.env_rate,
            "node_expected_env_steps_per_s": self.node_rate,
        }
        return {name: float(f"{value:.4g}") for name, value in (asdict(self.parts) | rates).items()}

    @property
    def why(self) -> str:
        """A sentence for people."""
        parts = self.parts
        return (
            f"{self.placement}: {self.env_rate:,.0f} env steps/s expected beside the environments, "
            f"{self.node_rate:,.0f} with policy nodes (a shard steps in {parts.shard_us:.3g} us, a "
            f"group in {parts.group_us:.3g}, acting takes {parts.act_beside_us:.3g} us beside, "
            f"{parts.act_node_us:.3g} for a group in a policy node, handing over "
            f"{parts.handover_us:.3g})"
        )


def choose(parts: Timings, shape: Shape) -> Choice:
    """Policy nodes if they are expected to be faster by `GAIN`."""
    env_rate, node_rate = rate_beside(parts, shape), rate_served(parts, shape)
    better = node_rate > GAIN * env_rate
    return Choice("node" if better else "env", parts, env_rate, node_rate)


def rate_beside(parts: Timings, shape: Shape) -> float:
    """Env steps per second where each env node steps and acts in turn."""
    most = ceil(shape.shards / shape.env_nodes)
    one_us = parts.shard_us + parts.act_beside_us
    cpu_us = parts.shard_cpu_us + parts.act_beside_us
    cycle_us = max(most * one_us, shape.shards * cpu_us / shape.cores)
    return 1e6 * shape.shards * shape.envs / cycle_us


def rate_served(parts: Timings, shape: Shape) -> float:
    """Env steps per second with policy nodes: whatever takes longest sets the pace.

    At degree 0 each group has a forward pass of its own; above it passes are shared, which this
    leaves out, so it rather underrates them.
    """
    groups, most = shape.groups, ceil(shape.shards / shape.env_nodes)
    half_us = parts.handover_us / 2
    stepping_us = most * groups * (parts.group_us + half_us)
    acting_us = ceil(shape.shards / shape.policy_nodes) * groups * (parts.act_node_us + half_us)
    # What a group waits for, if nothing else keeps its nodes busy.
    alone_us = parts.group_us + parts.act_node_us + parts.handover_us
    act_cpu_us = parts.act_node_us * shape.policy_threads + parts.handover_us
    cpu_us = shape.shards * groups * (parts.group_cpu_us + act_cpu_us) / shape.cores
    return 1e6 * shape.shards * shape.envs / max(stepping_us, acting_us, alone_us, cpu_us)
