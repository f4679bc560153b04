"""Trains twice on the same batches: by an algorithm itself, and with gradients of a copy of it.

``python remote_form.py SCRIPT [ARGS]...``, where a script of GOPS's makes the algorithm; it has 20
updates of either, and says which of the networks' tensors differ in the end.
"""

from __future__ import annotations

import importlib
import json
import runpy
import sys
from typing import Any

import torch

from fast_core.clients.gops import install
from fast_core.clients.gops.optimizers import Optimizers
from fast_core.clients.gops.ray_stand_in import Recipe

_UPDATES, _ROWS = 20, 32


class _Made(Exception):
    """The script has come as far as its trainer."""


def made_by(script: str, arguments: list[str]) -> tuple[type[Any], dict[str, Any]]:
    """The class of the algorithm and what it is made of."""
    module = importlib.import_module("gops.create_pkg.create_trainer")

    def create_trainer(alg: Any, *parts: Any, **args: Any) -> None:
        raise _Made(type(alg), args)

    module.create_trainer = create_trainer  # type: ignore[attr-defined]
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
    except _Made as made:
        kind, args = made.args
        return kind, {**args, "trainer": "off_async_trainer"}
    raise AssertionError("the script makes a trainer")


def batches(obs: int, act: int) -> list[dict[str, torch.Tensor]]:
    """Rows as a buffer has them."""
    draw = torch.Generator().manual_seed(5)
    shapes = {"obs": (obs,), "obs2": (obs,), "act": (act,), "rew": (), "done": (), "logp": ()}
    return [
        {name: torch.rand(_ROWS, *shape, generator=draw) for name, shape in shapes.items()}
        for _ in range(_UPDATES)
    ]


if __name__ == "__main__":
    install(serial=True, tensorboard=False)
    kind, args = made_by(sys.argv[1], sys.argv[2:])
    torch.set_num_threads(1)
    recipe, sizes = Recipe(kind, (), args), (args["obsv_dim"], args["action_dim"])
    central = recipe.make()
    optimizers = Optimizers([recipe], bound=None, cuda=False, timeout_s=300.0)
    for number, batch in enumerate(batches(*sizes)):
        optimizers.step(central, number, lambda batch=batch: batch)  # type: ignore[misc]
    optimizers.close(5.0)
    alone = recipe.make()
    first = {name: value.clone() for name, value in alone.state_dict().items()}
    alone.networks.train()
    for number, batch in enumerate(batches(*sizes)):
        alone.local_update(batch, number)
    one, other = alone.state_dict(), central.state_dict()
    differ = [name for name in one if not torch.equal(one[name], other[name])]
    trained = [name for name in one if not torch.equal(one[name], first[name])]
    print(json.dumps({"differ": differ, "trained": len(trained), "ages": optimizers.ages.max}))
