"""From a configuration to running nodes and back to nothing: see `run`.

Importing this package imports neither torch nor an environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fast_core.config import RunConfig
from fast_core.launcher.outcome import Outcome


def launch(
    config: RunConfig,
    *,
    resume_from: Path | None = None,
    callbacks: Sequence[object] = (),
    environment: bytes | None = None,
    kept: bool = True,
) -> Outcome:
    """Train in a new run directory. See `fast_core.launcher.run`."""
    from fast_core.launcher.run import launch as implementation

    return implementation(
        config, resume_from=resume_from, callbacks=callbacks, environment=environment, kept=kept
    )


def validate(config: RunConfig) -> int:
    """Raise what `launch` would raise before the run begins; returns the exit status."""
    from fast_core.launcher.run import validate as implementation

    return implementation(config)


def resume(run: Path, overrides: list[str], *, callbacks: Sequence[object] = ()) -> Outcome:
    """Continue a run from its newest checkpoint."""
    from fast_core.launcher.run import resume as implementation

    return implementation(run, overrides, callbacks=callbacks)


def rerun(run: Path, until: str | None = None) -> Outcome:
    """Do again, inline, what was recorded of a run."""
    from fast_core.launcher.rerun import rerun as implementation

    return implementation(run, until)


__all__ = ["Outcome", "launch", "rerun", "resume", "validate"]
