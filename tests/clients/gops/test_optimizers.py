"""Copies of GOPS's algorithm that compute gradients for the one that takes the steps."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fast_core.clients.gops.optimizers import (  # noqa: E402
    GradientAges,
    Optimizers,
    RemoteAlgorithm,
    _Order,
    may_be_next,
    mean,
)
from fast_core.clients.gops.ray_stand_in import Recipe  # noqa: E402
from fast_core.clients.gops.weights import Tensors  # noqa: E402
from fast_core.errors import ConfigError, NodeFailed  # noqa: E402
from fast_core.integrations.transport import Shelf  # noqa: E402
from tests.clients.gops.runs import different  # noqa: E402
from tests.clients.gops.test_stand_in import Make, children, make, nothing_is_left  # noqa: E402
from tests.process.harness import GONE_WITHIN_S, eventually  # noqa: E402

__all__ = ["make", "nothing_is_left"]

NEVER = 10**6
SEVERAL = {"trainer": "off_async_trainer", "num_algs": 2, "eval_interval": NEVER}


# --- who is next, and what is averaged -----------------------------------------------------------


def test_oldest_gradient_is_always_next_and_no_age_exceeds_the_bound() -> None:
    for count, bound, expected in ((3, 2, 2), (3, 5, 5), (4, 3, 3)):
        bases, ages = dict.fromkeys(range(count), 0), []
        for steps in range(50):
            free = [rank for rank in bases if may_be_next(rank, bases, steps, bound)]
            assert next(iter(bases)) in free
            rank = free[-1]  # the worst that may happen
            ages.append(steps - bases.pop(rank))
            bases[rank] = steps + 1
        assert max(ages) == expected


def test_gradients_are_averaged_name_by_name() -> None:
    def info(value: float) -> dict[str, Any]:
        return {"q": [torch.full((2,), value), None], "alpha": torch.tensor(value), "iteration": 4}

    got = mean([info(1.0), info(2.0), info(6.0)])
    assert got["q"][0].tolist() == [3.0, 3.0] and got["q"][1] is None
    assert got["alpha"] == 3.0 and got["iteration"] == 4
    assert mean([{"q": [None]}, {"q": [torch.tensor(3.0)]}])["q"] == [1.5]
    own = [
        {"q": (torch.tensor(each),), "nets": {"v": [np.full(2, each)]}, "c": each}
        for each in (1.0, 2.0)
    ]
    got = mean(own)
    assert got["q"] == [1.5] and got["c"] == 1.5 and got["nets"]["v"][0].tolist() == [1.5, 1.5]


def test_nothing_is_left_of_copies_that_cannot_be_sent() -> None:
    before = children()
    with pytest.raises(ConfigError, match="the factory of optimizer-0 can't be sent"):
        Optimizers([Recipe(dict, (threading.Lock(),))], bound=None, cuda=False, timeout_s=1.0)
    eventually(lambda: children() == before, "no process is left", GONE_WITHIN_S)


def test_ages_are_counted() -> None:
    ages = GradientAges().after(0).after(3)
    assert (ages.applied, ages.mean, ages.max) == (2, 1.5, 3) and GradientAges().mean == 0.0


# --- gradients are those of the algorithm itself -------------------------------------------------


@pytest.mark.parametrize("algorithm", ["TD3", "DSACT"])
def test_gradients_of_a_copy_are_those_of_the_algorithm_itself(algorithm: str, make: Make) -> None:
    """Also those that are read when the copy has computed others, in the same tensors."""
    made = make(ours=False, algorithm=algorithm)
    kind, args = type(made.alg), {**made.given, "trainer": "off_async_trainer"}
    recipe = Recipe(kind, (), args)

    def batches(count: int) -> list[dict[str, Any]]:
        draw = torch.Generator().manual_seed(5)
        shapes = {"obs": (16, 2), "obs2": (16, 2), "act": (16, 1), "rew": (16,), "done": (16,)}
        return [
            {name: torch.rand(*shape, generator=draw) for name, shape in shapes.items()}
            for _ in range(count)
        ]

    alone = recipe.make()
    for number, batch in enumerate(batches(6)):
        alone.local_update(batch, number)
    central, copy, shelf = recipe.make(), RemoteAlgorithm(recipe.make(), cuda=False), Shelf()
    for number, batch in enumerate(batches(6)):
        copy.load_weights(_Order(Tensors(central.networks, "").flat(), batch, number), number)
        given = shelf.put(copy.collect())
        for each in copy._alg.networks.parameters():
            if each.grad is not None:
                each.grad.zero_()
        central.remote_update(given.read().update_info)
    assert different(alone.state_dict(), central.state_dict()) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_algs": 0}, "num_algs must be a whole number, at least 1; got 0"),
        ({"num_algs": 2}, "num_algs must be 1 with off_serial_trainer"),
        ({**SEVERAL, "algorithm": "PPO"}, "num_algs must be 1 with PPO"),
        ({"max_gradient_staleness": 1}, "max_gradient_staleness is for off_async_trainer"),
        (
            {**SEVERAL, "trainer": "off_sync_trainer", "max_gradient_staleness": 1},
            "max_gradient_staleness is for off_async_trainer",
        ),
        ({**SEVERAL, "max_gradient_staleness": -1}, "max_gradient_staleness must be"),
    ],
)
def test_copies_that_cannot_be_are_refused_by_name(changes: Any, says: str, make: Make) -> None:
    with pytest.raises(ConfigError, match=says):
        make(**changes)


# --- with processes ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize(
    ("trainer", "runs", "applied", "oldest"),
    [("off_async_trainer", 2, 40, 1), ("off_sync_trainer", 1, 80, 0)],
)
def test_two_algorithms_train_and_repeat(
    trainer: str, runs: int, applied: int, oldest: int, make: Make
) -> None:
    trained = []
    for _ in range(runs):
        one = make(**{**SEVERAL, "trainer": trainer}, max_iteration=40, off_policy_degree=0)
        before = {name: each.clone() for name, each in one.networks.state_dict().items()}
        one.train()
        assert one.iteration == 40 and different(before, one.networks.state_dict())
        assert (one.gradient_ages.applied, one.gradient_ages.max) == (applied, oldest)
        trained.append(one.networks.state_dict())
    assert different(trained[0], trained[-1]) == []


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.usefixtures("nothing_is_left")
def test_gradients_of_the_newest_weights_train_as_one_algorithm_does(make: Make) -> None:
    """With a policy that draws nothing: its sampler shares random numbers with one algorithm."""
    how = {"algorithm": "TD3", "off_policy_degree": 0, "max_iteration": 40}
    trained = []
    for several in ({"num_algs": 1}, {"num_algs": 2, "max_gradient_staleness": 0}):
        one = make(**(SEVERAL | how | several))
        one.train()
        trained.append(one.networks.state_dict())
    assert different(*trained) == []


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.usefixtures("nothing_is_left")
def test_error_in_a_copy_comes_with_its_traceback_and_process(make: Make) -> None:
    trainer = make(**SEVERAL, gamma=None, off_policy_degree=0)
    with pytest.raises(NodeFailed) as failed:
        trainer.train()
    said = str(failed.value)
    assert "optimizer-0 (process " in said and "raised in get_remote_update_info()" in said
    assert "dsac.py" in said and "TypeError" in said


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.usefixtures("nothing_is_left")
def test_death_of_a_copy_is_named(make: Make) -> None:
    trainer = make(**SEVERAL, max_iteration=NEVER)

    def kill() -> None:
        eventually(lambda: trainer.iteration > 20, "it trains")
        os.kill(trainer._optimizers._remotes[1].pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(NodeFailed) as failed:
        trainer.train()
    killer.join()
    said = str(failed.value)
    assert said.startswith("optimizer-1 (process ") and "in get_remote_update_info()" in said
