"""From a configuration and what the probe found to a plan. Pure but for reading the cores."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import DEFAULT_STEPS, EnvironmentConfig, RunConfig
from fast_core.config.changes import changeable
from fast_core.errors import ConfigError
from fast_core.launcher.sizing.budget import CoreBudget, core_budget
from fast_core.launcher.topology import with_structures
from fast_core.launcher.wiring import users_nodes, wiring
from fast_core.run.names import METRICS, Role, deaths_key
from fast_core.run.parts import names_of, parts_of, scales
from fast_core.run.plan import RunPlan
from fast_core.run.structures import slots_per_shard
from fast_core.scheduler import Budget, SchedulerSettings
from fast_core.system.threads import default_threads

# Of a machine as in the README: a round's order, report and training order, measured cold with two
# optimizers; a small update; what two cores compute in a large one (2x256 networks, 256 rows: 0.59
# GFLOP in 5 ms, so that faster learners pay no more than they should); one step of a fast
# environment and its policy.
HAND_OVER_S, UPDATE_S, FLOPS_PER_S, STEP_S = 3e-3, 6e-4, 1.5e11, 2e-5
HAND_OVERS = 50
REPLAY_PARTS = 4  # a round is at most one of so many parts of the replay


def budget(config: RunConfig, environment: EnvironmentSpec, cores: int) -> CoreBudget:
    """How the granted cores are divided among the nodes of ``config``."""
    blueprint = config.algorithm
    config = _with_steps(config, environment)
    flops = blueprint.update_flops(environment, config.rows_per_ticket)
    return core_budget(
        config,
        cores,
        update_flops=flops,
        splits=blueprint.update_splits(environment),
        node_threads=default_threads(),
        one_per_process=environment.one_per_process,
    )


def resolve(config: RunConfig, environment: EnvironmentSpec, cores: int) -> RunConfig:
    """Replace every ``auto`` by what it stands for here, so that a resumed run uses it again.

    ``policy.placement: auto`` stands for env unless it was measured before (`placement`).

    Raises:
        ConfigError: The chosen backend can't compute the policy.
    """
    if config.policy.placement == "auto":
        placed = msgspec.structs.replace(config.policy, placement="env")
        config = msgspec.structs.replace(config, policy=placed)
    config = _with_steps(config, environment)
    nodes = config.nodes
    divided = budget(config, environment, cores)
    backend, needed = config.policy.backend, config.algorithm.policy_backend(environment)
    if backend == "auto":
        backend = "torch" if needs_torch(config) else needed
    if backend == "numpy" and needed == "torch":
        raise ConfigError(
            f"policy.backend must be auto or torch for the network that {config.algorithm.name!r} "
            f"has for {environment.id!r}; got 'numpy', which has neither convolutions nor "
            "networks of your own. Leave it out, or set algorithm.network: mlp."
        )
    replace = msgspec.structs.replace
    return replace(
        config,
        horizon_env_steps=config.horizon,
        algorithm=config.algorithm.resolved(environment),
        nodes=replace(
            nodes,
            env=replace(nodes.env, count=divided.env_nodes),
            policy=replace(nodes.policy, threads=divided.policy_threads or nodes.policy.threads),
            optimizer=replace(nodes.optimizer, threads=divided.learner_threads),
        ),
        policy=replace(config.policy, backend=backend),
    )


def choosing_nothing_inline(config: RunConfig) -> RunConfig:
    """Degree 0 where the run would choose it inline: any other would only make rows older."""
    if config.mode != "inline" or not config.scheduler.auto:
        return config
    scheduler = msgspec.structs.replace(config.scheduler, off_policy_degree=0)
    return msgspec.structs.replace(config, scheduler=scheduler)


def _with_steps(config: RunConfig, environment: EnvironmentSpec) -> RunConfig:
    """Replace ``rollout.steps: auto`` by a number.

    With replay a round costs the learner one hand-over through the scheduler, so it gets updates
    for `HAND_OVERS` times as long, or where they are few the collecting takes as long. The estimate
    rests on the configuration alone, since results depend on the length of a round.
    """
    if config.rollout.steps != "auto":
        return config
    steps = DEFAULT_STEPS
    if names_of(config).replay:
        flops = config.algorithm.update_flops(environment, config.envs)
        update_s = UPDATE_S + flops / FLOPS_PER_S
        row_s = max(STEP_S, update_s * float(config.scheduler.ratio))
        rows = min(HAND_OVERS * HAND_OVER_S / row_s, config.replay.capacity / REPLAY_PARTS)
        steps = math.ceil(rows / config.envs)
    rollout = msgspec.structs.replace(config.rollout, steps=steps)
    return msgspec.structs.replace(config, rollout=rollout)


def needs_torch(config: RunConfig) -> bool:
    """Whether policies are to act on a device, or in a precision, that NumPy does not have."""
    policy, device = config.policy, config.nodes.policy.device
    return policy.precision != "fp32" or (policy.placement == "node" and device != "cpu")


def make_plan(
    config: RunConfig,
    environment: EnvironmentSpec,
    run_directory: str,
    checkpoint: str | None,
    continued_env_steps: int | None,
    made_s: float = 0.0,
) -> RunPlan:
    """The plan of a resolved configuration.

    Raises:
        ConfigError: The algorithm can't train in this environment, or exact resume is impossible.
    """
    count, threads = config.nodes.env.count, config.nodes.optimizer.threads
    backend = config.policy.backend
    if count == "auto" or threads == "auto" or backend == "auto":
        raise ConfigError("a plan needs a resolved configuration; call resolve() first")
    plan = RunPlan(
        config=config,
        environment=environment,
        run_directory=run_directory,
        parts=parts_of(config, count),
        backend=backend,
        checkpoint=checkpoint,
        continued_env_steps=continued_env_steps,
        made_s=made_s,
    )
    plan.blueprint.check(environment, plan.learner_setup)
    for part in plan.parts:
        part.check(plan)
    exact = config.checkpoint.exact
    promised = "a run at off_policy_degree 0" if exact == "auto" else "it"
    must = exact == "require" or (exact == "auto" and config.degree == 0)
    if plan.saves and must and not environment.repeatable:
        why, remedy = _unrepeatable(config.environment)
        raise ConfigError(
            f"environment.id {environment.id!r} does not repeat: {why}, so {promised} can't be "
            f"resumed exactly. {remedy}, or let a resume begin new episodes with "
            "checkpoint.exact=never."
        )
    return with_structures(plan)


def _unrepeatable(environment: EnvironmentConfig) -> tuple[str, str]:
    """Why an environment does not repeat, and what can be done about it."""
    if environment.one_by_one:
        why = (
            "reset(seed) and the same actions did not give the same observations, rewards and "
            "ends twice"
        )
        return why, "Seed all of its randomness from reset(seed)"
    why = f"its single episodes can't be repeated with environment.backend {environment.backend}"
    return why, "Use environment.backend: gymnasium, or one that seeds every episode"


def scheduler_settings(
    plan: RunPlan,
    checkpoint_directory: str,
    *,
    came_back: int = 0,
    deaths: Mapping[str, int] = {},
) -> SchedulerSettings:
    """What the scheduler is told.

    ``came_back`` is how often the run has, in this call, and ``deaths`` what other nodes had spent
    of their budgets by then.
    """
    config, supervision = plan.config, plan.config.supervision
    evaluation, checkpoint, stop = config.evaluation, config.checkpoint, config.stop
    dies = config.mode == "process"  # inline there is nobody left to come back
    wired = wiring(users_nodes(config))
    apart = {*wired.savers, *wired.optional}
    users = [name for name in plan.names.extra if name not in apart]
    flows = [flow for part in plan.parts if (flow := part.flow(plan)) is not None]
    first, *others = [msgspec.structs.replace(flow, stages=wired.stages) for flow in flows]
    return SchedulerSettings(
        **msgspec.structs.asdict(msgspec.structs.replace(first, followers=wired.followers)),
        others=tuple(others),
        env_nodes=plan.names.env,
        spare_nodes=plan.names.spare if _scales(plan) else None,
        policy_nodes=plan.names.policy,
        spare_policies=plan.names.spare_policy if scales(config) else None,
        balance=config.nodes.env.balance and dies,
        balance_policies=config.nodes.policy.balance and dies,
        evaluator=next(iter(plan.names.evaluator), None),
        other_nodes=(*plan.names.policy, METRICS, *users),
        savers=wired.savers,
        optional=wired.optional,
        routes=wired.routes,
        changeable=changeable(config),
        comebacks=max(supervision.restarts.optimizer - came_back, 0) if dies else 0,
        back=came_back > 0,
        comebacks_on_error=supervision.restarts.on_error == "restart",
        restarts=_budgets(plan, deaths),
        backoff_s=supervision.restarts.backoff_s,
        max_backoff_s=supervision.restarts.max_backoff_s,
        slots_per_shard=slots_per_shard(plan),
        nonfinite_share=config.environment.nonfinite_share,
        eval_every_env_steps=evaluation.every_env_steps,
        eval_episodes=evaluation.episodes,
        eval_mode="sync" if evaluation.waits else "async",
        eval_at_end=evaluation.at_end,
        checkpoint_every_updates=checkpoint.every_updates,
        checkpoint_at_end=checkpoint.at_end,
        checkpoint_directory=checkpoint_directory,
        stop_time_s=stop.time_s,
        stop_score=stop.score,
        stop_score_held=stop.score_held,
        stop_score_on=evaluation.score_on,
        start_timeout_s=plan.start_timeout_s,
        work_timeout_s=supervision.work_timeout_s,
        repeat_timeout_s=supervision.repeat_timeout_s,
    )


def _scales(plan: RunPlan) -> bool:
    """Whether shards may move to other env nodes while the run goes on."""
    alone = plan.environment.one_per_process  # each node has its one shard
    return scales(plan.config) and not alone


def _budgets(plan: RunPlan, deaths: Mapping[str, int]) -> tuple[Budget, ...]:
    """Deaths that the run survives, by kind of node, beyond those that it has survived."""
    kinds: dict[str, list[Role]] = {}
    for role in plan.roles.values():
        if role.deaths and role.kind != "optimizer":  # after whose death the run comes back
            kinds.setdefault(role.counted_as, []).append(role)
    budgets = []
    for kind, roles in kinds.items():
        nodes = tuple(role.name for role in roles)
        used = sum(deaths.get(name, 0) for name in nodes)
        left = max(roles[0].deaths - used, 0)
        budgets.append(Budget(kind, nodes, left, deaths_key(kind)))
    return tuple(budgets)


def identity(config: RunConfig) -> dict[str, str]:
    """The keys that must be equal for one run to continue from another's checkpoint."""
    values = {
        "seed": config.seed,
        **{
            f"environment.{key}": getattr(config.environment, key)
            for key in ("id", "backend", "kwargs", "wrappers", "atari", "frame_skip", "frame_stack")
        },
        "environment.action_mask": config.environment.action_mask,
        "algorithm.name": config.algorithm.name,
        **config.algorithm.identity(),
    }
    for part in parts_of(config, 0):
        values |= part.identity(config)
    return {
        key: msgspec.json.encode(value, order="sorted").decode() for key, value in values.items()
    }
