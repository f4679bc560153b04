"""From an exception in a node to the report that people read."""

from __future__ import annotations

import re

from fast_core.errors import CheckpointError, ConfigError, EnvironmentFailed, FastLoopError
from fast_core.messages import Failed
from fast_core.nodes.node import Node
from fast_core.system import installed
from fast_core.system.text import bounded, error_text, traceback_text

_MAKES = "/gymnasium/envs/registration.py"
_CALLERS = re.compile(rf"{re.escape(installed.FOLDER)}/|/gymnasium/core\.py|{_MAKES}")


def describe_failure(
    name: str, node: Node | None, error: BaseException, *, begun: bool = True
) -> Failed:
    """The first cause of a node's end, for people.

    A node that has not ``begun`` and says that it does not fit the configuration, or the
    checkpoint that it should continue, refuses the run; nothing has failed.
    """
    own = isinstance(error, FastLoopError)
    return Failed(
        node=name,
        doing=node.doing if node is not None else "being constructed",
        error=bounded(str(error)) if own else error_text(error),
        traceback=environment_traceback(error) or traceback_text(error),
        context=_context(node, error),
        refused=not begun and isinstance(error, ConfigError | CheckpointError),
    )


def _context(node: Node | None, error: BaseException) -> dict[str, str]:
    """Where an environment failed, and what the node says of its place.

    A user's node must not hide the cause by failing at that.
    """
    context = dict(error.context) if isinstance(error, EnvironmentFailed) else {}
    try:
        context |= {} if node is None else node.failure_context()
    except BaseException as fault:
        context["failure_context()"] = error_text(fault)
    return {name: bounded(str(text)) for name, text in context.items()}


def environment_traceback(error: BaseException) -> str:
    """What an environment raised, with its own traceback; empty if none is behind ``error``.

    How FastLoop and Gymnasium came to call it tells nobody anything, nor where Gymnasium refuses
    to make it.
    """
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, EnvironmentFailed) and link.__cause__ is not None:
            return _from_its_code(link.__cause__)
        link = link.__cause__
    return ""


def _from_its_code(error: BaseException) -> str:
    """The traceback from the first frame of an environment on; all of it where there is none."""
    frame = error.__traceback__
    while frame is not None and _CALLERS.search(frame.tb_frame.f_code.co_filename):
        if frame.tb_next is None and frame.tb_frame.f_code.co_filename.endswith(_MAKES):
            return "" if error.__cause__ is None else _from_its_code(error.__cause__)
        frame = frame.tb_next
    return traceback_text(error, frame)
