"""A run's policy as a file for elsewhere: what `fastloop export` does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from fast_core.policy import load_policy
from fast_core.policy.export import check_target, write
from fast_core.system.surroundings import write_result
from fast_core.tools.unwinding import unwinding


def export_run(
    path: Path, file: Path, checkpoint: str | None = None, modules: Sequence[str] = ()
) -> int:
    """Write a run's policy to a file and print a line about it; what is done meanwhile, too.

    Args:
        path: Run directory, the folder of a name's runs, or a policy's file.
        file: The file; its suffix says the format.
        checkpoint: Which policy, see `load_policy`.
        modules: What a policy's file may import, see `load_policy`.

    Returns:
        The exit status: 0, or 128 + signal number when interrupted.

    Raises:
        FastLoopError: There is no such policy, or it can't be written like that.
    """
    target = check_target(file).absolute()  # user code may change the current folder
    policy = load_policy(path, checkpoint=checkpoint, modules=modules)
    # `fastloop` ends at once on these, which would leave what is being written.
    try:
        with unwinding():
            arrays = policy.file.arrays()
            exported = write(policy.config, policy.environment, arrays, target, _tell)
    except KeyboardInterrupt as interrupt:
        return 128 + int(interrupt.args[0])
    which = f"policy {policy.origin.source}, version {policy.version}"
    write_result(f"wrote {file} ({which}): {exported.summary}")
    return 0


def _tell(what: str) -> None:
    print(f"{what} ...", file=sys.stderr, flush=True)
