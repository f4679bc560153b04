"""One run's shared memory: which structure lies where, and who writes it.

Everything is in a single segment. The layout is computed from the plan, so the launcher and
every node agree on it without exchanging offsets; the segment's header proves that they do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fast_core.algorithm import Array
from fast_core.envs import progress_words
from fast_core.errors import ConfigError, SegmentError
from fast_core.memory import (
    Arena,
    Cell,
    Doorbell,
    EvaluationSlot,
    Layout,
    ReplayLog,
    Ring,
    RolloutStore,
    Segment,
    StatsBoard,
    WeightBoard,
    reserve_of,
)
from fast_core.run.needs import arithmetic, fitting, private_nbytes
from fast_core.run.plan import RunPlan
from fast_core.spec import FieldSpec

_RECORD = struct.Struct("<6q")
SPAN = struct.Struct("<3q")  # state, start and end on the monotonic clock in ns
SPANS_KEPT = 4096


@dataclass(frozen=True)
class RolloutRecord:
    """What an env node publishes when a rollout is complete; the optimizer checks it."""

    shard: int
    incarnation: int
    slot: int
    rollout_id: int
    ticket: int
    version: int

    def pack(self) -> bytes:
        """The fixed-size ring record."""
        return _RECORD.pack(
            self.shard, self.incarnation, self.slot, self.rollout_id, self.ticket, self.version
        )

    @classmethod
    def unpack(cls, data: bytes) -> RolloutRecord:
        """Read a ring record."""
        return cls(*_RECORD.unpack(data))


class ParameterPack:
    """Lays the policy's parameters one after the other into one flat float32 vector."""

    def __init__(self, fields: Sequence[FieldSpec]) -> None:
        """``fields`` come from the blueprint's ``policy_fields``.

        Raises:
            ConfigError: One of them is not float32.
        """
        self.fields = tuple(fields)
        for field in self.fields:
            if field.dtype != "float32":
                raise ConfigError(
                    f"policy_fields of the algorithm must be float32; {field.name!r} is "
                    f"{field.dtype}. Policies may convert what they load."
                )
        sizes = [field.row_nbytes // 4 for field in self.fields]
        self._ends = np.cumsum([0, *sizes]).tolist()
        self.nbytes = 4 * self._ends[-1]

    def empty(self) -> Array:
        """A new flat vector."""
        return np.zeros(self._ends[-1], np.float32)

    def pack(self, parameters: Sequence[Array], flat: Array) -> None:
        """Copy parameters, shaped as the fields say, into ``flat``.

        Raises:
            ConfigError: They are not what the fields say; NumPy would broadcast some of that.
        """
        if len(parameters) != len(self.fields):
            raise ConfigError(
                f"policy_parameters of the algorithm must give {len(self.fields)} arrays, as its "
                f"policy_fields says ({', '.join(field.name for field in self.fields)}); got "
                f"{len(parameters)}."
            )
        for field, parameter, view in zip(self.fields, parameters, self.views(flat), strict=True):
            if parameter.shape != field.shape or parameter.dtype != np.float32:
                raise ConfigError(
                    f"policy_parameters of the algorithm must give {field.name!r} as float32 of "
                    f"shape {field.shape}, as its policy_fields says; got {parameter.dtype} of "
                    f"shape {tuple(parameter.shape)}."
                )
            view[...] = parameter

    def views(self, flat: Array) -> list[Array]:
        """The parameters as views of ``flat``."""
        spans = zip(self.fields, self._ends[:-1], self._ends[1:], strict=True)
        return [flat[start:end].reshape(field.shape) for field, start, end in spans]


def layout_of(plan: RunPlan) -> Layout:
    """Where everything lies."""
    rollout, layout = plan.config.rollout, Layout()
    pack = ParameterPack(plan.blueprint.policy_fields(plan.environment))
    for name in plan.node_names:
        layout.add(f"doorbell/{name}", Doorbell.nbytes(), writer="anyone (fetch-add)")
        layout.add(
            f"spans/{name}",
            Ring.nbytes(SPANS_KEPT, SPAN.size),
            writer="head: the node, tail: launcher",
        )
    layout.add("stats", StatsBoard.nbytes(len(plan.node_names)), writer="each node its own row")
    layout.add("weights", WeightBoard.nbytes(pack.nbytes), writer="optimizer")
    layout.add(
        "evaluation",
        EvaluationSlot.nbytes(pack.nbytes),
        writer="optimizer; the release word: evaluator",
    )
    for shard in range(rollout.shards):
        if plan.replays:
            log = ReplayLog.nbytes(*_log_shape(plan), _reserve(plan))
            layout.add(f"replay/{shard}", log, writer="the env node executing the shard")
        else:
            _add_rollouts(plan, layout, shard)
        for group in range(plan.groups):
            words = 8 * progress_words(len(plan.group_envs(group)))
            name = f"progress/{shard}.{group}"
            layout.add(name, words, writer="the env node executing the shard")
            if plan.policy_nodes:
                _add_cells(plan, layout, shard, group)
    if plan.replays:
        _add_batches(plan, layout)
    return layout


def _log_shape(plan: RunPlan) -> tuple[tuple[FieldSpec, ...], int, int]:
    """Columns, rows and environments of a shard's replay logs."""
    return plan.replay_fields(), plan.rows_per_log, plan.config.rollout.envs_per_shard


def _reserve(plan: RunPlan) -> int:
    """Rows of each replay log that are kept beyond those drawn."""
    return reserve_of(plan.rows_per_log, plan.rows_per_burst)


def _add_rollouts(plan: RunPlan, layout: Layout, shard: int) -> None:
    """Where a shard's rollouts wait for the optimizer, and its announcements of them."""
    envs, fields = plan.config.rollout.envs_per_shard, plan.rollout_fields()
    store = RolloutStore.nbytes(fields, plan.slots_per_shard, plan.config.steps, envs)
    layout.add(f"rollouts/{shard}", store, writer="the env node executing the shard")
    layout.add(
        f"records/{shard}",
        Ring.nbytes(plan.records_per_shard, _RECORD.size),
        writer="head: env node, tail: optimizer",
    )


def _add_batches(plan: RunPlan, layout: Layout) -> None:
    """What the replay node and the optimizers exchange, and the optimizers among themselves."""
    rows = plan.rows_per_batch
    for rank in range(plan.optimizers):
        for slot in range(plan.batch_slots):
            batch = Cell.nbytes(plan.batch_fields(), rows)
            layout.add(f"batches/{rank}.{slot}", batch, writer="the replay node")
            result = Cell.nbytes(plan.result_fields(), rows)
            layout.add(f"results/{rank}.{slot}", result, writer=f"optimizer-{rank}")
    if plan.optimizers > 1:
        gradient = Cell.nbytes(plan.gradient_fields(), 1)
        for rank in range(plan.optimizers):
            for cell in range(plan.gradient_cells):
                layout.add(f"gradients/{rank}.{cell}", gradient, writer=f"optimizer-{rank}")
            if not plan.averages:
                layout.add(f"bases/{rank}", Cell.nbytes((), 1), writer=f"optimizer-{rank}")
                layout.add(f"applied/{rank}", Cell.nbytes((), 1), writer="optimizer-0")
        if not plan.averages:
            networks = WeightBoard.nbytes(plan.networks_nbytes)
            layout.add("networks", networks, writer="optimizer-0")


def _add_cells(plan: RunPlan, layout: Layout, shard: int, group: int) -> None:
    """What a group of environments and its policy node exchange."""
    envs = len(plan.group_envs(group))
    request, reply = (Cell.nbytes(f, envs) for f in (plan.request_fields(), plan.reply_fields()))
    name = f"{shard}.{group}"
    layout.add(f"requests/{name}", request, writer="the env node executing the shard")
    layout.add(f"replies/{name}", reply, writer="the shard's policy node")


class RunMemory:
    """The structures of one run in one process."""

    def __init__(self, plan: RunPlan, segment: Segment, arena: Arena) -> None:
        """Use `create` or `attach`."""
        self._plan, self.segment, self._arena = plan, segment, arena
        self.parameters = ParameterPack(plan.blueprint.policy_fields(plan.environment))

    @classmethod
    def create(cls, plan: RunPlan, between: Callable[[], None] | None = None) -> RunMemory:
        """Make the segment, reserve its memory and initialise every structure.

        ``between`` is called now and then; what it raises ends the attempt.

        Raises:
            SegmentError: It does not fit; the message has the arithmetic.
        """
        layout = layout_of(plan)
        try:
            segment = Segment.create(
                layout.nbytes,
                backing=plan.config.memory.backing,
                between=between,
                private=private_nbytes(plan),
            )
        except SegmentError as error:
            text = f"{error} {arithmetic(plan, layout)}{fitting(plan, layout)}"
            raise SegmentError(text) from error
        memory = cls(plan, segment, Arena.create(layout, segment))
        region = memory._arena.region
        for name in plan.node_names:
            Doorbell.create(region(f"doorbell/{name}"))
            Ring.create(region(f"spans/{name}"), SPANS_KEPT, SPAN.size)
        StatsBoard.create(region("stats"), len(plan.node_names))
        WeightBoard.create(region("weights"), memory.parameters.nbytes)
        EvaluationSlot.create(region("evaluation"), memory.parameters.nbytes)
        for shard in range(plan.config.rollout.shards):
            if plan.replays:
                ReplayLog.create(region(f"replay/{shard}"), *_log_shape(plan), _reserve(plan))
            else:
                Ring.create(region(f"records/{shard}"), plan.records_per_shard, _RECORD.size)
                RolloutStore.create(region(f"rollouts/{shard}"), *memory._rollout_shape())
            for group in range(plan.groups if plan.policy_nodes else 0):
                envs, name = len(plan.group_envs(group)), f"{shard}.{group}"
                Cell.create(region(f"requests/{name}"), plan.request_fields(), envs)
                Cell.create(region(f"replies/{name}"), plan.reply_fields(), envs)
        if plan.replays:
            memory._create_batches()
        segment.touch()
        return memory

    def _create_batches(self) -> None:
        plan, region = self._plan, self._arena.region
        for rank in range(plan.optimizers):
            for slot in range(plan.batch_slots):
                name = f"{rank}.{slot}"
                Cell.create(region(f"batches/{name}"), plan.batch_fields(), plan.rows_per_batch)
                Cell.create(region(f"results/{name}"), plan.result_fields(), plan.rows_per_batch)
        if plan.optimizers > 1:
            for rank in range(plan.optimizers):
                for cell in range(plan.gradient_cells):
                    Cell.create(region(f"gradients/{rank}.{cell}"), plan.gradient_fields(), 1)
                for words in () if plan.averages else ("bases", "applied"):
                    Cell.create(region(f"{words}/{rank}"), (), 1)
            if not plan.averages:
                WeightBoard.create(region("networks"), plan.networks_nbytes)

    @classmethod
    def attach(cls, plan: RunPlan, descriptor: int) -> RunMemory:
        """Map the launcher's segment; ``descriptor`` stays the caller's to close."""
        layout = layout_of(plan)
        segment = Segment.attach(descriptor, layout.nbytes)
        return cls(plan, segment, Arena.attach(layout, segment))

    def doorbell(self, node: str) -> Doorbell:
        """The one wait point of a node."""
        return Doorbell.attach(self._arena.region(f"doorbell/{node}"))

    def spans(self, node: str) -> Ring:
        """States that a node has left, with their times."""
        return Ring.attach(self._arena.region(f"spans/{node}"))

    def stats(self) -> StatsBoard:
        """One row per node, in the order of ``plan.node_names``."""
        return StatsBoard.attach(self._arena.region("stats"), len(self._plan.node_names))

    def weights(self) -> WeightBoard:
        """Newest published policy parameters."""
        return WeightBoard.attach(self._arena.region("weights"), self.parameters.nbytes)

    def evaluation(self) -> EvaluationSlot:
        """The snapshot that is being evaluated."""
        return EvaluationSlot.attach(self._arena.region("evaluation"), self.parameters.nbytes)

    def rollouts(self, shard: int) -> RolloutStore:
        """The rollout slots of a shard."""
        region = self._arena.region(f"rollouts/{shard}")
        return RolloutStore.attach(region, *self._rollout_shape())

    def _rollout_shape(self) -> tuple[tuple[FieldSpec, ...], int, int, int]:
        plan, rollout = self._plan, self._plan.config.rollout
        fields = plan.rollout_fields()
        return fields, plan.slots_per_shard, plan.config.steps, rollout.envs_per_shard

    def replay_log(self, shard: int, *, continues: bool = False) -> ReplayLog:
        """The replay logs of a shard's environments.

        ``continues`` is for a writer that goes on exactly where the rows end.
        """
        region = self._arena.region(f"replay/{shard}")
        return ReplayLog.attach(region, *_log_shape(self._plan), continues)

    def batch(self, optimizer: int, slot: int) -> Cell:
        """A batch slot of an optimizer: what the replay node drew.

        Its number is that of the batch among those of this optimizer and this part of the run,
        from 1; batch ``n`` lies in slot ``(n - 1) % plan.batch_slots``, and the slot is the
        optimizer's until the result bears the same number. The word ``incarnation`` counts its
        valid rows, none or all of them; ``version`` has the env steps at which it was drawn.
        """
        region = self._arena.region(f"batches/{optimizer}.{slot}")
        return Cell.attach(region, self._plan.batch_fields(), self._plan.rows_per_batch)

    def result(self, optimizer: int, slot: int) -> Cell:
        """What the optimizer says of the batch in ``slot`` when it is done with it.

        The word ``incarnation`` is 1 if the rows hold priorities, else 0.
        """
        region = self._arena.region(f"results/{optimizer}.{slot}")
        return Cell.attach(region, self._plan.result_fields(), self._plan.rows_per_batch)

    def gradient(self, optimizer: int, cell: int = 0) -> Cell:
        """The gradient of one of several optimizers, in one of ``plan.gradient_cells``."""
        region = self._arena.region(f"gradients/{optimizer}.{cell}")
        return Cell.attach(region, self._plan.gradient_fields(), 1)

    def base(self, optimizer: int) -> Cell:
        """Which steps the parameters have behind them that an optimizer differentiates at."""
        return Cell.attach(self._arena.region(f"bases/{optimizer}"), (), 1)

    def applied(self, optimizer: int) -> Cell:
        """Which gradient of an optimizer the first one is done with."""
        return Cell.attach(self._arena.region(f"applied/{optimizer}"), (), 1)

    def networks(self) -> WeightBoard:
        """All parameters and targets of the first of several optimizers that don't average."""
        return WeightBoard.attach(self._arena.region("networks"), self._plan.networks_nbytes)

    def records(self, shard: int) -> Ring:
        """Complete rollouts of a shard, from its env node to the optimizer."""
        return Ring.attach(self._arena.region(f"records/{shard}"))

    def progress(self, shard: int, group: int = 0) -> memoryview:
        """Where each environment of a group is, as 64-bit words; see `ProgressWord`."""
        return self._arena.region(f"progress/{shard}.{group}").cast("q")

    def request(self, shard: int, group: int) -> Cell:
        """What a group of environments asks its policy node."""
        envs = len(self._plan.group_envs(group))
        region = self._arena.region(f"requests/{shard}.{group}")
        return Cell.attach(region, self._plan.request_fields(), envs)

    def reply(self, shard: int, group: int) -> Cell:
        """What the policy node answers."""
        envs = len(self._plan.group_envs(group))
        region = self._arena.region(f"replies/{shard}.{group}")
        return Cell.attach(region, self._plan.reply_fields(), envs)

    def close(self) -> None:
        """Let go of the mapping; views that still live keep it until they are gone."""
        self.segment.close()
