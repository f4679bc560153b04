"""From a configuration to running nodes and back to nothing: see `run`.

Importing this package imports neither torch nor an environment.
"""

from __future__ import annotations

from pathlib import Path

from fast_core.config import RunConfig


def launch(config: RunConfig, *, resume_from: Path | None = None) -> int:
    """Train in a new run directory; returns the exit status. See `fast_core.launcher.run`."""
    from fast_core.launcher.run import launch as implementation

    return implementation(config, resume_from=resume_from)


def validate(config: RunConfig) -> int:
    """Raise what `launch` would raise before the run begins; returns the exit status."""
    from fast_core.launcher.run import validate as implementation

    return implementation(config)


def resume(run: Path, overrides: list[str]) -> int:
    """Continue a run from its newest checkpoint; returns the exit status."""
    from fast_core.launcher.run import resume as implementation

    return implementation(run, overrides)


def evaluate_run(
    run: Path,
    episodes: int | None,
    *,
    render: bool = False,
    video: Path | None = None,
    checkpoint: str | None = None,
    seed: int | None = None,
    repeat: bool = False,
    explore: bool = False,
) -> int:
    """Play a run's policy and print its returns; returns the exit status."""
    from fast_core.tools.evaluate import evaluate_run as implementation

    return implementation(
        run,
        episodes,
        render=render,
        video=video,
        checkpoint=checkpoint,
        seed=seed,
        repeat=repeat,
        explore=explore,
    )


def play_in_window(what: str, checkpoint: str | None = None) -> int:
    """Watch a run's policy, or play an environment by keyboard; returns the exit status."""
    from fast_core.tools.play import play as implementation

    return implementation(what, checkpoint)


def show_replay(run: Path, checkpoint: str | None = None, top: int = 10) -> int:
    """Print what the replay of a checkpoint holds; returns the exit status."""
    from fast_core.tools.replay_view import show_replay as implementation

    return implementation(run, checkpoint, top)


__all__ = ["evaluate_run", "launch", "play_in_window", "resume", "show_replay", "validate"]
