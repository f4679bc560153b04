"""The nodes of a run: each a subclass of `fast_core.nodes.node.Node` in a module of its own."""
