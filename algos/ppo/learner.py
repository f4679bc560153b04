"""PPO's learner: from the rollouts of a ticket to committed optimizer steps.

The numbers of a round: targets and advantages are computed once, with the values and the
statistics at its start; each epoch visits every row once, in a new order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from fast_core.algorithm import Array, LearnerSetup, RolloutBatch, UpdateReport
from fast_core.algos.nets.networks import (
    F32,
    NetworkShape,
    Parameter,
    initial_parameters,
    own_prefix,
    parameter_layout,
)
from fast_core.algos.nets.normalizer import moments_state
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.nets.recurrent_cells import initialise
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.ppo.explicit import ExplicitCore
from fast_core.algos.ppo.recurrent_core import RecurrentExplicitCore
from fast_core.algos.rollouts.columns import ColumnMaker
from fast_core.algos.rollouts.core import (
    Columns,
    DeferringCore,
    GradientStats,
    OptimizerState,
    UpdateCore,
)
from fast_core.algos.rollouts.merged import FrameRoom, MergedRollout, all_observations, merge
from fast_core.errors import CheckpointError, TrainingDiverged
from fast_core.spec import EnvironmentSpec

STATE_FORMAT = 1


class PPO:
    """Proximal policy optimisation; implements `fast_core.algorithm.Algorithm`.

    Args:
        settings: Hyper-parameters; they are never part of the state.
        environment: What is learned.
        shape: The actor-critic network for it.
        setup: The run; its seed makes the first parameters and the order of rows.
    """

    column_maker: ClassVar[Callable[..., ColumnMaker]] = ColumnMaker

    def __init__(
        self,
        settings: PPOConfig,
        environment: EnvironmentSpec,
        shape: NetworkShape,
        setup: LearnerSetup,
    ) -> None:
        self._settings = settings
        self._layout = parameter_layout(shape)
        init_seed, order_seed, memory_seed = np.random.SeedSequence(setup.seed).spawn(3)
        first = initial_parameters(
            self._layout,
            np.random.default_rng(init_seed),
            initial_log_std=settings.initial_log_std,
        )
        if shape.memory is not None:
            views = {p.name: p.view(first) for p in self._layout}
            initialise(shape.memory, views, np.random.default_rng(memory_seed))
        if shape.own is not None:
            draw_own_values(shape, self._layout, first, init_seed)
        # Rows that stay together: those of an environment, where a policy remembers.
        self._span = 1 if shape.memory is None else setup.steps
        self._rng = np.random.default_rng(order_seed)
        core = self._core = _make_core(settings, shape, first, setup)
        self._deferring = core if isinstance(core, DeferringCore) and core.defers else None
        self._encoder = ObservationEncoder(environment, shape.images)
        self._centred = shape.centred
        self._frames = FrameRoom()
        self._maker = self.column_maker(
            settings, self._encoder.size, shards=setup.shards, envs_per_shard=setup.envs_per_shard
        )
        self._nonfinite_updates = 0
        self._nonfinite_in_a_row = 0

    def update(self, batch: RolloutBatch) -> UpdateReport:
        """Train on the rollouts of one ticket.

        Raises:
            TrainingDiverged: After ``nonfinite_limit`` NaN or infinite updates in a row.
        """
        settings = self._settings
        merged = merge(batch, self._encoder, self._frames)
        with np.errstate(all="ignore"):  # what overflows is caught by the checks below
            seen = self._maker.as_networks_see(merged)
            self._core.observe(seen)
            columns = self._maker.columns(seen, self._core)
            granted = settings.updates_granted(len(columns))
            if not (columns.finite and seen.obs.rows(0, len(columns)).finite):
                self._count_nonfinite(batch.env_steps)
                metrics = {"nonfinite_updates": float(self._nonfinite_updates)}
                return UpdateReport(updates=0, skipped=granted, metrics=metrics)
            updates, metrics = self._train(columns, batch)
            if updates:  # statistics travel with the weights, whose version has to change
                self._maker.observe(self._from_origin(batch, merged))
        return UpdateReport(updates=updates, skipped=granted - updates, metrics=metrics)

    def _from_origin(self, batch: RolloutBatch, merged: MergedRollout) -> MergedRollout:
        """The rollouts, the first ones counted from where their numbers are told apart."""
        if not (self._centred and self._maker.fresh):
            return merged
        spread = self._encoder.spread(*map(all_observations, batch.rollouts))
        origin = self._encoder.find_origin(*spread)
        if not origin.any():
            return merged
        self._maker.origin[...] = origin
        self._encoder.centre(origin)
        return merge(batch, self._encoder, self._frames)

    def change(self, settings: PPOConfig) -> None:
        """See `fast_core.algorithm.Changeable`."""
        self._settings = settings
        self._core.change(settings)

    def policy_parameters(self) -> Sequence[Array]:
        """Parameters of the actor, then the observation statistics where they are used."""
        flat = self._core.parameters()
        parameters: list[Array] = [p.view(flat) for p in self._layout if p.belongs_to_policy]
        origin = [self._maker.origin] if self._centred else []
        return parameters + self._maker.published_statistics() + origin

    def insight_parameters(self) -> Sequence[Array]:
        """Those of the value alone, then what rewards are scaled with where they are."""
        flat = self._core.parameters()
        values: list[Array] = [p.view(flat) for p in self._layout if not p.belongs_to_policy]
        return values + self._maker.reward_scale()

    def state_dict(self) -> dict[str, object]:
        """Parameters, Adam's moments, statistics, counters and the random stream."""
        core = self._core.export_state()
        return {
            "format": STATE_FORMAT,
            "parameters": {p.name: p.view(core.parameters) for p in self._layout},
            "first_moment": core.first_moment,
            "second_moment": core.second_moment,
            "optimizer_steps": core.steps,
            "statistics": self._maker.state_dict(),
            "nonfinite_updates": self._nonfinite_updates,
            "nonfinite_in_a_row": self._nonfinite_in_a_row,
            # As text: its 128-bit numbers exceed what most formats can hold.
            "random_state": json.dumps(self._rng.bit_generator.state),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly from ``state_dict()``.

        Raises:
            CheckpointError: If the state belongs to another network.
        """
        if state.get("format") != STATE_FORMAT:
            raise CheckpointError(
                f"PPO loads states of format {STATE_FORMAT}; got {state.get('format')!r}. "
                "Resume with the FastLoop version that wrote the checkpoint."
            )
        self._core.import_state(
            OptimizerState(
                parameters=_flatten(state["parameters"], self._layout),
                first_moment=np.asarray(state["first_moment"], np.float32),
                second_moment=np.asarray(state["second_moment"], np.float32),
                steps=int(state["optimizer_steps"]),
            )
        )
        self._maker.load_state_dict(state["statistics"])
        self._encoder.centre(self._maker.origin)
        self._nonfinite_updates = int(state["nonfinite_updates"])
        self._nonfinite_in_a_row = int(state["nonfinite_in_a_row"])
        self._rng.bit_generator.state = json.loads(state["random_state"])

    def begin_from(self, state: dict[str, Any]) -> None:
        """See `fast_core.algorithm.Beginning`; rewards are scaled as the values have learned."""
        learned = {key: state.get(key) for key in ("format", "parameters", "statistics")}
        if learned["statistics"] is None:
            raise CheckpointError("it is the state of an algorithm of another kind")
        self.load_state_dict({**self.state_dict(), **learned})

    def begin_with(self, policy: Sequence[Array], env_steps: int) -> None:
        """See `fast_core.algorithm.Beginning`; the value begins with first values."""
        own: dict[str, Any] = self.state_dict()
        names = [p.name for p in self._layout if p.belongs_to_policy]
        own["parameters"].update(zip(names, policy, strict=False))
        if len(policy) > len(names):
            mean, inverse_std, *origin = policy[len(names) :]
            own["statistics"]["observations"] = moments_state(mean, inverse_std, env_steps)
            own["statistics"].update(zip(["origin"], origin, strict=False))
        self.load_state_dict(own)

    def _train(self, columns: Columns, batch: RolloutBatch) -> tuple[int, dict[str, float]]:
        """Take the round's optimizer steps; return how many were committed, and metrics."""
        settings = self._settings
        left = max(0.0, 1.0 - batch.progress)
        linear_rate = settings.learning_rate_schedule == "linear"
        learning_rate = settings.learning_rate * (left if linear_rate else 1.0)
        clip = math.inf
        if settings.clip_epsilon is not None:
            clip = settings.clip_epsilon * (left if settings.clip_schedule == "linear" else 1.0)
        limit = math.inf if settings.target_kl is None else 1.5 * settings.target_kl
        longest = math.inf if settings.max_grad_norm is None else settings.max_grad_norm
        seen: list[GradientStats] = []
        self._core.begin(columns)
        if self._deferring is not None and math.isinf(limit):
            for start, stop in self._minibatches(columns):
                self._deferring.take(start, stop, clip, learning_rate, longest)
            seen = self._finite(self._deferring.taken(), batch)
            return len(seen), self._metrics(seen, columns, learning_rate)
        for start, stop in self._minibatches(columns):
            stats = self._core.gradient(start, stop, clip)
            if stats.approx_kl > limit:
                break
            if not math.isfinite(stats.gradient_norm):
                self._count_nonfinite(batch.env_steps)
                continue
            self._core.apply(learning_rate, min(1.0, longest / (stats.gradient_norm + 1e-6)))
            self._nonfinite_in_a_row = 0
            seen.append(stats)
        return len(seen), self._metrics(seen, columns, learning_rate)

    def _finite(self, said: list[GradientStats], batch: RolloutBatch) -> list[GradientStats]:
        """Count the minibatches whose step was not taken; return the others."""
        seen = []
        for stats in said:
            if math.isfinite(stats.gradient_norm):
                self._nonfinite_in_a_row = 0
                seen.append(stats)
            else:
                self._count_nonfinite(batch.env_steps)
        return seen

    def _metrics(
        self, seen: list[GradientStats], columns: Columns, learning_rate: float
    ) -> dict[str, float]:
        metrics = _means(seen) | dict(columns.metrics)
        metrics["explained_variance"] = columns.explained_variance
        metrics["learning_rate"] = learning_rate
        metrics["nonfinite_updates"] = float(self._nonfinite_updates)
        return metrics

    def _minibatches(self, columns: Columns) -> Iterator[tuple[int, int]]:
        """Every row once an epoch, but those of which all that stay together are quarantined."""
        size, together = self._settings.minibatch_size, np.arange(len(columns) // self._span)
        if columns.known is not None:
            together = together[columns.known.reshape(self._span, -1).any(axis=0)]
        rows = len(together) * self._span
        for _ in range(self._settings.epochs if rows else 0):
            self._core.shuffle(self._rng.permutation(together))
            for start in range(0, rows, size):
                yield start, min(start + size, rows)

    def _count_nonfinite(self, env_steps: int) -> None:
        self._nonfinite_updates += 1
        self._nonfinite_in_a_row += 1
        if self._nonfinite_in_a_row >= self._settings.nonfinite_limit:
            raise TrainingDiverged(
                f"{self._nonfinite_in_a_row} updates in a row were NaN or infinite, as many as "
                f"algorithm.nonfinite_limit allows (after {env_steps} env steps, "
                f"{self._nonfinite_updates} in all); the parameters are those before them. "
                "Lower algorithm.learning_rate, or look for infinite observations or rewards."
            )


def _make_core(
    settings: PPOConfig, shape: NetworkShape, parameters: F32, setup: LearnerSetup
) -> UpdateCore:
    plain = setup.device == "cpu" and setup.precision == "fp32" and not setup.compile
    if settings.gradient == "explicit" and plain and not shape.images and shape.own is None:
        explicit = ExplicitCore if shape.memory is None else RecurrentExplicitCore
        return explicit(settings, shape, parameters)
    # Imported here because torch costs a second or two and 200 MB.
    from fast_core.algos.ppo.autograd import AutogradCore
    from fast_core.algos.ppo.recurrent_autograd import RecurrentAutogradCore

    autograd = AutogradCore if shape.memory is None else RecurrentAutogradCore
    return autograd(settings, shape, parameters, setup)


def draw_own_values(
    shape: NetworkShape, layout: tuple[Parameter, ...], flat: F32, seed: np.random.SeedSequence
) -> None:
    """Let the user's module draw its first values, for every torso others."""
    from fast_core.algos.nets_torch.own import first_values

    assert shape.own is not None, "there is a user's module"
    views = {p.name: p.view(flat) for p in layout}
    for torso, drawn in zip(shape.torsos, seed.generate_state(len(shape.torsos)), strict=True):
        for name, value in first_values(shape.own, int(drawn)).items():
            views[own_prefix(torso) + name][...] = value.numpy()


def _means(stats: list[GradientStats]) -> dict[str, float]:
    """Mean of each number over the committed steps; nothing without any."""
    if not stats:
        return {}
    means = np.mean(stats, axis=0).tolist()
    return dict(zip(GradientStats._fields, means, strict=True))


def _flatten(parameters: dict[str, Any], layout: tuple[Parameter, ...]) -> F32:
    found = {name: np.shape(array) for name, array in parameters.items()}
    needed = {p.name: p.shape for p in layout}
    if found != needed:
        raise CheckpointError(
            f"the checkpoint's network must have the configured parameters {needed}; got "
            f"{found}. Use the configuration that wrote it."
        )
    flat = np.empty(layout[-1].end, np.float32)
    for p in layout:
        p.view(flat)[...] = np.asarray(parameters[p.name])
    return flat
