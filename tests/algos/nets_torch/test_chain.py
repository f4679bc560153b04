"""Which modules are chains of layers, however they are spelled."""

from __future__ import annotations

import random
from threading import Thread

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from fast_core.algos.nets_torch.activations import FUNCTIONS
from fast_core.algos.nets_torch.chain import Chain, NotAChain, find_chain

MODULES = {
    "relu": nn.ReLU(inplace=True),
    "tanh": nn.Tanh(),
    "elu": nn.ELU(),
    "gelu": nn.GELU(),
    "gelu_tanh": nn.GELU(approximate="tanh"),
    "leaky_relu": nn.LeakyReLU(),
    "selu": nn.SELU(),
    "sigmoid": nn.Sigmoid(),
    "silu": nn.SiLU(),
    "softplus": nn.Softplus(),
}


class Two(nn.Module):
    """Two layers; ``how`` says what is done with them."""

    def __init__(self, how=None):
        super().__init__()
        self.first, self.second, self.how = nn.Linear(5, 4), nn.Linear(4, 3), how

    def forward(self, obs: Tensor, action: Tensor | None = None) -> Tensor:
        x = obs if action is None else torch.cat([obs, action], 1)
        return self.how(self, x) if self.how else self.second(self.first(x).relu()).relu()


RELU = Chain((("first.weight", "first.bias"), ("second.weight", "second.bias")), "relu", (4, 3))


@pytest.mark.parametrize(
    "how",
    [
        lambda net, x: torch.relu(net.second(torch.relu(net.first(x)))),
        lambda net, x: functional.relu(net.second(functional.relu(net.first(x), inplace=True))),
        lambda net, x: net.second(net.first(x.float()).relu_()).relu().flatten(1),
    ],
)
def test_spellings_of_one_chain_are_equal(how):
    for actions in (False, True):
        assert find_chain(Two(how), actions=actions) == RELU == find_chain(Two(), actions=actions)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_activations_and_normalisations_are_known(name):
    layers = nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Identity(), MODULES[name])
    names = ("0.weight", "0.bias", "1.weight", "1.bias")
    assert find_chain(layers, actions=False) == Chain((names,), name, (4,))


def _hooked():
    module = Two()
    module.first.register_forward_hook(lambda *_: None)
    return module


def _clipping():
    module = Two()
    module.first.weight.register_hook(lambda gradient: gradient.clamp(-1, 1))
    return module


def _shared():
    module = Two(lambda net, x: net.second(net.first(x).relu()).relu())
    module.second = nn.Linear(4, 4)
    module.first = nn.Linear(4, 4)
    module.second.weight = module.first.weight
    return module


def _twice():
    module = Two(lambda net, x: net.first(net.first(x).relu()).relu())
    module.first = nn.Linear(5, 5)
    return module


def _frozen():
    module = Two()
    module.first.bias.requires_grad_(False)
    return module


def _counting(net, x):
    net.calls = getattr(net, "calls", 0) + 1
    return net.second(net.first(x).relu()).relu()


def _skipping(draw):
    def forward(net, x):
        x = net.first(x).relu()
        return x if net.training and draw(net) < 1e-6 else net.second(x).relu()

    return forward


class Counter:
    calls = 0


COUNTED = {"calls": 0}


def _counts_outside(net, x):
    net.kept.calls += 1
    return net.second(net.first(x).relu()).relu()


def _keeping(kept):
    module = Two(_counts_outside)
    module.kept = kept
    return module


class CountingAll(Two):
    calls = 0

    def forward(self, obs: Tensor) -> Tensor:
        type(self).calls += 1
        return super().forward(obs)


class CountingGlobally(Two):
    def forward(self, obs: Tensor) -> Tensor:
        COUNTED["calls"] += 1
        return super().forward(obs)


class Bounded(Two):
    """Its weights are, wherever it is called; what stands for them is passed over."""

    def __init__(self):
        super().__init__()
        self.bounded = [self.first.weight]

    def forward(self, obs: Tensor) -> Tensor:
        with torch.no_grad():
            self.bounded[0].clamp_(-9, 9)
        return super().forward(obs)


class Thawing(Two):
    """Its first layer learns nothing."""

    def train(self, mode=True):
        self.first.requires_grad_(not mode)
        return super().train(mode)


def _stopping(net, x):
    breakpoint()
    return net.second(net.first(x).relu()).relu()


def _elsewhere(net, x):
    x = net.second(net.first(x).relu()).relu()
    return x if torch.is_grad_enabled() else x * 2


def _replaced():
    module = Two()
    module.first.forward = lambda x: functional.linear(x, module.first.weight).clamp(-9, 9)
    return module


def _saying(net, x):
    print("here")
    return net.second(net.first(x).relu()).relu()


def _training(net, x):
    return net.second((net.first(x) if net.training else net.first(x) * 2).relu()).relu()


def _dropped(net, x):
    x = net.first(x).relu()
    net.second(x).relu()
    return x


def _buffered():
    module = Two()
    module.register_buffer("kept", torch.zeros(1))
    return module


def _sequence(*layers):
    return nn.Sequential(nn.Linear(5, 4), *layers)


NONE = {
    "values": (lambda: Two(lambda net, x: net.first(x) if x.sum() > 0 else x), "can't follow"),
    "residual": (lambda: Two(lambda net, x: net.first(x).relu() + x), "is beside the chain"),
    "scaled": (lambda: Two(lambda net, x: net.first(x * 2).relu()), "none of its layers"),
    "dropped": (lambda: Two(_dropped), "what it returns"),
    "buffer": (_buffered, "buffers"),
    "double": (
        lambda: Two(lambda net, x: net.second(net.first(x).relu().relu())),
        "follows no linear layer",
    ),
    "unused": (lambda: Two(lambda net, x: net.first(x).relu()), "not used"),
    "shared": (_shared, "shared"),
    "twice": (_twice, "not used"),
    "frozen": (_frozen, "frozen"),
    "hooks": (_hooked, "hooks"),
    "tensor hooks": (_clipping, "hooks"),
    "counting": (lambda: Two(_counting), "not the same each time"),
    "printing": (lambda: Two(_saying), "prints"),
    "skipping": (lambda: Two(_skipping(lambda net: torch.rand(()))), "draws numbers"),
    "skipping by random": (lambda: Two(_skipping(lambda net: random.random())), "not the same"),
    "skipping by numpy": (lambda: Two(_skipping(lambda net: np.random.rand())), "not the same"),  # noqa: NPY002
    "counting outside": (lambda: _keeping(Counter()), "not the same each time"),
    "counting all": (CountingAll, "not the same each time"),
    "counting globally": (CountingGlobally, "not the same each time"),
    "bounded": (Bounded, "not the same each time"),
    "thawing": (Thawing, "frozen"),
    "stopping": (lambda: Two(_stopping), "has a breakpoint"),
    "not differentiated": (lambda: Two(_elsewhere), "none of its layers|not the same"),
    "replaced": (_replaced, "a forward of its own"),
    "last axis": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Flatten(), nn.Linear(8, 4), nn.ReLU()),
        "another width",
    ),
    "training": (lambda: Two(_training), "none of its layers|not the same"),
    "no bias": (lambda: nn.Sequential(nn.Linear(5, 4, bias=False), nn.ReLU()), "has no bias"),
    "linear": (lambda: _sequence(nn.Linear(4, 4), nn.ReLU()), "no activation"),
    "end": (lambda: _sequence(), "ends without activation"),
    "mixed": (lambda: _sequence(nn.ReLU(), nn.Linear(4, 4), nn.Tanh()), "differ in kind"),
    "one norm": (
        lambda: _sequence(nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU()),
        "differ in kind",
    ),
    "after": (lambda: _sequence(nn.ReLU(), nn.LayerNorm(4)), "elsewhere"),
    "epsilon": (lambda: _sequence(nn.LayerNorm(4, eps=1e-3), nn.ReLU()), "unusual"),
    "plain norm": (
        lambda: _sequence(nn.LayerNorm(4, elementwise_affine=False), nn.ReLU()),
        "unusual",
    ),
    "slope": (lambda: _sequence(nn.LeakyReLU(0.2)), "none of its layers"),
    "threshold": (lambda: _sequence(nn.Softplus(threshold=5)), "none of its layers"),
    "dropout": (lambda: _sequence(nn.Dropout(0.0), nn.ReLU()), "none of its layers"),
    "weight norm": (
        lambda: nn.Sequential(weight_norm(nn.Linear(5, 4)), nn.ReLU()),
        "none of its layers",
    ),
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_not_surely_a_chain_is_none(name, capsys):
    make, says = NONE[name]
    with pytest.raises(NotAChain, match=says):
        find_chain(make(), actions=False)
    assert capsys.readouterr().out == ""


def test_other_threads_print_while_a_module_is_looked_at(capsys):
    def forward(net, x):
        thread = Thread(target=print, args=("news",))
        thread.start()
        thread.join()
        return net.second(net.first(x).relu()).relu()

    assert find_chain(Two(forward), actions=False) == RELU
    assert capsys.readouterr().out == "news\n" * 4


@pytest.mark.parametrize(
    ("forward", "says"),
    [
        (lambda net, obs, action: net.first(torch.cat([action, obs], 1)).relu(), "beside"),
        (lambda net, obs, action: net.first(obs).relu(), "begin with observations and actions"),
    ],
)
def test_actions_come_into_a_chain_behind_the_observations(forward, says):
    module = Two()
    module.forward = forward.__get__(module)
    with pytest.raises(NotAChain, match=says):
        find_chain(module, actions=True)
