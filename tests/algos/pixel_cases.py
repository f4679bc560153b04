"""Observations with images for the tests of replay algorithms, and what they see, the slow way."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fast_core.algorithm import ReplayBatch
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from tests.algos.replay_cases import Oracle, box_environment, discrete_environment, make_batch


def pixels(*shape: int) -> SpaceSpec:
    return SpaceSpec("box", shape, "uint8", low=(0.0,), high=(255.0,))


NUMBERS = SpaceSpec("box", (2,), "float32", low=(-np.inf,), high=(np.inf,))
SEEN = {
    "stacked": (pixels(3, 36, 36), 3),
    "colours": (pixels(37, 40, 3), 1),
    "small": (pixels(2, 16, 20), 2),
    "composite": (
        SpaceSpec.composite(
            [("speed", NUMBERS), ("front", pixels(36, 36)), ("back", pixels(3, 36, 40))]
        ),
        1,
    ),
}


def pixel_environment(name: str, seen: str = "stacked") -> EnvironmentSpec:
    plain = discrete_environment() if name == "dqn" else box_environment()
    observation, frames = SEEN[seen]
    return EnvironmentSpec("Pixels-v0", observation, plain.action, frames=frames)


def draw_pixels(environment: EnvironmentSpec, rows: int, rng: np.random.Generator) -> np.ndarray:
    space = environment.observation
    obs = np.zeros((rows, *space.shape), space.row_dtype)
    for name, part in space.parts or ((None, space),):
        target = obs if name is None else obs[name]
        if part.dtype == "uint8":
            target[...] = rng.integers(0, 256, target.shape)
        else:
            target[...] = rng.normal(size=target.shape)
    return obs


def pixel_batch(environment: EnvironmentSpec, rows: int = 6, seed: int = 0) -> ReplayBatch:
    plain = make_batch(
        EnvironmentSpec("Test-v0", box_environment().observation, environment.action), rows, seed
    )
    rng = np.random.default_rng(1000 + seed)
    columns = {name: draw_pixels(environment, rows, rng) for name in ("obs", "next_obs")}
    return ReplayBatch(**(vars(plain) | columns))


class PixelOracle(Oracle):
    """`Oracle` with convolutions as products of unfolded pictures."""

    def see(self, obs: np.ndarray, environment: EnvironmentSpec, *, target: bool = False) -> Tensor:
        """What networks get of observations, ``[N, features]``."""
        parts = [(name, obs[name]) for name in obs.dtype.names or ()] or [(None, obs)]
        images = [_planes(a, environment.frames) for _, a in parts if a.dtype == np.uint8]
        values = self.targets if target else self.leaves
        seen = [self._convolve(values, f"encoder.image{i}", x) for i, x in enumerate(images)]
        seen += [torch.from_numpy(a.copy()) for _, a in parts if a.dtype != np.uint8]
        return torch.cat(seen, 1)

    def _convolve(self, values: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
        if f"{name}.conv0.weight" in values:
            for index, stride in enumerate((4, 2, 1)):
                x = functional.relu(_convolution(values, f"{name}.conv{index}", x, stride, 0))
        else:
            for section in range(3):
                here = f"{name}.section{section}"
                x = functional.max_pool2d(_convolution(values, f"{here}.conv", x, 1, 1), 3, 2, 1)
                for block in range(2):
                    y = functional.relu(x)
                    y = _convolution(values, f"{here}.block{block}.conv0", y, 1, 1)
                    y = functional.relu(y)
                    x = x + _convolution(values, f"{here}.block{block}.conv1", y, 1, 1)
            x = functional.relu(x)
        return torch.stack([picture.permute(1, 2, 0).reshape(-1) for picture in x])

    def gradient(self, loss: Tensor) -> np.ndarray:
        """Convolutions lie ``[out, kernel, kernel, in]`` in the vector."""
        found = torch.autograd.grad(loss, list(self.leaves.values()), allow_unused=True)
        return np.concatenate(
            [
                in_order(torch.zeros_like(leaf) if g is None else g)
                for g, leaf in zip(found, self.leaves.values(), strict=True)
            ]
        )


def in_order(array: Any) -> np.ndarray:
    """A parameter's numbers as the flat vector has them."""
    array = np.asarray(array)
    return (array.transpose(0, 2, 3, 1) if array.ndim == 4 else array).ravel()


def _planes(image: np.ndarray, frames: int) -> Tensor:
    """Pictures ``[N, planes, H, W]`` between 0 and 1, as slowly as it reads."""
    x = torch.from_numpy(image.astype(np.float32)) / 255
    if frames == 1:
        x = x[:, None]
    if x.dim() == 4:
        return x
    if x.shape[-1] == 3:
        x = x.permute(0, 1, 4, 2, 3)
    return x.reshape(len(x), -1, *x.shape[3:])


def _convolution(
    values: dict[str, Tensor], name: str, x: Tensor, stride: int, padding: int
) -> Tensor:
    weight, bias = values[f"{name}.weight"], values[f"{name}.bias"]
    kernel = weight.shape[-1]
    height, width = ((n + 2 * padding - kernel) // stride + 1 for n in x.shape[2:])
    patches = functional.unfold(x, kernel, stride=stride, padding=padding)
    product = weight.reshape(len(weight), -1) @ patches + bias[:, None]
    return product.reshape(len(x), len(weight), height, width)
