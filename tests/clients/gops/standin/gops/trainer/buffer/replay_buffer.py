"""Rows in arrays, stored one by one, drawn evenly."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gops.utils.common_utils import set_seed


class ReplayBuffer:
    def __init__(self, index: int = 0, **kwargs: Any) -> None:
        set_seed(kwargs["trainer"], kwargs["seed"], index + 100)
        self.max_size, self._next, self.size = kwargs["buffer_max_size"], 0, 0
        obs, act = (kwargs["obsv_dim"],), (kwargs["action_dim"],)
        shapes = {"obs": obs, "obs2": obs, "act": act, "rew": (), "done": (), "logp": ()}
        self._infos = [*kwargs["additional_info"]]
        for name, like in kwargs["additional_info"].items():
            shapes |= {name: like["shape"], f"next_{name}": like["shape"]}
        self.buf = {
            name: np.zeros((self.max_size, *shape), np.float32) for name, shape in shapes.items()
        }

    def __len__(self) -> int:
        return int(self.size)

    def __get_RAM__(self) -> float:
        return sum(column.nbytes for column in self.buf.values()) / 1e6

    def add_batch(self, samples: list[Any]) -> None:
        for sample in samples:
            self._store(*sample)

    def _store(
        self,
        obs: Any,
        act: Any,
        rew: float,
        done: bool,
        info: Any,
        next_obs: Any,
        next_info: Any,
        logp: float,
    ) -> None:
        row = {"obs": obs, "obs2": next_obs, "act": act, "rew": rew, "done": done, "logp": logp}
        for name in self._infos:
            row |= {name: info[name], f"next_{name}": next_info[name]}
        for name, value in row.items():
            self.buf[name][self._next] = value
        self._next = (self._next + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def sample_batch(self, batch_size: int) -> dict[str, torch.Tensor]:
        rows = np.random.randint(0, self.size, batch_size)  # noqa: NPY002
        return {name: torch.as_tensor(column[rows]) for name, column in self.buf.items()}
