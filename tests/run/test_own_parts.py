"""What is refused of a user's part before anything starts, and what of it is taken."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fast_core.config import ExtraNodeConfig, NodesConfig, PartConfig, RunConfig
from fast_core.errors import ConfigError, OtherRun, TopologyError
from fast_core.launcher.checkpoints.store import check_identity
from fast_core.launcher.prepare import identity, scheduler_settings
from fast_core.launcher.topology import check_topology
from fast_core.memory import Structure, Trace
from fast_core.messages import Command, Followed, Ready, Save, Saved, Train
from fast_core.monitor.checkpoint_files import Manifest
from fast_core.node import Node, Part, Role, RunPlan
from fast_core.run.needs import private_nbytes
from fast_core.run.parts import roles_of
from fast_core.run.structures import structures
from tests.nodes.stage import make_config, make_run_plan

HERE = __name__


class Follower(Node):
    consumes = frozenset({Train})
    emits = frozenset({Ready, Followed})
    writes = frozenset({"counts"})

    def handle(self, command: Command) -> None: ...


class Reader(Node):
    emits = frozenset({Ready})
    reads = frozenset({"counts"})

    def handle(self, command: Command) -> None: ...


class Keeper(Follower):
    consumes = Follower.consumes | {Save}
    emits = Follower.emits | {Saved}
    writes = frozenset()


class Spare(Reader):
    essential = False
    reads = frozenset()


class Counting(Part):
    """Two nodes, and a structure that one of them writes for the other."""

    def roles(self, config: RunConfig) -> Iterator[Role]:
        yield Role("counter", f"{HERE}:Follower", deaths=self.settings.get("deaths", 0))
        yield Role("reader", f"{HERE}:Reader", settings={"own": 1})

    def structures(self, plan: RunPlan) -> Iterator[Structure]:
        yield Structure("counts", Trace, (self.settings["words"],))


class Said(Part):
    """Brings what its settings say."""

    def roles(self, config: RunConfig) -> Any:
        return [Role(*role) if isinstance(role, tuple) else role for role in self.settings["roles"]]

    def structures(self, plan: RunPlan) -> Any:
        return self.settings.get("rows", ())

    def private_nbytes(self, plan: RunPlan) -> Any:
        return self.settings.get("nbytes", 0)

    def identity(self, config: RunConfig) -> Any:
        return self.settings.get("same", {})

    def check(self, plan: RunPlan) -> None:
        if "refuses" in self.settings:
            raise self.settings["refuses"]


class NoKey(Part):
    def __init__(self) -> None: ...


def config_with(*parts: PartConfig) -> RunConfig:
    return make_config(nodes=NodesConfig(parts=parts))


def said(*roles: object, **settings: object) -> PartConfig:
    return PartConfig(part=f"{HERE}:Said", settings={"roles": roles, **settings})


def counting(**settings: object) -> PartConfig:
    return PartConfig(part=f"{HERE}:Counting", settings={"words": 3, **settings})


def test_part_brings_nodes_memory_and_a_follower_of_tickets(tmp_path: Path) -> None:
    config = config_with(counting(deaths=2))
    check_topology(config)
    plan = make_run_plan(tmp_path, config)
    assert plan.names.extra == ("counter", "reader")
    rows = {row.name: row for row in structures(plan)}
    assert (rows["counts"].shape, rows["counts"].writer) == ((3,), "counter")
    assert "doorbell/reader" in rows
    settings = scheduler_settings(plan, "")
    assert (settings.followers, settings.other_nodes[1:]) == (("counter",), ("counter", "reader"))
    (budget,) = (each for each in settings.restarts if each.kind == "counter")
    assert (budget.nodes, budget.deaths) == (("counter",), 2)
    assert plan.settings_of("counter") == {"words": 3, "deaths": 2}, "those of its part"
    assert plan.settings_of("reader") == {"own": 1}


def test_nodes_are_given_what_a_part_said_not_the_part(tmp_path: Path) -> None:
    plan = make_run_plan(tmp_path, config_with(counting()))
    assert b"Counting" not in pickle.dumps(plan.parts).replace(f"{HERE}:Counting".encode(), b"")
    assert [row.name for row in plan.own] == ["counts"]


def test_run_goes_on_only_with_the_parts_that_it_had() -> None:
    without, one, other = (
        identity(make_config(nodes=NodesConfig(parts=parts)))
        for parts in ((), (counting(),), (counting(words=4),))
    )
    path, before = Path("c"), dict(without)
    del before["nodes.parts"]  # a checkpoint of when there were none
    check_identity(Manifest(1, 0, 0, before, {}), without, path, "x.yaml")
    for saved, wanted in ((one, other), (one, without), (without, one), (before, one)):
        with pytest.raises(OtherRun, match=r"nodes\.parts must be as in the checkpoint"):
            check_identity(Manifest(1, 0, 0, saved, {}), wanted, path, "x.yaml")


def test_key_and_names_are_those_of_the_configuration() -> None:
    named = PartConfig(part=f"{HERE}:Counting", key="mine", settings={"words": 3})
    assert (named.part_key, counting().part_key) == ("mine", "counting")
    assert list(roles_of(config_with(named), 1))[-2:] == ["counter", "reader"]


FOLLOWER, READER = f"{HERE}:Follower", f"{HERE}:Reader"


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (
            [counting(), counting()],
            r"two parts have the key 'counting': nodes\.parts\[0\] and nodes\.parts\[1\]",
        ),
        ([PartConfig(part=FOLLOWER)], r"nodes\.parts\[0\]\.part .* is not a subclass of .*Part"),
        (
            [PartConfig(part="nowhere:It")],
            r"nodes\.parts\[0\]\.part 'nowhere:It' can't be imported",
        ),
        ([said(("a", FOLLOWER), ("a", READER))], "two nodes are named 'a'.*the `name` of its Role"),
        ([said(("env-0", READER))], "the name 'env-0' is FastLoop's own.*the `name` of its Role"),
        ([said(("a/b", READER))], "a node's name names its log file"),
        ([said(("a", f"{HERE}:Said"))], "the class of 'a' .* is not a subclass of .*Node"),
        *(
            ([said(role)], r"\(said\): roles\(\) must yield fast_core.node.Role .* got ")
            for role in (
                "counter",
                Role(5, READER),  # type: ignore[arg-type]
                Role("a", READER, "env"),
                Role("a", READER, rank=1),
                Role("a", READER, place="elsewhere"),
                Role("a", READER, threads="all"),  # type: ignore[arg-type]
                Role("a", READER, deaths=-1),
                Role("a", READER, learner=""),
                Role("a", READER, settings=5),  # type: ignore[arg-type]
            )
        ),
        ([PartConfig(part=f"{HERE}:NoKey")], r"\(nokey\): roles\(\) raised TypeError: "),
        ([PartConfig(part=f"{HERE}:Said")], r"\(said\): roles\(\) raised KeyError: 'roles'"),
        (
            [said(Role("a", f"{HERE}:Keeper", deaths=1))],
            "`deaths` of 'a' is 1, but Keeper consumes",
        ),
        ([said(Role("a", f"{HERE}:Spare", deaths=1))], "but Spare is not `essential`"),
    ],
)
def test_part_that_does_not_fit_is_refused_before_the_environment_is_looked_at(
    parts: list[PartConfig], text: str
) -> None:
    with pytest.raises((TopologyError, ConfigError), match=text):
        check_topology(config_with(*parts))


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (Structure("weights", Trace, (3,)), r"\(said\): structures\(\) yields 'weights', which is"),
        (Structure("a b", Trace, (3,)), "with a name of letters, digits"),
        (Structure("counts", Trace, ("x",)), "which has no size"),
        (Structure("counts", Trace, (3,), "nobody"), "the writer of 'counts' is 'nobody'"),
    ],
)
def test_memory_that_does_not_fit_is_refused_before_anything_is_made(
    tmp_path: Path, row: Structure, text: str
) -> None:
    part = said(("counter", FOLLOWER), ("reader", READER), rows=(row,))
    with pytest.raises(TopologyError, match=text):
        make_run_plan(tmp_path, config_with(part))


def test_structure_of_two_parts_is_refused(tmp_path: Path) -> None:
    other = said(("other", FOLLOWER), rows=(Structure("counts", Trace, (3,)),))
    with pytest.raises(TopologyError, match="two structures are named 'counts', of counter and"):
        make_run_plan(tmp_path, config_with(counting(), other))


def test_part_refuses_a_run_in_its_own_words(tmp_path: Path) -> None:
    part = said(("a", f"{HERE}:Spare"), refuses=ConfigError("it wants another run"))
    with pytest.raises(ConfigError, match="it wants another run"):
        make_run_plan(tmp_path, config_with(part))


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        ({"refuses": OSError("no disk")}, r"check\(\) raised OSError: no disk"),
        ({"nbytes": "12"}, r"private_nbytes\(\) raised TypeError"),
        ({"same": {"a": object()}}, r"identity\(\) raised TypeError"),
        ({"rows": 5}, r"structures\(\) raised TypeError"),
    ],
)
def test_mistake_in_a_part_is_told_as_the_parts(
    tmp_path: Path, mistake: dict[str, object], text: str
) -> None:
    config = config_with(said(("a", READER), **mistake))
    with pytest.raises(TopologyError, match=rf"nodes\.parts\[0\] \(said\): {text}"):
        plan = make_run_plan(tmp_path, config)
        private_nbytes(plan)
        identity(config)


def test_name_of_a_part_and_of_an_extra_node_are_compared() -> None:
    extra = (ExtraNodeConfig(node=READER, name="counter"),)
    config = make_config(nodes=NodesConfig(extra=extra, parts=(counting(),)))
    with pytest.raises(TopologyError, match=r"'counter': nodes\.extra\[0\] and nodes\.parts\[0\]"):
        check_topology(config)
