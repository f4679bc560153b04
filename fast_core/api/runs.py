"""A run in its folder, to read and to go on with, and how a run ended."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fast_core.api.columns import Columns
from fast_core.api.config import Config, Overrides, override_lines
from fast_core.config import file as config_file
from fast_core.config.algorithms import imports_only
from fast_core.errors import CheckpointError, RunFailed
from fast_core.launcher import Outcome
from fast_core.messages import StopReason
from fast_core.messages.metrics import MetricsRow
from fast_core.monitor import control_socket
from fast_core.monitor.checkpoint_files import MANIFEST, Manifest, complete_names
from fast_core.monitor.figures import count, duration, evaluation_text, times
from fast_core.monitor.journal import JournalEntry, read_entries
from fast_core.monitor.metrics_file import read_rows
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.view import EvaluationView
from fast_core.system.decoding import from_json
from fast_core.system.regular_file import read_large, read_regular

if TYPE_CHECKING:
    from fast_core.policy import Policy

_EVALUATION = "eval/"


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint.

    Attributes:
        path: Its folder, which `load_policy` takes.
        version: Optimizer steps taken.
        env_steps: Environment steps trained on.
    """

    path: Path
    version: int
    env_steps: int

    @classmethod
    def _of(cls, path: Path) -> Checkpoint:
        manifest = from_json(read_regular(path / MANIFEST), Manifest)
        return cls(path, manifest.version, manifest.env_steps)


class Run:
    """A run that has ended, or goes on in some process.

    Nothing here changes it but `resume`, and `stop` and `save` where it goes on elsewhere.

    Every attribute is read anew each time, so a run can be watched. Reading runs no code of the
    run's (docs/trust.md): an algorithm of one's own is imported where ``modules`` has its module.

    Attributes:
        directory: Its folder.
        modules: What may be imported.
    """

    def __init__(self, path: str | PathLike[str], *, modules: Sequence[str] = ()) -> None:
        """Find a run.

        Args:
            path: Its folder, or ``<directory>/<name>``, which means the newest run there.
            modules: Modules that its configuration may name and `config` may import, looked for
                where the run found them too.

        Raises:
            ConfigError: There is none; says what is there instead.
        """
        self._files = RunDirectory.open(Path(path))
        self.directory = self._files.path
        self.modules = tuple(modules)

    @property
    def config(self) -> Config:
        """Its configuration, with what every ``auto`` stood for.

        Raises:
            ConfigError: It can't be read, or names an algorithm in none of ``modules``.
        """
        if self.modules:
            self._files.look_where_it_began()
        return self._config(imports_only(self.modules))

    def _config(self, algorithm_type: config_file.AlgorithmType) -> Config:
        return Config._of(config_file.load(self._files.config, [], algorithm_type, resolved=True))

    @property
    def metrics(self) -> Columns:
        """What was measured while it trained, a row about every ``metrics.interval_s``."""
        return Columns(row for row in read_rows(self._files.metrics) if not _evaluates(row))

    @property
    def evaluations(self) -> Columns:
        """Its evaluations; ``updates`` is the version of the policy."""
        return Columns(row for row in read_rows(self._files.metrics) if _evaluates(row))

    @property
    def events(self) -> list[JournalEntry]:
        """What was decided when and why: ``time_s``, ``wall``, ``what``, ``why`` and ``facts``."""
        return list(read_entries(self._files.events))

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """Its whole checkpoints, the oldest first."""
        found = []
        for name in complete_names(self._files.checkpoints):
            with contextlib.suppress(OSError, msgspec.MsgspecError):  # dropped meanwhile
                found.append(Checkpoint._of(self._files.checkpoints / name))
        return found

    @property
    def versions(self) -> list[dict[str, str]]:
        """What each part of it was made with: FastLoop, Python, torch, simulators, processor."""
        try:
            return from_json(read_regular(self._files.versions), list[dict[str, str]])
        except FileNotFoundError:  # it has just begun
            return []
        except msgspec.DecodeError as error:
            raise CheckpointError(f"{self._files.versions} can't be read: {error}") from error

    @property
    def crash(self) -> str | None:
        """Everything that failed, why the run did last; None if nothing did."""
        try:
            return read_large(self._files.crash).decode("utf-8", "replace")
        except FileNotFoundError:
            return None

    @property
    def policy(self) -> Policy:
        """The best evaluated policy, or the newest where none was evaluated; loaded each time."""
        # here, so that who only reads figures pays nothing for it
        from fast_core.policy import load_policy

        return load_policy(self.directory)

    def resume(self, overrides: Overrides = None, callbacks: Sequence[object] = ()) -> Result:
        """Go on from its newest checkpoint, in its own folder.

        Args:
            overrides: Keys to change, as of `train`; ``{"stop.env_steps": 2_000_000}`` after a run
                that has finished.
            callbacks: See `train`.

        Raises:
            FastLoopError: As `train`; or there is nothing to go on from.
        """
        from fast_core.launcher.run import resume

        return result_of(resume(self.directory, override_lines(overrides), callbacks=callbacks))

    def stop(self, *, wait: bool = True) -> None:
        """End it in order where it goes on in another process, as Ctrl-C does: it saves first.

        Args:
            wait: Whether to return only when it has ended.

        Raises:
            ConfigError: It does not run, or does not answer.
        """
        control_socket.stop(self._files, wait=wait)

    def save(self) -> Checkpoint:
        """Have it write a checkpoint where it goes on in another process, and wait for that.

        Raises:
            ConfigError: It does not run, has trained nothing yet, or can't be saved; says why.
        """
        return Checkpoint._of(Path(control_socket.save(self._files).path))

    def __fspath__(self) -> str:
        return str(self.directory)

    def __repr__(self) -> str:
        return f"Run({str(self.directory)!r})"


def _evaluates(row: MetricsRow) -> bool:
    return any(name.startswith(_EVALUATION) for name in row.values)


@dataclass(frozen=True, repr=False)
class Result:
    """How a run ended, and what it reached.

    Attributes:
        reason: ``"finished"`` or ``"interrupted"``; a run that fails raises `RunFailed`.
        message: Why, with figures.
        evaluation: The last evaluation: its ``mean``, ``std``, ``version`` and ``env_steps``; None
            without any.
        best: The best one.
        env_steps: Environment steps trained on, earlier parts of a resumed run included.
        updates: Optimizer steps, likewise.
        time_s: Seconds of training, likewise.
        comebacks: Times that it came back from a checkpoint by itself, in this call.
        run: Its metrics, events and checkpoints.
    """

    reason: StopReason
    message: str
    evaluation: EvaluationView | None
    best: EvaluationView | None
    env_steps: int
    updates: int
    time_s: float
    run: Run
    comebacks: int = 0

    @cached_property
    def policy(self) -> Policy:
        """The best evaluated policy, or the newest where none was evaluated."""
        return self.run.policy

    def __repr__(self) -> str:
        """A line for each figure; what a notebook shows of a cell."""
        figures = {
            self.reason: self.message,
            "env steps": count(self.env_steps),
            "updates": count(self.updates),
            "time": duration(self.time_s),
        }
        if self.comebacks:
            figures["came back"] = times(self.comebacks)
        for name, evaluation in (("best", self.best), ("last", self.evaluation)):
            if evaluation is not None:
                at = f" at {count(evaluation.env_steps)} env steps"
                figures[f"{name} evaluation"] = evaluation_text(evaluation) + at
        figures["run directory"] = str(self.run.directory)
        width = max(map(len, figures))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in figures.items())


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C, after the run has ended in order.

    Attributes:
        result: What it had reached; None if it had not begun.
    """

    def __init__(self, message: str, result: Result | None) -> None:
        super().__init__(message)
        self.result = result


def result_of(outcome: Outcome) -> Result:
    """What a call that trains returns, or raises.

    Signals are FastLoop's while a run lasts. Then the one that came goes on to whom it would have
    reached: Python's own handler of Ctrl-C raises, a program's own handler is called, and a
    SIGTERM that nobody handles ends the process.

    Raises:
        RunFailed: The run failed.
        RunInterrupted: Ctrl-C.
    """
    result = _result(outcome)
    if outcome.signal is not None:
        sys.stdout.flush()  # the next line may be the last one
        try:
            signal.raise_signal(outcome.signal)
        except KeyboardInterrupt:
            raise _interrupted(outcome, result) from None
    if outcome.reason == "failed":
        cause = outcome.cause
        assert cause is not None and outcome.directory is not None
        given = outcome.report, outcome.directory, cause.node, cause.error, cause.traceback
        raise RunFailed(*given) from outcome.origin
    if result is None:
        raise _interrupted(outcome, result)
    return result


def _interrupted(outcome: Outcome, result: Result | None) -> RunInterrupted:
    text = outcome.text
    if result is not None:
        text += ". What it reached is in this exception's `result`"
    if result is not None and result.run.checkpoints:
        text += f"; Run({str(result.run.directory)!r}).resume() goes on"
    return RunInterrupted(text, result)


def _result(outcome: Outcome) -> Result | None:
    summary = outcome.summary
    if summary is None or outcome.directory is None:
        return None
    return Result(
        reason=outcome.reason,
        message=outcome.text,
        evaluation=summary.last,
        best=summary.best,
        env_steps=summary.env_steps,
        updates=summary.updates,
        time_s=summary.elapsed_s,
        run=Run(outcome.directory),
        comebacks=summary.comebacks,
    )
