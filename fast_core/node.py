"""What a user's node is made of: `fast_core.nodes.node`, under the name that users import."""

from fast_core.nodes.node import Node, NodeContext, NodeState

__all__ = ["Node", "NodeContext", "NodeState"]
