"""The handle that a callback's method gets: it notes what is asked for."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

from fast_core.config import RunConfig
from fast_core.config.changes import changeable, checked
from fast_core.errors import ConfigError
from fast_core.messages import Value
from fast_core.messages.launching import Asked


class Live:
    """Implements `fast_core.callbacks.LiveRun` for one call.

    Attributes:
        config: See `LiveRun`.
        directory: See `LiveRun`.
    """

    def __init__(
        self,
        by: str,
        config: RunConfig,
        directory: Path,
        changed: Mapping[str, Value],
        *,
        over: bool,
    ) -> None:
        """``by`` is the method that is called; ``over`` says that the run is.

        ``changed`` are the values that are not the configuration's.
        """
        self.config, self.directory = config, directory
        self._by = by
        self._refusal = "the run is over, so nothing of it can be changed" if over else ""
        self._stop: str | None = None
        self._save = False
        self._changed, self._changes = changed, dict[str, Value]()

    @property
    def values(self) -> Mapping[str, Value]:
        """See `LiveRun.values`."""
        # a copy, because what is changed in place would look as if it had been so before
        return copy.deepcopy({**changeable(self.config), **self._changed, **self._changes})

    def change(self, key: str, value: object) -> None:
        """See `LiveRun.change`."""
        self._check()
        self._changes[key] = checked(self.config, key, value)

    def stop(self, reason: str) -> None:
        """See `LiveRun.stop`."""
        self._check()
        self._stop = " ".join(str(reason).split()) or "no reason given"

    def save(self) -> None:
        """See `LiveRun.save`."""
        self._check()
        checkpoint = self.config.checkpoint
        if checkpoint.every_updates is None and not checkpoint.at_end:
            raise ConfigError(
                "run.save() needs a run that keeps checkpoints; checkpoint.every_updates is null "
                "and checkpoint.at_end false. Set one of them"
            )
        self._save = True

    def _check(self) -> None:
        if self._refusal:
            raise RuntimeError(self._refusal)

    def take(self) -> Asked | None:
        """What was asked for, None if nothing was; nothing more can be."""
        self._refusal = f"{self._by} has returned; ask for changes while it is called"
        asked = Asked(self._by, self._stop, self._save, self._changes)
        return None if asked == Asked(self._by) else asked
