"""How far a run that was killed can be done again."""

from __future__ import annotations

from fast_core.launcher.rerunning.written import batches_of, steps_known
from fast_core.run.schedule import BEGUN, END, GradientStep, View

VIEWS = [View(0, (4,)), View(2, (), 1), View(3, (1,), 0)]  # two for 0, one for 1, one for 0
STEPS = [GradientStep(BEGUN, 0), *(GradientStep(rank, 1) for rank in (0, 1, 0, 1))]


def test_batches_of_each_group_are_counted_as_far_as_they_are_known() -> None:
    assert batches_of(VIEWS) == {0: 3, 1: 1}
    assert batches_of([*VIEWS, View(7, (), END)])[0] == 2 + 4
    assert batches_of([]) == {0: 0}


def test_step_is_known_only_with_its_gradient_and_its_batch() -> None:
    drawn = [View(0, (4,)), View(5, (), 1), View(9, (), END)]
    assert steps_known(STEPS, [2], drawn) == 4
    assert steps_known(STEPS, [1], drawn) == 3
    assert steps_known(STEPS, [0], drawn) == 1
    assert steps_known(STEPS, [2], VIEWS) == 3  # the second batch of 1 is not drawn yet
