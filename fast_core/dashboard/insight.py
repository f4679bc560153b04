"""What the policy thinks of the frame of a tile, as the page is told."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Sequence

import numpy as np

from fast_core.algorithm import Array, Thinker, Thoughts
from fast_core.algorithm.parameters import ParameterPack
from fast_core.dashboard.source import Insight, Numbers
from fast_core.memory import WeightBoard
from fast_core.policy.checked import check_methods
from fast_core.policy.thinking import PolicyThinker
from fast_core.run.frame import Frame
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.run.structures import INSIGHTS
from fast_core.run.tiles import tiles
from fast_core.system.text import error_text


class Insights:
    """Computes value, probabilities and Q-values of frames, from what the optimizer publishes.

    Where the algorithm needs more than the policy's parameters, that is what it publishes while
    `Watching.insight` says that somebody looks; until it has, there is nothing to say. Networks
    are built in a thread when the first frame comes: where they are torch's that imports it, for
    some seconds. Inline they are built at once, by the thread that makes this object: there
    torch's global generator, which new modules draw from, is the learner's too.

    What an algorithm of one's own raises is logged once, and nothing is said any more.
    """

    def __init__(self, plan: RunPlan, memory: RunMemory, board: str = INSIGHTS) -> None:
        """Attach to the weights, or where they are not enough to this ``board`` of the viewer's."""
        self._plan = plan
        environment, blueprint = plan.environment, plan.blueprint
        self._log = logging.getLogger("fastloop")
        policy = blueprint.policy_fields(environment)
        more = blueprint.insight_fields(environment)
        self._pack = ParameterPack((*policy, *more))
        self._flat = self._pack.empty()
        self._board = memory.at(WeightBoard, board) if more else memory.weights()
        self._version = -1
        self._tiles = {(tile.shard, tile.env): tile.number for tile in tiles(plan.config)}
        self._thinker: Thinker | None = None
        self._maker: threading.Thread | None = None
        self._failed = False
        if plan.config.mode == "inline":
            self._make()

    def of(self, frame: Frame) -> Insight | None:
        """What the page is told of a frame; None where there is nothing to say, or not yet."""
        if self._thinker is None and self._maker is None:
            self._maker = threading.Thread(target=self._make, name="insight", daemon=True)
            self._maker.start()
        if self._failed or self._thinker is None:
            return None
        try:
            thoughts = self._think(self._thinker, frame)
        except Exception as error:  # an algorithm may raise anything, and training goes on
            self._fail(error)
            return None
        return None if thoughts is None else self._message(frame, thoughts)

    def _think(self, thinker: Thinker, frame: Frame) -> Thoughts | None:
        version = self._board.read_into(self._flat.data, newer_than=self._version)
        if version > self._version:
            self._version = version
            thinker.load(self._pack.views(self._flat))
        if version < 0:
            return None
        state = frame.state[None] if frame.state.size else None
        return thinker.think(frame.obs[None], frame.action[None], state)

    def _make(self) -> None:
        blueprint, environment = self._plan.blueprint, self._plan.environment
        try:
            made = blueprint.make_thinker(environment)
            if made is None:
                made = PolicyThinker(blueprint, environment)
            check_methods(made, "make_thinker", ("load", "think"))
            self._thinker = made
        except Exception as error:  # as in `of`
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failed = True
        self._log.error("what the policy thinks is not shown any more: %s", error_text(error))

    def _message(self, frame: Frame, thoughts: Thoughts) -> Insight:
        chances = thoughts.probabilities
        each = None if chances is None else [_numbers(one) or [] for one in chances]
        single = self._plan.environment.action.kind == "discrete"
        value = _numbers(None if thoughts.value is None else [thoughts.value])
        return Insight(
            tile=self._tiles.get((None if frame.shard < 0 else frame.shard, frame.env), -1),
            at=frame.step,
            episode=frame.episode,
            value=value[0] if value else None,
            probabilities=each[0] if each and single else each,
            q=_numbers(thoughts.q),
            q_std=_numbers(thoughts.q_std),
            mean=_numbers(thoughts.mean),
            std=_numbers(thoughts.std),
            actions=list(self._plan.environment.action_names) or None,
            taken=self._taken(frame.action),
        )

    def _taken(self, action: Array) -> int | Numbers:
        """The action, its choices counted from 0."""
        space = self._plan.environment.action
        if space.kind == "box":
            return _numbers(action) or []
        starts = [space.start] if space.kind == "discrete" else space.starts or 0
        choices = np.asarray(action, np.int64).reshape(-1) - np.asarray(starts)
        return int(choices[0]) if space.kind == "discrete" else _numbers(choices) or []


def _numbers(values: Array | Sequence[float] | None) -> Numbers | None:
    """Plain numbers; None in place of what JSON has no word for."""
    if values is None:
        return None
    flat = np.asarray(values, np.float64).reshape(-1).tolist()
    return [each if math.isfinite(each) else None for each in flat]
