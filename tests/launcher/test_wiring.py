"""The user's nodes: what is wrong with them is said before anything starts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from fast_core.config import DashboardConfig, ExtraNodeConfig, NodesConfig
from fast_core.errors import TopologyError
from fast_core.launcher.topology import check_topology
from fast_core.launcher.wiring import check_messages, extra_nodes, wiring
from fast_core.messages import (
    Collect,
    Command,
    Message,
    Ready,
    RolloutReady,
    Save,
    Saved,
    Train,
    Transform,
    Transformed,
    UserMessage,
)
from fast_core.nodes.node import Node
from fast_core.scheduler.settings import Route
from fast_core.tools.commands import program
from tests.nodes.stage import make_config


class News(UserMessage, frozen=True):
    text: str


class Unsendable(UserMessage, frozen=True):
    shape: list[int] | tuple[int, ...]


class Quiet(Node):
    def handle(self, command: Command) -> None: ...


class Stage(Quiet):
    consumes = frozenset({Transform, Save})
    emits = frozenset({Ready, Transformed, Saved})


class Saver(Quiet):
    consumes = frozenset({Save})
    emits = frozenset({Ready, Saved})


class Speaker(Quiet):
    emits = frozenset({News})


class Listener(Quiet):
    consumes = frozenset({News})


def path(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def configured(*kinds: type | tuple[type, str]) -> tuple[ExtraNodeConfig, ...]:
    pairs = [kind if isinstance(kind, tuple) else (kind, None) for kind in kinds]
    return tuple(ExtraNodeConfig(node=path(kind), name=name) for kind, name in pairs)


def declared(
    monkeypatch: pytest.MonkeyPatch,
    consumes: Iterable[type[Message]] = (),
    emits: Iterable[type[Message]] = (),
) -> tuple[ExtraNodeConfig, ...]:
    monkeypatch.setattr(Quiet, "consumes", frozenset(consumes))
    monkeypatch.setattr(Quiet, "emits", frozenset(emits))
    return configured(Quiet)


def check(extras: tuple[ExtraNodeConfig, ...]) -> None:
    check_messages(extra_nodes(extras))


def test_node_is_called_by_its_class_in_lower_case_or_as_configured() -> None:
    nodes = extra_nodes(configured(Stage, (Stage, "other")))
    assert [node.name for node in nodes] == ["stage", "other"]


def test_wiring_follows_the_declarations() -> None:
    nodes = extra_nodes(configured(Speaker, (Stage, "b"), Listener, (Stage, "a"), (Listener, "l")))
    check_messages(nodes)
    wired = wiring(nodes)
    assert wired.stages == wired.savers == ("b", "a")
    assert wired.routes == (Route(path(News), ("speaker",), ("listener", "l")),)


def test_same_name_twice_is_explained() -> None:
    with pytest.raises(
        TopologyError, match=r"named 'stage': nodes.extra\[0\] and nodes.extra\[1\]"
    ):
        extra_nodes(configured(Stage, Stage))


@pytest.mark.parametrize(
    "name", ["env-0", "optimizer-1", "replay-0", "metrics", "probe", "launcher"]
)
def test_names_of_fastloop_are_taken(name: str) -> None:
    with pytest.raises(TopologyError, match="is FastLoop's own"):
        extra_nodes(configured((Stage, name)))


@pytest.mark.parametrize("name", ["a/b", ".", "", "ä", "x" * 65, "a b"])
def test_names_that_name_no_file_are_refused(name: str) -> None:
    extra = ExtraNodeConfig(node=path(Stage), name=name)
    if not name:  # empty means: the class's name
        assert extra.node_name == "stage"
        return
    with pytest.raises(TopologyError, match="names its log file"):
        extra_nodes((extra,))


@pytest.mark.parametrize(
    ("consumes", "emits", "text"),
    [
        ({Collect}, (), r"nodes.extra\[0\] \(Quiet\) consumes Collect, but nobody sends it that"),
        ({Train}, (), r"consumes Train but does not emit Followed.*add Followed to its `emits`$"),
        ((), {RolloutReady}, r"\(Quiet\) emits RolloutReady, but the scheduler does not"),
        ({Transform}, {Ready}, r"consumes Transform but does not emit Transformed.*RolloutStage"),
        ((), {Transformed}, r"emits Transformed but does not consume Transform"),
        ({Save}, (), r"consumes Save but does not emit Saved"),
        ((), {News}, r"emits News, but no node consumes it.*Add News to the `consumes`"),
        ({News}, (), r"consumes News, but no node emits it.*Add News to the `emits`"),
        ({Unsendable}, {Unsendable}, r"a message of its own can't travel"),
    ],
)
def test_declaration_that_does_not_fit_is_explained(
    monkeypatch: pytest.MonkeyPatch,
    consumes: set[type[Message]],
    emits: set[type[Message]],
    text: str,
) -> None:
    extras = declared(monkeypatch, consumes, emits)
    with pytest.raises(TopologyError, match=text):
        check(extras)


@pytest.mark.parametrize("value", [[Save], (Save,), "Save", frozenset({"Save"}), None])
def test_declaration_that_is_no_set_of_messages_is_refused(
    monkeypatch: pytest.MonkeyPatch, value: object
) -> None:
    monkeypatch.setattr(Quiet, "consumes", value)
    with pytest.raises(TopologyError, match=r"`consumes` must be a frozenset of message classes"):
        extra_nodes(configured(Quiet))


@pytest.mark.parametrize(
    ("node", "text"),
    [
        ("nowhere_at_all:Mine", r"nodes.extra\[0\].node 'nowhere_at_all:Mine' can't be imported"),
        ("fast_core.nowhere:EnvNode", r"no module 'fast_core.nowhere'.*PYTHONPATH"),
        ("fast_core.nodes.collect.regroup", "must look like 'package.module:Class'"),
        (f"{__name__}:Stagge", "Did you mean 'Stage'"),
        (f"{__name__}:News", "is not a subclass of fast_core.nodes.node.Node"),
        ("fast_core.nodes.rollout_stage:RolloutStage", "lacks transform"),
    ],
)
def test_what_is_no_node_is_explained(node: str, text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        extra_nodes((ExtraNodeConfig(node=node),))


def test_topology_of_a_run_includes_the_users_nodes() -> None:
    config = make_config()
    check_topology(replace(config, nodes=replace(config.nodes, extra=configured(Stage))))
    with pytest.raises(TopologyError, match="no node consumes it"):
        check_topology(replace(config, nodes=replace(config.nodes, extra=configured(Speaker))))


def test_validation_of_a_configuration_checks_the_nodes_too(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "name: x\nenvironment: {id: CartPole-v1}\nalgorithm: {name: ppo}\nstop: {updates: 1}\n"
        f"nodes: {{extra: [{{node: '{path(Speaker)}'}}]}}\n"
    )
    with pytest.raises(TopologyError, match="emits News, but no node consumes it"):
        program(["config", "validate", str(file)])


@pytest.mark.parametrize(("kind", "command"), [(Stage, "Transform"), (Saver, "Save")])
def test_optional_node_can_have_no_part_in_training(
    monkeypatch: pytest.MonkeyPatch, kind: type[Node], command: str
) -> None:
    monkeypatch.setattr(Quiet, "essential", False)
    assert wiring(extra_nodes(configured(Quiet))).optional == ("quiet",)
    with pytest.raises(TopologyError, match=f"not `essential` but consumes {command}"):
        extra_nodes(configured(kind))


def test_essential_is_true_or_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quiet, "essential", "no")
    with pytest.raises(TopologyError, match="`essential` must be True or False; got 'no'"):
        extra_nodes(configured(Quiet))


def test_name_of_the_page_is_taken_where_it_is_served() -> None:
    config = replace(make_config(), nodes=NodesConfig(extra=configured((Quiet, "dashboard"))))
    check_topology(config)
    served = replace(config, dashboard=DashboardConfig(enabled=True))
    with pytest.raises(
        TopologyError, match=r"nodes.extra\[0\]: the name 'dashboard' is that of the"
    ):
        check_topology(served)
