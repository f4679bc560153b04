"""A node that does not keep the contract is refused, by a sentence for each fault."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fast_core.algorithm import ShardRollout
from fast_core.errors import ContractBroken, TopologyError
from fast_core.messages import Command, Ready, Save, Saved, Transform, Transformed, UserMessage
from fast_core.nodes.rollout_stage import RolloutStage
from fast_core.testing import check_node


class Note(UserMessage, frozen=True):
    """What a node tells itself."""

    text: str


class Sound(RolloutStage):
    """Adds a number that grows."""

    added = 0.0

    def transform(self, rollout: ShardRollout) -> None:
        """Change the rewards."""
        self.added += 1
        rollout.reward[...] += np.float32(self.added)  # type: ignore[misc]

    def state_dict(self) -> dict[str, object]:
        """The number."""
        return {"added": self.added}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from it."""
        self.added = state["added"]


class NeverSleeps(Sound):
    def work(self) -> bool:
        return True


class NeedsSetup(Sound):
    def prepare(self) -> None:
        self.file = Path("/dev/null").open("rb")  # noqa: SIM115

    def close(self) -> None:
        self.file.close()


class ClosesOnce(Sound):
    open = True

    def close(self) -> None:
        if not self.open:
            raise RuntimeError("it is closed")
        self.open = False


class LeavesThread(Sound):
    def prepare(self) -> None:
        threading.Thread(target=threading.Event().wait, args=(2.0,), daemon=True).start()


class Silent(Sound):
    def handle(self, command: Command) -> None:
        if not isinstance(command, Transform):
            super().handle(command)


class Twice(Sound):
    def handle(self, command: Command) -> None:
        super().handle(command)
        if isinstance(command, Transform):
            self.context.channel.send(Transformed(self.context.name, command.rollout))


class Divides(Sound):
    def transform(self, rollout: ShardRollout) -> None:
        with np.errstate(all="ignore"):
            rollout.reward[...] /= 0


class Unsaid(Sound):
    def prepare(self) -> None:
        self.context.channel.send(Note(self.context.name, "here"))


class NamesNoFile(Sound):
    def handle(self, command: Command) -> None:
        if isinstance(command, Save):
            self.context.channel.send(Saved(self.context.name, command.checkpoint, ("x.msgpack",)))
        else:
            super().handle(command)


class Forgets(Sound):
    def state_dict(self) -> dict[str, object]:
        return {"added": 0.0}


class NoAnswer(Sound):
    emits = frozenset({Ready, Saved})


BROKEN = [
    (NeverSleeps, "work must return False where there is nothing to do"),
    (NeedsSetup, "close must work although setup was never called .* 'file'"),
    (ClosesOnce, r"twice; it raised RuntimeError\('it is closed'\) when .* called a second time"),
    (LeavesThread, "close must let go of everything; with each life come threads Thread-"),
    (Silent, "each Transform must be answered with one Transformed; .* answered with nothing"),
    (Twice, "each Transform must be answered with one Transformed"),
    (Divides, "rewards must stay finite"),
    (Unsaid, "it sent Note besides Ready, Saved, Transformed. Add Note to its `emits`"),
    (NamesNoFile, r"names the files it wrote; got .* of which \['x.msgpack'\] are not there"),
    (Forgets, "begins with a checkpoint must go on as the one that wrote it"),
]


def test_sound_one_passes() -> None:
    check_node(Sound)


@pytest.mark.parametrize(("kind", "said"), BROKEN)
def test_broken_one_is_refused_by_a_sentence(kind: Any, said: str) -> None:
    with pytest.raises(ContractBroken, match=rf"^{kind.__name__}: .*{said}"):
        check_node(kind)


def test_node_that_does_not_fit_its_run_is_refused_as_by_a_launch() -> None:
    with pytest.raises(TopologyError, match=r"Transform.*Transformed"):
        check_node(NoAnswer)
