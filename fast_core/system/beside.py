"""Processes beside a run: the runs of a sweep, the parts of a host's loop."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

from fast_core.system.interrupts import held_back

_BEGIN = (
    "import sys; parent, *words = sys.argv[1:]; sys.path[:] = {path!r}; sys.argv[:] = {argv!r}; "
    "from fast_core.system.guard import die_with_parent; die_with_parent(int(parent)); "
    "from {module} import {function}; sys.exit({function}(*words))"
)


def start(
    target: str,
    words: Sequence[str],
    *,
    descriptors: Sequence[int] = (),
    variables: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Call a function in a Python of its own, which dies with the thread that started it.

    It finds what this process can import, sees its arguments in ``sys.argv``, and leads a session:
    Ctrl-C of the terminal is for this process alone. Signals that stop it are held back there
    until it lets them through.

    Args:
        target: ``module:function``; what it returns is the exit status.
        words: What it is called with.
        descriptors: What it inherits.
        variables: Of the environment, beside those that are there.
        output: Where what it prints goes; None for where ours goes.
    """
    module, _, function = target.partition(":")
    code = _BEGIN.format(path=sys.path, argv=sys.argv, module=module, function=function)
    with held_back():
        return subprocess.Popen(
            [sys.executable, "-c", code, str(os.getpid()), *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=tuple(descriptors),
            env={**os.environ, **(variables or {})},
            start_new_session=True,
        )
