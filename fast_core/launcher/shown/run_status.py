"""How a run is, for who asks over the control socket."""

from __future__ import annotations

from fast_core.launcher.control.messages import NodeStatus, Status
from fast_core.scheduler.statistics import Statistics


def run_status(now: Statistics, env_steps_per_s: float, nodes: tuple[NodeStatus, ...]) -> Status:
    """What a reading of the scheduler and the newest rate of a run with these ``nodes`` say."""
    return Status(
        phase=now.phase,
        env_steps=now.env_steps_trained,
        env_steps_per_s=env_steps_per_s,
        degree=now.degree,
        elapsed_s=now.elapsed_s,
        env_nodes=now.env_nodes,
        updates=now.updates,
        nodes=nodes,
    )
