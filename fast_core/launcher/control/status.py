"""How a run and its nodes are, for who asks over the control socket."""

from __future__ import annotations

import time

from fast_core.launcher.control.messages import NodeStatus, Status
from fast_core.launcher.roster import Roster
from fast_core.memory import StatsRow
from fast_core.nodes.node import NodeState
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


def node_status(name: str, word: str, row: StatsRow, life: int) -> NodeStatus:
    """How a node is, in a ``word``, in the ``life`` that its counters are of."""
    now = row.snapshot()
    doing_s = time.monotonic() - now.state_since_ns / 1e9 if now.state_since_ns else 0.0
    doing_s = max(0.0, doing_s)
    idle = now.state in (NodeState.WAITING, NodeState.STARTING)
    return NodeStatus(
        name=name,
        state=word,
        doing_s=doing_s,
        busy_s=now.busy_ns / 1e9 + (0.0 if idle else doing_s),
        waiting_s=now.waiting_ns / 1e9 + (doing_s if idle else 0.0),
        life=life,
    )
