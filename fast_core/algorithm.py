"""The contract between FastLoop and an algorithm, free of torch and of processes.

An algorithm comes in three parts, because they live in different places:

* a **blueprint** (the algorithm's configuration type): says which columns a rollout has and
  which parameters travel, without importing torch, so that the launcher can size memory;
* a **policy**: acts, next to the environments, on NumPy arrays;
* a **learner** (`Algorithm`): updates from rollouts, in the optimizer node only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from fast_core.spec import EnvironmentSpec, FieldSpec

Array = NDArray[np.generic]
Backend = Literal["numpy", "torch"]


class NoiseSpec(msgspec.Struct, frozen=True):
    """The random numbers a policy consumes for one row.

    Noise is drawn outside the policy, from a stream that belongs to the shard, so actions do
    not depend on which process acts, in which order, or with which library.
    """

    kind: Literal["uniform", "normal"]
    shape: tuple[int, ...]


class ActionOutput(NamedTuple):
    """What a policy returns for a batch of rows.

    Attributes:
        action: ``[B, ...]``, dtype of the action column.
        behaviour_log_prob: ``[B]`` float32, log-probability of ``action`` under this policy.
    """

    action: Array
    behaviour_log_prob: Array


class Policy(Protocol):
    """What acts. One instance belongs to one node and is used by one thread."""

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on.

        ``parameters`` follow the blueprint's ``policy_fields``; the arrays stay valid and
        unchanged until the next call.
        """
        ...

    def act(self, obs: Array, *, noise: Array, explore: bool) -> ActionOutput:
        """Choose actions for ``obs`` ``[B, ...]``.

        ``noise`` is ``[B, ...]`` as the blueprint's `NoiseSpec` says and is ignored when
        ``explore`` is false (then the most likely action is taken). The returned arrays may
        be overwritten by the next call.
        """
        ...

    def environment_action(self, action: Array) -> Array:
        """Map stored actions to what the environment takes (for instance clip to the box)."""
        ...


@dataclass(frozen=True)
class ShardRollout:
    """``T`` steps of the ``B`` environments of one shard; views into shared memory.

    Attributes:
        shard: Shard index.
        rollout_id: Serial number of the rollout within its shard.
        policy_version: ``[T, B]`` int64, version of the weights that acted.
        obs: ``[T + 1, B, ...]``; row ``t + 1`` is the reset observation where an episode
            ended at step ``t``.
        action: ``[T, B, ...]``.
        behaviour_log_prob: ``[T, B]`` float32.
        reward: ``[T, B]`` float32, as the environment gave it.
        terminated: ``[T, B]`` bool, the task ended: no bootstrap.
        truncated: ``[T, B]`` bool, the episode was cut off: bootstrap from ``final_obs``.
        final_obs: ``[T, B, ...]``, the true successor; valid only where an episode ended.
    """

    shard: int
    rollout_id: int
    policy_version: Array
    obs: Array
    action: Array
    behaviour_log_prob: Array
    reward: Array
    terminated: Array
    truncated: Array
    final_obs: Array


@dataclass(frozen=True)
class RolloutBatch:
    """Everything one ticket trains on.

    Attributes:
        rollouts: One `ShardRollout` per merged shard rollout, in merge order.
        env_steps: Environment steps trained on before this batch.
        progress: ``env_steps`` as a share of ``stop.env_steps``, 0 when there is no such limit.
    """

    rollouts: tuple[ShardRollout, ...]
    env_steps: int
    progress: float


@dataclass(frozen=True)
class UpdateReport:
    """What an update did.

    Attributes:
        updates: Optimizer steps committed.
        skipped: Granted steps that were not taken (early stop, non-finite gradient).
        metrics: Mean losses and diagnostics by name, plain floats.
    """

    updates: int
    skipped: int
    metrics: dict[str, float] = field(default_factory=dict)


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


class Blueprint(Protocol):
    """What an algorithm's configuration type offers; must not import torch at import."""

    def check(self, environment: EnvironmentSpec, rows: int) -> None:
        """Raise `ConfigError` if this algorithm can't train with ``rows`` rows per ticket."""
        ...

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """Parameters a policy needs, float32; the fields have no ``[T, B]`` axes."""
        ...

    def action_field(self, environment: EnvironmentSpec) -> FieldSpec:
        """How actions are stored in a rollout."""
        ...

    def noise(self, environment: EnvironmentSpec) -> NoiseSpec:
        """Random numbers a policy needs for one row."""
        ...

    def updates_granted(self, rows: int) -> int:
        """Optimizer steps that one ticket of ``rows`` rows grants."""
        ...

    def update_flops(self, environment: EnvironmentSpec, rows: int) -> int:
        """Rough floating point operations of one optimizer step; chooses the thread count."""
        ...

    def uses_torch(self, *, device: str, compile: bool) -> bool:
        """Whether the learner imports torch: then its process imports it ahead of time."""
        ...

    def make_policy(self, environment: EnvironmentSpec, backend: Backend) -> Policy:
        """Build a policy; it acts only after `Policy.load`."""
        ...

    def make_algorithm(
        self,
        environment: EnvironmentSpec,
        *,
        seed: int,
        shards: int,
        envs_per_shard: int,
        rows: int,
        device: str,
        compile: bool,
    ) -> Algorithm:
        """Build a learner. ``rows`` is the number of rows of one ticket."""
        ...
