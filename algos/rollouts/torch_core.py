"""Optimizer steps from rollouts with torch's autograd: on any device, and under torch.compile.

A loss says what is learned: PPO's (ppo/autograd.py), or that of a user's algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fast_core.algorithm import LearnerSetup
from fast_core.algos.nets.distributions import I64
from fast_core.algos.nets.networks import F32, NetworkShape, Parameter, parameter_layout
from fast_core.algos.nets.precision import warn_of_slow_bf16
from fast_core.algos.nets_torch.adam import FlatAdam
from fast_core.algos.nets_torch.compiled import Compiled, LossFunction
from fast_core.algos.nets_torch.networks import Network, Rows, tensor_view
from fast_core.algos.nets_torch.own import bind, dice
from fast_core.algos.nets_torch.staging import Staging, make_staging
from fast_core.algos.nets_torch.tables import TorchTable, Uploader
from fast_core.algos.rollouts.config import ActorCriticConfig
from fast_core.algos.rollouts.core import Columns, MinibatchReport, OptimizerState
from fast_core.algos.rollouts.merged import MergedRollout
from fast_core.errors import ConfigError

IMAGE_CHUNK = 256  # rows of one forward of the values: bounds the memory of activations


class Minibatch(NamedTuple):
    """``N`` rows on the device, and what the actor-critic says of them, through which it learns.

    Attributes:
        obs: What the networks saw: numbers, images and mask.
        action: ``[N]`` or ``[N, D]`` int64 from 0, or ``[N, A]`` float32.
        log_prob: ``[N]``, of the action.
        entropy: ``[N]``, of the policy.
        value: ``[N]``.
        output: ``[N, out]``, what the policy's head puts out: logits, or means.
        features: ``[N, F]``, what the value's head takes, and every network besides.
        old_log_prob: ``[N]``, of the action under the policy that acted, if `targets` says nothing
            else.
        advantage: ``[N]``, from `targets`.
        target: ``[N]``, from `targets`.
        old_value: ``[N]``, before the ticket's first step.
        extra: ``[N]`` each, what `targets` gave besides, by name.
        scheduled: What `scheduled` said of the ticket, a scalar.
    """

    obs: Rows
    action: Tensor
    log_prob: Tensor
    entropy: Tensor
    value: Tensor
    output: Tensor
    features: Tensor
    old_log_prob: Tensor
    advantage: Tensor
    target: Tensor
    old_value: Tensor
    extra: dict[str, Tensor]
    scheduled: Tensor


@dataclass(frozen=True)
class Objective:
    """What a `TorchCore` learns by.

    Attributes:
        loss: A scalar of a minibatch, and scalars to report by name.
        heads: Networks beside the actor-critic, each on what the value's head takes.
        layout: Where their tensors lie behind those of the actor-critic, head by head.
        pace: Step size of a head in those of the actor-critic.
        draws: Whether the loss or a head may draw random numbers.
        check: Looks at what the loss returned and at all parameters by name, before either is used.
        whose: The class that a message names.
    """

    loss: Callable[[Minibatch], tuple[Tensor, Mapping[str, Tensor]]]
    heads: Mapping[str, nn.Module] = field(default_factory=dict)
    layout: tuple[Parameter, ...] = ()
    pace: Callable[[str], float] = lambda head: 1.0
    draws: bool = False
    check: Callable[[object, Mapping[str, Tensor]], None] | None = None
    whose: str = ""


class _Part(NamedTuple):
    """What is stepped alone."""

    name: str
    place: slice
    gradient: Tensor
    adam: FlatAdam


class TorchCore:
    """An actor-critic over one flat parameter tensor, with torch's fused Adam.

    On the CPU ``parameters`` is the tensor's memory; elsewhere it is copied once.

    Args:
        settings: Hyper-parameters.
        shape: The network.
        parameters: First values, flat.
        setup: Device, precision and whether to compile.
        objective: What is learned by.
        staging: How arrays get to the device; by default what the device needs.
    """

    def __init__(
        self,
        settings: ActorCriticConfig,
        shape: NetworkShape,
        parameters: F32,
        setup: LearnerSetup,
        objective: Objective,
        staging: Staging | None = None,
    ) -> None:
        self._shape, self._objective = shape, objective
        self._device = torch.device(setup.device)
        self._upload = Uploader(staging or make_staging(self._device))
        bf16 = setup.precision == "bf16"
        if bf16:
            warn_of_slow_bf16(self._device, "nodes.optimizer.precision")
        self._flat = torch.nn.Parameter(torch.from_numpy(parameters).to(self._device))
        self._flat.grad = torch.zeros_like(self._flat)
        self._network = Network(shape, bf16=bf16, device=self._device)
        self._leaves: dict[str, Tensor] = {}
        for p in (*parameter_layout(shape), *objective.layout):
            # Leaves of their own over the same memory: autograd would otherwise write a whole
            # flat gradient for every one of them.
            leaf = tensor_view(self._flat.detach(), p).requires_grad_()
            leaf.grad = tensor_view(self._flat.grad, p)
            self._leaves[p.name] = leaf
        self._network.bind(self._leaves)
        self._heads = nn.ModuleDict(objective.heads).to(self._device)
        for name, head in objective.heads.items():
            bind(head, self._leaves, f"{name}.")
        self._parts = self._make_parts(settings.adam_epsilon)
        self._norm = torch.full((), math.nan)
        self._at_hand = self._device.type == "cpu"  # numbers cost nothing to look at
        self._said: list[tuple[tuple[str, ...], Tensor]] = []
        # What a user's code draws while it learns follows from the seed, the steps taken before
        # the round, and the number of the minibatch.
        self._draws = objective.draws or (shape.own is not None and shape.own.known.random)
        self._seed, self._begun, self._drawn = setup.seed, 0, 0
        self._loss: LossFunction = self._plain_loss
        if setup.compile:
            self._loss = Compiled(self._plain_loss)
        self._table: TorchTable | None = None
        self._columns: tuple[Tensor, Tensor] | None = None
        self._extra: tuple[str, ...] = ()
        self._epoch: tuple[TorchTable, Tensor, Tensor] | None = None

    def _make_parts(self, epsilon: float) -> list[_Part]:
        """The actor-critic, whose name is empty, and each head."""
        assert self._flat.grad is not None
        ends = {p.name.partition(".")[0]: p.end for p in self._objective.layout}
        parts, start = [], 0
        for name, stop in {"": parameter_layout(self._shape)[-1].end, **ends}.items():
            place, start = slice(start, stop), stop
            gradient = self._flat.grad[place]
            adam = FlatAdam(self._flat.detach()[place], gradient, epsilon=epsilon)
            parts.append(_Part(name, place, gradient, adam))
        return parts

    def observe(self, merged: MergedRollout) -> None:
        """Copy the observations of a round to the device, once."""
        self._table = TorchTable.upload(merged.obs, self._upload)

    def values(self, start: int, stop: int, name: str = "value") -> F32:
        """Values of rows ``start`` to ``stop`` of the observations, by the head ``name``."""
        with torch.no_grad():  # a user's module may keep what it makes for passes that learn
            parts = [self._judged(name, each) for each in self._features(start, stop)]
            values: F32 = torch.cat(parts).cpu().numpy()
        return values

    def _features(self, start: int, stop: int) -> Iterator[Tensor]:
        """What the value's torso makes of these rows; of images, some at a time."""
        assert self._table is not None, "observe comes first"
        chunk = IMAGE_CHUNK if self._shape.images else max(1, stop - start)
        for at in range(start, stop, chunk):
            rows = self._table.rows(at, min(at + chunk, stop))
            yield self._network.features(self._leaves, self._shape.torsos[-1], rows)

    def _judged(self, name: str, features: Tensor) -> Tensor:
        """Values ``[B]`` by a head from what the value's takes."""
        if name == "value":
            return self._network.value_of(self._leaves, features)
        if name not in self._heads:
            raise ConfigError(
                f"{self._objective.whose} has no head {name!r} to judge by; make_heads names "
                f"{', '.join(self._heads) or 'none'}."
            )
        self._set_mode()
        values: Tensor = self._heads[name](features)
        if values.shape != (len(features), 1):
            raise ConfigError(
                f"{self._objective.whose}: the head {name!r} must put out [{len(features)}, 1] to "
                f"judge what {len(features)} steps lead to; got {list(values.shape)}."
            )
        return values[:, 0]

    def _set_mode(self) -> None:
        """Heads learn where gradients are computed and only there."""
        if self._heads.training != torch.is_grad_enabled():
            self._heads.train(torch.is_grad_enabled())

    def evaluate(self, action: NDArray[np.generic]) -> tuple[F32, F32]:
        """Log-probabilities of ``action`` and values, of the first rows of the observations."""
        assert self._table is not None, "observe comes first"
        uploaded = self._upload(action)
        chunk, parts = IMAGE_CHUNK if self._shape.images else len(action), []
        with torch.no_grad():
            for at in range(0, len(action), chunk):
                part = uploaded[at : at + chunk]
                rows = self._table.rows(at, at + len(part))
                said = self._network.evaluate(self._leaves, rows, part)
                parts.append(torch.stack([said.log_prob, said.value]))
            log_probs, values = torch.cat(parts, 1).cpu().numpy()
        return log_probs, values

    def begin(self, columns: Columns) -> None:
        """Copy the other columns of a round to the device, once."""
        self._begun, self._drawn = self._parts[0].adam.steps if self._draws else 0, 0
        self._columns = (self._upload(columns.action), self._upload(columns.scalars))
        self._extra = columns.extra

    def shuffle(self, order: I64) -> None:
        """Gather every column once, so that minibatches are slices."""
        assert self._table is not None and self._columns is not None, "begin comes first"
        action, scalars = self._columns
        index = self._upload(order)
        self._epoch = (self._table.ordered(index), action[index], scalars[:, index])

    def gradient(self, start: int, stop: int, scheduled: float) -> None:
        """Write the loss gradient of the shuffled rows into the flat gradient."""
        assert self._epoch is not None and self._flat.grad is not None
        table, action, scalars = self._epoch
        learned = self._learned(start, stop)
        self._flat.grad.zero_()
        # A tensor, so that a scheduled value does not compile anew; filled on the device.
        number = torch.full((), scheduled, device=self._device)
        self._drawn += 1
        entropy = self._seed, self._begun, self._drawn
        with dice(self._device, *entropy) if self._draws else nullcontext():
            self._set_mode()
            found = self._loss(
                self._leaves,
                self._minibatch(table, start, stop),
                action[learned],
                scalars[:, learned],
                number,
            )
            if self._objective.check is not None:
                self._objective.check(found, self._leaves)
            loss, metrics = found
            loss.backward()  # type: ignore[no-untyped-call]
        self._norm = torch.linalg.vector_norm(self._flat.grad)
        numbers = [self._norm, *(each.detach() for each in metrics.values())]
        self._said.append((tuple(metrics), torch.stack(numbers)))

    def apply(self, learning_rate: float, longest: float) -> None:
        """Take one Adam step; whether, and how far, is decided where the gradient is."""
        bad = None
        if not self._at_hand:
            bad = (~torch.isfinite(self._norm)).float()
        elif not math.isfinite(self._norm):
            return
        for part in self._parts:
            if math.isfinite(longest):
                alone = len(self._parts) == 1
                self._shorten(part.gradient, longest, self._norm if alone else None)
            pace = self._objective.pace(part.name) if part.name else 1.0
            part.adam.step(learning_rate * pace, bad=bad)

    def _shorten(self, gradient: Tensor, longest: float, norm: Tensor | None) -> None:
        norm = torch.linalg.vector_norm(gradient) if norm is None else norm
        if self._at_hand:
            gradient.mul_(min(1.0, longest / (norm.item() + 1e-6)))
        else:  # in double, as the host computes
            gradient.mul_((longest / (norm.double() + 1e-6)).clamp(max=1.0))

    def said(self) -> list[MinibatchReport]:
        """What the minibatches said since the last call, in one transfer."""
        said, self._said = self._said, []
        if not said:
            return []
        numbers = iter(torch.cat([each for _, each in said]).tolist())
        return [
            MinibatchReport(next(numbers), {name: next(numbers) for name in names})
            for names, _ in said
        ]

    def _learned(self, start: int, stop: int) -> slice | Tensor:
        """Which of these shuffled rows the loss is over."""
        return slice(start, stop)

    def _minibatch(self, table: TorchTable, start: int, stop: int) -> Rows:
        return table.rows(start, stop)

    def parameters(self) -> F32:
        """Current flat parameters on the host; shares memory on the CPU."""
        return cast(F32, self._upload.download(self._flat).wait())

    def export_state(self) -> OptimizerState:
        """Copy everything that changes."""
        first, second = zip(*(part.adam.moments() for part in self._parts), strict=True)
        steps = self._parts[0].adam.steps
        return OptimizerState(
            self.parameters().copy(), np.concatenate(first), np.concatenate(second), steps
        )

    def import_state(self, state: OptimizerState) -> None:
        """Continue from `export_state`; the optimizer keeps the live parameter."""
        with torch.no_grad():
            self._flat.copy_(torch.tensor(state.parameters))
        for _, place, _, adam in self._parts:
            adam.load(state.first_moment[place], state.second_moment[place], state.steps)

    def _plain_loss(
        self,
        leaves: dict[str, Tensor],
        rows: Rows,
        action: Tensor,
        scalars: Tensor,
        scheduled: Tensor,
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The loss of a minibatch, and its numbers by name."""
        old_log_prob, advantage, target, old_value, *extra = scalars
        said = self._network.evaluate(leaves, rows, action)
        if rows.learned is not None:
            images = tuple(image[rows.learned] for image in rows.images)
            rows = Rows(rows.vector[rows.learned], images, rows.mask)
        return self._objective.loss(
            Minibatch(
                rows,
                action,
                *said,
                old_log_prob,
                advantage,
                target,
                old_value,
                dict(zip(self._extra, extra, strict=True)),
                scheduled,
            )
        )
