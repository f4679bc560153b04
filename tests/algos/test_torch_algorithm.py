"""Networks of one's own for algorithms that learn from replay, against the hand-written passes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import softplus

from fast_core.algorithm.spec import SpaceSpec
from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.algos.replay.torch_algorithm import Loss
from fast_core.algos.replay.torch_box import Sampled
from fast_core.algos.replay.torch_dqn import TorchDQN
from fast_core.errors import CheckpointError, ConfigError
from tests.algos.own_networks import Quiet
from tests.algos.replay_cases import (
    ALL,
    BOX,
    changed,
    environment_for,
    make_batch,
    make_config,
    make_learner,
)

HERE = "tests.algos.own_networks"
every = pytest.mark.parametrize("name", ALL)


def same_name(name: str) -> str:
    """What a parameter of a hand-written network is called in the modules."""
    part, *rest = name.split(".")
    if not rest:
        return name if name == "observations" else f"{name}.values"
    return ".".join([part, "layers", *rest])


def pair(name, **changes):
    """A learner with an own network that does nothing, and the one by hand, at equal values."""
    environment = environment_for(name)
    own = make_learner(make_config(name, network=f"{HERE}:Nothing", **changes), environment)
    by_hand = make_learner(make_config(name, **changes), environment)
    state, wanted = own.state_dict(), by_hand.state_dict()
    for where in ("parameters", "targets"):
        assert {same_name(each) for each in wanted[where]} == set(state[where])
        state[where] = {same_name(each): array for each, array in wanted[where].items()}
    own.load_state_dict(state)
    return own, by_hand, environment


@every
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"learning_rate_schedule": "linear", "max_grad_norm": 0.3},
        {"layer_norm": True, "activation": "gelu"},
        {"normalize_observations": True},
    ],
)
def test_learns_to_the_rounding_what_is_written_by_hand(name, more):
    own, by_hand, environment = pair(name, **more)
    for turn in range(4):
        batch = make_batch(environment, seed=turn)
        if "normalize_observations" in more:
            batch = changed(batch, obs=batch.obs * 7 + 3, next_obs=batch.next_obs * 7 + 3)
        mine, theirs = own.update(batch), by_hand.update(batch)
        assert mine.metrics.keys() == theirs.metrics.keys()
        for key, value in theirs.metrics.items():
            assert mine.metrics[key] == pytest.approx(value, rel=2e-3, abs=2e-5), key
        np.testing.assert_allclose(mine.priority, theirs.priority, rtol=2e-3, atol=2e-5)
    for where in ("parameters", "targets"):
        state, wanted = own.state_dict()[where], by_hand.state_dict()[where]
        for each, array in wanted.items():
            np.testing.assert_allclose(state[same_name(each)], array, rtol=1e-3, atol=5e-5)
    for left, right in zip(own.policy_parameters(), by_hand.policy_parameters(), strict=True):
        np.testing.assert_allclose(left.ravel(), right.ravel(), rtol=1e-3, atol=5e-5)


def as_own(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """A parameter of networks with one hidden layer as those of `Both` have it, one for each."""
    part, *rest = name.split(".")
    if not rest:
        return {same_name(name): array}
    index, kind = rest
    place, array = ("own.layers.0", array) if index == "0" else ("head", array[:, None])
    prefixes = ["policy"] if part == "policy" else [f"{part}.{i}" for i in range(len(array))]
    return {f"{pre}.{place}.{kind}": one for pre, one in zip(prefixes, array, strict=True)}


@pytest.mark.parametrize("name", BOX)
def test_every_network_itself_goes_on_from_what_was_learned_by_hand(name):
    """As runs do that begun when such networks were learned in NumPy, with Adam's moments."""
    environment = environment_for(name)
    by_hand = make_config(name, hidden_sizes=(8,))
    config = make_config(name, network=f"{HERE}:Both", hidden_sizes=None)
    own, theirs = (make_learner(each, environment) for each in (config, by_hand))
    for turn in range(2):
        theirs.update(make_batch(environment, seed=turn))
    state = theirs.state_dict()
    for where in ("parameters", "targets"):
        state[where] = {
            key: array
            for each, values in state[where].items()
            for key, array in as_own(each, values).items()
        }
    places = {p.name: p for p in config.layout(environment).parameters}
    for where in ("first_moment", "second_moment"):
        moments = np.zeros_like(state[where])
        for p in by_hand.layout(environment).parameters:
            for key, array in as_own(p.name, p.view(state[where])).items():
                places[key].view(moments)[...] = array
        state[where] = moments
    own.load_state_dict(state)
    for turn in range(2, 5):
        mine, wanted = (each.update(make_batch(environment, seed=turn)) for each in (own, theirs))
        assert mine.metrics == pytest.approx(wanted.metrics, rel=1e-4, abs=1e-5)
        np.testing.assert_allclose(mine.priority, wanted.priority, rtol=1e-4, atol=1e-5)
    found, wanted = (each.state_dict()["parameters"] for each in (own, theirs))
    for each, values in wanted.items():
        for key, array in as_own(each, values).items():
            np.testing.assert_allclose(found[key], array, rtol=1e-4, atol=1e-5, err_msg=key)


@every
@pytest.mark.parametrize("network", ["Plain", "Both"])
def test_policy_acts_with_what_travels(name, network):
    from fast_core.algorithm import PolicySetup

    environment = environment_for(name)
    config = make_config(name, network=f"{HERE}:{network}", hidden_sizes=None)
    learner = make_learner(config, environment)
    learner.update(make_batch(environment))
    policy = config.make_policy(environment, PolicySetup("torch"))
    policy.load(learner.policy_parameters())
    obs = make_batch(environment).obs
    noise = np.zeros((8, *config.noise(environment).shape), np.float32)
    action = policy.act(obs, noise=noise, explore=False).action
    with torch.no_grad():
        from fast_core.algos.nets_torch.networks import Rows

        output = learner.output(config, learner.online, Rows(torch.from_numpy(obs)))
    if name == "dqn":
        np.testing.assert_array_equal(action, output.argmax(1))
    else:
        np.testing.assert_allclose(action, output[:, :2].tanh(), atol=1e-6)
    shapes = [field.shape for field in config.policy_fields(environment)]
    assert [parameter.shape for parameter in learner.policy_parameters()] == shapes


def test_network_that_takes_actions_is_every_network():
    environment, config = (
        environment_for("sac"),
        make_config("sac", network=f"{HERE}:Both", hidden_sizes=None, critics=3),
    )
    modules = {module.name: module for module in config.examine(environment).modules}
    assert list(modules) == ["critics", "policy", "temperature"]
    sizes = {field.name: field.shape for module in modules.values() for field in module.fields}
    assert sizes["critics.2.own.layers.0.weight"] == (8, 7)
    assert sizes["policy.own.layers.0.weight"] == (8, 5)
    with pytest.raises(ConfigError, match="hidden_sizes can't be set"):
        make_config("sac", network=f"{HERE}:Both").examine(environment)


@pytest.mark.parametrize("network", ["Plain", "Both"])
def test_first_values_of_module_and_heads_are_not_the_same_draws(network):
    config = make_config("sac", network=f"{HERE}:{network}", hidden_sizes=None)
    learner = make_learner(config, environment_for("sac"))
    parameters = learner.state_dict()["parameters"]
    weights = {name: array for name, array in parameters.items() if name.endswith("weight")}
    draws = [round(float(w.flat[0] / w.flat[1]), 4) for w in weights.values()]
    assert len(set(draws)) == len(weights) > 4


def test_checkpoint_of_another_network_is_refused():
    environment = environment_for("sac")
    learner, other = (
        make_learner(make_config("sac", network=f"{HERE}:{network}"), environment)
        for network in ("Plain", "Fourier")
    )
    with pytest.raises(CheckpointError, match="must have the configured parameters"):
        other.load_state_dict(learner.state_dict())


@pytest.mark.parametrize("name", BOX)
def test_bf16_stays_near(name):
    environment, batch = environment_for(name), make_batch(environment_for(name))
    config = make_config(name, network=f"{HERE}:Plain")
    with pytest.warns(RuntimeWarning, match="bf16") if not _fast() else _nothing():
        narrow = make_learner(config, environment, precision="bf16")
    wide = make_learner(config, environment)
    value = [learner.update(batch).metrics["critic_loss"] for learner in (narrow, wide)]
    assert value[0] == pytest.approx(value[1], rel=0.05)
    assert value[0] != value[1]


def _fast() -> bool:
    from fast_core.algos.nets.precision import cpu_has_bf16

    return cpu_has_bf16()


def _nothing():
    from contextlib import nullcontext

    return nullcontext()


@every
@pytest.mark.parametrize("options", [{}, {"normalize_observations": True, "max_grad_norm": 0.1}])
def test_losses_and_steps_wait_for_nothing(name, options):
    from tests.algos.test_own_networks import NoWaiting

    environment = environment_for(name)
    config = make_config(name, network=f"{HERE}:Plain", **options)
    learner, batch = make_learner(config, environment), make_batch(environment)
    learner.update(batch)
    learner.update(batch)  # the first steps, of the policy too, make Adam's state
    tell = learner._tell

    def watched(*arguments):
        watching.__exit__(None, None, None)
        return tell(*arguments)

    learner._tell = watched
    for _ in range(2):
        watching = NoWaiting()
        watching.__enter__()
        assert learner.update(batch).updates == 1


def test_gradients_may_be_sparse_and_parameters_unused():
    environment, found = environment_for("sac"), []
    for sparse in (False, True):
        kwargs = {"network": f"{HERE}:Places", "network_kwargs": {"sparse": sparse}}
        learner = make_learner(make_config("sac", **kwargs), environment)
        for turn in range(3):
            assert learner.update(make_batch(environment, seed=turn)).updates
        found.append(learner.state_dict()["parameters"])
    for name, values in found[0].items():
        np.testing.assert_array_equal(values, found[1][name], err_msg=name)
        assert (values == 1.0).all() == (name == "encoder.own.idle")


def test_gradient_of_samples_equals_autograd():
    """Beyond the limits of the deviation too, where there is none, and where tanh rounds to 1."""
    rng = np.random.default_rng(0)
    mean, log_std = rng.normal(0.0, 3.0, (64, 3)), rng.uniform(-30.0, 5.0, (64, 3))
    output = torch.tensor(np.concatenate([mean, log_std], 1), requires_grad=True)
    noise, slope = (torch.tensor(rng.normal(size=(64, 3))) for _ in range(2))
    spread = output[:, 3:].clamp(-20.0, 2.0)
    u = output[:, :3] + spread.exp() * noise
    normal = torch.distributions.Normal(output[:, :3], spread.exp())
    log_prob = (normal.log_prob(u) - 2.0 * (math.log(2.0) - u - softplus(-2.0 * u))).sum(1)
    ((u.tanh() * slope).sum() + 0.3 * log_prob.sum()).backward()
    with torch.no_grad():
        drawn = Sampled.of(output, noise)
        ours = drawn.gradient(slope, torch.tensor(0.3))
    np.testing.assert_allclose(drawn.action, u.detach().tanh(), rtol=1e-9)
    np.testing.assert_allclose(drawn.log_prob, log_prob.detach(), rtol=1e-6)
    np.testing.assert_allclose(ours, output.grad, rtol=1e-5, atol=1e-8)
    beyond = (log_std < -20.0) | (log_std > 2.0)
    assert beyond.any() and not ours[:, 3:].numpy()[beyond].any()


def test_dropout_drops_while_it_learns_and_only_then():
    environment = environment_for("sac")
    config = make_config("sac", network=f"{HERE}:Dropping", hidden_sizes=None)
    learner, batch = make_learner(config, environment), make_batch(environment)
    from fast_core.algos.nets_torch.networks import Rows

    rows = Rows(torch.from_numpy(batch.obs))
    first, again = (learner.online.see(rows) for _ in range(2))
    assert not torch.equal(first, again) and (first == 0).any()
    with torch.no_grad():
        assert torch.equal(learner.online.see(rows), learner.online.see(rows))


@pytest.mark.parametrize("network", ["Quiet", "Scaling"])
def test_module_is_in_train_mode_where_gradients_are_computed(network):
    environment = environment_for("sac")
    learner = make_learner(make_config("sac", network=f"{HERE}:{network}"), environment)
    modes = []
    learner.online.parts["encoder"].own.register_forward_hook(
        lambda module, *_: modes.append((torch.is_grad_enabled(), module.training))
    )
    assert learner.update(make_batch(environment)).updates == 1
    assert sorted(set(modes)) == [(False, False), (True, True)]


class Noisy(TorchDQN):
    """Values with noise of a learned size, which begins at nothing."""

    @classmethod
    def modules(cls, settings, environment, seen):
        space = SpaceSpec("box", (seen,), "float32")
        return {"critics": nn.Sequential(Quiet(space), nn.Linear(8, environment.action.n))}


class NoisyConfig(DQNConfig, frozen=True, kw_only=True):
    always_torch = True
    torch_learner = f"{__name__}:Noisy"


def test_noise_of_an_algorithm_of_ones_own_follows_from_the_seed():
    environment = environment_for("dqn")
    config = NoisyConfig(batch_size=8, dueling=False, learning_rate=0.1)
    assert all(module.random for module in config.examine(environment).modules)
    learners = [make_learner(config, environment) for _ in range(2)]
    for turn in range(3):
        reports = [each.update(make_batch(environment, seed=turn)) for each in learners]
        assert reports[0].metrics == reports[1].metrics


def test_part_that_no_loss_names_has_no_gradient_of_before():
    environment = environment_for("td3")
    learner = make_learner(make_config("td3", backend="torch", policy_delay=2), environment)
    for due in (False, True, False):
        learner.update(make_batch(environment))
        assert learner._vectors.gradient("policy").any() == due
        assert learner._vectors.gradient("critics").any()


class Unlike(TorchDQN):
    """Other networks than its settings lay out."""

    @classmethod
    def modules(cls, settings, environment, seen):
        return {"critics": nn.Linear(seen, environment.action.n)}


class UnlikeConfig(DQNConfig, frozen=True, kw_only=True):
    torch_learner = f"{__name__}:Unlike"


def test_networks_unlike_the_settings_layout_are_refused():
    config = UnlikeConfig(batch_size=8, backend="torch")
    with pytest.raises(ConfigError, match=r"'critics' is another one\. Set always_torch = True in"):
        make_learner(config, environment_for("dqn"))


class Broken(TorchDQN):
    """Networks that can't be made, or losses for parts that there are not."""

    @classmethod
    def modules(cls, settings, environment, seen):
        if settings.gamma == 0.5:
            raise ZeroDivisionError("of one's own")
        return super().modules(settings, environment, seen)

    def loss(self, batch):
        found = super().loss(batch)
        error, losses = found.error, found.losses
        return {
            0.1: lambda: Loss({"critic": losses["critics"]}, error),
            0.2: lambda: losses["critics"],
            0.3: lambda: Loss({"critics": error}, error),
            0.4: lambda: Loss(losses, error, {"mine": 1.5}),
            0.5: lambda: Loss(losses, error[:, None]),
        }[self.settings.target_rate]()


class BrokenConfig(DQNConfig, frozen=True, kw_only=True):
    always_torch = True
    torch_learner = f"{__name__}:Broken"


def test_faults_of_an_algorithm_of_ones_own_are_told_with_its_traceback():
    environment = environment_for("dqn")

    config = BrokenConfig(gamma=0.5)
    with pytest.raises(ConfigError, match=r"(?s)the algorithm raised:.*Zero.*modules or output"):
        config.examine(environment)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (0.1, "must name parts .*critics.*; got 'critic'"),
        (0.2, "loss of Broken must return a Loss; got Tensor"),
        (0.3, r"scalar tensors as losses; 'critics' is a tensor of shape \(8,\)"),
        (0.4, "scalar tensors as metrics; 'mine' is 1.5, a float"),
        (0.5, r"each of the 8 rows, a tensor of shape \(8,\); got a tensor of shape \(8, 1\)"),
    ],
)
def test_loss_that_is_none_is_refused(how, says):
    environment = environment_for("dqn")
    learner = make_learner(BrokenConfig(batch_size=8, target_rate=how), environment)
    with pytest.raises(ConfigError, match=says):
        learner.update(make_batch(environment))
