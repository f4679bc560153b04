"""What all learners from replay share: one optimizer step from one batch, in two halves.

`gradient` differentiates everything at the parameters before the step, and `apply` takes the
step. So the critics' step does not come before the policy's gradient, as it does in some
implementations: one pass serves both, and several optimizers average one vector per update.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from fast_core.algorithm import (
    Array,
    LearnerSetup,
    ReplayBatch,
    RolloutBatch,
    SequenceBatch,
    UpdateReport,
)
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.encoder_shape import draw_encoder_values
from fast_core.algos.nets.learner_state import Nonfinite, fill
from fast_core.algos.nets.mlp import draw_first_values
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import moments_state
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.nets.recurrent_cells import initialise
from fast_core.algos.replay.critic_batch import CriticInputs
from fast_core.algos.replay.observed import ObservedRows
from fast_core.algos.replay.settings import ReplaySettings
from fast_core.algos.replay.vectors import (
    BELOW,
    OBSERVATIONS,
    Layout,
    NumpyVectors,
    Vectors,
    VectorState,
    named,
)
from fast_core.errors import CheckpointError, ConfigError

STATE_FORMAT = 1
FIRST_VALUES, NOISE = 0, 1  # purposes of random streams
NOTHING: F32 = np.empty(0, np.float32)
DrawnBatch = ReplayBatch | SequenceBatch


@dataclass(frozen=True)
class Losses:
    """What a batch says.

    Attributes:
        error: ``[N]`` float32, absolute errors, the mean over the critics.
        metrics: Diagnostics by name.
    """

    error: F32
    metrics: dict[str, float]


Settings = TypeVar("Settings", bound=ReplaySettings)


class ReplayLearner(ABC, Generic[Settings]):
    """Implements `fast_core.algorithm.Algorithm` for batches from replay.

    Args:
        settings: Hyper-parameters; they are never part of the state.
        environment: What is learned.
        setup: The run; its seed makes the first parameters and the learner's noise.

    The settings' layout has what only a policy's step changes last, beginning with the group
    ``policy``; what lies before it changes with every step.

    Attributes:
        settings: Hyper-parameters, as they are now.
        environment: What is learned.
        acting: Parts that policies need, beside what all see through.
        judging: Parts that say what those that act are worth, for who watches.
    """

    acting: ClassVar[tuple[str, ...]] = ("policy",)
    judging: ClassVar[tuple[str, ...]] = ()
    _vectors: Vectors

    def __init__(
        self, settings: Settings, environment: EnvironmentSpec, setup: LearnerSetup
    ) -> None:
        self.settings, self.environment = settings, environment
        self._layout = settings.layout(environment)
        # Steps of the critics for one of the policy and the targets, where there are both.
        self._delay = getattr(settings, "policy_delay", 1)
        # Numbers of an action that critics take.
        self._actions = environment.action.size if environment.action.kind == "box" else 0
        self._seed = setup.seed
        self.reseed(0)
        self._encoder = ObservationEncoder(environment, settings.images(environment))
        how = settings.normalization(environment)
        self._allocate(environment, setup, None if how is None else how.limit)
        self._observed = None
        if how is not None:
            self._observed = ObservedRows(
                self._vectors, self._encoder, settings.batch_size, centred=how.centred
            )
        self._rows, self._left = setup.rows, 1.0
        self._updates = 0
        self._begun = False  # with what was learned, by which it acts from the first step on
        self._turn: int | None = None
        self._nonfinite = Nonfinite()
        self._losses: Losses | None = None
        self._env_steps = 0

    def change(self, settings: Settings) -> None:
        """See `fast_core.algorithm.Changeable`."""
        self.settings = settings

    @abstractmethod
    def _allocate(
        self, environment: EnvironmentSpec, setup: LearnerSetup, limit: float | None
    ) -> None:
        """Make the vectors with their first values, and what takes batches.

        With a ``limit`` numbers of observations are normalised by the group ``observations``.
        """

    # --- updates -------------------------------------------------------------------------------

    def update(self, batch: RolloutBatch | DrawnBatch) -> UpdateReport:
        """Take one optimizer step, with a batch from replay.

        Raises:
            TrainingDiverged: After ``nonfinite_limit`` NaN or infinite updates in a row.
        """
        assert not isinstance(batch, RolloutBatch), "rollouts are for on-policy algorithms"
        self._differentiate(batch, None)
        return self._apply(self._policy_is_due, 1.0, finite=self._errors_are_finite)

    @property
    def updates(self) -> int:
        """Steps behind the parameters."""
        return self._updates

    def gradient(self, batch: DrawnBatch, *, turn: int | None = None) -> F32:
        """The first half of `update`: everything that optimizers have to average.

        Args:
            batch: What is differentiated.
            turn: Number of the step that says whether the policy's part is due; None: the next.

        Returns:
            ``[P]`` float32 on the host: gradients, and statistics of the batch. It may be changed
            in place, and is valid until the next call. Its length says whether the policy's part
            is in it: all that are averaged need the same turn. One number is NaN if any error of
            the batch is not finite, so that the vector alone tells whether there is a step.
        """
        self._differentiate(batch, turn)
        gradient = self._vectors.exchange(self._exchanged)
        if not self._errors_are_finite:
            gradient[0] = np.nan
        return gradient

    def apply(self, gradient: F32, *, scale: float = 1.0) -> UpdateReport:
        """The second half of `update`: step along ``gradient``, as `gradient` returned it.

        The report has the metrics and priorities of the batch that was differentiated here since
        the last step, none if there was none: gradients of other optimizers may be applied too.
        ``scale`` multiplies learning rates only; targets and averages move as ever.

        Raises:
            TrainingDiverged: After ``nonfinite_limit`` NaN or infinite updates in a row.
        """
        self._vectors.replace_gradient(gradient)
        return self._apply(len(gradient) == self._layout.size, scale, finite=True)

    def hand_over(self) -> UpdateReport:
        """Metrics and priorities of the batch that was differentiated, once, and no step."""
        priority = self._losses.error if self._losses and self._errors_are_finite else None
        losses, self._losses = self._losses or Losses(NOTHING, {}), None
        return UpdateReport(updates=0, skipped=0, metrics=losses.metrics, priority=priority)

    def networks(self) -> tuple[F32, F32]:
        """All parameters and all targets ``[P]``, on the host; may share memory.

        With the number of updates, all that an optimizer needs to differentiate for another one.
        """
        return self._vectors.parameters(), self._vectors.targets()

    def adopt(self, parameters: F32, targets: F32, updates: int) -> None:
        """Differentiate at another optimizer's `networks` from now on."""
        self._vectors.adopt(parameters, targets)
        if self._observed is not None:
            self._observed.look()
        self._updates = updates

    def reseed(self, replica: int) -> None:
        """Draw noise of its own: one of several optimizers of a run, counted from 0."""
        sequence = np.random.SeedSequence(self._seed, spawn_key=(NOISE, replica))
        self._rng = np.random.default_rng(sequence)

    def _differentiate(self, batch: DrawnBatch, turn: int | None) -> None:
        self._read(batch, turn)
        with np.errstate(all="ignore"):  # what overflows is caught before the step
            self._losses = self._compute(batch)
            self._say(batch)

    def _say(self, batch: DrawnBatch) -> None:
        """Write what a batch says of its observations, if they are normalised."""
        if self._observed is not None:
            obs = batch.obs
            if isinstance(batch, SequenceBatch):
                obs = obs[:, :-1][batch.mask]
            self._observed.say(obs, first=not (self._updates or self._begun))

    def _read(self, batch: DrawnBatch, turn: int | None) -> None:
        """Take note of the run's progress."""
        self._env_steps, self._turn = batch.env_steps, turn
        if self.settings.learning_rate_schedule == "linear":
            # Of the horizon, where the round that granted the step began, as PPO counts: at its
            # end the last round would learn nothing.
            before = max(0, batch.env_steps - self._rows) / max(1, batch.env_steps)
            self._left = 1.0 - batch.progress * before

    @property
    def _errors_are_finite(self) -> bool:
        return self._losses is None or math.isfinite(float(np.add.reduce(self._losses.error)))

    def _apply(self, policy: bool, scale: float, *, finite: bool) -> UpdateReport:
        """Step along the gradient, unless it or, by ``finite``, something else is not finite."""
        losses, self._losses = self._losses or Losses(NOTHING, {}), None
        with np.errstate(over="ignore"):
            norm = self._gradient_norm(self._layout.size if policy else self._critic_size)
        if not (finite and math.isfinite(norm)):
            return self._skip()
        self._vectors.step_scale = scale * self._left
        self._step(policy)
        return self._stepped(losses, norm)

    def _skip(self) -> UpdateReport:
        """Count an update that was not taken."""
        self._nonfinite.count(self.settings.nonfinite_limit, self._env_steps)
        return UpdateReport(updates=0, skipped=1, metrics=self._nonfinite.metrics)

    def _stepped(self, losses: Losses, norm: float) -> UpdateReport:
        """Count one that was."""
        if self._observed is not None:
            self._observed.merge()
        self._updates += 1
        self._nonfinite.in_a_row = 0
        metrics = losses.metrics | self._nonfinite.metrics
        metrics["gradient_norm"] = norm
        metrics["learning_rate"] = self.settings.learning_rate * self._left
        priority = losses.error if len(losses.error) else None
        return UpdateReport(updates=1, skipped=0, metrics=metrics, priority=priority)

    @abstractmethod
    def _gradient_norm(self, stop: int) -> float:
        """Length of the gradient up to ``stop``; NaN or infinite if anything there is.

        Statistics of the batch travel with it and have no part in its length.
        """

    @property
    def _policy_is_due(self) -> bool:
        """Whether the next step is one of the policy too; steps are counted, not calls."""
        turn = self._updates + 1 if self._turn is None else self._turn
        return turn % self._delay == 0

    @property
    def _critic_size(self) -> int:
        policy = self._layout.groups.get("policy")
        return self._layout.size if policy is None else policy.place.start

    @property
    def _exchanged(self) -> int:
        return self._layout.size if self._policy_is_due else self._critic_size

    @abstractmethod
    def _compute(self, batch: DrawnBatch) -> Losses:
        """Write the gradient of every group that is due."""

    @abstractmethod
    def _step(self, policy: bool) -> None:
        """Step along the gradient; ``policy``: the policy's groups and the targets too."""

    # --- what policies get ---------------------------------------------------------------------

    def policy_parameters(self) -> Sequence[Array]:
        """Parameters of the network that acts, statistics, then how much is explored."""
        exploration = np.array([self._exploration()], np.float32)
        statistics = [] if self._observed is None else self._observed.published()
        return [*self._acting(self._vectors.parameters()), *statistics, exploration]

    def _acting(self, flat: F32) -> list[F32]:
        """What acts, with what it sees through first; views."""
        return self._views(flat, (*BELOW, *self.acting))

    def insight_parameters(self) -> Sequence[Array]:
        """What insights need beside those."""
        judging = set(self.judging).difference((*BELOW, *self.acting))
        return self._views(self._vectors.parameters(), judging)

    def _views(self, flat: F32, names: Collection[str]) -> list[F32]:
        """The parameters of these parts, in the layout's order."""
        groups = (group for name, group in self._layout.groups.items() if name in names)
        return [p.view(flat) for group in groups for p in group.parameters]

    def _exploration(self) -> float:
        """How much policies explore, by the env steps behind the last batch."""
        return self.settings.exploration(max(self._updates, self._begun), self._env_steps)

    # --- state ---------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, object]:
        """Parameters, targets, running averages, Adam's moments, counters, the random stream."""
        state = self._vectors.export_state()
        targets = [p for group in self._layout.targets for p in group.parameters]
        observed = {} if self._observed is None else {"observations": self._observed.state_dict()}
        # Where gradients of other optimizers may be applied before one of its own was made.
        falls = self.settings.learning_rate_schedule == "linear"
        left = {"learning_rate_left": self._left} if falls else {}
        begun = {"begun": True} if self._begun else {}
        return {
            **observed,
            **left,
            **begun,
            "format": STATE_FORMAT,
            "parameters": named(self._layout.parameters, state.parameters),
            "targets": named(targets, state.targets),
            "first_moment": state.first_moment,
            "second_moment": state.second_moment,
            "optimizer_steps": dict(state.steps),
            "updates": self._updates,
            **self._nonfinite.state_dict(),
            "env_steps": self._env_steps,
            # As text: its 128-bit numbers exceed what most formats can hold.
            "random_state": json.dumps(self._rng.bit_generator.state),
        }

    def shared_state(self) -> dict[str, object]:
        """What is equal in all replicas that took the same steps."""
        own = ("random_state", "env_steps", "learning_rate_left")
        return {key: value for key, value in self.state_dict().items() if key not in own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly from ``state_dict()``.

        Raises:
            CheckpointError: If the state belongs to another algorithm or network.
        """
        if state.get("format") != STATE_FORMAT or "targets" not in state:
            raise CheckpointError(
                f"algorithm.name {self.settings.name!r} loads states of format {STATE_FORMAT} "
                f"with target networks; got format {state.get('format')!r} with "
                f"{sorted(state)}. Resume with the algorithm and the FastLoop version that wrote "
                "the checkpoint."
            )
        if ("observations" in state) != (self._observed is not None):
            raise CheckpointError(
                "algorithm.normalize_observations can't change while a run goes on: its networks "
                f"learn from what is normalised, or not; got {self._observed is not None}, the "
                f"checkpoint has {'observations' in state}. Set it back, or begin a new run."
            )
        followed = [p for group in self._layout.targets for p in group.parameters]
        flat, targets = (np.zeros(self._layout.size, np.float32) for _ in range(2))
        self._vectors.import_state(
            VectorState(
                parameters=fill(flat, state["parameters"], self._layout.parameters),
                targets=fill(targets, state["targets"], followed),
                first_moment=np.asarray(state["first_moment"], np.float32),
                second_moment=np.asarray(state["second_moment"], np.float32),
                steps={name: int(steps) for name, steps in state["optimizer_steps"].items()},
            )
        )
        if self._observed is not None:
            self._observed.load_state_dict(state["observations"])
        if self.settings.learning_rate_schedule == "linear":
            self._left = float(state.get("learning_rate_left", 1.0))
        self._updates, self._begun = int(state["updates"]), bool(state.get("begun"))
        self._nonfinite.load_state_dict(state)
        self._env_steps = int(state["env_steps"])
        self._rng.bit_generator.state = json.loads(state["random_state"])

    def begin_from(self, state: dict[str, Any]) -> None:
        """See `fast_core.algorithm.Beginning`: networks, targets, temperature, statistics."""
        own: dict[str, Any] = self.state_dict()
        for key in ("format", "parameters", "targets", "observations"):
            own.pop(key, None)
            if key in state:
                own[key] = state[key]
        self.load_state_dict({**own, "begun": True})

    def begin_with(self, policy: Sequence[Array], env_steps: int) -> None:
        """See `fast_core.algorithm.Beginning`; what does not act begins with first values."""
        *networks, _ = policy  # the last says how much was explored
        state, self._begun = self._vectors.export_state(), True
        flat, targets = state.parameters.copy(), state.targets.copy()
        if self._observed is not None:
            count = len(self._observed.published())
            networks, (mean, inverse_std, *origin) = networks[:-count], networks[-count:]
            numbers = flat[self._layout.groups[OBSERVATIONS].place].reshape(-1, len(mean))
            numbers[:2] = mean, inverse_std
            if origin:
                numbers[2:] = origin[0]
        for vector in (flat, targets):
            for view, learned in zip(self._acting(vector), networks, strict=True):
                view[...] = learned
        self._vectors.import_state(replace(state, parameters=flat, targets=targets))
        if self._observed is not None:
            self._observed.load_state_dict(moments_state(mean, inverse_std, env_steps))

    # --- for subclasses ------------------------------------------------------------------------

    def _normal(self, *shape: int) -> F32:
        """Standard normal numbers of the learner's own stream."""
        return self._rng.standard_normal(shape, np.float32)


class NumpyLearner(ReplayLearner[Settings]):
    """A learner on the CPU whose losses and gradients are written by hand.

    Raises:
        ConfigError: The run asks for a device, a precision or convolutions.
    """

    _vectors: NumpyVectors

    def _allocate(
        self, environment: EnvironmentSpec, setup: LearnerSetup, limit: float | None
    ) -> None:
        settings = self.settings
        if settings.learns_with_torch(environment, setup):
            raise ConfigError(
                f"{type(self).__name__} of algorithm.name {settings.name!r} computes in NumPy, on "
                "the CPU, in fp32 and without convolutions or memory. Set nodes.optimizer.device "
                "cpu and precision fp32, algorithm.network mlp, recurrent none and backend auto, "
                "or let torch_learner of its settings name a TorchAlgorithm."
            )
        flat = draw_values(self._layout, setup.seed)
        self._vectors = NumpyVectors(self._layout, flat, epsilon=settings.adam_epsilon)
        scaling = None if limit is None else self._vectors.scaling(limit)
        self._inputs = CriticInputs(self._encoder, self._actions, scaling)

    def _compute(self, batch: DrawnBatch) -> Losses:
        assert isinstance(batch, ReplayBatch), "gradients through time are torch's"
        return self._learn(batch)

    @abstractmethod
    def _learn(self, batch: ReplayBatch) -> Losses:
        """See `_compute`."""

    def _gradient_norm(self, stop: int) -> float:
        vectors, start, lengths = self._vectors, 0, []
        for group in self._layout.groups.values():
            if group.statistic and group.place.stop <= stop:
                if not np.isfinite(vectors.gradient(group.name)).all():
                    return math.nan
                lengths.append(vectors.gradient_norm(slice(start, group.place.start)))
                start = group.place.stop
        return math.hypot(*lengths, vectors.gradient_norm(slice(start, stop)))

    def _step_network(self, name: str, learning_rate: float) -> None:
        """Step a network along a gradient no longer than is allowed."""
        longest, scale = self.settings.max_grad_norm, 1.0
        if longest is not None:
            norm = self._vectors.gradient_norm(self._layout.groups[name].place)
            scale = min(1.0, longest / (norm + 1e-6))
        self._vectors.step(name, learning_rate, scale)


def draw_values(layout: Layout, seed: int) -> F32:
    """First values of all networks, the same whoever learns them; zeros for what is none."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(FIRST_VALUES,)))
    flat: F32 = np.zeros(layout.size, np.float32)
    for group in layout.groups.values():
        if group.shape is not None:
            draw_first_values(group.parameters, flat, rng)
        elif group.encoder is not None:
            draw_encoder_values(group.parameters, flat, rng)
        elif group.memory is not None:
            initialise(group.memory, {p.name: p.view(flat) for p in group.parameters}, rng)
    return flat
