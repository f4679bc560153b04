"""What every node keeps (`fast_core.nodes.node.Node`)."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from fast_core.config import (
    EnvironmentConfig,
    ExtraNodeConfig,
    RolloutConfig,
    RunConfig,
    StopConfig,
    Values,
)
from fast_core.config.algorithms import algorithm_config_type
from fast_core.envs.trying.probe import probe
from fast_core.errors import ContractBroken
from fast_core.launcher.topology import check_topology
from fast_core.launcher.wiring import node_class
from fast_core.messages import (
    Command,
    Envelope,
    Event,
    Figures,
    Followed,
    LogLine,
    RolloutRef,
    Save,
    Saved,
    Stop,
    Train,
    Transform,
    Transformed,
    UserMessage,
)
from fast_core.messages.wire import decode_command, encode
from fast_core.nodes.node import Node
from fast_core.run.plan import RunPlan
from fast_core.testing.remains import Remains
from fast_core.testing.stage import Stage, drain, make_run_plan

SMALL = RunConfig(
    name="check",
    environment=EnvironmentConfig(id="CartPole-v1"),
    rollout=RolloutConfig(shards=2, envs_per_shard=2, steps=8),
    algorithm=msgspec.convert(
        {"name": "ppo", "hidden_sizes": [4], "minibatch_size": 16, "epochs": 1},
        algorithm_config_type("ppo"),
    ),
    stop=StopConfig(env_steps=1000),
)
_ANYWAY = {Figures.__name__, LogLine.__name__}  # what every node may send without saying so


def check_node(
    node: type[Node] | str,
    settings: Values | None = None,
    *,
    messages: Sequence[UserMessage] = (),
    beside: Sequence[type[Node] | str] = (),
    config: RunConfig = SMALL,
) -> None:
    """Check a node as the launcher starts it, in a small run of which nothing else lives.

    It fits its run: what it consumes, sends, reads and writes has somebody at the other end. It
    begins, has nothing to do while nothing comes, answers each `Transform` and each `Save`, takes
    the messages it consumes, and sends what it declares. What it saved brings another one back to
    where it was. It closes although it never began, and twice, and leaves nothing behind.

    Args:
        node: Its class, or ``package.module:Class``; that of a node of the run's own will do.
        settings: What ``nodes.extra`` gives it.
        messages: Some that it consumes.
        beside: Other nodes of one's own that it needs; they are not started.
        config: The run.

    Raises:
        ContractBroken: It does not keep one of these.
        TopologyError: It does not fit.
    """
    path = _path(node)
    extra = [ExtraNodeConfig(node=path, settings=settings or {})]
    extra += [ExtraNodeConfig(node=_path(each)) for each in beside]
    environment = probe(config.environment, config.seed)
    with tempfile.TemporaryDirectory(prefix="fastloop-check-") as folder:
        plan = make_run_plan(Path(folder), config, environment)
        own = [role.name for role in plan.roles.values() if role.node_class == path]
        if not own:
            nodes = msgspec.structs.replace(config.nodes, extra=(*config.nodes.extra, *extra))
            config = msgspec.structs.replace(config, nodes=nodes)
            plan = make_run_plan(Path(folder), config, environment)
            own = [extra[0].node_name]
        check_topology(config)
        _Check(node_class(path), own[0], plan, messages).run()


def _path(node: type[Node] | str) -> str:
    return node if isinstance(node, str) else f"{node.__module__}:{node.__qualname__}"


class _Check:
    def __init__(
        self, kind: type[Node], name: str, plan: RunPlan, messages: Sequence[UserMessage]
    ) -> None:
        self._kind, self._name, self._plan, self._messages = kind, name, plan, messages
        self._folder = Path(plan.run_directory) / "checkpoints"

    def run(self) -> None:
        """A life that never begins, one that works and is saved, and one that goes on."""
        remains = []
        for _ in range(2):
            stage = Stage(self._plan)
            self._closes(stage, self._kind(stage.context(self._name)))
            self._closes(*self._begin())
            remains.append(Remains.now())
        if more := remains[1].beyond(remains[0]):
            raise self._broken(
                f"close must let go of everything; with each life come {more}",
                "End there what __init__ and setup began, threads by joining them",
            )
        stage, node = self._begin()
        for message in self._messages:
            stage.hub.send(self._name, decode_command(encode(message)))
        self._step(stage, node)
        if Transform in self._kind.consumes:
            self._transform(stage, node, 1)
        if Followed in self._kind.emits:
            self._follow(stage, node)
        if Save in self._kind.consumes:
            self._save(stage, node)
            if Transform in self._kind.consumes:
                self._goes_on(stage, node)
        stage.hub.send(self._name, Stop("finished"))
        node.run()
        self._closes(stage, node)

    def _begin(self, checkpoint: str | None = None) -> tuple[Stage, Node]:
        stage = Stage(replace(self._plan, checkpoint=checkpoint))
        node = self._kind(stage.context(self._name))
        node.setup()
        self._step(stage, node)
        return stage, node

    def _closes(self, stage: Stage, node: Node) -> None:
        for when in ("once", "a second time"):
            try:
                node.close()
            except Exception as error:
                raise self._broken(
                    f"close must work although setup was never called or failed, and twice; it "
                    f"raised {error!r} when it was called {when}",
                    "Give what setup makes a value in the class body, and look for it",
                ) from error
        stage.close()

    def _step(self, stage: Stage, node: Node) -> list[Event]:
        """Have it handle what came; returns what it sent."""
        drain(node)
        sent = stage.events()
        known = {kind.__name__ for kind in self._kind.emits} | _ANYWAY
        names = {
            event.kind.rpartition(":")[2] if isinstance(event, Envelope) else type(event).__name__
            for event in sent
        }
        if strange := sorted(names - known):
            raise self._broken(
                f"emits must name what it sends; it sent {', '.join(strange)} besides "
                f"{', '.join(sorted(kind.__name__ for kind in self._kind.emits))}",
                f"Add {strange[0]} to its `emits`",
            )
        return sent

    def _commit(self, stage: Stage, shard: int, number: int) -> RolloutRef:
        """A rollout of zeros and ones."""
        rng, slot = np.random.default_rng(number), stage.memory.rollouts(shard).slot(0)
        slot.open(number)
        for column in slot.values():
            drawn = rng.integers(0, 2, column.shape)
            column[...] = drawn if column.dtype.names is None else np.zeros((), column.dtype)
        slot.commit(number, 1)
        return RolloutRef(shard=shard, incarnation=1, slot=0, rollout_id=number)

    def _transform(self, stage: Stage, node: Node, number: int) -> list[bytes]:
        """It changes rollouts in place and says so; returns their columns."""
        found = []
        for shard in range(self._plan.config.rollout.shards):
            ref = self._commit(stage, shard, number)
            command, slot = Transform(number, ref), stage.memory.rollouts(shard).slot(0)
            self._answers(stage, node, command, Transformed(self._name, ref))
            if not np.isfinite(slot["reward"]).all():
                raise self._broken(
                    "rewards must stay finite; of finite ones some are not any more",
                    "Look for divisions by nothing",
                )
            found += [column.tobytes() for column in slot.values()]
        return found

    def _follow(self, stage: Stage, node: Node) -> None:
        """It answers a ticket."""
        shards = range(self._plan.config.rollout.shards)
        replays = self._plan.config.algorithm.learns_from == "replay"
        refs = () if replays else tuple(self._commit(stage, shard, 1) for shard in shards)
        self._answers(stage, node, Train(1, refs, 0, 1), Followed(self._name, 1))

    def _answers(self, stage: Stage, node: Node, command: Command, answer: Event) -> None:
        stage.hub.send(self._name, command)
        sent = [each for each in self._step(stage, node) if type(each) is type(answer)]
        if sent != [answer]:
            raise self._broken(
                f"each {type(command).__name__} must be answered with one "
                f"{type(answer).__name__}; {command} was answered with {sent or 'nothing'}",
                f"Send {answer} when it is done",
            )

    def _save(self, stage: Stage, node: Node) -> None:
        stage.hub.send(self._name, Save(1, str(self._folder)))
        answers = [event for event in self._step(stage, node) if isinstance(event, Saved)]
        names = [name for answer in answers for name in answer.files]
        lacking = [name for name in names if not (self._folder / name).is_file()]
        whose = [(answer.node, answer.checkpoint, answer.error) for answer in answers]
        if whose != [(self._name, 1, "")] or lacking:
            raise self._broken(
                f"Save must be answered with one Saved that names the files it wrote; got {answers}"
                f"{f', of which {lacking} are not there' if lacking else ''}",
                "Write into its directory, and send Saved(name, command.checkpoint, files)",
            )

    def _goes_on(self, stage: Stage, node: Node) -> None:
        """Another one that begins with the checkpoint does what this one does."""
        other = self._begin(str(self._folder))
        if self._transform(stage, node, 2) != self._transform(*other, 2):
            raise self._broken(
                "a node that begins with a checkpoint must go on as the one that wrote it; it "
                "changes a rollout otherwise",
                "Save everything that it remembers",
            )
        self._closes(*other)

    def _broken(self, promise: str, advice: str) -> ContractBroken:
        return ContractBroken(f"{self._kind.__name__}: {promise}. {advice}.")
