"""What must hold between the parts of a run that learns from replay, before anything starts.

What the configuration alone decides is refused earlier (`fast_core.config.rules`).
"""

from __future__ import annotations

from fast_core.algorithm import ReplaySpec, Window
from fast_core.errors import ConfigError
from fast_core.run.plan import RunPlan
from fast_core.run.structures import rows_per_log

COMMIT_ROWS = 2  # most rows written between two commits: a step and a final observation


def check_replay(plan: RunPlan) -> None:
    """Check that the run can collect and draw.

    Raises:
        ConfigError: It can't; names the key.
    """
    _check_spec(plan)
    _check_rows(plan)
    _check_warmup(plan)


def _check_spec(plan: RunPlan) -> None:
    """An algorithm of one's own asks for something that can be drawn."""
    spec: object = plan.replay_spec
    if isinstance(spec, ReplaySpec):
        window = spec.sequence or Window(1)
        counts = (spec.batch_size, spec.n_step, window.steps, window.before + 1, window.after + 1)
        whole = all(type(value) is int and value >= 1 for value in counts)
        if whole and 0.0 <= spec.gamma <= 1.0:
            return
    raise ConfigError(
        f"algorithm.name {plan.config.algorithm.name!r}: replay() must return a "
        "fast_core.algorithm.ReplaySpec of batch_size and n_step, integers of at least 1, and "
        "gamma from 0 to 1, and of sequences with at least 1 of `steps` if it draws such; "
        f"got {spec!r}"
    )


def _check_rows(plan: RunPlan) -> None:
    """Each environment's share of the replay holds at least one window."""
    spec, frames = plan.replay_spec, plan.environment.frames
    needed = spec.before + spec.ahead + frames + COMMIT_ROWS
    if rows_per_log(plan) < needed:
        envs = plan.config.envs
        raise ConfigError(
            f"replay.capacity must give each of the {envs} environments at least {needed} rows "
            f"({_steps(spec)}, stacked frames {frames}, and {COMMIT_ROWS}); got "
            f"{plan.config.replay.capacity}, which is {rows_per_log(plan)} for each. Raise it to "
            f"{needed * envs} or more."
        )


def _check_warmup(plan: RunPlan) -> None:
    """When the first update is granted, every environment has a whole window behind it."""
    spec, envs = plan.replay_spec, plan.config.envs
    least, starts = envs * spec.ahead, plan.config.replay.learning_starts
    if starts < least:
        raise ConfigError(
            f"replay.learning_starts must be at least {least}, {spec.ahead} steps ({_steps(spec)}) "
            f"of each of the {envs} environments, so that there is something to draw; got "
            f"{starts}. Raise it, or lower rollout.shards or rollout.envs_per_shard."
        )


def _steps(spec: ReplaySpec) -> str:
    """How long what is drawn is, in the words of whoever set it."""
    if spec.sequence is None:
        return f"algorithm.n_step {spec.n_step}"
    window = spec.sequence
    warming = f", {window.before} of them to warm a memory up" if window.before else ""
    return f"a sequence of {window.length} rows{warming}"


def check_optimizers(plan: RunPlan) -> None:
    """Check that several optimizers can share the work of this algorithm.

    Raises:
        ConfigError: They can't; names the key.
    """
    count, batch = plan.optimizers, plan.replay_spec.batch_size
    name = plan.config.algorithm.name
    if plan.blueprint.exchanged(plan.environment) == 0:
        raise ConfigError(
            f"nodes.optimizer.count must be 1: algorithm.name {name!r} does not say what several "
            f"optimizers would exchange (Blueprint.exchanged); got {count}"
        )
    if plan.averages and batch % count:
        near = [str(other) for other in range(2, batch + 1) if batch % other == 0][:3]
        what = "algorithm.batch_size"
        if plan.replay_spec.sequence is not None:
            what = "the sequences of a batch (algorithm.batch_size by sequence_length)"
        raise ConfigError(
            f"nodes.optimizer.count must divide {what} with nodes.optimizer.update allreduce; got "
            f"{count} for {batch}. Use {', '.join(near) or '1'}."
        )
