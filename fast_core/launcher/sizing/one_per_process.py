"""Environments of which a process can have one only, such as an emulator in C."""

from __future__ import annotations

from collections.abc import Iterator

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import RunConfig
from fast_core.errors import ConfigError
from fast_core.run.parts import names_of


def check_one_per_process(config: RunConfig, environment: EnvironmentSpec) -> None:
    """Check that no process of a resolved configuration needs two, now or later.

    Raises:
        ConfigError: One does; says what to set.
    """
    if not environment.one_per_process:
        return
    for key, got, remedy in _conflicts(config):
        raise ConfigError(
            f"environment {environment.id!r} can be there once in a process "
            f"(metadata['one_per_process']); {key} is {got}. {remedy}"
        )


def _conflicts(config: RunConfig) -> Iterator[tuple[str, object, str]]:
    """Key, value and what to do, of everything that puts two into one process."""
    rollout, evaluation, nodes = config.rollout, config.evaluation, config.nodes
    plays = bool(names_of(config).evaluator)
    if config.mode == "inline" and (config.envs > 1 or plays):
        alone = "rollout.shards=1, rollout.envs_per_shard=1 and evaluation.every_env_steps=null"
        yield "mode", "inline", f"Set it to process, or {alone}."
    if config.diagnostics.schedule and (config.envs > 1 or plays):
        yield "diagnostics.schedule", "true", "Set it to false: a rerun has all in one process."
    if rollout.envs_per_shard > 1:
        got, shards = rollout.envs_per_shard, config.envs
        yield "rollout.envs_per_shard", got, f"Set it to 1, and rollout.shards to {shards} say."
    if nodes.env.count != rollout.shards:
        remedy = f"Set it to rollout.shards, which is {rollout.shards}, or leave it at auto."
        yield "nodes.env.count", nodes.env.count, remedy
    if nodes.env.balance:
        yield "nodes.env.balance", "true", "Set it to false: a shard would move to a second one."
    if plays and evaluation.envs > 1:
        yield "evaluation.envs", evaluation.envs, "Set it to 1."
    if plays and evaluation.environments:
        named = ", ".join(evaluation.environments)
        yield "evaluation.environments", named, "Remove it: all are in the evaluator's process."
