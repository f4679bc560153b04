"""How far all nodes had got with writing when a run was killed: no further can it be done again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fast_core.config import RunConfig
from fast_core.messages import Trained
from fast_core.run.names import REPLAY
from fast_core.run.parts import names_of
from fast_core.run.schedule import (
    BEGUN,
    GradientBase,
    GradientStep,
    Schedule,
    View,
    batches_in,
    of_node,
    read_share,
)


def as_far_as_written(schedule: Schedule, part: Path, config: RunConfig) -> Schedule:
    """Without the tickets of which a replay node, or an optimizer, could not write down all.

    Raises:
        CheckpointError: What it wrote can't be read.
    """
    if not names_of(config).replay:
        return schedule
    left = _steps(part, config)
    for index, entry in enumerate(schedule.entries):
        if isinstance(entry.event, Trained):
            left -= entry.event.updates + entry.event.skipped
            if left < 0:
                return Schedule(schedule.header, schedule.entries[:index])
    return schedule


def _steps(part: Path, config: RunConfig) -> int:
    views, optimizer = read_share(of_node(part, REPLAY), View), config.nodes.optimizer
    first, *others = names_of(config).optimizers
    if not others or optimizer.update == "allreduce":
        return batches_in(views)
    begun = [len(read_share(of_node(part, name), GradientBase)) for name in others]
    return steps_known(read_share(of_node(part, first), GradientStep), begun, views)


def steps_known(steps: Sequence[GradientStep], begun: Sequence[int], views: Sequence[View]) -> int:
    """Gradients of which it is known when they were applied, computed, and their batches drawn.

    Args:
        steps: What the owner did.
        begun: Batches of each worker.
        views: Of the draws.
    """
    drawn, taken, known = batches_of(views), Counter[int](), 0
    for step in steps:
        if step.rank == BEGUN:
            continue
        taken[step.rank] += 1
        began = taken[step.rank] if step.rank == 0 else begun[step.rank - 1]
        if taken[step.rank] > min(began, drawn[step.rank]):
            break
        known += 1
    return known


def batches_of(views: Sequence[View]) -> Counter[int]:
    """Batches by group of optimizers."""
    drawn, end = Counter[int](), batches_in(views)
    group, first = 0, 0
    for view in views:
        drawn[group] += view.first - first
        group, first = view.group, view.first
    drawn[group] += end - first
    return drawn
