"""Who computes on how many threads: the granted cores, divided by need. Pure.

Every process with a thread per core is the classic way to be slow: the threads of one wait for
those of another at every barrier. So env and policy nodes get one thread each, and the learner
what is idle while it learns.

Where collecting overlaps with learning and leaves less than half of the cores idle, a learner on
these alone would take longer than a whole round at degree 0 (Pong on two cores: 0.78 of its rate).
So it takes all it can use there: threads that wait for others sleep, which leaves their core to
whoever collects, and as many processor seconds go into a round as at degree 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from fast_core.config import RunConfig
from fast_core.run.parts import names_of

# A torch operation split over two threads costs about 20 us more to start and join (measured: a
# round of 2x64 updates takes 19 ms on one thread and 55 ms on two); below this it never pays.
THREADED_UPDATE_FLOPS = 50_000_000
# Further threads of the learner need as much work each as the first two of the smallest update.
FLOPS_PER_THREAD = THREADED_UPDATE_FLOPS // 2
REPLAY_REASON = "The replay node draws on 1 thread, which takes little beside an update."


@dataclass(frozen=True)
class CoreBudget:
    """Processes and threads of a run.

    Attributes:
        env_nodes: Processes that step environments.
        env_threads: Threads of each of them, and of the evaluator.
        policy_threads: Threads of each policy node; 0 where policies act in the env nodes.
        learner_threads: Threads of each optimizer.
        reasons: A sentence for each of the choices, in this order.
        warnings: What the configuration asks for beyond what is granted.
    """

    env_nodes: int
    env_threads: int
    policy_threads: int
    learner_threads: int
    reasons: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def core_budget(
    config: RunConfig,
    granted: int,
    *,
    update_flops: float,
    splits: bool = True,
    node_threads: int = 1,
    one_per_process: bool = False,
) -> CoreBudget:
    """Divide ``granted`` cores among the nodes of ``config``; what it states itself stays.

    Args:
        config: The run's configuration, resolved or not.
        granted: Cores that this process may use, at least 1.
        update_flops: Floating point operations of one optimizer step.
        splits: Whether a large step gains from more threads than one.
        node_threads: Threads of a node that is not the learner, as the user's environment says.
        one_per_process: Whether an env node can have one environment only.
    """
    env_nodes, env_reason = _env_nodes(config, granted, one_per_process=one_per_process)
    names = names_of(config)
    policy_nodes = len(names.policy)
    policy_threads, policy_reason = _policy_threads(
        config, granted, env_nodes, policy_nodes, node_threads
    )
    taken = env_nodes + policy_nodes * policy_threads
    learner_threads, learner_reason = _learner_threads(
        config, granted, taken, update_flops, splits=splits
    )
    replay_reason = REPLAY_REASON if names.replay else ""
    reasons = (
        env_reason,
        _node_threads_reason(node_threads),
        policy_reason,
        replay_reason,
        learner_reason,
    )
    return CoreBudget(
        env_nodes=env_nodes,
        env_threads=node_threads,
        policy_threads=policy_threads if policy_nodes else 0,
        learner_threads=learner_threads,
        reasons=tuple(reason for reason in reasons if reason),
        warnings=tuple(_warnings(config, granted)),
    )


def env_node_count(config: RunConfig, granted: int) -> int:
    """Env nodes of the run: as configured, or one per core, at most one per shard."""
    return _env_nodes(config, granted)[0]


def _env_nodes(
    config: RunConfig, granted: int, *, one_per_process: bool = False
) -> tuple[int, str]:
    count, shards = config.nodes.env.count, config.rollout.shards
    if count != "auto":
        return count, f"{_plural(count, 'env node')}, as nodes.env.count says."
    if one_per_process:
        why = "one for each environment, which needs a process of its own"
        return shards, f"{_plural(shards, 'env node')}: {why}."
    auto = min(shards, granted)
    why = f"one per core of {granted}" if granted <= shards else f"one per shard of {shards}"
    return auto, f"{_plural(auto, 'env node')}: {why}."


def _node_threads_reason(node_threads: int) -> str:
    if node_threads > 1:
        return f"{node_threads} threads in each node, as OMP_NUM_THREADS says."
    return "1 thread in each env node and in the evaluator: they share the cores as processes."


def _policy_threads(
    config: RunConfig, granted: int, env_nodes: int, policy_nodes: int, node_threads: int
) -> tuple[int, str]:
    """Threads of each policy node, 0 and no reason where there is none."""
    if policy_nodes == 0:
        return 0, ""
    nodes, policy = _plural(policy_nodes, "policy node"), config.nodes.policy
    if policy.threads != "auto":
        return policy.threads, f"{nodes} with nodes.policy.threads {policy.threads}, as given."
    if policy.device != "cpu":
        return node_threads, f"{nodes} with {_plural(node_threads, 'thread')}: computes elsewhere."
    idle = (granted - env_nodes) // policy_nodes
    threads = max(node_threads, idle)
    why = "what env nodes leave idle" if idle > node_threads else "env nodes leave no core idle"
    return threads, f"{nodes} with {_plural(threads, 'thread')} each: {why}."


def _learner_threads(
    config: RunConfig, granted: int, taken: int, update_flops: float, *, splits: bool
) -> tuple[int, str]:
    """Threads of each optimizer."""
    optimizer, count = config.nodes.optimizer, config.nodes.optimizer.count
    many = f" in each of {count} optimizers" if count > 1 else ""
    if optimizer.threads != "auto":
        given = optimizer.threads
        return given, f"{_plural(given, 'learner thread')}{many}, as nodes.optimizer.threads says."
    if optimizer.update == "allreduce":
        update_flops /= count  # each differentiates its share of the rows
    if update_flops < THREADED_UPDATE_FLOPS:
        million = update_flops / 1e6
        small = f"an update of {million:.3g} MFLOP is too small to be split"
        return 1, f"1 learner thread{many}: {small}."
    if not splits and optimizer.device == "cpu":
        why = "more wait for one another within an update where they share the cores"
        hint = "" if many else "; nodes.optimizer.count divides a batch among optimizers instead"
        return 1, f"1 learner thread{many}: {why}{hint}."
    useful = int(update_flops // FLOPS_PER_THREAD)
    left = granted - taken
    if config.degree == 0:
        free, why = granted, "at off_policy_degree 0 env nodes wait while it learns"
    elif 2 * left >= granted:
        free, why = left, "what the nodes that collect meanwhile leave"
    else:
        free, why = granted, "the nodes that collect meanwhile leave too few, so it shares theirs"
    if many:
        free, why = max(1, free // count), f"{why}, shared evenly"
    if useful < free:
        free, why = useful, "more would have too little to do each"
    return free, f"{_plural(free, 'learner thread')}{many} of {_plural(granted, 'core')}: {why}."


def _warnings(config: RunConfig, granted: int) -> list[str]:
    """Explicit numbers beyond the granted cores: allowed, since they may be meant, but told."""
    found = []
    cores = _plural(granted, "core is", "cores are")
    asked = {
        "nodes.optimizer.threads": config.nodes.optimizer.threads,
        "nodes.policy.threads": config.nodes.policy.threads,
    }
    for key, threads in asked.items():
        if threads != "auto" and threads > granted:
            found.append(
                f"{key} is {threads}, but {cores} granted: "
                "threads will wait for one another. `fastloop doctor` says what limits the cores."
            )
    count, threads = config.nodes.optimizer.count, config.nodes.optimizer.threads
    each = 1 if threads == "auto" else threads
    if each <= granted < count * each:
        found.append(
            f"nodes.optimizer.count is {count} with {_plural(each, 'thread')} each, but {cores} "
            "granted: optimizers will wait for one another. Lower nodes.optimizer.count"
            f"{'' if each == 1 else ' or nodes.optimizer.threads'}."
        )
    return found


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
