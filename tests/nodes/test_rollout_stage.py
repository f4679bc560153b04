"""A node that takes rollouts before they are trained on, driven by hand."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from fast_core.algorithm import ShardRollout
from fast_core.config import ExtraNodeConfig, NodesConfig
from fast_core.errors import CheckpointError, FastLoopError, TransportError
from fast_core.messages import Command, Envelope, UserMessage
from fast_core.messages.wire import decode_command, encode
from fast_core.nodes.rollout_stage import RolloutStage
from tests.nodes.stage import Stage, drain, make_config


class Shift(UserMessage, frozen=True):
    by: float


class Deaf(RolloutStage):
    """Declares a message and forgets to handle it."""

    consumes = RolloutStage.consumes | {Shift}

    def transform(self, rollout: ShardRollout) -> None: ...


class Adder(RolloutStage):
    """Adds a number that grows with every rollout."""

    consumes = RolloutStage.consumes | {Shift}

    def prepare(self) -> None:
        self.added = float(str(self.context.settings["first"]))

    def transform(self, rollout: ShardRollout) -> None:
        rollout.reward[...] += np.float32(self.added)  # type: ignore[misc]
        self.added += 1

    def handle(self, command: Command) -> None:
        if isinstance(command, Shift):
            self.added += command.by
        else:
            super().handle(command)

    def state_dict(self) -> dict[str, object]:
        return {"added": self.added}

    def load_state_dict(self, state: dict[str, object]) -> None:
        self.added = float(str(state["added"]))


def make_stage(folder: Path, checkpoint: Path | None = None) -> Stage:
    extra = ExtraNodeConfig(node=f"{__name__}:Adder", settings={"first": 2.0})
    return Stage(folder, make_config(nodes=NodesConfig(extra=(extra,))), checkpoint=checkpoint)


def make_node(stage: Stage) -> Adder:
    return stage.start(Adder, "adder")


def test_checkpoint_of_a_run_without_the_node_is_refused(tmp_path: Path) -> None:
    stage = make_stage(tmp_path, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match=r"no part of node 'adder'.*nodes.extra"):
        make_node(stage)


def test_declared_message_is_opened_for_the_node(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    node = make_node(stage)
    envelope = decode_command(encode(Shift("other", 5.0)))
    stage.hub.send("adder", envelope)
    drain(node)
    assert node.added == 7.0
    assert isinstance(envelope, Envelope)
    stage.hub.send("adder", msgspec.structs.replace(envelope, kind="other:Kind"))
    with pytest.raises(TransportError, match="does not consume"):
        drain(node)


def test_message_that_a_stage_forgets_to_handle_is_an_error(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    node = Deaf(stage.context("adder"))
    stage.hub.send("adder", decode_command(encode(Shift("other", 5.0))))
    with pytest.raises(FastLoopError, match=r"Deaf consumes Shift, but its handle\(\) leaves it"):
        drain(node)
