"""What all learners from rollouts share: from those of a ticket to committed optimizer steps.

The numbers of a round: targets and advantages are computed once, with the values and the
statistics at its start; each epoch visits every row once, in a new order.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from fast_core.algorithm import Array, LearnerSetup, RolloutBatch, UpdateReport
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.learner_state import Nonfinite, fill
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
from fast_core.algos.rollouts.config import ActorCriticConfig
from fast_core.algos.rollouts.core import (
    Columns,
    MinibatchReport,
    OptimizerState,
    UpdateCore,
)
from fast_core.algos.rollouts.merged import FrameRoom, MergedRollout, all_observations, merge
from fast_core.algos.rollouts.returns import generalized_advantages
from fast_core.algos.rollouts.running_statistics import RunningStatistics
from fast_core.algos.rollouts.targets import JudgedRollout, Targets
from fast_core.errors import CheckpointError

STATE_FORMAT = 1


class RolloutLearner(ABC):
    """Implements `fast_core.algorithm.Algorithm` for the rollouts of tickets.

    Args:
        settings: Hyper-parameters; they are never part of the state.
        environment: What is learned.
        shape: The actor-critic network for it.
        setup: The run; its seed makes the first parameters and the order of rows.

    Attributes:
        evaluates: Whether `targets` needs log-probabilities under the policy that learns.
    """

    evaluates: ClassVar[bool] = False
    _settings: ActorCriticConfig

    def __init__(
        self,
        settings: ActorCriticConfig,
        environment: EnvironmentSpec,
        shape: NetworkShape,
        setup: LearnerSetup,
    ) -> None:
        self._settings = settings
        self._layout = self._networks = parameter_layout(shape)
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
        self._nonfinite = Nonfinite()
        first = self._add_heads(shape, environment, first, setup)
        self._core = self._make_core(shape, first, setup)
        self._encoder = ObservationEncoder(environment, shape.images)
        self._centred = shape.centred
        self._frames = FrameRoom()
        self._statistics = RunningStatistics(
            settings, self._encoder.size, shards=setup.shards, envs_per_shard=setup.envs_per_shard
        )

    def _add_heads(
        self, shape: NetworkShape, environment: EnvironmentSpec, first: F32, setup: LearnerSetup
    ) -> F32:
        """Append what learns beside the actor-critic to the layout and to its first values."""
        return first

    @abstractmethod
    def _make_core(self, shape: NetworkShape, parameters: F32, setup: LearnerSetup) -> UpdateCore:
        """What takes the steps, with these first parameters."""

    def targets(self, rollout: JudgedRollout) -> Targets:
        """What the steps of a ticket are learned from, once before they are.

        By default advantages of generalised advantage estimation, and these plus values.
        """
        outcomes, settings = rollout.outcomes, self._settings
        advantage = generalized_advantages(
            *outcomes, gamma=settings.gamma, gae_lambda=settings.gae_lambda
        )
        return Targets(advantage, advantage + outcomes.value)

    def scheduled(self, left: float) -> float:
        """A number of the loss's that changes as the run goes on.

        By default ``left`` itself, the share of ``horizon_env_steps`` that is left.
        """
        return left

    def _stops(self, step: MinibatchReport) -> bool:
        """Whether a minibatch says that the round's remaining steps should not be taken."""
        return False

    @property
    def _may_stop(self) -> bool:
        return False

    def update(self, batch: RolloutBatch) -> UpdateReport:
        """Train on the rollouts of one ticket.

        Raises:
            TrainingDiverged: After ``nonfinite_limit`` NaN or infinite updates in a row.
        """
        settings = self._settings
        merged = merge(batch, self._encoder, self._frames)
        with np.errstate(all="ignore"):  # what overflows is caught by the checks below
            seen = self._statistics.as_networks_see(merged)
            self._core.observe(seen)
            columns = self._columns(seen)
            granted = settings.updates_granted(len(columns))
            if not (columns.finite and seen.obs.rows(0, len(columns)).finite):
                self._nonfinite.count(settings.nonfinite_limit, batch.env_steps)
                metrics = self._nonfinite.metrics
                return UpdateReport(updates=0, skipped=granted, metrics=metrics)
            updates, metrics = self._train(columns, batch)
            if updates:  # statistics travel with the weights, whose version has to change
                self._statistics.observe(self._from_origin(batch, merged))
        return UpdateReport(updates=updates, skipped=granted - updates, metrics=metrics)

    def _columns(self, seen: MergedRollout) -> Columns:
        """What the next steps are trained on, of the rollouts as networks see them."""
        reward = self._statistics.reward(seen)
        judged = JudgedRollout(seen, self._core, reward, evaluates=self.evaluates)
        return judged.columns(self._targets(judged))

    def _targets(self, rollout: JudgedRollout) -> Targets:
        return self.targets(rollout)

    def _from_origin(self, batch: RolloutBatch, merged: MergedRollout) -> MergedRollout:
        """The rollouts, the first ones counted from where their numbers are told apart."""
        if not (self._centred and self._statistics.fresh):
            return merged
        spread = self._encoder.spread(*map(all_observations, batch.rollouts))
        origin = self._encoder.find_origin(*spread)
        if not origin.any():
            return merged
        self._statistics.origin[...] = origin
        self._encoder.centre(origin)
        return merge(batch, self._encoder, self._frames)

    def change(self, settings: ActorCriticConfig) -> None:
        """See `fast_core.algorithm.Changeable`."""
        self._settings = settings

    def policy_parameters(self) -> Sequence[Array]:
        """Parameters of the actor, then the observation statistics where they are used."""
        flat = self._core.parameters()
        parameters: list[Array] = [p.view(flat) for p in self._networks if p.belongs_to_policy]
        origin = [self._statistics.origin] if self._centred else []
        return parameters + self._statistics.published_statistics() + origin

    def insight_parameters(self) -> Sequence[Array]:
        """Those of the value alone, then what rewards are scaled with where they are."""
        flat = self._core.parameters()
        values: list[Array] = [p.view(flat) for p in self._networks if not p.belongs_to_policy]
        return values + self._statistics.reward_scale()

    def state_dict(self) -> dict[str, object]:
        """Parameters, Adam's moments, statistics, counters and the random stream."""
        core = self._core.export_state()
        return {
            "format": STATE_FORMAT,
            "parameters": {p.name: p.view(core.parameters) for p in self._layout},
            "first_moment": core.first_moment,
            "second_moment": core.second_moment,
            "optimizer_steps": core.steps,
            "statistics": self._statistics.state_dict(),
            **self._nonfinite.state_dict(),
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
                f"a learner from rollouts loads states of format {STATE_FORMAT}; got "
                f"{state.get('format')!r}. Resume with the FastLoop version that wrote the "
                "checkpoint."
            )
        flat: F32 = np.empty(self._layout[-1].end, np.float32)
        self._core.import_state(
            OptimizerState(
                parameters=fill(flat, state["parameters"], self._layout),
                first_moment=np.asarray(state["first_moment"], np.float32),
                second_moment=np.asarray(state["second_moment"], np.float32),
                steps=int(state["optimizer_steps"]),
            )
        )
        self._statistics.load_state_dict(state["statistics"])
        self._encoder.centre(self._statistics.origin)
        self._nonfinite.load_state_dict(state)
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
        names = [p.name for p in self._networks if p.belongs_to_policy]
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
        scheduled = self.scheduled(left)
        longest = math.inf if settings.max_grad_norm is None else settings.max_grad_norm
        said: list[MinibatchReport] = []
        self._core.begin(columns)
        for start, stop in self._minibatches(columns):
            self._core.gradient(start, stop, scheduled)
            if self._may_stop:
                said += self._core.said()
                if self._stops(said[-1]):
                    said.pop()
                    break
            self._core.apply(learning_rate, longest)
        taken = self._finite([*said, *self._core.said()], batch)
        return len(taken), self._metrics(taken, columns, learning_rate)

    def _finite(self, said: list[MinibatchReport], batch: RolloutBatch) -> list[MinibatchReport]:
        """Count the minibatches whose step was not taken; return the others."""
        taken = []
        for step in said:
            if math.isfinite(step.gradient_norm):
                self._nonfinite.in_a_row = 0
                taken.append(step)
            else:
                self._nonfinite.count(self._settings.nonfinite_limit, batch.env_steps)
        return taken

    def _metrics(
        self, taken: list[MinibatchReport], columns: Columns, learning_rate: float
    ) -> dict[str, float]:
        metrics = _means(taken) | dict(columns.metrics)
        metrics["explained_variance"] = columns.explained_variance
        metrics["learning_rate"] = learning_rate
        return metrics | self._nonfinite.metrics

    def _minibatches(self, columns: Columns) -> Iterator[tuple[int, int]]:
        """Every row once an epoch, but those of which all that stay together are quarantined."""
        size = self._settings.rows_of_step(len(columns))
        together = np.arange(len(columns) // self._span)
        if columns.known is not None:
            together = together[columns.known.reshape(self._span, -1).any(axis=0)]
        rows = len(together) * self._span
        for _ in range(self._settings.epochs if rows else 0):
            self._core.shuffle(self._rng.permutation(together))
            for start in range(0, rows, size):
                yield start, min(start + size, rows)


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


def _means(steps: Sequence[MinibatchReport]) -> dict[str, float]:
    """Mean of each number over the committed steps that say it; nothing without any."""
    said: dict[str, list[float]] = {}
    for step in steps:
        said.setdefault("gradient_norm", []).append(step.gradient_norm)
        for name, number in step.metrics.items():
            said.setdefault(name, []).append(number)
    return {name: float(np.mean(numbers)) for name, numbers in said.items()}
