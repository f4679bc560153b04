"""The place of an environment among all of a run: for ports, folders and licences of its own."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from fast_core.config import EnvironmentConfig

_NAMED = re.compile(r"\{(?:(\d+) *\+ *)?(number|shard|index|seed)\}")


@dataclass(frozen=True)
class Place:
    """What tells an environment from every other of its run, whichever process makes it.

    Attributes:
        number: No other environment that there is at the same time has it: those of training
            count from 0, shard by shard, and those of evaluations follow (`RunConfig.numbers`).
        shard: Its shard; 0 outside training.
        index: Which of the shard, or of the evaluation.
        seed: 31 bits from the run's seed and the place.
    """

    number: int = 0
    shard: int = 0
    index: int = 0
    seed: int = 0

    def tell(self) -> None:
        """Set ``FASTLOOP_ENV_NUMBER``, ``_SHARD``, ``_INDEX``, ``_SEED`` for what is made now."""
        for name, value in zip(VARIABLES, vars(self).values(), strict=True):
            os.environ[name] = str(value)

    def fill(self, config: EnvironmentConfig) -> EnvironmentConfig:
        """Write the place into the arguments of environment and wrappers.

        A text that is ``{number}`` or ``{6100 + number}`` becomes that integer; within a longer
        text it becomes its digits. What else stands in braces is left as it is.
        """
        wrappers = tuple(
            replace(each, kwargs=self._filled(each.kwargs)) for each in config.wrappers
        )
        return replace(config, kwargs=self._filled(config.kwargs), wrappers=wrappers)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if not isinstance(value, str):
            return value
        whole = _NAMED.fullmatch(value)
        return self._number(whole) if whole else _NAMED.sub(lambda m: str(self._number(m)), value)

    def _number(self, match: re.Match[str]) -> int:
        own: int = getattr(self, match[2])
        return int(match[1] or 0) + own


ALONE = Place()
VARIABLES = tuple(f"FASTLOOP_ENV_{name.upper()}" for name in vars(ALONE))
