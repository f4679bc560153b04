"""What a user's node or part of a run is made of, under the name that users import."""

from fast_core.nodes.node import Node, NodeContext, NodeState
from fast_core.run.names import Role
from fast_core.run.plan import Part, RunPlan

__all__ = ["Node", "NodeContext", "NodeState", "Part", "Role", "RunPlan"]
