"""What a node's counters say to who asks over the control socket."""

from __future__ import annotations

import time

from fast_core.launcher.control.messages import NodeStatus
from fast_core.memory import StatsRow
from fast_core.nodes.node import NodeState


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
