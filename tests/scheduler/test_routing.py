"""A user's messages reach the nodes that declare them, and nothing else passes."""

from __future__ import annotations

import pytest

from fast_core.messages import Envelope, Ready
from fast_core.scheduler import Scheduler, routing
from fast_core.scheduler.settings import Route
from tests.scheduler.simulation import World, make_settings

NEWS = Envelope("mine:News", "speaker", b"x")
ROUTES = (Route("mine:News", ("speaker",), ("first", "second")),)


def settings(**changes: object) -> object:
    return make_settings(routes=ROUTES, other_nodes=("speaker", "first", "second"), **changes)


def test_message_reaches_every_node_that_declares_it() -> None:
    world = World(settings()).make_ready()  # type: ignore[arg-type]
    assert world.scheduler.handle(NEWS, 0.0) == [("first", NEWS), ("second", NEWS)]


def test_message_to_a_node_that_comes_back_is_not_sent_before() -> None:
    world = World(settings(restarts={"policy": 1})).make_ready()  # type: ignore[arg-type]
    world.kill("first")
    assert world.scheduler.handle(NEWS, 0.0) == [("second", NEWS)]
    world.do("first")
    assert world.scheduler.handle(NEWS, 0.0) == [("first", NEWS), ("second", NEWS)]


@pytest.mark.parametrize(
    ("envelope", "text"),
    [
        (Envelope("mine:Other", "speaker", b""), r"'mine:Other', which no node .* declares"),
        (Envelope("mine:News", "first", b""), r"first sent .* does not name it in `emits`"),
    ],
)
def test_undeclared_message_ends_the_run_with_the_remedy(envelope: Envelope, text: str) -> None:
    world = World(settings()).make_ready()  # type: ignore[arg-type]
    world.deliver(envelope)
    assert world.ended is not None
    with pytest.raises(AssertionError, match=text):
        raise AssertionError(world.ended.text)


def test_message_sent_in_setup_waits_until_every_node_is_ready() -> None:
    made = settings()
    scheduler = Scheduler(made)  # type: ignore[arg-type]
    nodes = made.nodes  # type: ignore[attr-defined]
    for node in nodes[:-1]:
        scheduler.handle(Ready(node, 1), 0.0)
    assert scheduler.handle(NEWS, 0.0) == []
    sends = scheduler.handle(Ready(nodes[-1], 1), 0.0)
    assert [send for send in sends if send.command is NEWS] == [("first", NEWS), ("second", NEWS)]


def test_waiting_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "HELD_LIMIT", 2)
    scheduler = Scheduler(settings())  # type: ignore[arg-type]
    for _ in range(2):
        assert scheduler.handle(NEWS, 0.0) == []
    sends = scheduler.handle(NEWS, 0.0)
    assert "before every node was ready" in sends[-1].command.text  # type: ignore[union-attr]
