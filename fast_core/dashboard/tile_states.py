"""What the environments of tiles are doing, and which of them does best."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Container
from typing import NamedTuple

from fast_core.memory import StatsColumn, StatsRow
from fast_core.nodes.node import NodeState
from fast_core.run.frame import Frame
from fast_core.run.memory import RunMemory
from fast_core.run.names import EVALUATOR
from fast_core.run.plan import RunPlan
from fast_core.run.tiles import Tile

STILL_S = 1.0  # without a step, after which it counts as waiting
SILENT_S = 2.0  # without a sign of life of its node
EPISODES = 100
_ACTIVE = (NodeState.STEPPING, NodeState.ACTING)
_BEGINS = (NodeState.STARTING, NodeState.TRYING)


class State(NamedTuple):
    """What an environment is doing, in a word, and why where it does nothing."""

    word: str
    why: str = ""


class _Watched:
    """When a counter moved last."""

    def __init__(self, words: memoryview, index: int) -> None:
        self._words, self._index = words, index
        self._value, self._moved_s = words[index], time.monotonic()

    def still_s(self, now_s: float) -> float:
        """For how long it has stood still; infinite where it never began."""
        value = self._words[self._index]
        if value != self._value:
            self._value, self._moved_s = value, now_s
        return now_s - self._moved_s if value else float("inf")


class TileStates:
    """Looks at the counters of the nodes that step environments."""

    def __init__(self, plan: RunPlan, memory: RunMemory, stats: dict[str, StatsRow]) -> None:
        self._plan, self._stats = plan, stats
        stepping = [*plan.names.steppers, *plan.names.evaluator]
        words = {name: stats[name].words for name in stepping}
        self._steps = {name: _Watched(words[name], StatsColumn.ENV_STEPS) for name in words}
        self._turns = {name: _Watched(words[name], StatsColumn.PROGRESS) for name in words}
        self._pulses = {name: _Watched(memory.pulse(name), 0) for name in words}
        named = zip(plan.names.env, plan.first_shards, strict=True)
        self._executors = {shard: name for name, block in named for shard in block}

    def node_of(self, tile: Tile) -> str:
        """Who executes a tile's shard, as was seen last: shards move."""
        if tile.shard is None:
            return EVALUATOR
        for name in self._plan.names.steppers:
            words = self._stats[name].words
            if words[StatsColumn.STATE] in _ACTIVE:
                self._executors[words[StatsColumn.SHARD]] = name
        return self._executors[tile.shard]

    def state(self, tile: Tile, away: Container[str]) -> State:
        """What a tile's environment is doing; nodes in ``away`` died and come back."""
        name, now_s = self.node_of(tile), time.monotonic()
        still_s = min(self._steps[name].still_s(now_s), self._turns_s(tile, name, now_s))
        if name in away:
            return State("restarting", f"{name} died and is started anew")
        if SILENT_S < self._pulses[name].still_s(now_s) < float("inf"):
            return State("dead", f"{name} gives no sign of life")
        state = self._stats[name].words[StatsColumn.STATE]
        if state in _BEGINS:
            return State("starting", f"{name} makes its environments")
        if tile.shard is None:
            return State("running") if state == NodeState.EVALUATING else _NO_EVALUATION
        if still_s < STILL_S:
            return State("running")
        if state == NodeState.WAITING:
            whom = "the policy nodes" if self._plan.names.policy else "training"
            return State("waiting for policy", f"{name} waits for {whom}")
        return State("running", f"{name} has made no step for {still_s:.0f} s")

    def _turns_s(self, tile: Tile, name: str, now_s: float) -> float:
        """Turns count where a step is under way: only rollouts that are whole count as steps."""
        turns_s = self._turns[name].still_s(now_s)
        state = self._stats[name].words[StatsColumn.STATE]
        return turns_s if tile.shard is not None and state in _ACTIVE else float("inf")


_NO_EVALUATION = State("waiting", "no evaluation is being played now")


class Best:
    """Which tile does best: by the mean of its last episodes, as far as frames of them were seen.

    Of an episode what counts is the reward that its last frame showed, so the mean is a little
    below the truth, alike for all tiles.
    """

    def __init__(self) -> None:
        self._ended: dict[int, deque[float]] = {}
        self._now: dict[int, Frame] = {}

    def see(self, tile: int, frame: Frame) -> None:
        """Take a frame of a training environment."""
        before = self._now.get(tile)
        if before is not None and before.episode != frame.episode:
            self._ended.setdefault(tile, deque(maxlen=EPISODES)).append(before.total)
        self._now[tile] = frame

    @property
    def tile(self) -> int | None:
        """The best one; None before there are two to compare."""
        if len(self._now) < 2:
            return None
        if self._ended.keys() == self._now.keys():
            means = {tile: sum(each) / len(each) for tile, each in self._ended.items()}
            return max(means, key=means.__getitem__)
        return max(self._now, key=lambda tile: self._now[tile].total)
