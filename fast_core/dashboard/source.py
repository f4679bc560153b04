"""What a page shows comes from a source: a run that goes on here, or what it left in files."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from fast_core.run.frame import Frame

Cell = float | int | str | None
Columns = dict[str, list[Cell]]
Record = dict[str, Cell]
Kind = Literal["train", "evaluation"]


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is.

    Attributes:
        name: Its name.
        seed: Its seed.
        algorithm: Name of its algorithm.
        environment: Id of its environment.
        directory: Where it lies; empty where it is gone when the run has ended.
        mode: ``process`` or ``inline``.
        running: Whether it goes on.
        outcome: How it ended; None while it goes on.
    """

    name: str
    seed: int | None
    algorithm: str
    environment: str
    directory: str
    mode: str
    running: bool
    outcome: str | None = None


class TileFacts(msgspec.Struct, frozen=True):
    """What a tile shows: environment ``env`` of a shard, or of the evaluator's (shard -1)."""

    tile: int
    shard: int
    env: int
    node: str
    kind: Literal["training", "evaluation"]


class NodeNow(msgspec.Struct, frozen=True):
    """What a node does at the moment.

    Attributes:
        name: Its name.
        state: In a word: stepping, waiting, acting, learning, publishing, ...
        waiting_share: Share of the last seconds that it waited, None where that is not known yet.
    """

    name: str
    state: str
    waiting_share: float | None


class TileNow(msgspec.Struct, frozen=True):
    """What is known of a tile.

    Attributes:
        tile: Its number.
        state: running, waiting for policy, waiting, starting, restarting or dead.
        note: What there is to say of its pictures, or why it does nothing.
        R: Its reward so far, None before its first frame; likewise the rest.
        S: Its steps so far.
        episode: Its episode, from 0.
        version: Version of the policy that acts.
        seed: Seed of the episode.
        fps: Frames a second that its node gives it.
    """

    tile: int
    state: str
    note: str = ""
    R: float | None = None
    S: int | None = None
    episode: int | None = None
    version: int | None = None
    seed: int | None = None
    fps: float = 0.0

    @classmethod
    def of(cls, tile: int, state: str, note: str, frame: Frame) -> TileNow:
        """What the newest frame of a tile says, with the note where it has none of its own."""
        seen = frame.total, frame.step, frame.episode, frame.version, frame.seed, frame.fps
        return cls(tile, state, frame.note or note, *seen)


class Ahead(msgspec.Struct, frozen=True):
    """How far collecting is ahead of training, in tickets and versions.

    The lag is what the terminal shows, too: beyond what the steps on one round have anyway.
    """

    degree: int | None = None
    admitted: int | None = None
    merged: int | None = None
    trained: int | None = None
    lag_mean: float | None = None
    lag_max: float | None = None


class Now(msgspec.Struct, frozen=True, kw_only=True, rename={"ahead": "async"}):
    """A run at this moment."""

    type: Literal["now"] = "now"
    phase: str
    elapsed_s: float
    env_steps: int
    updates: int
    rates: dict[str, float]
    ahead: Ahead
    best_tile: int | None = None
    nodes: tuple[NodeNow, ...] = ()
    tiles: tuple[TileNow, ...] = ()


class Event(msgspec.Struct, frozen=True):
    """Something was decided; ``at`` is in seconds since the run began."""

    at: float
    kind: str
    text: str
    type: Literal["event"] = "event"


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """What a page is told first, and again where the history was replaced."""

    type: Literal["hello"] = "hello"
    run: RunFacts
    tiles: tuple[TileFacts, ...]
    fps: float
    frames: bool
    why_no_frames: str
    history: dict[str, Columns]
    events: tuple[Event, ...] = ()  # the last ones


class Rows(msgspec.Struct, frozen=True):
    """New rows of one kind."""

    kind: Kind
    rows: list[Record]
    type: Literal["rows"] = "rows"


class End(msgspec.Struct, frozen=True):
    """The run has ended, or is not watched any more."""

    text: str
    type: Literal["end"] = "end"


Numbers = list[float | None]  # None in place of what JSON has no word for


class Insight(msgspec.Struct, frozen=True):
    """What the policy thinks of what an enlarged tile shows; null where there is no such thing.

    Attributes:
        tile: The tile.
        at: Step of the episode.
        episode: Its number.
        value: Expected from here on, in discounted rewards.
        probabilities: Of each choice; where there are several at once, a list for each.
        q: Values of all choices, or of the action taken.
        q_std: Their deviations.
        mean: Of each number of a box's action, in the environment's units.
        std: Deviation of each.
        actions: Names of choices, or of the dimensions where there are several at once.
        taken: The choice, counted from 0; where there are several a list, or the box's numbers.
    """

    tile: int
    at: int
    episode: int = 0
    value: float | None = None
    probabilities: Numbers | list[Numbers] | None = None
    q: Numbers | None = None
    q_std: Numbers | None = None
    mean: Numbers | None = None
    std: Numbers | None = None
    actions: list[str] | None = None
    taken: int | Numbers | None = None
    type: Literal["insight"] = "insight"


News = Hello | Rows | Event | End


class RunSource(Protocol):
    """A run, as the page's server asks for it; called by one thread."""

    def hello(self) -> Hello:
        """What the run is, and its history."""
        ...

    def now(self) -> Now:
        """The run at this moment."""
        ...

    def news(self) -> list[News]:
        """What was written since the last call."""
        ...

    def want(self, intervals_ns: dict[int, int], *, insight: bool) -> None:
        """Which tiles are wanted, and the time between two frames of each; again every second.

        ``insight``: whether what the policy thinks is wanted too.
        """
        ...

    def frame(self, tile: int, newer_than: int) -> tuple[int, Frame] | None:
        """The newest frame of a tile and its number, if that is above ``newer_than``."""
        ...

    def insight(self, frame: Frame) -> Insight | None:
        """What the networks make of a frame, None where they are not known."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...
