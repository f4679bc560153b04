"""Learning from replay with torch modules, and losses that torch differentiates.

A subclass says which networks there are and what their losses are. All else is here: observations
on the device, convolutions or a user's module under the networks, bfloat16, target networks,
optimizers that average, checkpoints, priorities, and policies that act with the same modules.

Nothing between the copy of a batch and the report's numbers waits for the device: whether a step
is taken is decided where it is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from fast_core.algorithm import LearnerSetup, RolloutBatch, UpdateReport
from fast_core.algorithm.spec import EnvironmentSpec, FieldSpec, ModuleSpec
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import I64, ObservationEncoder
from fast_core.algos.nets.own_shape import OwnShape, is_own, own_shape
from fast_core.algos.nets_torch.checks import check_float32, check_scalars, described, is_tensor
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.nets_torch.own import dice, own_traceback, takes_actions
from fast_core.algos.nets_torch.own import examine as examine_own
from fast_core.algos.nets_torch.staging import Download
from fast_core.algos.replay.learner import DrawnBatch, Losses, ReplayLearner, Settings, draw_values
from fast_core.algos.replay.sequence_targets import sequence_errors
from fast_core.algos.replay.settings import ReplaySettings
from fast_core.algos.replay.torch_batches import Batches, SequenceBatches, TorchBatch
from fast_core.algos.replay.torch_memory import RecurrentLayer
from fast_core.algos.replay.torch_networks import (
    Convolutions,
    Networks,
    Numbers,
    OwnEncoder,
    best_choice,
    pick,
    width,
)
from fast_core.algos.replay.torch_vectors import TorchVectors
from fast_core.errors import ConfigError
from fast_core.system.importing import named

__all__ = ["Loss", "Networks", "Rows", "TorchAlgorithm", "TorchBatch", "best_choice", "pick"]
FIRST = 0  # purpose of a random stream


@dataclass(frozen=True)
class Loss:
    """What a batch says.

    Attributes:
        losses: A scalar for each part that learns from it. A part's parameters follow its own loss
            alone; the encoder's follow that of ``critics``.
        error: ``[N]``, absolute errors, for priorities.
        metrics: Scalars by name.
    """

    losses: Mapping[str, Tensor]
    error: Tensor
    metrics: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class _Said:
    """What an update has to tell, on its way to the host.

    Attributes:
        metrics: Their names.
        download: Length of the gradient, whether anything is not finite, metrics, errors.
        starts: Where those of each sequence begin, if they are of sequences.
    """

    metrics: tuple[str, ...]
    download: Download
    starts: I64 | None

    @property
    def there(self) -> bool:
        """Whether it has arrived."""
        return self.download.there

    def wait(self) -> tuple[Losses, float, bool]:
        """Losses, the gradient's length, and whether the step was not taken."""
        host: F32 = np.array(self.download.wait(), np.float32)
        first = 2 + len(self.metrics)
        metrics = dict(zip(self.metrics, host[2:first].tolist(), strict=True))
        error = host[first:] if self.starts is None else sequence_errors(host[first:], self.starts)
        return Losses(error, metrics), float(host[0]), bool(host[1])


class TorchAlgorithm(ReplayLearner[Settings]):
    """A learner from replay; a subclass has `modules` and `loss`.

    Args:
        settings: Hyper-parameters; its ``torch_learner`` names the subclass.
        environment: What is learned.
        setup: The run.

    Attributes:
        followed: Parts that target networks follow.
        statistics: Parts whose gradient is what a batch says of itself.
        replaced: Whether a user's module may be every network itself (`modules`).
        online: The networks that learn.
        target: Those that follow them.
    """

    followed: ClassVar[tuple[str, ...]] = ("critics",)
    statistics: ClassVar[tuple[str, ...]] = ()
    replaced: ClassVar[bool] = False
    ahead: int = 1  # it counts the steps that were taken, so each waits for the one before
    online: Networks
    target: Networks
    _vectors: TorchVectors

    # --- for subclasses ------------------------------------------------------------------------

    @classmethod
    def modules(
        cls, settings: Settings, environment: EnvironmentSpec, seen: int
    ) -> dict[str, nn.Module]:
        """The networks by name; parts that only a policy's step changes last, from ``policy`` on.

        Args:
            settings: Hyper-parameters.
            environment: What is learned.
            seen: How many numbers `Networks.see` gives them. Torch's generator is seeded.
        """
        raise NotImplementedError

    @classmethod
    def own_modules(
        cls, settings: Settings, environment: EnvironmentSpec, shape: OwnShape, seed: int
    ) -> dict[str, nn.Module]:
        """The same where a user's module is every network itself, if `replaced` says that it may.

        Args:
            settings: Hyper-parameters.
            environment: What is learned.
            shape: The module, without actions.
            seed: Of its first values.
        """
        raise NotImplementedError

    @classmethod
    def output(cls, settings: Settings, networks: Networks, rows: Rows) -> Tensor:
        """What policies choose by, ``[B, out]``: values of choices, or means and deviations."""
        return networks("policy", networks.see(rows))

    @classmethod
    def judge(cls, settings: Settings, networks: Networks, rows: Rows, action: Tensor) -> Tensor:
        """What critics say of stored actions ``[B, A]``, for who watches: ``[M, B, out]``.

        The first output is the value, a second one the deviation of the return before softplus.
        """
        raise NotImplementedError

    def loss(self, batch: TorchBatch) -> Loss:
        """The losses of a batch, from `online` and `target`, in torch."""
        raise NotImplementedError

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers of the learner's own stream, on the device."""
        return self._upload(self._normal(*shape))

    def learning_rate(self, part: str) -> float:
        """Step size of a part."""
        return self.settings.learning_rate

    @property
    def policy_is_due(self) -> bool:
        """Whether this step is one of the policy, too: ``policy_delay`` says how often."""
        return self._policy_is_due

    # --- building ------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        settings: Settings,
        environment: EnvironmentSpec,
        *,
        seed: int,
        bf16: bool = False,
    ) -> Networks:
        """All networks; the same seed gives the same bits. This is the one place."""
        random = any(module.random for module in environment.modules)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            encoder: nn.Module | None = None
            apart = seed + 1  # other draws than those of what lies on a user's module
            if is_own(settings.network):
                shape = own_shape(settings.network, settings.network_kwargs, environment)
                if cls.replaced and takes_actions(shape):
                    parts = cls.own_modules(settings, environment, shape, apart)
                    return Networks(None, parts, raw=True, bf16=bf16, random=random)
                encoder, seen = OwnEncoder(shape, apart), width(shape)
            else:
                found = settings.encoder(environment)
                encoder = None if found is None else Convolutions(found)
                seen = settings.network_inputs(environment)
            found_memory = settings.memory(environment)
            memory = None if found_memory is None else RecurrentLayer(found_memory)
            parts = cls.modules(settings, environment, seen)
            return Networks(encoder, parts, memory=memory, bf16=bf16, random=random)

    def _allocate(
        self, environment: EnvironmentSpec, setup: LearnerSetup, limit: float | None
    ) -> None:
        settings, bf16 = self.settings, setup.precision == "bf16"
        looked_at = settings.modules(environment)
        environment = msgspec.structs.replace(environment, modules=looked_at)
        sequence = np.random.SeedSequence(setup.seed, spawn_key=(FIRST,))
        seed = int(sequence.generate_state(1)[0])
        self.online, self.target = (
            self.build(settings, environment, seed=seed, bf16=bf16) for _ in range(2)
        )
        flat = self._first_values(setup.seed)
        self._vectors = TorchVectors(self._layout, flat, setup, epsilon=settings.adam_epsilon)
        self._upload, self._device = self._vectors.upload, torch.device(setup.device)
        self._vectors.bind(self.online, self.target)
        self._draws = any(module.random for module in looked_at)
        scaling = None if limit is None else self._vectors.scaling(limit)
        discrete = environment.action.kind == "discrete"
        given = self._encoder, self._upload, scaling
        memory, window = settings.memory(environment), settings.replay().sequence
        self._batches = Batches(*given, discrete=discrete)
        if memory is not None and window is not None:
            size, gamma = memory.state_size, settings.gamma
            self._batches = SequenceBatches(*given, window, gamma, size, discrete=discrete)

    def _first_values(self, seed: int) -> F32:
        """Those of FastLoop's networks as NumPy learners have them; of others, their own."""
        flat, groups = draw_values(self._layout, seed), self._layout.groups
        for part, tensors in self.online.tensors().items():
            shapes = [tuple(tensor.shape) for tensor in tensors]
            if part not in groups or shapes != [p.shape for p in groups[part].parameters]:
                raise ConfigError(
                    f"modules of {type(self).__name__} must make the networks that "
                    f"{type(self.settings).__name__} lays out; {part!r} is another one. Set "
                    "always_torch = True in the settings, so that the modules alone say what "
                    "there is."
                )
            group = groups[part]
            if (group.shape or group.encoder or group.memory) is None:
                for p, tensor in zip(group.parameters, tensors, strict=True):
                    p.view(flat)[...] = tensor.detach().numpy()
        return flat

    # --- updates -------------------------------------------------------------------------------

    def update(self, batch: RolloutBatch | DrawnBatch) -> UpdateReport:
        """Take one optimizer step, with a batch from replay.

        Raises:
            TrainingDiverged: After ``nonfinite_limit`` NaN or infinite updates in a row.
        """
        assert not isinstance(batch, RolloutBatch), "rollouts are for on-policy algorithms"
        self.begin(batch)
        return self._report()

    def begin(self, batch: DrawnBatch) -> None:
        """Begin an optimizer step; see `fast_core.algorithm.Queueing`."""
        self._read(batch, None)
        found = self._learn(batch)
        with np.errstate(all="ignore"):
            self._say(batch)
        vectors, policy = self._vectors, self._policy_is_due
        stop = self._layout.size if policy else self._critic_size
        norm, bad = vectors.judge(stop, found.error)
        vectors.bad, vectors.step_scale = bad, self._left
        self._step(policy)
        vectors.bad = None
        self._said = self._tell(found, norm, bad)

    def finished(self) -> UpdateReport | None:
        """What came of the step that was begun; None while the device is at it.

        Raises:
            TrainingDiverged: After ``nonfinite_limit`` NaN or infinite updates in a row.
        """
        return self._report() if self._said.there else None

    def _report(self) -> UpdateReport:
        losses, length, skipped = self._said.wait()
        return self._skip() if skipped else self._stepped(losses, length)

    def _learn(self, batch: DrawnBatch) -> Loss:
        """Write the gradient of every part that is due; everything stays on the device."""
        self._vectors.clear()
        there = self._batches.take(batch)
        if not self._draws:
            return self._differentiate_losses(there)
        with dice(self._device, int(self._rng.integers(2**63))):
            return self._differentiate_losses(there)

    def _differentiate_losses(self, batch: TorchBatch) -> Loss:
        found = self.loss(batch)
        self._check(found, len(batch.reward))
        self._vectors.differentiate(found.losses)
        self._batches.send_announced()
        return found

    def _check(self, found: object, rows: int) -> None:
        """Refuse what is no `Loss` of a batch; looks at shapes alone."""
        loss = f"loss of {type(self).__name__}"
        if not isinstance(found, Loss):
            raise ConfigError(f"{loss} must return a Loss; got {type(found).__name__}.")
        for part in found.losses:
            if part not in self.online.parts:
                raise ConfigError(
                    f"{loss} must name parts that its modules has "
                    f"({', '.join(self.online.parts)}); got {part!r}."
                )
        check_scalars(loss, "losses", found.losses)
        check_scalars(loss, "metrics", found.metrics)
        if not is_tensor(found.error, (rows,)):
            raise ConfigError(
                f"{loss} must give an error for each of the {rows} rows, a tensor of shape "
                f"({rows},); got {described(found.error)}."
            )

    def _tell(self, found: Loss, norm: Tensor, bad: Tensor) -> _Said:
        """Send everything that the host wants to know, in one transfer."""
        scalars = [norm, bad, *found.metrics.values()]
        flat = torch.cat([torch.stack([s.detach().float() for s in scalars]), found.error.detach()])
        return _Said(tuple(found.metrics), self._upload.download(flat), self._batches.starts)

    def _compute(self, batch: DrawnBatch) -> Losses:
        """Of the two halves that several optimizers need, the first."""
        found = self._learn(batch)
        zero = found.error.new_zeros(())
        return self._tell(found, zero, zero).wait()[0]

    def _gradient_norm(self, stop: int) -> float:
        norm, bad = torch.stack(self._vectors.judge(stop)).tolist()
        return math.nan if bad else norm

    def prefetch(self, batch: DrawnBatch) -> None:
        """Announce the batch after the next one that `update`, `gradient` or `begin` takes.

        On a device its copy runs beside that update. Its arrays must not change until it was
        taken. A batch that then is not taken costs the copy and nothing else.
        """
        self._batches.announce(batch)

    def _step(self, policy: bool) -> None:
        """Step every part that is due, and let the targets follow."""
        vectors, groups = self._vectors, self._layout.groups.values()
        stop = self._layout.size if policy else self._critic_size
        stepped = [g.name for g in groups if g.place.stop <= stop and not g.statistic]
        for name in stepped:
            if not isinstance(self.online.parts[name], Numbers):  # a temperature is no network
                vectors.limit(name, self.settings.max_grad_norm)
        for name in stepped:
            vectors.step(name, self.learning_rate(name))
        if policy and self._targets_are_due:
            vectors.follow(self.settings.target_rate)

    @property
    def _targets_are_due(self) -> bool:
        return True


def torch_learner(settings: ReplaySettings) -> type[TorchAlgorithm[Any]]:
    """The class that learns with torch modules.

    Raises:
        ConfigError: There is none.
    """
    found = named(settings.torch_learner, f"torch_learner of {type(settings).__name__}")
    if not (isinstance(found, type) and issubclass(found, TorchAlgorithm)):
        raise ConfigError(
            f"torch_learner of {type(settings).__name__} must name a subclass of "
            f"fast_core.algos.replay.torch_algorithm.TorchAlgorithm; got {found!r}."
        )
    return found


def examine(settings: ReplaySettings, environment: EnvironmentSpec) -> tuple[ModuleSpec, ...]:
    """Try a user's module, and build everything once.

    Raises:
        ConfigError: It is not what the algorithm needs.
    """
    learner, looked = torch_learner(settings), {}
    if is_own(settings.network):
        shape = own_shape(settings.network, settings.network_kwargs, environment)
        looked["encoder"] = looked["policy"] = examine_own(shape, "encoder")
        if learner.replaced and takes_actions(shape):
            names = ("hidden_sizes", "actor_sizes", "critic_sizes")
            for name in [name for name in names if getattr(settings, name, None) is not None]:
                raise ConfigError(
                    f"algorithm.{name} can't be set with algorithm.network "
                    f"{settings.network!r}: a network that takes `actions` is each network itself, "
                    "with a linear layer on it. Leave it out, or leave `actions` out of __init__."
                )
            size = environment.action.size
            looked["critics"] = examine_own(replace(shape, actions=size), "critics")
    networks, outputs, otherwise = _build_once(learner, settings, environment)
    found: dict[str, list[FieldSpec]] = {name: [] for name in networks.parts}
    named_tensors = ((name, tensor) for _, name, tensor in networks.named_tensors())
    check_float32(settings.torch_learner, named_tensors)
    for part, name, tensor in networks.named_tensors():
        found[part].append(FieldSpec(name, tuple(tensor.shape), "float32"))
    random = (
        otherwise
        or any(spec.random for spec in looked.values())
        or any(isinstance(module, nn.modules.dropout._DropoutNd) for module in networks.modules())
    )
    return tuple(
        ModuleSpec(
            name,
            outputs,
            tuple(fields),
            sum(math.prod(f.shape) for f in fields)
            + (looked[name].products if name in looked else 0),
            random=random,
            acts=name == "encoder" or name in learner.acting,
            target=name == "encoder" or name in learner.followed,
            statistic=name in learner.statistics,
            judges=name in learner.judging,
        )
        for name, fields in found.items()
        if fields
    )


def _build_once(
    learner: type[TorchAlgorithm[Any]], settings: ReplaySettings, environment: EnvironmentSpec
) -> tuple[Networks, int, bool]:
    """The networks, how many numbers policies choose by, and whether they learn by another pass.

    Raises:
        ConfigError: The learner's own code raised.
    """
    encoder = ObservationEncoder(environment, settings.images(environment))
    space = environment.observation
    images = encoder.images(np.zeros((2, *space.shape), space.row_dtype))
    rows = Rows(torch.zeros(2, encoder.size), tuple(torch.from_numpy(np.array(i)) for i in images))
    try:
        networks = learner.build(settings, environment, seed=0).eval()
        with torch.random.fork_rng(devices=[]):
            with torch.no_grad():
                acting, dice = learner.output(settings, networks, rows), torch.get_rng_state()
            learning = learner.output(settings, networks.train(), rows)
            drawn = not torch.equal(torch.get_rng_state(), dice)
        return networks.eval(), acting.shape[1], drawn or not torch.equal(acting, learning)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"the algorithm raised:\n{own_traceback(error)}{settings.torch_learner}: modules or "
            f"output raised {type(error).__name__}: {error}"
        ) from error
