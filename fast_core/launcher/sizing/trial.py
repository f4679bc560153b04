"""Asking two children what the placement of the policy costs here, and choosing by it."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack

import msgspec

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import DashboardConfig, EvaluationConfig, ReplayConfig, RunConfig
from fast_core.errors import NodeFailed
from fast_core.launcher.processes.beginning import await_answer, await_started, give
from fast_core.launcher.processes.start import MeasureStart
from fast_core.launcher.processes.tree import Child, ProcessTree
from fast_core.launcher.sizing.placement import Choice, Shape, Timings, choose
from fast_core.run.memory import RunMemory
from fast_core.run.parts import parts_of
from fast_core.run.plan import RunPlan
from fast_core.system.decoding import from_msgpack
from fast_core.system.interrupts import Interrupts
from fast_core.system.watched import describe_exit

MEASURE, SERVE = "measure", "measure-policy"
MEASURE_TARGET = "fast_core.launcher.sizing.measuring:measure_main"
SERVE_TARGET = "fast_core.launcher.sizing.measuring:serve_main"
GONE_S = 2.0

_replace = msgspec.structs.replace


def spawn_trial(tree: ProcessTree) -> None:
    """Start the two early, so that their imports overlap with the probe."""
    for name, target in ((MEASURE, MEASURE_TARGET), (SERVE, SERVE_TARGET)):
        tree.spawn(name, target, warm=("fast_core.launcher.sizing.measuring",))


def measure(
    tree: ProcessTree,
    resolved: RunConfig,
    environment: EnvironmentSpec,
    cores: int,
    interrupts: Interrupts,
    made_s: float = 0.0,
) -> Choice | str:
    """Where the policy acts fastest; or, where that can't be found out, why not.

    ``resolved`` is the configuration with policy nodes. Environments may take ``made_s`` to be
    made.

    Raises:
        Interrupted: A signal came meanwhile.
        SegmentError: There is no memory for it.
    """
    try:
        parts = _ask(tree, trial_plan(resolved, environment, made_s), interrupts)
    except NodeFailed as error:
        return str(error)
    finally:
        _end(tree)
    return choose(parts, shape_of(resolved, cores))


def with_placement(config: RunConfig, found: Choice | str) -> RunConfig:
    """The configuration with what was chosen, for this run and for those that go on from it."""
    if isinstance(found, str):
        return _replace(config, policy=_replace(config.policy, placement="env"))
    policy = _replace(config.policy, placement=found.placement, measured=found.measured)
    return _replace(config, policy=policy)


def trial_plan(resolved: RunConfig, environment: EnvironmentSpec, made_s: float = 0.0) -> RunPlan:
    """The smallest run in which an env node asks a policy node."""
    nodes = resolved.nodes
    config = _replace(
        resolved,
        rollout=_replace(resolved.rollout, shards=1, steps=1),
        replay=ReplayConfig(capacity=1, slots=1),
        nodes=_replace(
            nodes,
            env=_replace(nodes.env, count=1),
            policy=_replace(nodes.policy, count=1),
            optimizer=_replace(nodes.optimizer, count=1),
        ),
        scheduler=_replace(resolved.scheduler, off_policy_degree=0),
        evaluation=EvaluationConfig(every_env_steps=None),
        dashboard=DashboardConfig(),
    )
    backend = resolved.policy.backend
    assert backend != "auto", "resolved before"
    return RunPlan(config, environment, "", parts_of(config, 1, 1), backend, made_s=made_s)


def shape_of(resolved: RunConfig, cores: int) -> Shape:
    """What of a resolved configuration the arithmetic needs."""
    rollout, nodes = resolved.rollout, resolved.nodes
    threads, count = nodes.policy.threads, nodes.env.count
    assert count != "auto", "resolved before"
    return Shape(
        shards=rollout.shards,
        envs=rollout.envs_per_shard,
        groups=min(resolved.policy.groups, rollout.envs_per_shard),
        env_nodes=count,
        policy_nodes=nodes.policy.count,
        policy_threads=1 if threads == "auto" else threads,
        cores=cores,
    )


def _ask(tree: ProcessTree, plan: RunPlan, interrupts: Interrupts) -> Timings:
    """Let the two measure.

    Raises:
        NodeFailed: One of them failed, or it took too long.
    """
    limit_s = plan.start_timeout_s
    asking, serving = tree.children[MEASURE], tree.children[SERVE]
    await_started(tree, (asking, serving), interrupts, limit_s)
    with ExitStack() as stack:
        memory = RunMemory.create(plan, interrupts.check)
        stack.callback(memory.close)
        # Weights of zero: what a forward pass takes does not depend on them.
        memory.weights().publish(0, memory.parameters.empty().data)
        link = stack.enter_context(asking.link.dup())
        for child, node in ((serving, plan.names.policy[0]), (asking, plan.names.env[0])):
            give(tree, child, MeasureStart(plan, node), memory.segment.fd, interrupts)
        answer = await_answer(tree, asking, link, interrupts, time.monotonic() + limit_s)
    if answer is None and asking.status is None:
        raise NodeFailed(
            f"the measurement gave no figures within {limit_s:g} s (supervision.start_timeout_s)"
        )
    if answer is None:
        raise NodeFailed(
            f"the measurement {describe_exit(asking.status)}; its output is in logs/fork-server.log"
        )
    return from_msgpack(answer, Timings)


def _end(tree: ProcessTree) -> None:
    """Nothing of the two is left when the run begins."""
    children: list[Child] = [tree.children[name] for name in (MEASURE, SERVE)]
    for child in children:
        tree.send_signal(child, signal.SIGKILL)
        tree.wait_for_exit(child, time.monotonic() + GONE_S)
    tree.poll()  # their ends are no news to the supervisor
