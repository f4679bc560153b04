"""Every structure of shared memory has its one writer and a reader, before anything starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fast_core.config import DashboardConfig, ExtraNodeConfig, NodesConfig
from fast_core.errors import SegmentError, TopologyError
from fast_core.launcher.topology import check_topology
from fast_core.memory import Ring, Structure, Trace, WeightBoard
from fast_core.messages import Command
from fast_core.nodes.act.evaluator import EvaluatorNode
from fast_core.nodes.collect.env import EnvNode
from fast_core.nodes.node import Node
from fast_core.run.plan import RunPlan
from fast_core.run.structures import structures
from fast_core.run.watching import watching_words
from tests.nodes.stage import Stage, make_config, make_run_plan


class Quiet(Node):
    def handle(self, command: Command) -> None: ...


class Writer(Quiet):
    writes = frozenset({"news"})
    row = Structure("news", Ring, (4, 8))

    @classmethod
    def structures(cls, plan: RunPlan, name: str) -> Iterator[Structure]:
        yield cls.row


class Reader(Quiet):
    reads = frozenset({"news"})


class Watcher(Writer):
    writes = frozenset({"watching"})
    row = Structure("watching", Trace, (watching_words(0),))


def made(folder: Path, *kinds: type[Node]) -> RunPlan:
    """The plan of a run with these nodes, named n0, n1 and so on; each class is found by name."""
    extras = []
    for index, kind in enumerate(kinds):
        kind.__module__ = __name__
        globals()[kind.__qualname__] = kind
        extras.append(ExtraNodeConfig(node=f"{__name__}:{kind.__qualname__}", name=f"n{index}"))
    config = make_config(nodes=NodesConfig(extra=tuple(extras)))
    check_topology(config)
    return make_run_plan(folder, config)


def variant(base: type[Node], name: str, **changes: object) -> type[Node]:
    return type(name, (base,), changes)


def test_structure_of_a_users_node_is_part_of_the_run(tmp_path: Path) -> None:
    plan = made(tmp_path, Writer, Reader)
    (row,) = [row for row in structures(plan) if row.family == "news"]
    assert (row.writer, row.kind, row.shape) == ("n0", Ring, (4, 8))


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        (
            (Writer, variant(Reader, "Misspelt", reads=frozenset({"new"}))),
            r"nodes\.extra\[1\] \(Misspelt\) reads 'new', but no node writes it\. Did you mean "
            r"'news'\?.*`writes`.*structures\(\)",
        ),
        ((Reader,), r"\(Reader\) reads 'news', but no node writes it"),
        ((Writer,), r"nodes\.extra\[0\] \(Writer\) writes 'news', but no node reads it.*`reads`"),
        (
            (variant(Writer, "Silent", writes=frozenset()), Writer, Reader),
            r"n0 \(Silent\) is the writer of 'news', but does not say so\. Add 'news' to the",
        ),
        (
            (Writer, Writer, Reader),
            "two structures are named 'news', of n0 and n1",
        ),
        (
            (Writer, variant(Quiet, "Second", writes=frozenset({"news"})), Reader),
            r"n1 \(Second\) writes 'news', but n0 \(Writer\) does.*one writer.*Take 'news' out",
        ),
        (
            (variant(Quiet, "Seizing", writes=frozenset({"weights"})),),
            r"n0 \(Seizing\) writes 'weights', but optimizer-0 \(OptimizerNode\) does",
        ),
        (
            (Writer, Reader, variant(Reader, "Other")),
            "n1 and n2 read 'news', but a Ring has one reader",
        ),
        (
            (variant(Quiet, "Empty", writes=frozenset({"news"})), Reader),
            r"n0 \(Empty\) writes 'news', but there is no such structure.*structures\(\)",
        ),
        (
            (variant(Writer, "Theirs", row=Structure("news", Ring, (4, 8), "env-9")), Reader),
            "the writer of 'news' is 'env-9', and there is no such node; nodes: env-0",
        ),
        (
            (variant(Writer, "Sizeless", row=Structure("news", Ring, (0, 8))), Reader),
            r"\(Sizeless\): structures\(\) yields 'news' as .*Ring.* of the shape \(0, 8\)",
        ),
        (
            (variant(Writer, "Shapeless", row=Structure("news", Ring)), Reader),
            r"structures\(\) yields 'news' .* which has no size: .*argument",
        ),
        (
            (variant(Writer, "Shadowing", row=Structure("weights", Ring, (4, 8))), Reader),
            r"\(Shadowing\): structures\(\) yields 'weights', which is FastLoop's own",
        ),
        ((variant(Writer, "Odd", row=("news", Ring)), Reader), "must yield .*Structure"),
        (
            (variant(Watcher, "Narrow", row=Structure("watching", Trace, (1,))),),
            r"\(Narrow\): structures\(\) yields 'watching' as a Trace of the shape \(1,\)\. Yield "
            r"watching\(plan\)",
        ),
        (
            (variant(Watcher, "Painter", writes=frozenset({"watching", "weights"})),),
            r"n0 \(Painter\) writes 'weights', but optimizer-0",
        ),
        (
            (variant(Writer, "Wrong", structures=lambda plan, name: 1 / 0), Reader),
            r"\(Wrong\): structures\(\) raised ZeroDivisionError",
        ),
        ((variant(Reader, "Text", reads="news"),), "`reads` must be a frozenset of names"),
    ],
    ids=lambda value: value[-1].__name__ if isinstance(value, tuple) else "",
)
def test_memory_that_does_not_fit_together_is_explained(
    tmp_path: Path, kinds: tuple[type[Node], ...], text: str
) -> None:
    with pytest.raises(TopologyError, match=text):
        made(tmp_path, *kinds)


def test_two_of_a_class_name_their_structures_after_themselves(tmp_path: Path) -> None:
    def own(cls: type[Node], plan: RunPlan, name: str) -> Iterator[Structure]:
        yield Structure(f"news/{name}", WeightBoard, (8,))

    twin = variant(Writer, "Twin", structures=classmethod(own))
    plan = made(tmp_path, twin, twin, Reader)
    writers = {row.name: row.writer for row in structures(plan) if row.family == "news"}
    assert writers == {"news/n0": "n0", "news/n1": "n1"}


def test_viewer_of_the_users_own_stands_beside_the_page(tmp_path: Path) -> None:
    dashboard = DashboardConfig(enabled=True, tiles=1, evaluation=False)
    nodes = NodesConfig(extra=(ExtraNodeConfig(node="tests.process.viewing:Viewer"),))
    plan = make_run_plan(tmp_path, make_config(dashboard=dashboard, nodes=nodes))
    rows = {row.name: row.writer for row in plan.own if row.family == "watching"}
    assert rows == {"watching": "viewer", "watching/dashboard": "dashboard"}


@pytest.mark.parametrize(
    ("kind", "attribute", "family", "text"),
    [
        (EnvNode, "writes", "rollouts", r"env-0 \(EnvNode\) is the writer of 'rollouts/0', but"),
        (EvaluatorNode, "reads", "evaluation", "nobody reads 'evaluation', which optimizer-0"),
    ],
)
def test_own_node_that_does_not_declare_what_it_does_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Node],
    attribute: str,
    family: str,
    text: str,
) -> None:
    monkeypatch.setattr(kind, attribute, getattr(kind, attribute) - {family})
    with pytest.raises(TopologyError, match=text):
        make_run_plan(tmp_path)


def test_node_is_not_given_what_it_does_not_declare(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    node = Quiet(stage.context("metrics-0"))
    node.context.memory.doorbell("env-0").ring()
    with pytest.raises(SegmentError, match=r"Quiet attaches to 'rollouts/0'.*`reads` of Quiet"):
        node.context.memory.rollouts(0)
