"""Whether a configuration can run: the one verdict of `launch` and of `config validate`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from fast_core.algorithm.spec import REWARD, Blur, EnvironmentSpec
from fast_core.config import RunConfig
from fast_core.errors import ConfigError
from fast_core.launcher.calling.callback import check_named
from fast_core.launcher.checkpoints.disk_room import check_disk
from fast_core.launcher.failures.blame import blaming
from fast_core.launcher.prepare import budget, make_plan, resolve, scheduler_settings
from fast_core.launcher.sizing.auto_degree import with_room
from fast_core.launcher.sizing.budget import CoreBudget
from fast_core.launcher.sizing.one_per_process import check_one_per_process
from fast_core.launcher.sizing.placement import Choice
from fast_core.launcher.topology import check_topology
from fast_core.memory import memory_available
from fast_core.monitor.sinks import check_sinks
from fast_core.policy.beginning import check_start, read_start
from fast_core.run.memory import check_memory
from fast_core.run.plan import RunPlan
from fast_core.system import resources

MANY_NUMBERS = 20_000_000
LARGE_PART = 40_000  # numbers of an observation; 200 x 200 of grey


@dataclass(frozen=True)
class Findings:
    """What only a process that has the environment can find out.

    Attributes:
        environment: What it is like.
        config: The configuration, with a placement where one was measured.
        placed: What the measurement chose, or why there is none; None where it was not asked for.
        made_s: How long the environment took to be made and reset.
    """

    environment: EnvironmentSpec
    config: RunConfig
    placed: Choice | str | None = None
    made_s: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """A run that can begin.

    Attributes:
        plan: Its plan, of the resolved configuration.
        divided: Who gets how many cores.
        found: What was found out before.
    """

    plan: RunPlan
    divided: CoreBudget
    found: Findings


def judge(
    config: RunConfig,
    look: Callable[[], Findings],
    run_directory: str,
    *,
    checkpoint: str | None = None,
    continued_env_steps: int | None = None,
    kept_bytes: int = 0,
) -> Verdict:
    """Find out whether a run can begin; nothing of it exists afterwards.

    Args:
        config: Of the run; the rules of the file hold.
        look: Makes the environment once, tries the devices, and measures what is to be measured.
        run_directory: Where the run will lie.
        checkpoint: Where it goes on from.
        continued_env_steps: See `RunPlan`.
        kept_bytes: What checkpoints that the run will replace take on the disk.

    Raises:
        ConfigError, TopologyError, SegmentError: It can't; says which key to change.
        CheckpointError: What it begins from can't be read.
    """
    with blaming(config.algorithm):
        check_topology(config)
        check_sinks(config.metrics)
        check_named(config.callbacks)
        found = look()
        cores = resources.cores().granted
        divided = budget(found.config, found.environment, cores)
        resolved = resolve(found.config, found.environment, cores)
        check_one_per_process(resolved, found.environment)
        plan = make_plan(
            resolved,
            found.environment,
            run_directory,
            checkpoint,
            continued_env_steps,
            found.made_s,
        )
        plan = with_room(plan, memory_available())
        scheduler_settings(plan, "")  # has rules of its own
        if resolved.policy.loaded is not None and checkpoint is None:
            start, _ = read_start(resolved.policy.loaded)
            check_start(start, resolved.algorithm, found.environment)
        _check_torch(plan)
        check_disk(plan, kept_bytes)
        check_memory(plan)
    return Verdict(plan, divided, found)


def _check_torch(plan: RunPlan) -> None:
    """Refuse what needs torch where there is none. A user's algorithm may need none after all."""
    optimizer, algorithm = plan.config.nodes.optimizer, plan.config.algorithm
    learns = algorithm.uses_torch(device=optimizer.device, compile=optimizer.compile)
    ours = type(algorithm).__module__.startswith("fast_core.")
    if (plan.backend == "torch" or (learns and ours)) and find_spec("torch") is None:
        raise ConfigError(
            f"algorithm.name {algorithm.name!r} computes in torch with these keys, and torch is "
            "not installed. Run `pip install torch`."
        )


def remarks(plan: RunPlan) -> list[str]:
    """What a person should know of a run that can begin and may be meant otherwise."""
    blurs = [text for blur in plan.environment.blurred if (text := _blur_remark(plan, blur))]
    return [*_large_remarks(plan), *blurs]


def _blur_remark(plan: RunPlan, blur: Blur) -> str:
    """What can be done about numbers that float32 can't tell apart; nothing if it is done."""
    settings = plan.config.algorithm
    normalizes = getattr(settings, "normalize_observations", None)
    centers = getattr(settings, "center_observations", None)
    seen = (
        f"{blur.what} of {plan.environment.id!r} is about {blur.mean:.9g} and deviates by "
        f"{blur.deviation:.2g} in the steps of the try-out"
    )
    if blur.what == REWARD:
        return (
            f"{seen}: what all have in common has to be learned before what differs. Let the "
            "environment or a wrapper (environment.wrappers) leave it out, unless it is meant to "
            "make episodes last"
        )
    if blur.dtype == "float32":
        also = (
            "" if normalizes in (None, True) else ", and set algorithm.normalize_observations: true"
        )
        advice = f"Declare float64 in its observation space{also}"
    elif normalizes and centers:
        return ""
    elif normalizes is None or centers is None:
        advice = "Count it from somewhere near in the environment or a wrapper"
    elif normalizes:
        advice = "Begin a run with algorithm.center_observations: true"
    else:
        advice = "Set algorithm.normalize_observations: true"
    return (
        f"{seen}, where float32, in which networks compute, has steps of {blur.step:.2g}. {advice}"
    )


def _large_remarks(plan: RunPlan) -> list[str]:
    row, fields = plan.environment.row, plan.blueprint.policy_fields(plan.environment)
    numbers = sum(math.prod(field.shape) for field in fields)
    parts = [(name, part) for name, part in row.parts or [("", row)] if part.kind == "box"]
    name, part = max(parts, key=lambda each: each[1].size, default=("", row))
    if numbers < MANY_NUMBERS or part.size < LARGE_PART:
        return []
    what, size = "images", " x ".join(map(str, part.shape))
    if len(part.shape) == 1:
        what, size = "observations", f"{size} numbers"
    of = f"{what} {name!r}" if name else what
    smaller = "{name: gymnasium.wrappers:ResizeObservation, kwargs: {shape: [84, 84]}}"
    advice = f"environment.wrappers: [{smaller}] (with opencv-python-headless installed)"
    if (
        name
        or len(part.shape) < 2
        or part.dtype != "uint8"
        or part.shape[2:] not in ((), (1,), (3,), (4,))
    ):
        advice = "let the environment give smaller ones"
    return [
        f"the policy has {numbers / 1e6:.0f} million numbers ({numbers / 2.5e5:.0f} MB), because "
        f"{of} of {plan.environment.id!r} are {size}: each node that acts keeps some copies of "
        f"that, and takes each new version. Smaller {what} learn sooner: {advice}"
    ]
