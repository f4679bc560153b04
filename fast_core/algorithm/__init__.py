"""The contract between FastLoop and an algorithm, free of torch and of processes.

An algorithm comes in three parts, because they live in different places:

* a **blueprint** (the algorithm's configuration type): says which columns a rollout has and
  which parameters travel, without importing torch, so that the launcher can size memory;
* a **policy**: acts, next to the environments, on NumPy arrays;
* a **learner** (`Algorithm`): updates from rollouts, in the optimizer node only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm.rows import Array as Array
from fast_core.algorithm.rows import ReplayBatch as ReplayBatch
from fast_core.algorithm.rows import RolloutBatch as RolloutBatch
from fast_core.algorithm.rows import SequenceBatch as SequenceBatch
from fast_core.algorithm.rows import ShardRollout as ShardRollout
from fast_core.algorithm.spec import Column, EnvironmentSpec, FieldSpec

Backend = Literal["numpy", "torch"]
Precision = Literal["fp32", "bf16"]
ORIGIN = "observation.origin"  # a policy's parameter: what numbers of observations are counted from


class NoiseSpec(msgspec.Struct, frozen=True):
    """The random numbers a policy consumes for one row.

    Noise is drawn outside the policy, from a stream that belongs to the shard, so actions do
    not depend on which process acts, in which order, or with which library.
    """

    kind: Literal["uniform", "normal"]
    shape: tuple[int, ...]


class _Acted(NamedTuple):
    action: Array
    behaviour_log_prob: Array
    state: Array | None = None


class ActionOutput(_Acted):
    """What a policy returns for a batch of rows; unpacks into the first three.

    Attributes:
        action: ``[B, ...]``, dtype of the action column.
        behaviour_log_prob: ``[B]`` float32, log-probability of ``action`` under this policy.
        state: ``[B, S]`` float32, what a recurrent policy remembers after this row; None for
            policies without memory.
        extra: By name, ``[B, ...]`` for each column that `Blueprint.columns` lets policies write.
    """

    extra: Mapping[str, Array] = MappingProxyType({})

    def __new__(
        cls,
        action: Array,
        behaviour_log_prob: Array,
        state: Array | None = None,
        extra: Mapping[str, Array] = extra,
    ) -> Self:
        """See the attributes."""
        output = super().__new__(cls, action, behaviour_log_prob, state)
        if extra is not cls.extra:
            output.extra = extra
        return output

    def _replace(self, **changes: Any) -> Self:
        return type(self)(**{**self._asdict(), "extra": self.extra, **changes})


class Policy(Protocol):
    """What acts. One instance belongs to one node and is used by one thread."""

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on.

        ``parameters`` follow the blueprint's ``policy_fields``; the arrays stay valid and
        unchanged until the next call.
        """
        ...

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Choose actions for ``obs`` ``[B, ...]``.

        ``obs`` is what the environment specification's ``observation`` says, stacked frames
        included; a structured array where the space is composite.

        ``state`` ``[B, S]`` is what the last call returned for these environments, zero where an
        episode begins, and None if the blueprint's ``state_size`` is 0. It is not changed.

        ``noise`` is ``[B, ...]`` as the blueprint's `NoiseSpec` says and is ignored when
        ``explore`` is false (then the most likely action is taken). The returned arrays may
        be overwritten by the next call.
        """
        ...

    def environment_action(self, action: Array) -> Array:
        """Map stored actions to what the environment takes (for instance clip to the box)."""
        ...


class Thoughts(NamedTuple):
    """What a policy thinks of one observation; None where it has no such thing.

    Attributes:
        value: What it expects from here on: the discounted sum of the environment's rewards.
        probabilities: Of each choice in training, ``[n]`` for each dimension of the action.
        q: Values of all choices, ``[n]``, or of the action that was taken, ``[1]``.
        q_std: Deviation of what those are the means of, where a critic says that.
        mean: Of each number of a box's action in training, as the environment takes it.
        std: Deviation of each.
    """

    value: float | None = None
    probabilities: Sequence[Array] | None = None
    q: Array | None = None
    q_std: Array | None = None
    mean: Array | None = None
    std: Array | None = None


class Thinker(Protocol):
    """Says what a policy thinks, for a page that shows it. Used by one thread."""

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on.

        They follow the blueprint's ``policy_fields`` and then its ``insight_fields``, all of one
        moment; the arrays stay valid and unchanged until the next call.
        """
        ...

    def think(self, obs: Array, action: Array, state: Array | None) -> Thoughts:
        """What the policy thinks of one observation.

        Args:
            obs: ``[1, ...]``, as `Policy.act` takes it.
            action: ``[1, ...]``, what was done, as the environment takes it.
            state: ``[1, S]``, what a recurrent policy remembered before; None without memory.
        """
        ...


@dataclass(frozen=True)
class UpdateReport:
    """What an update did.

    Attributes:
        updates: Optimizer steps committed.
        skipped: Granted steps that were not taken (early stop, non-finite gradient).
        metrics: Mean losses and diagnostics by name, plain floats. By ``ess``, the effective sample
            size of importance weights as a share of the rows, or else by ``approx_kl``, a run that
            chooses its off-policy degree sees when rows become too old.
        priority: ``[N]`` float32, absolute errors of the rows of a `ReplayBatch`, from which the
            replay computes their new priorities; None where it should not.
        extra: ``[N, ...]`` by name, all columns that the learner writes of the rows of a
            `ReplayBatch`, or none of them to leave what is there. Of a `SequenceBatch`
            ``[N, L, ...]``, of which those of rows that are there count.
    """

    updates: int
    skipped: int
    metrics: dict[str, float] = field(default_factory=dict)
    priority: Array | None = None
    extra: Mapping[str, Array] = field(default_factory=dict)


class Window(NamedTuple):
    """Rows that follow one another in an episode, drawn by one of them.

    Attributes:
        steps: That are learned from, at most; the drawn one is the first.
        before: Before it, at most: what a memory is warmed up with.
        after: After them, at most: what targets are made of.
    """

    steps: int
    before: int = 0
    after: int = 0

    @property
    def length(self) -> int:
        """All of them."""
        return self.before + self.steps + self.after


class ReplaySpec(NamedTuple):
    """What one optimizer step takes from the replay.

    Attributes:
        batch_size: Rows of the step, over all optimizers that average their gradients.
        n_step: Steps of a window, at most.
        gamma: Discount of one step.
        sequence: Draws a `SequenceBatch` of these in place of a `ReplayBatch`; then the other two
            say nothing.
        stored_state: Whether the logs keep what a recurrent policy remembered before each row, so
            that sequences begin with it (`SequenceBatch.state`).
    """

    batch_size: int
    n_step: int = 1
    gamma: float = 1.0
    sequence: Window | None = None
    stored_state: bool = False

    @property
    def keeps_state(self) -> bool:
        """Whether the logs have a column of what policies remembered."""
        return self.stored_state and self.sequence is not None

    @property
    def ahead(self) -> int:
        """Steps from the drawn row on that must be there, unless its episode ends."""
        return self.n_step if self.sequence is None else self.sequence.steps + self.sequence.after

    @property
    def before(self) -> int:
        """Rows before it that must be there, unless its episode begins."""
        return 0 if self.sequence is None else self.sequence.before


class Algorithm(Protocol):
    """What learns. It knows nothing of processes and is called by one thread."""

    def update(self, batch: RolloutBatch) -> UpdateReport:
        """Train on one batch. The arrays of ``batch`` are only valid during the call."""
        ...

    def policy_parameters(self) -> Sequence[Array]:
        """Current parameters for policies, float32 on the CPU, as ``policy_fields`` says.

        The arrays may share memory with the learner: copy before the next update. They change
        only by an `update` that commits at least one step, since the version tells them apart.
        """
        ...

    def state_dict(self) -> dict[str, object]:
        """Everything that changes while training, random streams included.

        Values are tensors, NumPy arrays, numbers, strings, or lists and dicts of those.
        """
        ...

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Continue exactly from ``state_dict()`` of an equally configured learner."""
        ...


@runtime_checkable
class Prefetching(Protocol):
    """What an `Algorithm` that learns from replay may have besides: it is told what comes next."""

    def prefetch(self, batch: ReplayBatch) -> None:
        """Take note of the batch after the next one that `update`, `gradient` or `begin` is given.

        Its arrays stay as they are until it was learnt from, so a copy to a device may run beside
        the update before it. It may never come, at the end of a run for instance.
        """
        ...


@runtime_checkable
class Queueing(Protocol):
    """What an `Algorithm` that learns from replay may have besides: an `update` in two calls.

    `begin`, and `finished` until it reports, are an `update`. In between nobody waits for a device:
    the next steps are begun, and who asks the node is answered. Steps are reported in the order in
    which they were begun. Before anything else is called, but for `Prefetching.prefetch`, all of
    them are. Several optimizers and whoever overrides `update` alone don't use it.

    Attributes:
        ahead: How many steps may be begun and not reported at a time, at least 1.
    """

    ahead: int

    def begin(self, batch: ReplayBatch) -> None:
        """Begin one optimizer step, and return while the device is at it.

        The arrays of ``batch`` stay as they are until `finished` reports the step.
        """
        ...

    def finished(self) -> UpdateReport | None:
        """What came of the step that was begun first, once; None while it goes on. Never waits."""
        ...


@runtime_checkable
class Beginning(Protocol):
    """What an `Algorithm` has besides that can begin with what was learned (``policy.from``).

    One of these is called before the first update, of a learner of equal spaces and policy.
    """

    def begin_from(self, state: dict[str, object]) -> None:
        """Take the networks and statistics of another learner's ``state_dict()``, nothing else.

        Raises:
            CheckpointError: They are others than its own.
        """
        ...

    def begin_with(self, policy: Sequence[Array], env_steps: int) -> None:
        """Take a policy's parameters, as ``policy_fields`` says.

        ``env_steps`` says how many steps its statistics are of.
        """
        ...


class Insightful(Protocol):
    """What an `Algorithm` has besides, where its blueprint has `Blueprint.insight_fields`."""

    def insight_parameters(self) -> Sequence[Array]:
        """Current parameters, as ``insight_fields`` says and `policy_parameters` gives them."""
        ...


@runtime_checkable
class Changeable(Protocol):
    """What an `Algorithm` has besides, where its blueprint names keys that are `changeable`."""

    def change(self, settings: Blueprint) -> None:
        """Go on with these settings, the blueprint; nothing but changeable keys differs.

        Called between two updates, and after `Algorithm.load_state_dict` in a resumed run.
        """
        ...


class SharedAlgorithm(Algorithm, Protocol):
    """An `Algorithm` whose step has two halves, so that several optimizers can work together.

    `update` is `gradient` and then `apply`.
    """

    @property
    def updates(self) -> int:
        """Steps behind the parameters; `adopt` sets it."""
        ...

    def gradient(self, batch: ReplayBatch, *, turn: int | None = None) -> NDArray[np.float32]:
        """Everything that optimizers have to average, ``[<= P]``, on the host.

        ``P`` is the blueprint's ``exchanged``. It may be changed in place and is valid until the
        next call; it has the same length in every replica with the same ``turn``. It is not
        finite if anything is not that should keep the step from being taken.

        Args:
            batch: What is differentiated.
            turn: Says what is due, where not everything is in every step: the number of a step,
                from 1; None: that of the next step, ``updates + 1``.
        """
        ...

    def apply(self, gradient: NDArray[np.float32], *, scale: float = 1.0) -> UpdateReport:
        """Step along ``gradient``, by ``scale`` times the step size.

        The report has the metrics and priorities of the batch that was differentiated here since
        the last step, and none if there was none. What is decided (a step, or none because
        something is not finite) depends on ``gradient`` alone, so that replicas stay equal.
        """
        ...

    def hand_over(self) -> UpdateReport:
        """Metrics and priorities of the batch that was differentiated, once, and no step.

        For those who leave the step to another optimizer, or to later. Priorities are None if
        they are not finite.
        """
        ...

    def shared_state(self) -> dict[str, object]:
        """The part of ``state_dict()`` that is equal in all who took the same steps.

        That is everything but random streams and what batches said of the run.
        """
        ...

    def networks(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """All parameters and all targets, ``[P]`` each, on the host; may share memory."""
        ...

    def adopt(
        self, parameters: NDArray[np.float32], targets: NDArray[np.float32], updates: int
    ) -> None:
        """Differentiate at another optimizer's `networks` from now on; they are copied."""
        ...

    def reseed(self, replica: int) -> None:
        """Draw noise of its own: one of several optimizers, counted from 0."""
        ...


@dataclass(frozen=True)
class PolicySetup:
    """How a policy computes.

    Attributes:
        backend: Library of the forward pass.
        device: Torch device; only the torch backend knows others than ``"cpu"``.
        precision: Of the forward pass.
    """

    backend: Backend = "numpy"
    device: str = "cpu"
    precision: Precision = "fp32"


@dataclass(frozen=True)
class LearnerSetup:
    """What a learner needs to know of its run.

    Attributes:
        seed: Seeds everything random in it.
        shards: Shards of the run.
        envs_per_shard: Environments of each shard, ``B``.
        steps: Steps of a rollout, ``T``.
        device: Torch device; anything but ``"cpu"`` needs torch.
        precision: Of forward and backward passes; parameters stay float32.
        compile: Whether to try torch.compile.
    """

    seed: int
    shards: int
    envs_per_shard: int
    steps: int
    device: str = "cpu"
    precision: Precision = "fp32"
    compile: bool = False

    @property
    def rows(self) -> int:
        """Rows of one ticket."""
        return self.shards * self.envs_per_shard * self.steps


class Blueprint:
    """What an algorithm's configuration type offers; must not import torch at import.

    It has this from `fast_core.config.AlgorithmConfig` and overrides what differs; what has no
    default must be there.

    Attributes:
        learns_from: Whether `Algorithm.update` takes a `RolloutBatch` or a `ReplayBatch`.
        changeable: Keys that callbacks may change while a run goes on; the learner is a
            `Changeable` if there are any.
    """

    __slots__ = ()
    changeable: ClassVar[tuple[str, ...]] = ()
    learns_from: ClassVar[Literal["rollouts", "replay"]] = "rollouts"

    # --- sizes, before anything is built -------------------------------------------------------

    def examine(self, environment: EnvironmentSpec) -> EnvironmentSpec:
        """Add what only a process that imports torch can tell: ``modules``.

        It is asked once, in the process that tried the environment and before everything else
        here, so that the launcher need not import torch to know how many parameters travel.

        Raises:
            ConfigError: The user's module is not what the algorithm needs.
        """
        return environment

    def resolved(self, environment: EnvironmentSpec) -> Self:
        """The same with what ``auto`` stands for in this environment, which a run then keeps."""
        return self

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Raise `ConfigError` if this algorithm can't train in a run like this one."""

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """Parameters a policy needs, float32; the fields have no ``[T, B]`` axes."""
        raise NotImplementedError

    def action_field(self, environment: EnvironmentSpec) -> FieldSpec:
        """How actions are stored in a rollout: choices count from 0, boxes are float32."""
        action = environment.action
        if action.kind == "box":
            return FieldSpec("action", action.shape, "float32")
        return FieldSpec("action", action.shape, "int64")

    def columns(self, environment: EnvironmentSpec) -> tuple[Column, ...]:
        """What is kept of every step beside the usual; the learner finds it in ``extra``.

        Each is written by the environment, by policies or by the learner (`Column.writer`).
        """
        return ()

    def noise(self, environment: EnvironmentSpec) -> NoiseSpec:
        """Random numbers a policy needs for one row.

        One uniform number for each choice, one standard normal one for each element of a box.
        """
        action = environment.action
        if action.kind == "discrete":
            return NoiseSpec("uniform", ())
        kind: Literal["uniform", "normal"] = "normal" if action.kind == "box" else "uniform"
        return NoiseSpec(kind, (action.size,))

    def state_size(self, environment: EnvironmentSpec) -> int:
        """Numbers that a recurrent policy remembers for each environment, 0 without memory."""
        return 0

    def updates_granted(self, rows: int) -> int:
        """Optimizer steps that one ticket of ``rows`` rows grants."""
        raise NotImplementedError

    def identity(self) -> Mapping[str, object]:
        """By key what must be equal for a run to be resumed, because of what it has stored."""
        return {}

    def replay(self) -> ReplaySpec:
        """What an optimizer step draws; for algorithms that learn from replay only."""
        raise NotImplementedError

    def exchanged(self, environment: EnvironmentSpec) -> int:
        """Numbers ``P`` that optimizers exchange, if they are `SharedAlgorithm`s; 0 if not."""
        return 0

    def update_flops(self, environment: EnvironmentSpec, rows: int) -> int:
        """Rough floating point operations of one optimizer step; chooses the thread count."""
        return 0

    def update_splits(self, environment: EnvironmentSpec) -> bool:
        """Whether a large update gains from more threads on the CPU than one."""
        return True

    def uses_torch(self, *, device: str, compile: bool) -> bool:
        """Whether the learner surely imports torch: then its process imports it ahead of time."""
        return True

    def policy_uses_torch(self, *, pixels: bool = False) -> bool:
        """Whether ``policy.backend: auto`` is surely torch, before any environment was made.

        Then it is imported once and shared by all nodes that act. ``pixels`` is set where the
        configuration alone says that images are observed, as it does for Atari games.
        """
        return False

    def policy_backend(self, environment: EnvironmentSpec) -> Backend:
        """The library that ``policy.backend: auto`` stands for."""
        return "numpy"

    # --- parts ---------------------------------------------------------------------------------

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """Build a policy; it acts only after `Policy.load`."""
        raise NotImplementedError

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        """Build a learner."""
        raise NotImplementedError

    def policy_module(self, environment: EnvironmentSpec, parameters: Sequence[Array]) -> object:
        """The deterministic policy with these parameters as a ``torch.nn.Module``, to export it.

        Its ``forward`` takes a tensor ``[B, ...]`` for each part of an observation, in their order
        and dtypes (the whole where it is not composite), and last the state ``[B, S]`` where
        `state_size` is not 0. It returns the actions ``[B, ...]`` that the environment takes, what
        `Policy.act` without exploration and `Policy.environment_action` make of the same; with
        memory a tuple of them and the state after them. None: there is no such module.

        A module that takes numbers apart which float32 can't tell says what it counts them from,
        by the place of their part and in its shape, in ``observation_origins``.
        """
        return None

    # --- for the page that shows a run -----------------------------------------------------------

    def insight_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """Parameters that a `Thinker` needs and policies don't, float32: a critic's, mostly.

        The learner is an `Insightful` if there are any. They are published only while somebody
        looks, and at most once a second.
        """
        return ()

    def make_thinker(self, environment: EnvironmentSpec) -> Thinker | None:
        """Build what says what the policy thinks, on the CPU and in float32.

        None: probabilities of choices, and mean and deviation of boxes, are estimated from the
        policy's own answers; see `fast_core.policy.thinking`.
        """
        return None
