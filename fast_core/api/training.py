"""Training from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

from fast_core.api.config import Config, Overrides, as_config
from fast_core.api.runs import Result, Run, result_of


def train(
    config: Config | str | PathLike[str] | Mapping[str, object],
    overrides: Overrides = None,
    callbacks: Sequence[object] = (),
    mode: Literal["process", "inline"] | None = None,
    *,
    resume: Run | str | PathLike[str] | None = None,
) -> Result:
    """Train in a new run directory, until the run ends.

    Works in a script, a notebook, a thread, a test; a script needs no ``__main__`` guard. In the
    main thread Ctrl-C ends the run in order, its last checkpoint written, and then raises.

    Args:
        config: What to train: a `Config`, the path of a YAML file, the name of one that comes with
            FastLoop, or a dict of what it would hold, in which ``environment`` or
            ``environment.id`` may be a function or class that makes the environment.
        overrides: Keys to change: ``{"algorithm.learning_rate": 1e-4}``, or a list of texts as on
            the command line.
        callbacks: Objects whose methods are called while it trains.
        mode: ``"inline"`` runs every node in this process and thread, for debuggers.
        resume: A run from whose newest checkpoint the new one goes on.

    Raises:
        ConfigError: The configuration is wrong, or does not fit the environment or the machine.
        RunFailed: The run failed; it carries the first cause and the run's directory. What a
            callback raised is its ``__cause__``.
        RunInterrupted: Ctrl-C, a `KeyboardInterrupt`.
    """
    made = as_config(config, overrides)
    if mode is not None:
        made = made.changed({"mode": mode})
    # here, because who only looks at runs needs nothing of it
    from fast_core.launcher.run import launch

    source = None if resume is None else Path(resume)
    outcome = launch(made.values, resume_from=source, callbacks=callbacks, environment=made.code)
    return result_of(outcome)
