"""What the throughput benchmarks share: one configuration of FastLoop against SB3.

Start-up is excluded for both: the rate is that of the rounds between two counts of env steps, the
same for both, because episodes grow while a policy learns and resets cost. FastLoop runs as
`fastloop launch` does, in processes; its times are those of the first and last row of
``metrics.jsonl`` in between. SB3 runs in a process of its own, on 1 and on 2 torch threads, and
its better median counts.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peer_sb3
from benchmarks.launched import Launched, launched
from benchmarks.measure import installed, medians, print_result

METRICS_INTERVAL_S = 0.05
TIMEOUT_S = 300.0
THREADS = ("1", "2")
_COUNTERS = ("env_steps", "time_s")
Figures = dict[str, float]


@dataclass(frozen=True)
class Race:
    """One task for both.

    Attributes:
        name: Of the benchmark.
        config: FastLoop's configuration.
        task: SB3's, a key of `peer_sb3.TASKS`.
        target: FastLoop's rate by SB3's that it is meant to reach.
        rows: Env steps of a round.
        first_round: Rounds that don't count.
        last_round: Where the measured rounds end.
        quick_last_round: The same with ``--quick``.
        rounds: Repetitions, of which every other one has SB3 run too.
        peer_limit_s: Time after which one run of SB3 counts as it stands.
    """

    name: str
    config: Path
    task: str
    target: float
    rows: int = 1024
    first_round: int = 10
    last_round: int = 100
    quick_last_round: int = 30
    rounds: int = 5
    peer_limit_s: float = 30.0

    def limits(self, last_round: int) -> tuple[str, str]:
        """Overrides that end a run after a round and write down when each was."""
        steps = last_round * self.rows
        return f"metrics.interval_s={METRICS_INTERVAL_S}", f"stop.env_steps={steps}"

    def fastloop_rate(self, last_round: int, *overrides: str) -> float:
        """Env steps per second between the first round that counts and the last."""
        with launched(self.config, (*self.limits(last_round), *overrides)) as run:
            run.wait(TIMEOUT_S)
            return self.rate(run)

    def rate(self, run: Launched) -> float:
        """Env steps per second of a run that is over."""
        rows = self.settled(run)
        steps, seconds = (number(rows[-1], key) - number(rows[0], key) for key in _COUNTERS)
        return steps / seconds

    def settled(self, run: Launched) -> list[dict[str, object]]:
        """Rows of metrics from the first round that counts on."""
        rows = run.lines("metrics.jsonl")
        return [row for row in rows if number(row, "env_steps") >= self.first_round * self.rows]

    def sb3_rates(self, last_round: int, limit_s: float) -> Figures:
        """Env steps per second of Stable-Baselines3 by number of torch threads."""
        counts = ("--first", str(self.first_round * self.rows))
        counts += ("--last", str(last_round * self.rows), "--limit-s", str(limit_s))
        figures, _ = peer_sb3.run("throughput", "--task", self.task, *counts, "--threads", *THREADS)
        return {f"sb3_{threads}_threads_env_steps_per_s": rate for threads, rate in figures.items()}

    def measure(self, variants: dict[str, tuple[str, ...]], *, quick: bool, peer: bool) -> Figures:
        """Medians of all rates, FastLoop's by name of its variant's overrides."""
        rounds = 2 if quick else self.rounds
        last_round = self.quick_last_round if quick else self.last_round
        limit_s = self.peer_limit_s / (4 if quick else 1)
        found: list[Figures] = []
        for turn in range(rounds):
            sb3 = self.sb3_rates(last_round, limit_s) if peer and turn % 2 else {}
            figures = {
                f"{variant}_env_steps_per_s": self.fastloop_rate(last_round, *overrides)
                for variant, overrides in variants.items()
            }
            if peer and turn % 2 == 0:
                sb3 = self.sb3_rates(last_round, limit_s)
            report(f"round {turn + 1} of {rounds}", figures | sb3)
            found.append(figures | sb3)
        return medians(found)

    def skipped(self) -> tuple[str, ...]:
        """The peer's name if it is not installed."""
        there = installed(peer_sb3.DISTRIBUTION) is not None
        return () if there else (f"{peer_sb3.DISTRIBUTION} is not installed",)


def best_peer(found: Figures) -> float | None:
    """SB3's better rate, or None."""
    return max((rate for name, rate in found.items() if name.startswith("sb3")), default=None)


def number(row: dict[str, object], key: str) -> float:
    """One value of a row of metrics."""
    return float(str(row[key]))


def report(title: str, figures: Figures) -> None:
    """Print a line of progress."""
    print(f"{title}: " + ", ".join(f"{k} {v:,.4g}" for k, v in figures.items()), flush=True)


def quick_asked(description: str) -> bool:
    """Read the command line that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    return bool(parser.parse_args().quick)


def run(race: Race, variants: dict[str, tuple[str, ...]], *, quick: bool, **more: float) -> None:
    """Measure and print the last line; the first variant is the one that the ratio is of.

    ``more`` figures are printed with those that were measured.
    """
    skipped = race.skipped()
    found = race.measure(variants, quick=quick, peer=not skipped)
    best = best_peer(found)
    ours = {name: found[f"{name}_env_steps_per_s"] for name in variants}
    if best is not None:
        found |= {f"{name}_ratio": rate / best for name, rate in ours.items()}
    ratio = None if best is None else ours[next(iter(variants))] / best
    print_result(race.name, ratio, race.target, skipped=skipped, **found, **more)
