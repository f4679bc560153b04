"""Values of the configuration that callbacks change while the run goes on.

A change holds from a ticket on. It is made while nothing is open: admission is held, every ticket
that was begun is settled, then every node that is concerned gets the new values and says so, and
the next ticket begins. So what was collected and trained on before knew nothing of it, whatever
the degree, the number of nodes and their timing, and a checkpoint is either before it or after.

A resumed run goes on with what had been changed, except where its configuration gives a key
another value than the run had before: then that is what counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from fast_core.messages import Change, Changed, Value
from fast_core.scheduler.settings import SchedulerSettings
from fast_core.scheduler.state import SavedState, kept


class Changing(msgspec.Struct, frozen=True):
    """A value that is not the configuration's.

    Attributes:
        value: It.
        configured: What the configuration said when it was changed.
    """

    value: Value
    configured: Value


class ChangeState(msgspec.Struct, kw_only=True):
    """What changes keep: values that are not the configuration's, by key."""

    changed: dict[str, Changing] = {}


class Wanted(NamedTuple):
    """A change that is not made yet.

    Attributes:
        value: The new value.
        why: Who asked for it.
    """

    value: Value
    why: str


class Changes:
    """What has been changed, and what is being.

    Attributes:
        wanted: What is to be changed at the next moment of rest, by key.
        dropped: Keys that had been changed, and of which the configuration now says otherwise.
    """

    def __init__(self, settings: SchedulerSettings, saved: SavedState | None):
        """Go on with what ``saved`` has, which nodes must begin with (`values`)."""
        self._configured = settings.changeable
        before = kept(ChangeState, saved).changed
        self._changed = {key: was for key, was in before.items() if self._goes_on(key, was)}
        self.dropped = [key for key in before if key not in self._changed]
        self.wanted: dict[str, Wanted] = {}
        self._number = 0
        self._missing: set[str] = set()

    def _goes_on(self, key: str, was: Changing) -> bool:
        return key in self._configured and was.configured == self._configured[key]

    def state(self) -> ChangeState:
        """What a checkpoint keeps."""
        return ChangeState(changed=self._changed)

    @property
    def values(self) -> dict[str, Value]:
        """Everything that is not as the configuration says, by key."""
        return {key: changing.value for key, changing in self._changed.items()}

    @property
    def holds(self) -> bool:
        """Whether no ticket may begin, because values are about to change."""
        return bool(self.wanted or self._missing)

    @property
    def due(self) -> bool:
        """Whether nodes are to be told as soon as nothing is open."""
        return bool(self.wanted) and not self._missing

    @property
    def missing(self) -> tuple[str, ...]:
        """Nodes that have not said that they go on with the new values."""
        return tuple(sorted(self._missing))

    def ask(self, key: str, value: Value, why: str) -> None:
        """Want another value from the next ticket on."""
        assert key in self._configured
        if value != self.current(key):
            self.wanted[key] = Wanted(value, why)
        else:
            self.wanted.pop(key, None)

    def current(self, key: str) -> Value:
        """The value that holds now."""
        changing = self._changed.get(key)
        return self._configured[key] if changing is None else changing.value

    def start(self, nodes: Iterable[str]) -> Change:
        """Change what is wanted; the command is for each of ``nodes``."""
        for key, wanted in self.wanted.items():
            self._changed[key] = Changing(wanted.value, self._configured[key])
        self.wanted = {}
        self._number += 1
        self._missing = set(nodes)
        return Change(self._number, self.values)

    def changed(self, event: Changed) -> bool:
        """Take a node's word that it goes on with the new values; whether that was to come."""
        if event.number != self._number or event.node not in self._missing:
            return False
        self._missing.discard(event.node)
        return True

    def bury(self, node: str) -> None:
        """Wait no more for a node that died; when it is back it begins with the values."""
        self._missing.discard(node)
