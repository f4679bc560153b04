"""From an exception in a node to the report that people read."""

from __future__ import annotations

import traceback

from fast_core.errors import FastLoopError
from fast_core.events import Failed
from fast_core.node import Node


def describe_failure(name: str, node: Node | None, error: Exception) -> Failed:
    """The first cause of a node's end, for people."""
    cause: BaseException = error
    while isinstance(cause, FastLoopError) and cause.__cause__ is not None:
        cause = cause.__cause__
    return Failed(
        node=name,
        doing=node.doing if node is not None else "being constructed",
        error=f"{type(cause).__name__}: {cause}" if cause is error else str(error),
        traceback="".join(traceback.format_exception(error)),
        context=node.failure_context() if node is not None else {},
    )
