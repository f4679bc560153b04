"""Modules that are chains of layers, learned by the hand-written passes, against autograd."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fast_core.algos.nets.networks import Parameter
from fast_core.algos.replay.chain_vectors import Members
from fast_core.algos.replay.sac_config import SACConfig
from fast_core.algos.replay.torch_algorithm import TorchAlgorithm
from fast_core.algos.replay.torch_box import TorchSAC
from fast_core.spec import EnvironmentSpec, SpaceSpec
from tests.algos.replay_cases import BOX, box_environment, make_batch, make_config, make_learner

WIDE = {"network": "tests.algos.own_networks:Wide", "network_kwargs": {"width": 128}}
TABLE = SpaceSpec("box", (2, 3), "float32", low=(-np.inf,), high=(np.inf,))
OWN = "tests.algos.own_networks:Both"


class Normalised(nn.Module):
    """Two layers of other widths, normalised."""

    def __init__(self, observation, actions=0):
        super().__init__()
        inputs = observation.size + actions
        self.first, self.before = nn.Linear(inputs, 8), nn.LayerNorm(8)
        self.second, self.behind = nn.Linear(8, 6), nn.LayerNorm(6)

    def forward(self, obs: Tensor, *action: Tensor) -> Tensor:
        x = torch.tanh(self.before(self.first(torch.cat([obs, *action], 1))))
        return torch.tanh(self.behind(self.second(x)))


class Unseen(Normalised):
    """What stands for a tensor while it is looked at goes another way."""

    def forward(self, obs: Tensor, *action: Tensor) -> Tensor:
        features = super().forward(obs, *action)
        return features * 1.001 if isinstance(obs, Tensor) else features


class Limit(torch.autograd.Function):
    """Lets gradients through up to a size."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-9, 9)


class Limited(Normalised):
    """What stands for a tensor sees nothing of it."""

    def forward(self, obs: Tensor, *action: Tensor) -> Tensor:
        return Limit.apply(super().forward(obs, *action))


class Raising(Normalised):
    """For real inputs, but those that it is tried with."""

    def forward(self, obs: Tensor, *action: Tensor) -> Tensor:
        if type(self).ready and isinstance(obs, Tensor) and torch.is_grad_enabled():
            raise ValueError("not today")
        return super().forward(obs, *action)

    ready = False


class Rows(nn.Module):
    """The policy's layer sees one row of the observation after the other."""

    def __init__(self, observation, actions=0):
        super().__init__()
        inputs = observation.size + actions if actions else observation.shape[-1]
        self.layer = nn.Linear(inputs, 4)

    def forward(self, obs: Tensor, *action: Tensor) -> Tensor:
        seen = torch.cat([obs.flatten(1), *action], 1) if action else obs
        return self.layer(seen).relu().flatten(1)


class Flat(nn.Module):
    """One layer on whatever is seen."""

    def __init__(self, observation, actions=0):
        super().__init__()
        self.layer = nn.Linear(observation.size + actions, 4)

    def forward(self, obs: Tensor, *action: Tensor) -> Tensor:
        return self.layer(torch.cat([obs.flatten(1).float(), *action], 1)).relu()


class OtherLoss(TorchSAC):
    """A user's."""


class OtherConfig(SACConfig, frozen=True, kw_only=True):
    torch_learner = f"{__name__}:OtherLoss"


def config(name, network=OWN, **changes):
    return make_config(name, network=network, hidden_sizes=None, **changes)


def by_autograd(learner):
    return isinstance(learner, TorchAlgorithm)


@pytest.mark.parametrize("name", BOX)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {
            "network": f"{__name__}:Normalised",
            "learning_rate_schedule": "linear",
            "max_grad_norm": 0.3,
            "normalize_observations": True,
        },
    ],
)
def test_learns_what_autograd_does_and_goes_on_where_it_was(name, more):
    environment = config(name, **more).examine(box_environment())
    mine, theirs, later = (
        make_learner(config(name, backend=backend, **more), environment)
        for backend in ("auto", "torch", "torch")
    )
    assert [by_autograd(each) for each in (mine, theirs)] == [False, True]
    for turn in range(4):
        batch = make_batch(environment, seed=turn)
        reports = [each.update(batch) for each in (mine, theirs)]
        assert reports[0].metrics == pytest.approx(reports[1].metrics, rel=1e-4, abs=1e-5)
        np.testing.assert_allclose(reports[0].priority, reports[1].priority, rtol=1e-4, atol=1e-5)
        if turn == 1:  # a checkpoint of either is one of the other
            later.load_state_dict(mine.state_dict())
            mine.load_state_dict(theirs.state_dict())
        elif turn > 1:
            later.update(batch)
    states = [each.state_dict() for each in (mine, theirs, later)]
    for where in ("parameters", "targets"):
        for key, wanted in states[1][where].items():
            for state in (states[0], states[2]):
                np.testing.assert_allclose(state[where][key], wanted, rtol=1e-4, atol=1e-5)
    for told in ("insight_parameters", "policy_parameters"):
        mine_told, wanted = (getattr(each, told)() for each in (mine, theirs))
        assert [each.shape for each in mine_told] == [each.shape for each in wanted]


@pytest.mark.parametrize(
    ("more", "setup", "says"),
    [
        ({}, {}, "by hand"),
        ({"network": f"{__name__}:Unseen"}, {}, "by autograd: its numbers are not"),
        (WIDE | {"batch_size": 2048}, {}, "by hand"),
        (WIDE | {"batch_size": 2049}, {}, "by autograd: that is faster for 2049 rows"),
        ({"network": f"{__name__}:Limited"}, {}, "by autograd: its numbers are not"),
        ({"network": f"{__name__}:Raising"}, {}, "by autograd: it raised ValueError: not today"),
        ({"network": "tests.algos.own_networks:Plain"}, {}, "by autograd: it is not every network"),
        ({"backend": "torch"}, {}, ""),
        ({}, {"precision": "bf16"}, ""),
    ],
)
@pytest.mark.filterwarnings("ignore:.*bf16 is slower")
def test_log_says_who_differentiates(more, setup, says, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    given = config("sac", **more)
    environment = given.examine(box_environment())
    monkeypatch.setattr(Raising, "ready", True)
    learner = make_learner(given, environment, **setup)
    assert by_autograd(learner) == (says != "by hand")
    assert len(caplog.messages) == bool(says) and says in caplog.text


@pytest.mark.parametrize(
    ("name", "observation", "says"),
    [
        ("Flat", TABLE, "by hand"),
        ("Rows", TABLE, "autograd: its first layer does not take all"),
        (
            "Flat",
            SpaceSpec("box", (20, 20, 1), "uint8", low=(0,), high=(255,)),
            "autograd: it sees images",
        ),
    ],
)
def test_rows_of_other_shapes_are_flattened_but_for_images(name, observation, says, caplog):
    caplog.set_level(logging.INFO)
    environment = EnvironmentSpec("Test-v0", observation, box_environment().action)
    make_learner(config("sac", network=f"{__name__}:{name}"), environment)
    assert says in caplog.text


def test_losses_of_ones_own_stay():
    given = OtherConfig(network=OWN, batch_size=8)
    assert type(make_learner(given, box_environment())) is OtherLoss


def test_parameters_of_members_are_views():
    flat = np.arange(20, dtype=np.float32)
    members = Members("0.weight", (3, 2, 2), 1, stride=6).view(flat)
    for index in range(3):
        np.testing.assert_array_equal(
            members[index], Parameter("", (2, 2), 1 + 6 * index).view(flat)
        )
    members[2] = 0.0
    assert not flat[13:17].any()
