"""PPO's optimizer steps with torch's autograd: on any device, and under torch.compile.

It states the loss the short way and is what the hand-written gradient is tested against.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from algos.compiled import Compiled, LossFunction
from algos.distributions import I64
from algos.networks import F32, NetworkShape, parameter_layout
from algos.ppo_core import Columns, GradientStats, OptimizerState
from algos.ppo_settings import PPOSettings
from algos.torch_networks import Network


class AutogradCore:
    """An actor-critic over one flat parameter tensor, with torch's fused Adam.

    On the CPU ``parameters`` is the tensor's memory; elsewhere it is copied once.
    """

    def __init__(
        self,
        settings: PPOSettings,
        shape: NetworkShape,
        parameters: F32,
        *,
        device: str,
        compile: bool,
    ) -> None:
        self._settings = settings
        self._device = torch.device(device)
        self._flat = torch.nn.Parameter(torch.from_numpy(parameters).to(self._device))
        self._flat.grad = torch.zeros_like(self._flat)
        layout = parameter_layout(shape)
        self._network = Network(shape)
        self._leaves: dict[str, Tensor] = {}
        for p in layout:
            # Leaves of their own over the same memory: autograd would otherwise write a whole
            # flat gradient for every one of them.
            leaf = self._flat.detach()[p.offset : p.end].view(p.shape).requires_grad_()
            leaf.grad = self._flat.grad[p.offset : p.end].view(p.shape)
            self._leaves[p.name] = leaf
        self._adam = torch.optim.Adam([self._flat], eps=settings.adam_epsilon, fused=True)
        self._loss: LossFunction = self._plain_loss
        if compile:
            self._loss = Compiled(self._plain_loss)
        self._columns: tuple[Tensor, Tensor, Tensor] | None = None
        self._epoch: tuple[Tensor, Tensor, Tensor] | None = None

    def values(self, obs: F32) -> F32:
        """Values ``[M]`` of ``obs [M, in]``."""
        with torch.inference_mode():
            rows = self._network.value(self._leaves, self._to_device(obs))
            values: F32 = rows.cpu().numpy()
        return values

    def begin(self, columns: Columns) -> None:
        """Copy the rows of a round to the device, once."""
        self._columns = (
            self._to_device(columns.obs),
            self._to_device(columns.action),
            self._to_device(columns.scalars),
        )

    def shuffle(self, order: I64) -> None:
        """Gather every column once, so that minibatches are slices."""
        assert self._columns is not None, "begin comes first"
        obs, action, scalars = self._columns
        index = self._to_device(order)
        self._epoch = (obs[index], action[index], scalars[:, index])

    def gradient(self, start: int, stop: int, clip_epsilon: float) -> GradientStats:
        """Write the loss gradient of the shuffled rows into the flat gradient."""
        assert self._epoch is not None and self._flat.grad is not None
        obs, action, scalars = self._epoch
        self._flat.grad.zero_()
        # A tensor, so that a scheduled value does not compile anew.
        clip = torch.tensor(clip_epsilon, device=self._device)
        loss, stats = self._loss(
            self._leaves, obs[start:stop], action[start:stop], scalars[:, start:stop], clip
        )
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.linalg.vector_norm(self._flat.grad)
        # One transfer for all numbers: each would wait for the device.
        return GradientStats(*torch.cat([norm[None], stats]).tolist())

    def apply(self, learning_rate: float, scale: float) -> None:
        """Take one Adam step along the last gradient times ``scale``."""
        assert self._flat.grad is not None
        self._flat.grad.mul_(scale)
        self._adam.param_groups[0]["lr"] = learning_rate
        self._adam.step()

    def parameters(self) -> F32:
        """Current flat parameters on the host; shares memory on the CPU."""
        flat: F32 = self._flat.detach().cpu().numpy()
        return flat

    @property
    def flat_gradient(self) -> F32:
        """The last gradient, laid out like the parameters, on the host."""
        assert self._flat.grad is not None
        gradient: F32 = self._flat.grad.cpu().numpy()
        return gradient

    def export_state(self) -> OptimizerState:
        """Copy everything that changes."""
        state = self._adam.state.get(self._flat)
        if not state:
            zeros = np.zeros(self._flat.shape, np.float32)
            return OptimizerState(self.parameters().copy(), zeros, zeros.copy(), 0)
        return OptimizerState(
            self.parameters().copy(),
            state["exp_avg"].cpu().numpy().copy(),
            state["exp_avg_sq"].cpu().numpy().copy(),
            int(state["step"].item()),
        )

    def import_state(self, state: OptimizerState) -> None:
        """Continue from `export_state`; the optimizer keeps the live parameter."""
        with torch.no_grad():
            self._flat.copy_(torch.tensor(state.parameters))
        self._adam.state[self._flat] = {
            "step": torch.tensor(float(state.steps), device=self._device),
            "exp_avg": torch.tensor(state.first_moment, device=self._device),
            "exp_avg_sq": torch.tensor(state.second_moment, device=self._device),
        }

    def _plain_loss(
        self,
        leaves: dict[str, Tensor],
        obs: Tensor,
        action: Tensor,
        scalars: Tensor,
        clip_epsilon: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return the loss, and the numbers of `GradientStats` after the norm."""
        settings = self._settings
        behaviour_log_prob, advantage, target, old_value = scalars
        log_prob, entropy, value = self._network.evaluate(leaves, obs, action)
        if settings.normalize_advantage and len(advantage) > 1:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        log_ratio = log_prob - behaviour_log_prob
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

    def _to_device(self, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Tensor:
        return torch.from_numpy(array).to(self._device)
