"""From an exception in a node to the report that people read."""

from __future__ import annotations

import traceback

from fast_core.errors import EnvironmentFailed, FastLoopError
from fast_core.events import Failed
from fast_core.node import Node


def describe_failure(name: str, node: Node | None, error: Exception) -> Failed:
    """The first cause of a node's end, for people.

    Where an environment raised, the traceback is its own: how FastLoop came to step it tells
    nobody anything.
    """
    own = isinstance(error, FastLoopError)
    cause = error.__cause__ if isinstance(error, EnvironmentFailed) else None
    return Failed(
        node=name,
        doing=node.doing if node is not None else "being constructed",
        error=str(error) if own else f"{type(error).__name__}: {error}",
        traceback="".join(traceback.format_exception(cause or error)),
        context=node.failure_context() if node is not None else {},
    )
