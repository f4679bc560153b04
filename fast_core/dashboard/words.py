"""What the page calls what runs and nodes do."""

from __future__ import annotations

# Where that is another word than that of `fast_core.nodes.node.NodeState`, in lower case.
_NODES = {"acting": "inferring", "trying": "trying environments", "away": "dead"}
# Likewise of `fast_core.scheduler.statistics.Phase`.
_PHASES = {"checkpointing": "saving", "finishing": "stopping"}


def node_word(state: str) -> str:
    """The page's word for a state of a node."""
    return _NODES.get(state, state)


def phase_word(phase: str) -> str:
    """The page's word for a phase of a run."""
    return _PHASES.get(phase, phase)
