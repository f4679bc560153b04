"""What `fastloop bench parallel` does: one worker against several, on this machine."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from fast_core.config import (
    CheckpointConfig,
    DashboardConfig,
    EvaluationConfig,
    MetricsConfig,
    RunConfig,
    StopConfig,
    yaml_text,
)
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.errors import ConfigError, FastLoopError
from fast_core.monitor.figures import aligned
from fast_core.monitor.metrics_file import read_rows
from fast_core.run.parts import names_of
from fast_core.system import resources, usage
from fast_core.tools.demo import environment_of, first_there
from fast_core.tools.sweep.child import Child
from fast_core.tools.unwinding import unwinding

FOR_EVER_S = 1e9
POLL_S, START_S, GRACE_S = 0.05, 300.0, 30.0
WARM_SHARE = 0.25  # of the time that is measured, before it
LEAST_ROUNDS = 4  # of collecting, that what is measured spans
STEPS = 128


@dataclass(frozen=True)
class Asked:
    """What the command line says.

    Attributes:
        given: A configuration and overrides, or overrides alone.
        env: Environment to play at random in place of a configuration.
        workers: How many; those of the configuration by default.
        seconds: How long each side is measured each time.
        quick: One short round.
    """

    given: Sequence[str]
    env: str | None = None
    workers: int | None = None
    seconds: float | None = None
    quick: bool = False

    def config(self) -> RunConfig:
        """What is to be compared.

        Raises:
            ConfigError: It is no configuration, or two.
        """
        files = [each for each in self.given if "=" not in each]
        overrides = [each for each in self.given if "=" in each]
        if len(files) > 1 or (files and self.env is not None):
            env = [] if self.env is None else [f"--env {self.env}"]
            raise ConfigError(
                "bench parallel takes one configuration, or --env ID; got "
                f"{' and '.join([*map(repr, files), *env])}"
            )
        if files:
            return config_file.load(Path(files[0]), overrides, algorithm_config_type)
        return random_play(self.env or first_there(), overrides)


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds: How often each side is.
        seconds: How long each time, once it is warm.
    """

    rounds: int
    seconds: float


@dataclass(frozen=True)
class RunFigures:
    """What one side reached.

    Attributes:
        workers: Processes that step environments, one shard each.
        env_steps_per_s: Environment steps that were trained on, per second.
        episodes_per_hour: Training episodes that ended.
        memory_bytes: Of all processes of the run, the launcher too; see `usage.memory_bytes`.
        cores_busy: Processor seconds of all of them, per second.
    """

    workers: int
    env_steps_per_s: float
    episodes_per_hour: float
    memory_bytes: float
    cores_busy: float

    @property
    def env_steps_per_core_s(self) -> float:
        """Env steps for each processor second: what other work on the machine changes least."""
        return self.env_steps_per_s / self.cores_busy if self.cores_busy else 0.0


# --- the two sides -----------------------------------------------------------------------------


def random_play(id: str, overrides: Sequence[str]) -> RunConfig:
    """One environment a worker, played at random: nothing is measured but stepping."""
    tree = {
        "name": "parallel",
        "environment": environment_of(id),
        "rollout": {
            "shards": max(2, resources.cores().granted),
            "envs_per_shard": 1,
            "steps": STEPS,
        },
        "scheduler": {"off_policy_degree": 2},
        "algorithm": {"name": "random"},
        "evaluation": {"every_env_steps": None},
        "checkpoint": {"exact": "never"},
        "stop": {"time_s": FOR_EVER_S},
    }
    text = yaml_text.dump(tree)
    return config_file.loads(text, overrides, algorithm_config_type, source="--env")


def side(config: RunConfig, workers: int, directory: str) -> RunConfig:
    """The run of ``config`` with so many workers, and as many rows in a round, if it can be.

    Raises:
        ConfigError: There is no such run.
    """
    envs, nodes = config.rollout.envs_per_shard, config.nodes
    rollout = replace(config.rollout, shards=workers)
    if config.rollout.steps != "auto" or not names_of(config).replay:
        steps = max(1, round(config.rows_per_ticket / (workers * envs)))
        rollout = replace(rollout, steps=steps)
    made = replace(
        config,
        directory=directory,
        mode="process",
        rollout=rollout,
        horizon_env_steps=config.horizon,
        nodes=replace(nodes, env=replace(nodes.env, count=workers, balance=False)),
        evaluation=EvaluationConfig(every_env_steps=None, at_end=False),
        checkpoint=CheckpointConfig(every_updates=None, at_end=False, best=False, exact="never"),
        metrics=MetricsConfig(interval_s=0.1, tensorboard=False),
        dashboard=DashboardConfig(),
        stop=StopConfig(time_s=FOR_EVER_S),
    )
    config_file.validate(made)
    return made


# --- measuring ---------------------------------------------------------------------------------


def measure(config: RunConfig, seconds: float, folder: Path) -> RunFigures:
    """Launch a run, wait until it is warm, watch it for some seconds, and end it.

    Raises:
        FastLoopError: It ended by itself, or does not come forward.
    """
    path, log = folder / "config.yaml", folder / "output.log"
    path.write_text(config_file.dumps(config), "utf-8")
    child = Child(["launch", str(path)], resources.cores().ids, log)
    try:
        watch = RunWatch(config, child, log)
        watch.until(seconds * WARM_SHARE)
        before, at_s = watch.rows[-1], time.monotonic()
        busy_s = usage.cpu_s(usage.family(child.pid))
        watch.until(before.time_s + seconds, rounds_after=before)
        after, pids = watch.rows[-1], usage.family(child.pid)
        busy_s, at_s = usage.cpu_s(pids) - busy_s, time.monotonic() - at_s
        memory = usage.memory_bytes(pids)
    finally:
        _end(child)
    passed_s = after.time_s - before.time_s
    ended = after.episodes - before.episodes
    return RunFigures(
        workers=config.rollout.shards,
        env_steps_per_s=(after.env_steps - before.env_steps) / passed_s,
        episodes_per_hour=3600 * ended / passed_s,
        memory_bytes=memory,
        cores_busy=busy_s / at_s,
    )


class Round(NamedTuple):
    """What had been done when a round was trained on."""

    env_steps: int
    updates: int
    time_s: float
    episodes: float


class RunWatch:
    """Follows the metrics of a run.

    Attributes:
        rows: One for each row of metrics before which a round was trained on.
    """

    def __init__(self, config: RunConfig, child: Child, log: Path) -> None:
        self.rows: list[Round] = []
        self._child, self._log = child, log
        self._needs_updates = bool(names_of(config).replay)  # which begin later there
        self._folder = Path(config.directory) / config.name

    def until(self, time_s: float, *, rounds_after: Round | None = None) -> None:
        """Wait for the first round after the run's second ``time_s``.

        After ``rounds_after`` there must be `LEAST_ROUNDS` of them too.

        Raises:
            FastLoopError: The run ended by itself, or does not come forward.
        """
        limit_s = time.monotonic() + START_S + time_s
        while not self._look(time_s, rounds_after):
            status = self._child.status()
            if status is not None or time.monotonic() > limit_s:
                what = "does not come forward" if status is None else f"ended with {status}"
                raise FastLoopError(f"the run {what}:\n{self._log.read_text('utf-8', 'replace')}")
            time.sleep(POLL_S)

    def _look(self, time_s: float, rounds_after: Round | None) -> bool:
        files = list(self._folder.glob("*/metrics.jsonl"))
        self.rows.clear()
        for row in read_rows(files[0]) if files else ():
            if row.env_steps and (not self.rows or row.env_steps > self.rows[-1].env_steps):
                episodes = row.values.get("rollout/episodes") or 0.0
                self.rows.append(Round(row.env_steps, row.updates, row.time_s, episodes))
        if not self.rows or self.rows[-1].time_s < time_s:
            return False
        if self._needs_updates and not self.rows[-1].updates:
            return False
        seen = self.rows if rounds_after is None else self.rows[-LEAST_ROUNDS:]
        return rounds_after is None or seen[0].env_steps > rounds_after.env_steps


def _end(child: Child) -> None:
    child.interrupt()
    limit_s = time.monotonic() + GRACE_S
    while child.status() is None and time.monotonic() < limit_s:
        time.sleep(POLL_S)
    child.kill()


def compare(
    config: RunConfig, workers: int, plan: Plan
) -> tuple[list[RunFigures], list[RunFigures]]:
    """Measure one worker and ``workers``, in turns."""
    found: dict[int, list[RunFigures]] = {1: [], workers: []}
    for turn in range(plan.rounds):
        order = (1, workers) if turn % 2 == 0 else (workers, 1)
        for count in order:
            with tempfile.TemporaryDirectory(prefix="fastloop-parallel-") as directory:
                made = side(config, count, directory)
                found[count].append(measure(made, plan.seconds, Path(directory)))
    return found[1], found[workers]


# --- what is printed ---------------------------------------------------------------------------


def median(rounds: Sequence[RunFigures]) -> RunFigures:
    """The median of each figure."""
    names = [name for name in asdict(rounds[0]) if name != "workers"]
    values = {name: statistics.median(getattr(each, name) for each in rounds) for name in names}
    return RunFigures(workers=rounds[0].workers, **values)


def result(
    config: RunConfig,
    plan: Plan,
    ones: Sequence[RunFigures],
    manys: Sequence[RunFigures],
    load: float,
) -> dict[str, Any]:
    """Everything that was found, as one JSON object; ``load`` is the machine's, before."""
    one, many = median(ones), median(manys)
    cores = resources.cores().granted
    speedup = many.env_steps_per_s / one.env_steps_per_s if one.env_steps_per_s else 0.0
    return {
        "name": "parallel",
        "environment": config.environment.id,
        "algorithm": config.algorithm.name,
        "workers": many.workers,
        "cores": cores,
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "one": asdict(one),
        "many": asdict(many),
        "speedup": speedup,
        "speedup_lowest": min(b.env_steps_per_s for b in manys)
        / max(a.env_steps_per_s for a in ones),
        "speedup_highest": max(b.env_steps_per_s for b in manys)
        / min(a.env_steps_per_s for a in ones),
        "speedup_per_core": speedup / min(many.workers, cores),
        "memory_ratio": many.memory_bytes / max(one.memory_bytes, 1),
        "load_before": round(load, 2),
    }


def table(found: dict[str, Any]) -> str:
    """What was found, for people."""
    one, many = RunFigures(**found["one"]), RunFigures(**found["many"])
    used = min(found["workers"], found["cores"])
    rows = [
        ("", "1 worker", f"{many.workers} workers", "ratio"),
        _row("env steps/s", one.env_steps_per_s, many.env_steps_per_s),
        _row("episodes/h", one.episodes_per_hour, many.episodes_per_hour),
        _row("memory, MiB", one.memory_bytes / 2**20, many.memory_bytes / 2**20),
        _row("cores busy", one.cores_busy, many.cores_busy, digits=2),
        _row("env steps/core s", one.env_steps_per_core_s, many.env_steps_per_core_s),
    ]
    lines = [
        f"{found['algorithm']} on {found['environment']}, {found['rounds']} x "
        f"{found['seconds']:g} s of each in turns, after a warm-up; medians",
        "",
        *aligned(rows, range(1, 4)),
        "",
        f"speed-up {found['speedup']:.2f} (rounds: {found['speedup_lowest']:.2f} to "
        f"{found['speedup_highest']:.2f}), {found['speedup_per_core']:.2f} for each of the "
        f"{used} cores that {many.workers} workers can use",
    ]
    return "\n".join([*lines, *_words(found)])


def _row(name: str, one: float, many: float, digits: int = 0) -> tuple[str, str, str, str]:
    ratio = f"{many / one:.2f}" if one else "-"
    return name, f"{one:,.{digits}f}", f"{many:,.{digits}f}", ratio


def _words(found: dict[str, Any]) -> list[str]:
    """What the figures don't say by themselves."""
    workers, cores, load = found["workers"], found["cores"], found["load_before"]
    words = []
    if workers >= cores:
        words.append(
            f"{workers} workers and the learner share {cores} cores: unless the environments wait, "
            f"no number of workers gets far beyond {cores} times one core."
        )
    busy = found["one"]["cores_busy"]
    if busy > 1.2:
        words.append(
            f"One worker alone keeps {busy:.1f} cores busy: with it the learner, which does the "
            "same work for each environment step on both sides."
        )
    if load > cores / 4:
        words.append(
            f"Other work was going on (load {load:g} on {cores} cores before this began), so "
            "figures vary: look at the spread of the rounds, and at env steps/core s."
        )
    if found["speedup_per_core"] > 1.1:
        words.append(
            "The speed-up is more than the cores allow: several processes get more of a busy "
            "machine than one does."
        )
    if not (found["one"]["episodes_per_hour"] and found["many"]["episodes_per_hour"]):
        words.append("On one side no episode ended; --seconds makes it longer.")
    return words


def run(asked: Asked, *, as_json: bool) -> int:
    """Compare one worker with several, and print it, or one JSON object.

    Returns:
        The exit status; 128 + signal number when interrupted.

    Raises:
        FastLoopError: A run could not be started, or ended by itself.
    """
    config = asked.config()
    many = asked.workers or config.rollout.shards
    if many < 2:
        raise ConfigError(
            f"bench parallel compares one worker with several; got {many} (--workers, or "
            "rollout.shards of the configuration). Set --workers=2 or more."
        )
    plan = Plan(1, asked.seconds or 2.0) if asked.quick else Plan(3, asked.seconds or 10.0)
    load = os.getloadavg()[0]
    try:
        with unwinding():  # the run that is measured, and its folder
            sides = compare(config, many, plan)
    except KeyboardInterrupt as interrupt:
        return 128 + int(interrupt.args[0])
    found = result(config, plan, *sides, load)
    print(json.dumps(found) if as_json else table(found), flush=True)
    return 0
