"""Process mode: every node a process of its own, forked while the configuration is checked."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path

import msgspec

from fast_core.config import RunConfig
from fast_core.envs.backends import imported
from fast_core.launcher.failures.blame import blaming
from fast_core.launcher.failures.sources import Sources
from fast_core.launcher.host_nodes import NODE_TARGET
from fast_core.launcher.places.mirrors import mirrors, stewards_of
from fast_core.launcher.prepare import needs_torch, resolve
from fast_core.launcher.processes.beginning import PROBE, ask_probe
from fast_core.launcher.processes.start import probe_start
from fast_core.launcher.processes.tree import ProcessTree
from fast_core.launcher.session import Session
from fast_core.launcher.shell import Shell
from fast_core.launcher.sizing.budget import env_node_count
from fast_core.launcher.sizing.trial import measure, spawn_trial, with_placement
from fast_core.launcher.supervisor import TERMINATE_GRACE_S, Supervisor
from fast_core.launcher.topology import node_classes, optional_nodes, warm
from fast_core.launcher.verdict import Findings
from fast_core.messages.zmq_channel import ZmqHub
from fast_core.run.memory import RunMemory
from fast_core.run.names import Names, Role
from fast_core.run.parts import names_of, roles_of
from fast_core.run.plan import RunPlan
from fast_core.system import caches, resources, threads
from fast_core.system.interrupts import Interrupts
from fast_core.system.surroundings import check_descriptors
from fast_core.system.watched import Beats

STEWARD_TARGET = "fast_core.launcher.steward:steward_main"
PROBE_TARGET = "fast_core.launcher.processes.node_process:probe_main"
SOCKET_NAME = "scheduler"
_OWN_DESCRIPTORS = 32  # of the launcher without nodes, generously


class ProcessMode:
    """The processes of one session; see `fast_core.launcher.session.Mode`."""

    def __init__(self, session: Session, stack: ExitStack) -> None:
        """Start the fork server; ``stack`` ends every process."""
        self.sources: Sources | None = Sources()
        self._config, self._interrupts = session.config, session.interrupts
        self._places = session.places
        beats = None
        if session.config.callbacks or session.callbacks:  # user code that runs in this process
            limit_s = session.config.supervision.work_timeout_s
            beats = Beats(limit_s, session.interrupts.fileno())
        log = session.run.logs / "fork-server.log"
        self._tree = process_tree(session.config, log, stack, beats)
        self.folder = self._tree.directory
        self._hub: ZmqHub | None = None

    def look(self) -> Findings:
        """Ask the probe process, and measure; the slow imports of nodes overlap with it."""
        return look(self._tree, self._config, self._interrupts, runs=True, elsewhere=self._places)

    def prepare(self, plan: RunPlan) -> None:
        """Start the processes that are not there yet."""
        # optional ones start when the others have their plans
        others = {*self._tree.children, *optional_nodes(plan.config), *plan.places}
        for role in plan.begins_with:
            if role.name not in others:
                self._tree.spawn(role.name, NODE_TARGET, warm=warm(role, plan.config))
        for name in stewards_of(plan):
            self._tree.spawn(name, STEWARD_TARGET)

    def hub(self, plan: RunPlan, memory: RunMemory) -> ZmqHub:
        """Listen on a socket file in the folder that ends with the processes."""
        path = str(self._tree.directory / SOCKET_NAME)
        if plan.places:
            # here, because a run on one host, as most are, does not need it
            from fast_core.launcher.places.hub import PlacedHub

            self._hub = PlacedHub(path, plan, memory, mirrors(plan, node_classes(plan)))
        else:
            self._hub = ZmqHub(path)
        return self._hub

    def nodes(
        self, plan: RunPlan, memory: RunMemory, shell: Shell, refresh: Callable[[], float]
    ) -> Supervisor:
        """Who watches the processes."""
        assert self._hub is not None, "hub comes first"
        return Supervisor(plan, self._tree, memory, self._hub, shell, self._interrupts, refresh)


def process_tree(
    config: RunConfig, log: Path, stack: ExitStack, beats: Beats | None = None
) -> ProcessTree:
    """A fork server that imports what the nodes of this run need; ``beats`` as `Watchdog`."""
    if config.mode == "process":  # else only the probe starts here, for `validate`
        check_descriptors(descriptors_needed(config, resources.cores().granted))
    with blaming(config.algorithm):
        preload = preloaded(config)
    environment = {**threads.ENVIRONMENT, **caches.variables()}
    tree = ProcessTree(preload=preload, environment=environment, log=log, beats=beats)
    stack.callback(tree.close, TERMINATE_GRACE_S)
    return tree


def preloaded(config: RunConfig) -> tuple[str, ...]:
    """What two or more nodes need; the torch of a single learner is imported in its own process."""
    blueprint, optimizer = config.algorithm, config.nodes.optimizer
    names = names_of(config)
    several = len(names.optimizers) + len(names.others) > 1
    learners = several and blueprint.uses_torch(device=optimizer.device, compile=optimizer.compile)
    surely = config.policy.backend == "auto" and (
        needs_torch(config)
        or blueprint.policy_uses_torch(pixels=config.environment.atari is not None)
    )
    torch = ("torch",) if surely or learners or config.policy.backend == "torch" else ()
    return (
        "fast_core.launcher.processes.node_process",
        *config.environment.modules,
        *torch,
        # EnvPool takes a second, and starts no thread; who lacks it learns that from the probe
        *imported(config.environment),
    )


def expected_roles(config: RunConfig, cores: int) -> tuple[Role, ...]:
    """The nodes that the run will have, as far as can be said yet."""
    roles = roles_of(config, env_node_count(config, cores))
    names = Names.of(roles.values())  # those with the slowest imports first
    first = (*names.optimizers, *names.replay, *names.policy)
    return tuple(roles[name] for name in dict.fromkeys((*first, *names.all)))


def descriptors_needed(config: RunConfig, cores: int) -> int:
    """Most file descriptors of the launcher: for each node its link, its connection and its log."""
    return _OWN_DESCRIPTORS + 3 * len(expected_roles(config, cores))


def look(
    tree: ProcessTree,
    config: RunConfig,
    interrupts: Interrupts,
    *,
    runs: bool,
    elsewhere: Collection[str] = (),
) -> Findings:
    """Ask the probe process, and measure; ``runs`` says that nodes will be needed.

    Those ``elsewhere`` are another host's.
    """
    cores = resources.cores().granted
    probe = tree.spawn(PROBE, PROBE_TARGET)
    auto = config.policy.placement == "auto"
    if runs and auto:
        spawn_trial(tree)  # alone, or the imports of the nodes would be measured too
    elif runs:  # the slow imports of these nodes overlap with everything that follows
        optional = optional_nodes(config)
        for role in expected_roles(config, cores):
            if role.name not in optional and role.name not in elsewhere:
                tree.spawn(role.name, NODE_TARGET, warm=warm(role, config))
    start = probe_start(config)
    limit_s = config.supervision.start_timeout_s
    environment, made_s = ask_probe(tree, probe, start, interrupts, limit_s)
    if not (runs and auto):
        return Findings(environment, config, made_s=made_s)
    served = msgspec.structs.replace(config.policy, placement="node")
    resolved = resolve(msgspec.structs.replace(config, policy=served), environment, cores)
    placed = measure(tree, resolved, environment, cores, interrupts, made_s)
    return Findings(environment, with_placement(config, placed), placed, made_s)
