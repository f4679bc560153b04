"""PPO's optimizer steps with torch's autograd: on any device, and under torch.compile.

It states the loss the short way and is what the hand-written gradient is tested against.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fast_core.algorithm import LearnerSetup
from fast_core.algos.nets.distributions import I64
from fast_core.algos.nets.networks import F32, NetworkShape, parameter_layout
from fast_core.algos.nets.precision import warn_of_slow_bf16
from fast_core.algos.nets_torch.adam import FlatAdam
from fast_core.algos.nets_torch.compiled import Compiled, LossFunction
from fast_core.algos.nets_torch.networks import Network, Rows, tensor_view
from fast_core.algos.nets_torch.own import dice
from fast_core.algos.nets_torch.staging import Staging, make_staging
from fast_core.algos.nets_torch.tables import TorchTable, Uploader
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.rollouts.core import Columns, GradientStats, OptimizerState
from fast_core.algos.rollouts.merged import MergedRollout

IMAGE_CHUNK = 256  # rows of one forward of the values: bounds the memory of activations


class AutogradCore:
    """An actor-critic over one flat parameter tensor, with torch's fused Adam.

    On the CPU ``parameters`` is the tensor's memory; elsewhere it is copied once.

    Args:
        settings: Hyper-parameters.
        shape: The network.
        parameters: First values, flat.
        setup: Device, precision and whether to compile.
        staging: How arrays get to the device; by default what the device needs.
    """

    def __init__(
        self,
        settings: PPOConfig,
        shape: NetworkShape,
        parameters: F32,
        setup: LearnerSetup,
        staging: Staging | None = None,
    ) -> None:
        self._settings, self._shape = settings, shape
        self._device = torch.device(setup.device)
        self._upload = Uploader(staging or make_staging(self._device))
        bf16 = setup.precision == "bf16"
        if bf16:
            warn_of_slow_bf16(self._device, "nodes.optimizer.precision")
        self._flat = torch.nn.Parameter(torch.from_numpy(parameters).to(self._device))
        self._flat.grad = gradient = torch.zeros_like(self._flat)
        self._network = Network(shape, bf16=bf16, device=self._device)
        self._leaves: dict[str, Tensor] = {}
        for p in parameter_layout(shape):
            # Leaves of their own over the same memory: autograd would otherwise write a whole
            # flat gradient for every one of them.
            leaf = tensor_view(self._flat.detach(), p).requires_grad_()
            leaf.grad = tensor_view(self._flat.grad, p)
            self._leaves[p.name] = leaf
        self._network.bind(self._leaves)
        self._adam = FlatAdam(self._flat, gradient, epsilon=settings.adam_epsilon)
        # Built-in networks on the CPU, where nothing is gained, are stepped as ever.
        self.defers = shape.own is not None or self._device.type != "cpu"
        self._said: list[Tensor] = []
        # What a user's network draws while it learns follows from the seed, the steps taken before
        # the round, and the number of the minibatch.
        self._draws = shape.own is not None and shape.own.known.random
        self._seed, self._steps, self._begun, self._drawn = setup.seed, 0, 0, 0
        self._loss: LossFunction = self._plain_loss
        if setup.compile:
            self._loss = Compiled(self._plain_loss)
        self._table: TorchTable | None = None
        self._columns: tuple[Tensor, Tensor] | None = None
        self._epoch: tuple[TorchTable, Tensor, Tensor] | None = None

    def observe(self, merged: MergedRollout) -> None:
        """Copy the observations of a round to the device, once."""
        self._table = TorchTable.upload(merged.obs, self._upload)

    def values(self, start: int, stop: int) -> F32:
        """Values of rows ``start`` to ``stop`` of the observations."""
        assert self._table is not None, "observe comes first"
        chunk = IMAGE_CHUNK if self._shape.images else max(1, stop - start)
        with torch.no_grad():  # a user's module may keep what it makes for passes that learn
            parts = [
                self._network.value(self._leaves, self._table.rows(at, min(at + chunk, stop)))
                for at in range(start, stop, chunk)
            ]
            values: F32 = torch.cat(parts).cpu().numpy()
        return values

    def evaluate(self, action: NDArray[np.generic]) -> tuple[F32, F32]:
        """Log-probabilities of ``action`` and values, of the first rows of the observations."""
        assert self._table is not None, "observe comes first"
        uploaded = self._upload(action)
        chunk, parts = IMAGE_CHUNK if self._shape.images else len(action), []
        with torch.no_grad():
            for at in range(0, len(action), chunk):
                part = uploaded[at : at + chunk]
                rows = self._table.rows(at, at + len(part))
                log_prob, _, value = self._network.evaluate(self._leaves, rows, part)
                parts.append(torch.stack([log_prob, value]))
            log_probs, values = torch.cat(parts, 1).cpu().numpy()
        return log_probs, values

    def begin(self, columns: Columns) -> None:
        """Copy the other columns of a round to the device, once."""
        self._begun, self._drawn = self._steps, 0
        self._columns = (self._upload(columns.action), self._upload(columns.scalars))

    def shuffle(self, order: I64) -> None:
        """Gather every column once, so that minibatches are slices."""
        assert self._table is not None and self._columns is not None, "begin comes first"
        action, scalars = self._columns
        index = self._upload(order)
        self._epoch = (self._table.ordered(index), action[index], scalars[:, index])

    def gradient(self, start: int, stop: int, clip_epsilon: float) -> GradientStats:
        """Write the loss gradient of the shuffled rows into the flat gradient."""
        # One transfer for all numbers: each would wait for the device.
        return GradientStats(*self._differentiate(start, stop, clip_epsilon).tolist())

    def take(
        self, start: int, stop: int, clip_epsilon: float, learning_rate: float, longest: float
    ) -> None:
        """Differentiate and step; whether, and how far, is decided on the device."""
        assert self._flat.grad is not None
        stats = self._differentiate(start, stop, clip_epsilon)
        self._said.append(stats)
        norm = stats[0].double()  # as the host would compute
        if math.isfinite(longest):
            self._flat.grad.mul_((longest / (norm + 1e-6)).clamp(max=1.0))
        self._adam.step(learning_rate, bad=(~torch.isfinite(norm)).float())

    def taken(self) -> list[GradientStats]:
        """What the minibatches said, in one transfer."""
        said, self._said = self._said, []
        if not said:
            return []
        rows = [GradientStats(*row) for row in torch.stack(said).tolist()]
        self._steps += sum(math.isfinite(stats.gradient_norm) for stats in rows)
        return rows

    def _differentiate(self, start: int, stop: int, clip_epsilon: float) -> Tensor:
        """Write the gradient; returns the numbers of `GradientStats`."""
        assert self._epoch is not None and self._flat.grad is not None
        table, action, scalars = self._epoch
        learned = self._learned(start, stop)
        self._flat.grad.zero_()
        # A tensor, so that a scheduled value does not compile anew; filled on the device.
        clip = torch.full((), clip_epsilon, device=self._device)
        self._drawn += 1
        entropy = self._seed, self._begun, self._drawn
        with dice(self._device, *entropy) if self._draws else nullcontext():
            loss, stats = self._loss(
                self._leaves,
                self._minibatch(table, start, stop),
                action[learned],
                scalars[:, learned],
                clip,
            )
            loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.linalg.vector_norm(self._flat.grad)
        return torch.cat([norm[None], stats])

    def _learned(self, start: int, stop: int) -> slice | Tensor:
        """Which of these shuffled rows the loss is over."""
        return slice(start, stop)

    def _minibatch(self, table: TorchTable, start: int, stop: int) -> Rows:
        return table.rows(start, stop)

    def apply(self, learning_rate: float, scale: float) -> None:
        """Take one Adam step along the last gradient times ``scale``."""
        assert self._flat.grad is not None
        self._flat.grad.mul_(scale)
        self._adam.step(learning_rate)
        self._steps += 1

    def change(self, settings: PPOConfig) -> None:
        """Go on with these settings."""
        self._settings = settings

    def parameters(self) -> F32:
        """Current flat parameters on the host; shares memory on the CPU."""
        return cast(F32, self._upload.download(self._flat))

    def export_state(self) -> OptimizerState:
        """Copy everything that changes."""
        return OptimizerState(self.parameters().copy(), *self._adam.moments(), self._adam.steps)

    def import_state(self, state: OptimizerState) -> None:
        """Continue from `export_state`; the optimizer keeps the live parameter."""
        self._steps = state.steps
        with torch.no_grad():
            self._flat.copy_(torch.tensor(state.parameters))
        self._adam.load(state.first_moment, state.second_moment, state.steps)

    def _plain_loss(
        self,
        leaves: dict[str, Tensor],
        rows: Rows,
        action: Tensor,
        scalars: Tensor,
        clip_epsilon: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return the loss, and the numbers of `GradientStats` after the norm."""
        settings = self._settings
        anchor, advantage, target, old_value, *weight = scalars
        log_prob, entropy, value = self._network.evaluate(leaves, rows, action)
        if settings.normalize_advantage and len(advantage) > 1:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        if weight:
            advantage = advantage * weight[0]
        log_ratio = log_prob - anchor
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)
        policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
        value_error = (value - target).square()
        if settings.value_clip_epsilon is not None:
            limit = settings.value_clip_epsilon
            near = old_value + (value - old_value).clamp(-limit, limit)
            value_error = torch.max(value_error, (near - target).square())
        value_loss, entropy = value_error.mean(), entropy.mean()
        loss = policy_loss + settings.value_coef * value_loss - settings.entropy_coef * entropy
        with torch.no_grad():
            approx_kl = (ratio - 1 - log_ratio).mean()
            clip_fraction = (clipped != ratio).float().mean()
            stats = torch.stack([policy_loss, value_loss, entropy, approx_kl, clip_fraction])
        return loss, stats
