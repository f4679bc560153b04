"""Rules between keys of a configuration, which no single type can state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import NamedTuple

from fast_core.config import EnvironmentConfig, ReplayConfig, RunConfig, SchedulerConfig
from fast_core.config.environment_types import BACKENDS
from fast_core.system.importing import colon_hint

MOST_STEPS = 1000
MOST_SHARDS = 16_384  # each process lays out memory for as many env nodes
MOST_GROUPS = 2 * MOST_SHARDS  # and for what each group of each shard asks
NAME_LENGTH = 200
_RESTARTED = ("env", "policy", "replay", "evaluator", "optimizer")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
NAME_BYTES = 255  # what Linux and macOS file systems take for one folder name


class Problem(NamedTuple):
    """One thing that is wrong.

    Attributes:
        key: Dotted key.
        must: What it must be, as a predicate.
        remedy: What to do, a sentence.
        got: The value, as the user would recognise it; empty: as it stands at the key.
    """

    key: str
    must: str
    remedy: str
    got: str = ""

    def text(self, origin: str) -> str:
        """The message, with the place that the value came from."""
        return f"{self.key} {self.must}; got {self.got} ({origin}). {self.remedy}"


def problems(config: RunConfig) -> list[Problem]:
    """Everything that is wrong with a configuration whose single values are all allowed."""
    learning = _replay(config) if config.replays else _no_replay(config)
    found = [
        *_name(config),
        *_environments(config),
        *_stop(config),
        *_evaluation(config),
        *_schedules(config),
        *_policy(config),
        *_nodes(config),
        *_restarts(config),
        *_optimizers(config),
        *_degree(config),
        *_recording(config),
        *learning,
    ]
    return [each._replace(got=each.got or repr(_value(config, each.key))) for each in found]


def _value(config: object, key: str) -> object:
    for name in key.split("."):
        config = getattr(config, name)
    return config


def _name(config: RunConfig) -> Iterator[Problem]:
    name, got = config.name, f"{config.name!r:.80}"
    if not name or name.startswith(".") or "/" in name or "\\" in name or not name.isprintable():
        yield Problem(
            "name",
            "must be usable as a folder name: not empty, no slash or backslash, no leading dot, "
            "no control characters",
            "Choose another name; the folder above it is `directory`.",
            got,
        )
    elif len(name) > NAME_LENGTH or len(name.encode()) > NAME_BYTES:
        must = f"must have at most {NAME_LENGTH} characters and {NAME_BYTES} bytes"
        yield Problem("name", must, "Shorten it.", f"{len(name)} and {len(name.encode())}")


def _environments(config: RunConfig) -> Iterator[Problem]:
    environment = config.environment
    yield from _environment("environment", environment)
    if environment.no_reward_penalty and environment.no_reward_timeout_steps is None:
        yield Problem(
            "environment.no_reward_penalty",
            "can be set only with environment.no_reward_timeout_steps, which is null: nothing is "
            "cut",
            "Remove it, or set environment.no_reward_timeout_steps.",
        )
    for name, environment in config.evaluation.environments.items():
        yield from _environment(f"evaluation.environments.{name}", environment)


def _environment(key: str, environment: EnvironmentConfig) -> Iterator[Problem]:
    if environment.backend not in BACKENDS and ":" not in environment.backend:
        near = get_close_matches(environment.backend, BACKENDS, n=1)
        meant = f"Did you mean {near[0]!r}?" if near else colon_hint(environment.backend).strip()
        yield Problem(
            f"{key}.backend",
            f"must be {', '.join(BACKENDS)}, or a class of yours as 'package.module:Class'",
            meant or "Leave it out for gymnasium.",
            repr(environment.backend),
        )
    if environment.pickled is not None and not environment.one_by_one:
        yield Problem(
            f"{key}.backend",
            "must be gymnasium for an environment that is a Python object",
            "Leave it out, or register the environment and give its id.",
            repr(environment.backend),
        )
    for name in environment.attributes:
        if not name.isidentifier():
            yield Problem(
                f"{key}.attributes",
                "must have names of attributes",
                "Rename it as Python code would call it.",
                repr(name),
            )
    if environment.attributes and environment.atari:
        yield Problem(
            f"{key}.attributes",
            f"can't be combined with {key}.atari, whose environments have no attributes to set",
            f"Remove it, or use {key}.kwargs for what stays as it is.",
            repr(environment.attributes),
        )


def _stop(config: RunConfig) -> Iterator[Problem]:
    stop = config.stop
    if stop.env_steps is stop.updates is stop.time_s is stop.score is None:
        yield Problem(
            "stop",
            "must have at least one of env_steps, updates, time_s, score",
            "Set one, for instance `stop: {env_steps: 1000000}`.",
            "none",
        )
    if stop.score is not None and config.evaluation.every_env_steps is None:
        yield Problem(
            "stop.score",
            "needs evaluations, which evaluation.every_env_steps: null turns off",
            "Set evaluation.every_env_steps or remove stop.score.",
        )


def _evaluation(config: RunConfig) -> Iterator[Problem]:
    evaluation = config.evaluation
    if evaluation.enable_async_eval and evaluation.mode == "sync":
        yield Problem(
            "evaluation.enable_async_eval",
            "is the older name of evaluation.mode, which is 'sync'",
            "Leave it out, or set mode to async.",
            "true",
        )
    key = "evaluation.environments"
    for name, environment in evaluation.environments.items():
        if not _LABEL.fullmatch(name):
            yield Problem(
                key,
                "must have names of 1 to 64 letters, digits, '_' or '-', the first a letter or "
                "digit: they name curves and files",
                "Rename it.",
                repr(name),
            )
        if environment.pickled not in (None, config.environment.pickled):
            yield Problem(
                f"{key}.{name}.pickled",
                f"must be that of `environment`, {config.environment.pickled!r}, or null: a run "
                "keeps one such file",
                "Remove it, or give the `id` of another environment.",
                repr(environment.pickled),
            )
        if environment.step_timeout_s != config.environment.step_timeout_s:
            yield Problem(
                f"{key}.{name}.step_timeout_s",
                "can't differ from environment.step_timeout_s, which is "
                f"{config.environment.step_timeout_s}: there is one limit for all steps",
                "Remove it, or raise environment.step_timeout_s.",
                repr(environment.step_timeout_s),
            )
    if evaluation.score_on is not None and evaluation.score_on not in evaluation.environments:
        named = ", ".join(map(repr, evaluation.environments)) or "none is there"
        yield Problem(
            "evaluation.score_on",
            f"must name one of evaluation.environments ({named}), or be null for `environment`",
            "Change it, or leave it out.",
        )


def _schedules(config: RunConfig) -> Iterator[Problem]:
    algorithm, limit, horizon = config.algorithm, config.stop.env_steps, config.horizon
    names = [name for name in algorithm.__struct_fields__ if name.endswith("schedule")]
    for name in (name for name in names if getattr(algorithm, name) == "linear"):
        if horizon is None:
            yield Problem(
                f"algorithm.{name}",
                "can be 'linear' only when horizon_env_steps or stop.env_steps says how far the "
                "line goes",
                "Set stop.env_steps or make the schedule constant.",
                "'linear' without either",
            )
        elif limit is not None and limit > horizon:
            yield Problem(
                "stop.env_steps",
                f"can't be beyond horizon_env_steps, which is {horizon}, where algorithm.{name} is "
                "'linear': it is 0 from there on, so nothing would be learned",
                f"Stretch the line with horizon_env_steps={limit}, or go on with "
                f"algorithm.{name}=constant.",
            )


def _policy(config: RunConfig) -> Iterator[Problem]:
    policy, device = config.policy, config.nodes.policy.device
    if policy.backend != "numpy":
        return
    beyond = {"policy.precision: bf16": policy.precision == "bf16"}
    beyond[f"nodes.policy.device: {device}"] = policy.placement != "env" and device != "cpu"
    for what in (key for key, asked in beyond.items() if asked):
        yield Problem(
            "policy.backend",
            f"must be torch or auto with {what}: NumPy computes in fp32 on the CPU",
            "Set it to torch.",
        )


def _nodes(config: RunConfig) -> Iterator[Problem]:
    count, shards, placement = (
        config.nodes.env.count,
        config.rollout.shards,
        config.policy.placement,
    )
    if shards > MOST_SHARDS:
        envs = -(-config.envs // MOST_SHARDS)
        yield Problem(
            "rollout.shards",
            f"must be at most {MOST_SHARDS}: what a shard costs, it costs in each process",
            f"Put more environments into each: with rollout.envs_per_shard {envs} it may be "
            f"{-(-config.envs // envs)}.",
        )
    most = max(MOST_GROUPS // shards, 2)
    if placement != "env" and min(config.policy.groups, config.rollout.envs_per_shard) > most:
        yield Problem(
            "policy.groups",
            f"must be at most {most} with rollout.shards {shards}: what a group costs, it costs in "
            "each process",
            "Two take turns already.",
        )
    if placement != "env" and config.nodes.policy.count > shards:
        yield Problem(
            "nodes.policy.count",
            f"must be at most rollout.shards, which is {shards}: a shard asks one policy node",
            f"Lower it to {shards}, or raise rollout.shards (results depend on it).",
        )
    if isinstance(count, int) and count > shards:
        yield Problem(
            "nodes.env.count",
            f"must be at most rollout.shards, which is {shards}: a shard is executed by one node",
            f"Lower it to {shards}, or raise rollout.shards (results depend on it).",
        )


def _restarts(config: RunConfig) -> Iterator[Problem]:
    supervision, restarts = config.supervision, config.supervision.restarts
    older = supervision.env_restarts
    if older and restarts.env not in (0, older):
        yield Problem(
            "supervision.env_restarts",
            f"is the older name of supervision.restarts.env, which is {restarts.env}",
            "Set it to 0, or both alike.",
        )
    if restarts.max_backoff_s < restarts.backoff_s:
        yield Problem(
            "supervision.restarts.max_backoff_s",
            f"must be at least supervision.restarts.backoff_s, which is {restarts.backoff_s:g}",
            f"Raise it to {restarts.backoff_s:g}, or lower the other.",
            f"{restarts.max_backoff_s:g}",
        )
    deaths = [supervision.env_deaths, *(getattr(restarts, kind) for kind in _RESTARTED)]
    if restarts.on_error == "restart" and not any(deaths):
        yield Problem(
            "supervision.restarts.on_error",
            "can be restart only if some kind of node may be started anew; all budgets are 0",
            "Set a budget, such as supervision.restarts.env=5, or on_error to end.",
        )


def _degree(config: RunConfig) -> Iterator[Problem]:
    if config.scheduler.off_policy_degree == "legacy-auto" and config.batch_rows is None:
        key = "batch_size" if config.replays else "minibatch_size"
        yield Problem(
            "scheduler.off_policy_degree",
            f"can be legacy-auto only for an algorithm with the key algorithm.{key}, by which the "
            f"buffer is divided; {config.algorithm.name!r} has none",
            "Set a number, or -1 to let the run choose.",
        )


def _optimizers(config: RunConfig) -> Iterator[Problem]:
    """How several optimizers work together; one alone may keep what was set for more."""
    optimizer = config.nodes.optimizer
    staleness = optimizer.max_gradient_staleness
    if staleness is not None and staleness < 0:
        yield Problem(
            "nodes.optimizer.max_gradient_staleness",
            "must be null or at least 0",
            "Set 0 for gradients that are never stale, null for nodes.optimizer.count - 1.",
        )
    if optimizer.count == 1:
        return
    if not config.replays:
        yield Problem(
            "nodes.optimizer.count",
            f"must be 1: {config.algorithm.name!r} learns from rollouts, and only algorithms that "
            "learn from replay share the work",
            "Set it to 1, and nodes.optimizer.threads to use more cores.",
        )
    if optimizer.update == "allreduce" and staleness is not None:
        yield Problem(
            "nodes.optimizer.max_gradient_staleness",
            "can be set only with nodes.optimizer.update async: averaged gradients are never stale",
            "Remove it, or set nodes.optimizer.update to async.",
        )
    yield from _collective(config)


def _collective(config: RunConfig) -> Iterator[Problem]:
    optimizer, key = config.nodes.optimizer, "nodes.optimizer.collective"
    collective = optimizer.collective
    if collective not in ("gloo", "nccl"):
        return
    if optimizer.update == "async":
        yield Problem(
            key,
            "must be auto or shared with nodes.optimizer.update async, which averages nothing",
            "Remove it, or set nodes.optimizer.update to allreduce.",
        )
    if config.mode == "inline":
        yield Problem(
            key,
            "must be auto or shared with mode inline, where one thread is every optimizer and "
            "can't wait for itself",
            "Set it to shared, or mode to process.",
        )
    if collective == "nccl" and not optimizer.device.startswith("cuda"):
        yield Problem(
            key,
            f"can be nccl only with a CUDA device; nodes.optimizer.device is {optimizer.device!r}",
            "Set it to auto, or nodes.optimizer.device to cuda.",
        )


def _recording(config: RunConfig) -> Iterator[Problem]:
    """What a record does not hold yet would come out otherwise when it is run again."""
    if not config.diagnostics.schedule:
        return
    optimizer, restarts = config.nodes.optimizer, config.supervision.restarts
    deaths = {
        "supervision.env_restarts": config.supervision.env_restarts,
        **{f"supervision.restarts.{kind}": getattr(restarts, kind) for kind in _RESTARTED},
    }
    averages = optimizer.count > 1 and optimizer.update == "allreduce"
    beyond = {
        "nodes.optimizer.update": (averages, optimizer.update, "async"),
        "nodes.policy.device": (
            config.policy.placement != "env" and config.nodes.policy.device != "cpu",
            config.nodes.policy.device,
            "cpu",
        ),
        "nodes.optimizer.device": (optimizer.device != "cpu", optimizer.device, "cpu"),
        "nodes.extra": (bool(config.nodes.extra), len(config.nodes.extra), "[]"),
        "nodes.parts": (bool(config.nodes.parts), len(config.nodes.parts), "[]"),
        "dashboard.enabled": (config.dashboard.enabled, "true", "false"),
        "nodes.env.balance": (config.nodes.env.balance, "true", "false"),
        "nodes.policy.balance": (config.nodes.policy.balance, "true", "false"),
        **{key: (survived > 0, survived, 0) for key, survived in deaths.items()},
    }
    for key, (_, value, instead) in ((k, each) for k, each in beyond.items() if each[0]):
        yield Problem(
            "diagnostics.schedule",
            f"does not record runs with {key} {value} yet",
            f"Set it to false, or {key} to {instead}.",
            "true",
        )


def _no_replay(config: RunConfig) -> Iterator[Problem]:
    """What only a replay obeys would be ignored in silence."""
    changed = [
        f"replay.{key}"
        for key in ReplayConfig.__struct_fields__
        if getattr(config.replay, key) != getattr(ReplayConfig(), key)
    ]
    if config.scheduler.replay_ratio != SchedulerConfig().replay_ratio:
        changed.append("scheduler.replay_ratio")
    for key in changed:
        yield Problem(
            key,
            "can be set only for algorithms that learn from replay; "
            f"{config.algorithm.name!r} learns from rollouts",
            "Remove it, or choose another algorithm.name.",
        )


def _replay(config: RunConfig) -> Iterator[Problem]:
    replay, ratio = config.replay, config.scheduler.replay_ratio
    if config.scheduler.ratio > MOST_STEPS:
        yield Problem(
            "scheduler.replay_ratio",
            f"must be at most {MOST_STEPS} optimizer steps for each environment step",
            "Lower it.",
        )
    if replay.capacity < replay.learning_starts:
        yield Problem(
            "replay.capacity",
            f"must be at least replay.learning_starts, which is {replay.learning_starts}: that "
            "many rows are collected before the first update",
            "Raise it, or lower replay.learning_starts.",
        )
    limit = config.stop.env_steps
    if limit is None:
        return
    left = limit - replay.learning_starts
    if left <= 0 or config.scheduler.ratio * left < 1:
        yield Problem(
            "stop.env_steps",
            f"must leave room for an update: replay.learning_starts is {replay.learning_starts} "
            f"and scheduler.replay_ratio {ratio}, so the run would end before it learns",
            "Raise it, or lower replay.learning_starts.",
        )
