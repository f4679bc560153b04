"""What a run measures and where it can go: the types that a sink of your own has to do with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Protocol

import msgspec

# Of a file that others may have written, where JSON has numbers of any length.
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class MetricsRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row of metrics, a line of ``metrics.jsonl``.

    Attributes:
        env_steps: Environment steps trained on; an evaluation's row has those of the version that
            was evaluated, so it may come after rows of later steps.
        updates: Optimizer steps, likewise.
        time_s: Seconds of training, earlier parts of a resumed run included.
        values: Numbers by name, ``group/name``. What is NaN or infinite reaches a sink as it is,
            and is null in the file, so None where it was read from there.
        videos: Paths of films by name, in the run directory; in the file only where there are any.
    """

    env_steps: Int64
    updates: Int64
    time_s: float
    values: dict[str, float | None]
    videos: dict[str, str] = {}


@dataclass(frozen=True)
class RunStart:
    """What a sink is told before the first row.

    Attributes:
        name: The run's name.
        directory: Its run directory, absolute; what a sink keeps lies there.
        config: Its resolved configuration, as in ``config.yaml``.
        continued_env_steps: Where this run directory goes on from, None where it begins: rows of
            later steps that a sink has are of a part of the run that is not continued.
        written: The last env step at which each value was written by earlier parts of the run,
            for sinks that can't take anything back.
    """

    name: str
    directory: Path
    config: Mapping[str, object]
    continued_env_steps: int | None = None
    written: Mapping[str, int] = field(default_factory=dict)


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """What a sink is told after the last row.

    Attributes:
        outcome: Finished, failed or interrupted.
        text: Why, in words.
        env_steps: Environment steps trained on.
        updates: Optimizer steps.
        elapsed_s: Seconds of training.
        best_return: Mean return of the best evaluation, None without any.
        last_return: That of the last one of this part of the run, likewise.
    """

    outcome: Literal["finished", "failed", "interrupted"]
    text: str
    env_steps: int = 0
    updates: int = 0
    elapsed_s: float = 0.0
    best_return: float | None = None
    last_return: float | None = None


class MetricsSink(Protocol):
    """Where rows of metrics go, beside ``metrics.jsonl``.

    It is made with what ``kwargs`` says: once by the launcher, so that a mistake is found before
    anything starts, and once where it works. So a constructor checks its arguments, and `start`
    opens what is to be opened. All three methods are called in one thread of its own: whatever
    they raise is warned of once and costs the rows concerned, and while one takes its time rows
    wait, up to a limit. Training never does.
    """

    def start(self, run: RunStart) -> None:
        """Begin; after an error here nothing else is called."""
        ...

    def rows(self, rows: Sequence[MetricsRow]) -> None:
        """Take all rows that came since the last call, at least one."""
        ...

    def end(self, summary: RunEnd) -> None:
        """Finish, within ``metrics.end_timeout_s``; the process ends soon after."""
        ...
