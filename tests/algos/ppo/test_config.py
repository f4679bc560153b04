import msgspec
import numpy as np
import pytest

from fast_core.algorithm import LearnerSetup
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.ppo.config import PPOConfig
from fast_core.errors import ConfigError
from tests.algos.rollout_cases import make_environment, make_learner


def setup(rows: int) -> LearnerSetup:
    return LearnerSetup(seed=0, shards=1, envs_per_shard=1, steps=rows)


@pytest.mark.parametrize(
    "values",
    [
        {"learning_rate": 0.0}, {"gamma": 1.01}, {"gae_lambda": -0.1}, {"clip_epsilon": 0.0},
        {"epochs": 0}, {"minibatch_size": 0}, {"max_grad_norm": 0.0}, {"hidden_sizes": []},
        {"hidden_sizes": [64, 0]}, {"activation": "swish"}, {"learning_rat": 1e-3},
        {"nonfinite_limit": 0}, {"target_kl": -1.0},
    ],
)  # fmt: skip
def test_values_out_of_range_and_unknown_keys_are_refused(values):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(values, PPOConfig)


def test_null_turns_limits_off():
    config = msgspec.convert({"max_grad_norm": None, "target_kl": None}, PPOConfig)
    assert config.max_grad_norm is None and config.target_kl is None


@pytest.mark.parametrize(("rows", "minibatch", "updates"), [(64, 16, 16), (65, 64, 8), (7, 7, 4)])
def test_last_smaller_minibatch_is_granted_too(rows, minibatch, updates):
    assert PPOConfig(minibatch_size=minibatch, epochs=4).updates_granted(rows) == updates


def test_minibatch_larger_than_a_ticket_is_refused():
    config = PPOConfig(minibatch_size=256)
    config.check(make_environment(), setup(256))
    with pytest.raises(ConfigError, match=r"algorithm.minibatch_size.*255.*256"):
        config.check(make_environment(), setup(255))


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_policy_parameters_follow_the_fields(continuous, normalize):
    config = PPOConfig(minibatch_size=16, normalize_observations=normalize)
    environment = make_environment(continuous=continuous)
    parameters = make_learner(config, environment).policy_parameters()
    fields = config.policy_fields(environment)
    assert [p.shape for p in parameters] == [f.shape for f in fields]
    assert all(p.dtype == np.float32 and f.dtype == "float32"
               for p, f in zip(parameters, fields, strict=True))  # fmt: skip
    assert ("observation.mean" in [f.name for f in fields]) == normalize


def test_torch_is_needed_only_where_it_computes():
    assert not PPOConfig().uses_torch(device="cpu", compile=False)
    assert PPOConfig().uses_torch(device="cuda", compile=False)
    assert PPOConfig().uses_torch(device="cpu", compile=True)
    assert PPOConfig(gradient="autograd").uses_torch(device="cpu", compile=False)


def test_update_flops_grow_with_network_and_minibatch():
    environment = make_environment()
    small = PPOConfig(minibatch_size=64).update_flops(environment, 1024)
    assert PPOConfig(minibatch_size=128).update_flops(environment, 1024) == 2 * small
    wide = PPOConfig(minibatch_size=64, hidden_sizes=(256, 256))
    assert wide.update_flops(environment, 1024) > 10 * small


def bounds(*pairs):
    low, high = zip(*pairs, strict=True)
    return SpaceSpec("box", (len(pairs),), "float32", low=low, high=high)


INF = float("inf")


@pytest.mark.parametrize(
    ("action", "values", "normalizes"),
    [
        *[(bounds((-b, b)), {}, False) for b in (0.9, 1, 2, 4)],
        *[(bounds((-b, b)), {}, True) for b in (0.01, 0.5, 5, 1e4)],
        *[(bounds(pair), {}, True) for pair in ((0, 1), (900, 1000), (-1, 2))],
        (bounds((-1, 1), (0, 1)), {}, True),
        (bounds((-1, 1), (-INF, INF), (0, INF), (-3e38, 3e38)), {}, False),
        (bounds((-1, 1), (7, 7)), {}, False),  # locked to one value
        (bounds((-0.01, 0.01)), {"initial_log_std": -4.0}, False),
        (bounds((-0.01, 0.01)), {"normalize_actions": False}, False),
        (bounds((-1, 1)), {"normalize_actions": True}, True),
        (SpaceSpec("discrete", (), "int64", n=2), {}, False),
    ],
)
def test_unit_of_actions_is_left_behind_where_it_is_far_from_one(action, values, normalizes):
    environment = EnvironmentSpec("Test-v0", SpaceSpec("box", (3,), "float32"), action)
    config = PPOConfig(**values)
    assert config.resolved(environment).normalize_actions is normalizes
    assert config.shape(environment).stretched is normalizes
