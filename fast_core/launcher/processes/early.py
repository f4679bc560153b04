"""What starts before the environment is known: which nodes, and what they import meanwhile."""

from __future__ import annotations

from fast_core.config import RunConfig
from fast_core.launcher.prepare import needs_torch
from fast_core.launcher.sizing.budget import env_node_count
from fast_core.launcher.topology import warm_module
from fast_core.run.names import Names

_OWN_DESCRIPTORS = 32  # of the launcher without nodes, generously


def preloaded(config: RunConfig) -> tuple[str, ...]:
    """What two or more nodes need; the torch of a single learner is imported in its own process."""
    blueprint, optimizer = config.algorithm, config.nodes.optimizer
    learners = optimizer.count > 1 and blueprint.uses_torch(
        device=optimizer.device, compile=optimizer.compile
    )
    surely = config.policy.backend == "auto" and (
        needs_torch(config)
        or blueprint.policy_uses_torch(pixels=config.environment.atari is not None)
    )
    torch = ("torch",) if surely or learners or config.policy.backend == "torch" else ()
    # a second to import, starts no thread; who lacks it learns that from the probe
    envpool = ("envpool",) if config.environment.backend == "envpool" else ()
    return (
        "fast_core.launcher.processes.node_process",
        *config.environment.modules,
        *torch,
        *envpool,
    )


def expected_nodes(config: RunConfig, cores: int) -> tuple[str, ...]:
    """Names of the nodes that the run will have, as far as can be said yet."""
    count = env_node_count(config, cores)
    policies = config.nodes.policy.count if config.policy.placement == "node" else 0
    names = Names.of(config, count, policies)  # those with the slowest imports first
    first = (*names.optimizers, *names.replay, *names.policy)
    return (*first, *(name for name in names.all if name not in first))


def descriptors_needed(config: RunConfig, cores: int) -> int:
    """Most file descriptors of the launcher: for each node its link, its connection and its log."""
    return _OWN_DESCRIPTORS + 3 * len(expected_nodes(config, cores))


def warm(name: str, config: RunConfig) -> tuple[str, ...]:
    """What the node ``name`` imports before it has its plan."""
    modules = (warm_module(name, config),)
    optimizer = config.nodes.optimizer
    torch = config.algorithm.uses_torch(device=optimizer.device, compile=optimizer.compile)
    return ("torch", *modules) if name in Names.of(config, 0, 0).optimizers and torch else modules
