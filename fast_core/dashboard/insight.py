"""What the policy thinks of the frame of a tile, as the page is told."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import numpy as np

from fast_core.algorithm import Array, Thinker, Thoughts
from fast_core.memory import WeightBoard
from fast_core.policy.checked import check_methods
from fast_core.policy.thinking import PolicyThinker
from fast_core.run.memory import RunMemory
from fast_core.run.parameters import ParameterPack
from fast_core.run.plan import RunPlan
from fast_core.run.structures import INSIGHT
from fast_core.screens.frame import Frame
from fast_core.screens.tiles import tiles
from fast_core.system.text import error_text

READS = frozenset({"weights", INSIGHT})  # what a node that uses it attaches to
Numbers = list[float | None]


class Insight:
    """Computes value, probabilities and Q-values of frames, from what the optimizer publishes.

    Where the algorithm needs more than the policy's parameters, that is what it publishes while
    `Watching.insight` says that somebody looks; until it has, there is nothing to say. Networks
    are built when the first frame comes, which imports torch where they are torch's; so the call
    belongs where a second or two is no harm.

    What an algorithm of one's own raises is logged once, and nothing is said any more.
    """

    def __init__(self, plan: RunPlan, memory: RunMemory) -> None:
        """Attach to the weights, or to what is published for insights alone."""
        self._plan = plan
        environment, blueprint = plan.environment, plan.blueprint
        self._log = logging.getLogger("fastloop")
        policy, more = blueprint.policy_fields(environment), plan.insight_fields
        self._pack = ParameterPack((*policy, *more))
        self._flat = self._pack.empty()
        self._board = memory.at(WeightBoard, INSIGHT) if more else memory.weights()
        self._version = -1
        self._tiles = {(tile.shard, tile.env): tile.number for tile in tiles(plan.config)}
        self._thinker: Thinker | None = None
        self._failed = False

    def of(self, frame: Frame) -> dict[str, object] | None:
        """The message for the page; None where there is nothing to say, or not yet.

        ``type`` is ``insight``, ``tile`` its number, ``at`` the step of ``episode``. ``value`` is
        in discounted rewards. ``probabilities`` has a number for each choice, or for several
        choices at once a list for each. ``q`` has the values of all choices, or of the action
        taken, and ``q_std`` their deviations. ``mean`` and ``std`` are those of each number of a
        box's action. What does not apply, and what is not finite, is null. ``actions`` names
        choices, or dimensions where there are several; ``taken`` is the choice counted from 0, a
        list of them, or the numbers of the box's action.
        """
        if self._failed:
            return None
        try:
            thoughts = self._think(frame)
        except Exception as error:  # an algorithm may raise anything, and training goes on
            self._failed = True
            self._log.error("what the policy thinks is not shown any more: %s", error_text(error))
            return None
        return None if thoughts is None else self._message(frame, thoughts)

    def _think(self, frame: Frame) -> Thoughts | None:
        version = self._board.read_into(self._flat.data, newer_than=self._version)
        if version < 0:
            return None
        if self._thinker is None:
            self._thinker = self._make()
        if version > self._version:
            self._version = version
            self._thinker.load(self._pack.views(self._flat))
        state = frame.state[None] if frame.state.size else None
        return self._thinker.think(frame.obs[None], frame.action[None], state)

    def _make(self) -> Thinker:
        blueprint, environment = self._plan.blueprint, self._plan.environment
        made = blueprint.make_thinker(environment)
        if made is None:
            return PolicyThinker(blueprint, environment)
        check_methods(made, "make_thinker", ("load", "think"))
        return made

    def _message(self, frame: Frame, thoughts: Thoughts) -> dict[str, object]:
        space = self._plan.environment.action
        chances = thoughts.probabilities
        probabilities: object = None
        if chances is not None:
            each = [_numbers(one) for one in chances]
            probabilities = each[0] if space.kind == "discrete" else each
        value = None if thoughts.value is None else _numbers([thoughts.value])
        shard = None if frame.shard < 0 else frame.shard
        return {
            "type": "insight",
            "tile": self._tiles.get((shard, frame.env)),
            "at": frame.step,
            "episode": frame.episode,
            "value": None if value is None else value[0],
            "probabilities": probabilities,
            "q": _numbers(thoughts.q),
            "q_std": _numbers(thoughts.q_std),
            "mean": _numbers(thoughts.mean),
            "std": _numbers(thoughts.std),
            "actions": list(self._plan.environment.action_names) or None,
            "taken": self._taken(frame.action),
        }

    def _taken(self, action: Array) -> object:
        """The action, its choices counted from 0."""
        space = self._plan.environment.action
        if space.kind == "box":
            return _numbers(action)
        starts = [space.start] if space.kind == "discrete" else space.starts or 0
        choices = (np.asarray(action, np.int64).reshape(-1) - np.asarray(starts)).tolist()
        return choices[0] if space.kind == "discrete" else choices


def _numbers(values: Array | Sequence[float] | None) -> Numbers | None:
    """Plain numbers; None in place of what JSON has no word for."""
    if values is None:
        return None
    flat = np.asarray(values, np.float64).reshape(-1).tolist()
    return [each if math.isfinite(each) else None for each in flat]
