"""How a run and its nodes are, for who asks over the control socket."""

from __future__ import annotations

from fast_core.launcher.roster import Roster
from fast_core.messages.requests import Status
from fast_core.nodes.node import node_status
from fast_core.scheduler.statistics import Statistics


def run_status(now: Statistics, env_steps_per_s: float, roster: Roster) -> Status:
    """What a reading of the scheduler, the newest rate and who is there say."""
    return Status(
        phase=now.phase,
        env_steps=now.env_steps_trained,
        env_steps_per_s=env_steps_per_s,
        degree=now.degree,
        elapsed_s=now.elapsed_s,
        env_nodes=now.env_nodes,
        updates=now.updates,
        nodes=tuple(
            node_status(name, roster.state_of(name), row, roster.lives.get(name, 0) + 1)
            for name, row in roster.stats.items()
            if name not in roster.absent
        ),
    )
