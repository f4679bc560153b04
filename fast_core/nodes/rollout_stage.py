"""The base of nodes that take every rollout before it is trained on."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from fast_core.algorithm import ShardRollout
from fast_core.errors import CheckpointError, FastLoopError
from fast_core.messages import Command, Ready, Save, Saved, Transform, Transformed
from fast_core.nodes.node import Node, NodeContext, NodeState
from fast_core.nodes.rollout_reader import RolloutReader
from fast_core.system.durable import write_durably
from fast_core.system.state_file import check, load, pack


def state_file(node: str) -> str:
    """Where the state of a user's node lies inside a checkpoint."""
    return f"node-{node}.msgpack"


class RolloutStage(Node):
    """Subclass this, write `transform`, and name the class in ``nodes.extra``.

    The scheduler gives it each rollout once: at ``off_policy_degree: 0`` in the order of shards,
    so that what it remembers doesn't depend on timing, above that as they come. What it remembers
    belongs into `state_dict`.

    Concurrency: between `Transform` and `Transformed` the node is the only one that touches the
    slot. If it dies meanwhile the run ends, and the slot is never read.
    """

    consumes = frozenset({Transform, Save})
    emits = frozenset({Ready, Transformed, Saved})
    writes = frozenset({"rollouts"})

    def __init__(self, context: NodeContext) -> None:
        """Attach to the rollouts; what is slow or can fail belongs into `prepare`."""
        super().__init__(context)
        self._rollouts = RolloutReader(context.plan, context.memory)

    # --- for subclasses ------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make everything ready; after it the state is restored where a run is resumed."""

    @abstractmethod
    def transform(self, rollout: ShardRollout) -> None:
        """Read a rollout and change its arrays in place; they are only valid during the call."""

    def state_dict(self) -> dict[str, object]:
        """Everything that changes: arrays, numbers, text, and lists and dicts of those."""
        return {}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Go on from `state_dict`."""

    # --- the node ------------------------------------------------------------------------------

    def setup(self) -> None:
        """Prepare, and restore the state where the run is resumed."""
        self.prepare()
        if self.context.plan.saves:
            check(self.state_dict())
        checkpoint = self.context.plan.checkpoint
        if checkpoint is not None:
            self._restore(Path(checkpoint) / state_file(self.context.name))

    def handle(self, command: Command) -> None:
        """Take a rollout, or save; a subclass with messages of its own calls it for all others."""
        match command:
            case Transform(_, ref):
                doing = f"transforming rollout {ref.rollout_id} of shard {ref.shard}"
                with self.state(NodeState.TRANSFORMING, doing):
                    self.transform(self._rollouts.view(ref))
                self.context.channel.send(Transformed(self.context.name, ref))
            case Save(checkpoint, directory):
                name = state_file(self.context.name)
                with self.state(NodeState.SAVING, f"saving checkpoint {checkpoint}"):
                    data = pack(self.state_dict())
                with self.state(NodeState.WRITING, f"writing checkpoint {checkpoint}"):
                    write_durably(Path(directory) / name, data)
                self.context.channel.send(Saved(self.context.name, checkpoint, (name,)))
            case _:
                raise FastLoopError(
                    f"{type(self).__name__} consumes {type(command).__name__}, but its handle() "
                    "leaves it to RolloutStage, which takes Transform and Save only. Handle it "
                    "before calling super().handle(command)"
                )

    def _restore(self, path: Path) -> None:
        if not path.exists():
            raise CheckpointError(
                f"the checkpoint has no part of node {self.context.name!r} ({path.name}): the run "
                "that wrote it had no such node. Resume with the same nodes.extra, or start a new "
                "run"
            )
        self.load_state_dict(load(path))
