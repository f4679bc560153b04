"""A run that goes on in this memory: what the page's node shows."""

from __future__ import annotations

import math
import time
from pathlib import Path

from msgspec.structs import replace

from fast_core.dashboard.feed import Feed
from fast_core.dashboard.figures import now_of
from fast_core.dashboard.insight import Insights
from fast_core.dashboard.meters import Meters
from fast_core.dashboard.painter import Painter
from fast_core.dashboard.source import (
    Hello,
    Insight,
    News,
    NodeNow,
    Now,
    RunFacts,
    TileFacts,
    TileNow,
)
from fast_core.dashboard.tile_states import Best, TileStates
from fast_core.memory import StatsColumn
from fast_core.monitor.run_directory import RunDirectory
from fast_core.nodes.node import NodeState, node_status
from fast_core.run.frame import Frame
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.run.structures import frame_layout
from fast_core.run.tiles import Tile, tiles
from fast_core.run.watching import Watching
from fast_core.system.crowding import Crowding
from fast_core.system.text import encodable

LATE_S = 3.0  # after which it is said that nothing has come of a tile
# Frames a second where the page has to wait for a core as long as it has one, if more are wanted.
CROWDED_FPS = 2.0


class WatchedRun:
    """See `fast_core.dashboard.source.Source`.

    Concurrency: reads boards and counters that others write, and waits for nobody; writes the
    words of `Watching`, which are the page's own.
    """

    def __init__(
        self, plan: RunPlan, memory: RunMemory, watching: Watching, insights: Insights
    ) -> None:
        """``watching`` are the words of this viewer, ``insights`` says what the policy thinks."""
        self._plan, self._watching, self._insights = plan, watching, insights
        config = plan.config
        self._feed = Feed(RunDirectory(Path(plan.run_directory)))
        self._feed.catch_up()
        self._stats = memory.all_stats()
        self._meters = Meters()
        self._tiles = tiles(config)
        self._boards = {each.number: memory.frames(each.number) for each in self._tiles}
        self._layout = frame_layout(plan)
        self._room = bytearray(self._layout.nbytes)
        self._painter = Painter(plan)
        self._posed: set[int] = set()  # tiles that the painter draws
        self._read: dict[int, int] = {}  # number of the last frame read, by tile
        self._newest: dict[int, Frame] = {}
        self._wanted_s: dict[int, float] = {}  # since when tiles are wanted
        self._crowding: Crowding | None = None
        self._states, self._best = TileStates(plan, memory, self._stats), Best()
        self._row_s, self._row_at_s = 0.0, time.monotonic()  # of the newest row, and when it came
        self.facts = RunFacts(
            name=config.name,
            seed=config.seed,
            algorithm=config.algorithm.name,
            environment=config.environment.id,
            directory=encodable(plan.run_directory) if plan.kept else "",
            mode=config.mode,
            running=True,
        )

    def hello(self) -> Hello:
        """What the run is, and its history."""
        tiles = tuple(
            TileFacts(
                tile.number,
                -1 if tile.shard is None else tile.shard,
                tile.env,
                self._states.node_of(tile),
                "evaluation" if tile.shard is None else "training",
            )
            for tile in self._tiles
        )
        return self._feed.hello(self.facts, tiles, self._plan.config.dashboard.fps)

    def news(self) -> list[News]:
        """What was written since the last call."""
        void, news = self._feed.read()
        return [*((self.hello(),) if void else ()), *news]

    def outcome(self) -> str:
        """How the run ended, once its node is told to stop."""
        self._feed.catch_up()
        return self._feed.end or "the run has ended"

    def now(self) -> Now:
        """The run at this moment."""
        now = now_of(self._feed)
        return replace(
            now,
            phase="training" if now.env_steps or self._steps() else "starting",
            elapsed_s=self._elapsed_s(now.elapsed_s),
            best_tile=self._best.tile,
            nodes=tuple(self._node(name) for name in self._stats if self._is_there(name)),
            tiles=tuple(map(self._tile, self._tiles)),
        )

    def _steps(self) -> bool:
        """Whether environments are stepped, as before the first row of metrics."""
        column = int(StatsColumn.STEP)
        return any(self._stats[name].words[column] for name in self._plan.names.env)

    def _elapsed_s(self, row_s: float) -> float:
        """Seconds of training: those of the newest row, and since."""
        now_s = time.monotonic()
        if row_s != self._row_s:
            self._row_s, self._row_at_s = row_s, now_s
        return row_s + now_s - self._row_at_s

    def _is_there(self, name: str) -> bool:
        """A spare node that never came has no state."""
        return name not in self._plan.names.absent or self._stats[name].words[0] != 0

    def _node(self, name: str) -> NodeNow:
        row = self._stats[name]
        state = NodeState(row.words[StatsColumn.STATE]).name.lower()
        word = "dead" if name in self._feed.away else state
        return self._meters.node(node_status(name, word, row, life=1))

    def _tile(self, tile: Tile) -> TileNow:
        frame = self._newest.get(tile.number)
        state = self._states.state(tile, self._feed.away)
        if frame is None:
            return TileNow(tile.number, state.word, state.why or self._why_late(tile))
        return TileNow.of(tile.number, state.word, state.why, frame)

    def _why_late(self, tile: Tile) -> str:
        wanted_s = self._wanted_s.get(tile.number, math.inf)
        if time.monotonic() - wanted_s < LATE_S:
            return ""
        return f"{self._states.node_of(tile)} steps, but has drawn nothing of it yet"

    def want(self, intervals_ns: dict[int, int], *, insight: bool) -> None:
        """Say which tiles are wanted, and whether what the policy thinks is."""
        now_s, crowded = time.monotonic(), self._crowded() if intervals_ns else 0.0
        self._wanted_s = {tile: self._wanted_s.get(tile, now_s) for tile in intervals_ns}
        # A pose costs next to nothing. Of those that come the painter draws the newest whenever it
        # may, so that what it draws is not old where it is seldom.
        longer = {
            tile: each if tile in self._posed else slowed_ns(each, crowded)
            for tile, each in intervals_ns.items()
        }
        now_ns, draws = time.monotonic_ns(), self._painter.draws
        self._watching.want(longer, now_ns, insight=insight, draws=draws)

    def _crowded(self) -> float:
        """How scarce cores are for the page: 0 not at all, 1 where it waits as long as it runs."""
        self._crowding = self._crowding or Crowding()  # of the thread that asks
        return min(1.0, self._crowding.factor() - 1)

    def frame(self, tile: int, newer_than: int) -> tuple[int, Frame] | None:
        """The newest frame of a tile and its number, if that is above ``newer_than``."""
        board = self._boards[tile]
        read = max(newer_than, self._read.get(tile, -1))
        if board.version() > read:
            number = self._read[tile] = board.read_into(self._room, newer_than=read)
            frame = self._layout.unpack(bytes(self._room))
            if frame.pose is None:
                self._posed.discard(tile)
                return number, self._take(tile, frame)
            self._posed.add(tile)
            self._painter.ask(tile, number, frame)
        painted = self._painter.painted(tile)
        if painted is None or painted[0] <= newer_than:
            return None
        return painted[0], self._take(tile, painted[1])

    def _take(self, tile: int, frame: Frame) -> Frame:
        self._newest[tile] = frame
        if frame.shard >= 0:
            self._best.see(tile, frame)
        return frame

    def insight(self, frame: Frame) -> Insight | None:
        """What the policy thinks of a frame."""
        return self._insights.of(frame)

    def close(self) -> None:
        """Nobody watches any more."""
        self.want({}, insight=False)
        self._painter.close()


def slowed_ns(interval_ns: int, crowded: float) -> int:
    """The interval between two frames of a tile where cores are ``crowded``, from 0 to 1."""
    slowest_ns = max(interval_ns, 1e9 / CROWDED_FPS)
    return round(interval_ns + crowded * (slowest_ns - interval_ns))
