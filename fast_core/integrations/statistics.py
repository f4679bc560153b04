"""How a host's run stands, as figures, as a table and as a line."""

from __future__ import annotations

from dataclasses import dataclass

from fast_core.scheduler.statistics import Way


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """A reading of the coordinator.

    Attributes:
        mode: ``sync`` at degree 0, ``async`` above it, ``auto`` where the run chooses.
        degree: Rounds that may be collected ahead of training.
        rounds_admitted: Rounds of which a collection has begun.
        rounds_collected: Rounds that all collections come to.
        rounds_merged: Rounds that train or have trained.
        rounds_trained: Rounds that have.
        env_steps_collected: Environment steps of all collections.
        env_steps_trained: Those of rounds that have trained.
        updates: Calls of `train`.
        lag_now: Mean age of the weights that acted in the last round, in updates.
        lag_mean: Mean of that over all rounds.
        lag_max: Largest age of any.
        collecting_s: Seconds that collectors had work, as their mean.
        collecting_waits_s: Seconds that they had none.
        training_s: Seconds that a round was there to train on.
        training_waits_s: Seconds that none was.
        evaluations_run: Evaluations that have a result.
        evaluations_coalesced: Those that a newer one replaced before they began.
        ess: Effective sample size of the last round of which `train` told anything, as a share of
            its rows; None where that does not tell it.
        clip_fraction: Share of its ratios that were clipped; likewise.
        rows_dropped: Environment steps that were collected and given up: none ever is, since what
            waits too long holds up its collector instead.
    """

    mode: Way
    degree: int
    rounds_admitted: int
    rounds_collected: int
    rounds_merged: int
    rounds_trained: int
    env_steps_collected: int
    env_steps_trained: int
    updates: int
    lag_now: float
    lag_mean: float
    lag_max: int
    collecting_s: float
    collecting_waits_s: float
    training_s: float
    training_waits_s: float
    evaluations_run: int
    evaluations_coalesced: int
    ess: float | None
    clip_fraction: float | None
    rows_dropped: int = 0

    def table(self) -> str:
        """All of it for people, a line for each subject."""
        rounds = f"{self.rounds_admitted} admitted, {self.rounds_collected} collected, "
        rows = {
            "mode": f"{self.mode}, degree {self.degree}",
            "rounds": f"{rounds}{self.rounds_merged} merged, {self.rounds_trained} trained",
            "environment steps": f"{self.env_steps_collected} collected, "
            f"{self.env_steps_trained} trained, {self.rows_dropped} dropped",
            "updates": str(self.updates),
            "policy lag, updates": f"{self.lag_now:.2f} now, {self.lag_mean:.2f} mean, "
            f"{self.lag_max} at most",
            "collecting": _sides(self.collecting_s, self.collecting_waits_s),
            "training": _sides(self.training_s, self.training_waits_s),
            "evaluations": f"{self.evaluations_run} run, {self.evaluations_coalesced} coalesced",
            "effective sample size": _share(self.ess),
            "clip fraction": _share(self.clip_fraction),
        }
        width = max(map(len, rows))
        return "\n".join(f"{name:{width}}  {figures}" for name, figures in rows.items())

    def line(self) -> str:
        """What a round of training has changed, in one line."""
        return (
            f"degree {self.degree}, admitted {self.rounds_admitted}, merged {self.rounds_merged}, "
            f"trained {self.rounds_trained}, lag {self.lag_now:.2f} (most {self.lag_max}), "
            f"collecting {_sides(self.collecting_s, self.collecting_waits_s)}, "
            f"training {_sides(self.training_s, self.training_waits_s)}"
        )


def _sides(worked_s: float, waited_s: float) -> str:
    return f"{worked_s:.2f} s, waiting {waited_s:.2f} s"


def _share(value: float | None) -> str:
    return "not told" if value is None else f"{value:.3f}"
