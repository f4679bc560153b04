"""A curriculum: MountainCar's flag is near at first, and moves up the hill as the car reaches it.

`fastloop launch examples/curriculum.yaml`
"""

from __future__ import annotations

from fast_core.callbacks import Evaluation, LiveRun, Start

GOAL = "environment.attributes.goal_position"


class MovingGoal:
    """Moves the goal on to where the configuration has it, and ends the run when that is reached.

    It needs no memory of its own: where the goal is stands in `LiveRun.values`, and so in
    checkpoints.

    Args:
        first: Where the goal is at first.
        step: How far it moves at once.
        score: Mean return of an evaluation that is good enough to move it.
    """

    def __init__(self, first: float, step: float, score: float) -> None:
        self.first, self.step, self.score = first, step, score

    def on_start(self, start: Start, run: LiveRun) -> None:
        """Begin with what is easy; a resumed run goes on where it was."""
        if start.resumed_from is None:
            run.change(GOAL, self.first)

    def on_evaluation(self, evaluation: Evaluation, run: LiveRun) -> None:
        """Go on to what is harder, if this was good enough."""
        if evaluation.mean is None or evaluation.mean < self.score:
            return
        goal, last = run.values[GOAL], run.config.environment.attributes["goal_position"]
        if goal < last:
            run.change(GOAL, min(round(goal + self.step, 3), last))
        else:
            run.stop(f"mean return {evaluation.mean:.1f} with the goal at {goal}")
