from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fast_core.algorithm import LearnerSetup, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.nets.networks import parameter_layout
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.nets.own_shape import own_shape
from fast_core.algos.nets_torch.networks import Network
from fast_core.algos.nets_torch.own import OwnModule
from fast_core.algos.ppo.config import PPOConfig
from fast_core.errors import ConfigError
from tests.algos.rollout_cases import make_batch, make_environment
from tests.algos.rollouts import own_losses

HERE = "tests.algos.own_networks"
SETUP = LearnerSetup(seed=3, shards=2, envs_per_shard=4, steps=8)


def box(*shape: int, dtype: str = "float32") -> SpaceSpec:
    return SpaceSpec("box", shape, dtype, low=(-1.0,), high=(1.0,))


def choices(n: int, start: int = 0) -> SpaceSpec:
    return SpaceSpec("discrete", (), "int64", n=n, start=start)


MIXED = EnvironmentSpec(
    "Mixed-v0",
    SpaceSpec.composite(
        [
            ("joints", box(2, 3, dtype="float64")),
            ("gear", choices(4, start=1)),
            ("open", SpaceSpec("box", (3,), "int8", low=(0.0,), high=(1.0,))),
            ("camera", SpaceSpec("box", (16, 18, 3), "uint8", low=(0.0,), high=(255.0,))),
            ("doors", SpaceSpec("multi_discrete", (2,), "int64", counts=(2, 3))),
        ]
    ),
    choices(3),
    action_mask="open",
)
MIXED_WITHOUT_IMAGE = EnvironmentSpec(
    "Mixed-v0",
    SpaceSpec.composite([part for part in MIXED.observation.parts if part[0] != "camera"]),
    choices(3),
    action_mask="open",
)
TARGETS = EnvironmentSpec(
    "Targets-v0",
    SpaceSpec.composite([("targets", box(3, 4)), ("open", box(3, dtype="int8"))]),
    choices(3),
    action_mask="open",
)
STACKED = EnvironmentSpec(
    "Frames-v0", SpaceSpec("box", (4, 20, 24), "uint8", low=(0.0,), high=(255.0,)), choices(2),
    frames=4,
)  # fmt: skip


def settings(name: str = "Plain", kind: Any = PPOConfig, **more: object) -> Any:
    fields = {"minibatch_size": 32, "epochs": 2, **more}
    return kind(network=f"{HERE}:{name}", **fields)


def test_module_gets_every_part_in_its_shape():
    rows = np.zeros(5, MIXED.observation.row_dtype)
    rng = np.random.default_rng(0)
    rows["joints"] = rng.normal(size=(5, 2, 3))
    rows["gear"] = rng.integers(1, 5, 5)
    rows["camera"] = rng.integers(0, 256, (5, 16, 18, 3))
    rows["doors"] = rng.integers(0, 2, (5, 2))
    shape = own_shape(f"{HERE}:Parts", {}, MIXED)
    encoder = ObservationEncoder(MIXED, shape.images)
    images = tuple(torch.from_numpy(np.array(image)) for image in encoder.images(rows))
    seen = {}
    module = OwnModule(shape)
    module.module.register_forward_pre_hook(lambda _, arguments: seen.update(arguments[0]))
    module(torch.from_numpy(encoder.vector(rows)), images)
    assert list(seen) == ["joints", "gear", "camera", "doors"], "a mask is no input"
    np.testing.assert_array_equal(seen["joints"], rows["joints"].astype(np.float32))
    np.testing.assert_array_equal(seen["gear"], np.eye(4, dtype=np.float32)[rows["gear"] - 1])
    assert seen["camera"].dtype == torch.uint8
    np.testing.assert_array_equal(seen["camera"], rows["camera"])
    assert [one.tolist() for one in seen["doors"]] == [
        [float(a == 0), float(a == 1), *(float(b == c) for c in range(3))] for a, b in rows["doors"]
    ]
    assert dict(shape.observation.parts)["doors"].shape == (5,)


def test_equal_module_learns_what_the_built_in_network_does():
    environment = make_environment(actions=3)
    common = {"minibatch_size": 32, "epochs": 3, "shared_torso": False, "gradient": "autograd"}
    own, built_in = settings(**common), PPOConfig(hidden_sizes=(8, 8), **common)
    mine, theirs = (each.make_algorithm(environment, SETUP) for each in (own, built_in))
    state, wanted = mine.state_dict(), theirs.state_dict()
    for name in wanted["parameters"]:
        torso, layer, what = name.split(".")
        at = name if layer == "head" else f"{torso}.own.layers.{2 * int(layer)}.{what}"
        state["parameters"][at] = wanted["parameters"][name].copy()
    mine.load_state_dict(state)
    batch = make_batch(built_in, environment, theirs)
    reports = [learner.update(batch) for learner in (mine, theirs)]
    assert reports[0].updates == reports[1].updates == 6
    for left, right in zip(mine.policy_parameters(), theirs.policy_parameters(), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6)


def test_seed_makes_the_first_values():
    environment, config = make_environment(), settings("Fourier", shared_torso=False)
    first, equal, other = (
        config.make_algorithm(environment, LearnerSetup(seed, 2, 4, 8)).state_dict()["parameters"]
        for seed in (0, 0, 1)
    )
    for name in first:
        np.testing.assert_array_equal(first[name], equal[name])
    name = "own.frequencies"
    assert (first[f"policy.{name}"] != other[f"policy.{name}"]).all(), "buffers too"
    assert (first[f"policy.{name}"] != first[f"value.{name}"]).all(), "each torso has its own"


def test_frozen_layers_and_buffers_travel_and_stay():
    environment, config = make_environment(), settings("Fourier")
    learner = config.make_algorithm(environment, SETUP)
    names = [field.name for field in config.policy_fields(environment)]
    before = [array.copy() for array in learner.policy_parameters()]
    learner.update(make_batch(config, environment, learner))
    stayed = {
        name
        for name, old, new in zip(names, before, learner.policy_parameters(), strict=True)
        if np.array_equal(old, new)
    }
    own = {f"torso.own.{name}" for name in ("frozen.weight", "frozen.bias", "frequencies")}
    assert stayed - {"observation.mean", "observation.inverse_std"} == own
    assert not [name for name in names if "twice" in name], "what is shared is there once"


@pytest.mark.parametrize("shared", [True, False])
def test_module_that_takes_choices_scores_them_itself(shared):
    environment = make_environment(actions=3)
    config = settings("Scoring", epochs=1, minibatch_size=64, shared_torso=shared)
    shape = config.shape(environment)
    layout = {p.name: p for p in parameter_layout(shape)}
    torso = shape.torsos[0]
    assert not [name for name in layout if name.startswith("policy.head")]
    assert layout["value.head.weight"].shape == (1, 5), "the scores are not the value's"
    heads = {"value.head.weight": torch.ones(1, 5), "value.head.bias": torch.zeros(1)}
    said = torch.tensor([[90.0, 80.0, 70.0, 1.0, 2.0, 3.0, 4.0, 5.0]])
    network = Network(shape)
    assert network.value_of(heads, said).tolist() == [15.0]
    assert network.output_of({}, said).tolist() == [[90.0, 80.0, 70.0]]
    learner = config.make_algorithm(environment, SETUP)
    batch = make_batch(config, environment, learner)
    assert learner.update(batch).metrics["approx_kl"] < 1e-9, "what acted is what is learned"

    policy = config.make_policy(environment, PolicySetup(backend="torch"))
    fields = config.policy_fields(environment)
    values = [np.zeros(field.shape, np.float32) for field in fields]
    for value, field in zip(values, fields, strict=True):
        if field.name == f"{torso}.own.scores.bias":
            value[...] = [0.0, 2.0, 1.0]
        elif field.name == "observation.inverse_std":
            value[...] = 1.0
    policy.load(values)
    obs = np.zeros((1, *environment.observation.shape), np.float32)
    noise = np.zeros((1, *config.noise(environment).shape))
    said, best = (policy.act(obs, noise=noise, explore=explore) for explore in (True, False))
    expected = np.exp([0.0, 2.0, 1.0]) / np.exp([0.0, 2.0, 1.0]).sum()
    assert best.action.tolist() == [1]
    assert np.exp(said.behaviour_log_prob[0]) == pytest.approx(
        expected[int(said.action[0])], rel=1e-5
    )


@pytest.mark.parametrize(("name", "kwargs"), [("Unrelated", {}), ("Undecided", {"choices": 3})])
def test_choices_of_a_networks_own_score_nothing(name, kwargs):
    (module,) = settings(name, network_kwargs=kwargs).examine(make_environment()).modules
    assert (module.outputs, module.scores) == (3, 0)


@pytest.mark.parametrize("key", ["hidden_sizes", "recurrent"])
def test_nothing_lies_between_scores_and_the_policy(key):
    config = settings("Scoring", **{key: {"hidden_sizes": (8,), "recurrent": "gru"}[key]})
    with pytest.raises(
        ConfigError, match=f"algorithm.{key} can't be set .* scores_choices is True"
    ):
        config.shape(make_environment())


@pytest.mark.parametrize(
    ("name", "kwargs", "says"),
    [
        ("NoForward", {}, r"must have a method forward\(self, obs\) that returns \[B, features\]"),
        ("NoInit", {}, "its constructor, .* raised AttributeError: cannot assign module before"),
        ("Plain", {"widht": 3}, r"network_kwargs \(widht\), raised TypeError"),
        ("Plain", {"width": -1}, "raised RuntimeError"),
        ("nothing", {}, "must make a torch.nn.Module; got NoneType"),
        ("HERE", {}, "can't be imported: module .* has no 'HERE'"),
        ("Wrong", {"how": "one axis"}, r"\(2, features\); got a tensor of shape \(2,\)"),
        ("Wrong", {"how": "transposed"}, r"got a tensor of shape \(8, 2\)"),
        ("Wrong", {"how": "tuple"}, "got a tuple"),
        ("Wrong", {"how": "half"}, r"got one of torch.float16.*\.float\(\)"),
        ("Wrong", {"how": "batch"}, "got 16 for 2 rows and 24 for 3"),
        ("Wrong", {"how": "raises"}, r"forward, called with float32 \(2, 3\), raised RuntimeError"),
        ("Wrong", {"how": "detached"}, "no gradient comes back"),
        ("Wrong", {"how": "batch norm"}, "changes the buffer norm.running_mean .* LayerNorm"),
        ("Wrong", {"how": "secret"}, "give different features in eval mode.*register_buffer"),
        ("Wrong", {"how": "double"}, "float32 on the CPU; scale is torch.float64"),
        ("Undecided", {}, "takes `choices`. If these .* scores_choices = True.* = False, or give"),
        ("Unasked", {}, "scores_choices = True, so its constructor must take `choices`"),
        ("Scoring", {"choices": 2}, "network_kwargs leave it out"),
        ("Scoring", {"few": True}, r"scores choices, .*\[B, 2 \+ features\]; got 2 numbers"),
        ("Wrong", {"how": "in place"}, "the backward pass raised RuntimeError"),
        ("Wrong", {"how": "scaled input"}, r"changes the observations .* in place.*obs\.clone\(\)"),
    ],
)
def test_module_outside_the_contract_is_refused(name, kwargs, says):
    config = settings(name, network_kwargs=kwargs)
    with pytest.raises(ConfigError, match=f"(?s){says}") as refused:
        config.examine(make_environment())
    if "raised" in says:
        assert str(refused.value).startswith("the network raised:\n"), "its own traceback"


def test_lazy_layers_see_a_batch_before_anything_is_built():
    spec = settings("Frames").examine(STACKED).modules[0]
    assert {field.name: field.shape for field in spec.fields}["layers.3.weight"] == (5, 80)
    assert spec.products == 4 * 5 * 4 * 4 * 64 + 5 * 80


def test_arguments_without_a_module_are_refused():
    with pytest.raises(ConfigError, match=r"network_kwargs are for .* got width with 'auto'"):
        PPOConfig(network_kwargs={"width": 3}).examine(make_environment())


def test_networks_of_the_documentation_keep_the_contract(tmp_path, monkeypatch):
    text = (Path(__file__).parents[2] / "docs" / "own-networks.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "my_documented_net.py").write_text("\n\n".join(blocks))
    monkeypatch.syspath_prepend(tmp_path)
    environment = make_environment()
    networks = {"Net": environment, "Fused": MIXED_WITHOUT_IMAGE, "Each": environment}
    for name, environment in {**networks, "Score": TARGETS}.items():
        config = PPOConfig(network=f"my_documented_net:{name}", network_kwargs={"width": 6})
        (module,) = config.examine(environment).modules
        assert module.outputs - module.scores == 6
        assert module.scores == (3 if name == "Score" else 0)


def test_function_may_make_the_module():
    assert settings("function").examine(make_environment()).modules[0].outputs == 4


def test_examining_leaves_random_numbers_alone():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    environment = settings("Dropping").examine(make_environment())
    assert environment.modules[0].random
    assert torch.equal(torch.rand(3), wanted)


class NoWaiting(ExitStack):
    """Fails where the host would wait for a device: a tensor's value is asked for."""

    def __enter__(self):
        self.enter_context(_NoValues())
        self.enter_context(_NoArrays())
        return super().__enter__()


class _NoArrays(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), kwargs=None):
        name = getattr(function, "__name__", "")
        assert name not in ("cpu", "numpy", "item", "tolist"), f"{name} waits"
        return function(*arguments, **(kwargs or {}))


class _NoValues(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), kwargs=None):
        name = str(function)
        assert not name.startswith(("aten._local_scalar_dense", "aten.nonzero")), f"{name} waits"
        return function(*arguments, **(kwargs or {}))


def unwaiting(call):
    def watched(*arguments):
        with NoWaiting():
            call(*arguments)

    return watched


@pytest.mark.parametrize("own", [{}, {"kind": own_losses.OwnConfig}], ids=["ppo", "own loss"])
def test_minibatches_wait_for_nothing(monkeypatch, own):
    environment, config = make_environment(), settings("Plain", **own)
    learner = config.make_algorithm(environment, SETUP)
    batch = make_batch(config, environment, learner)
    learner.update(batch)  # the first step makes Adam's state
    monkeypatch.setattr(learner._core, "_at_hand", False)  # as on a device
    for name in ("gradient", "apply"):
        monkeypatch.setattr(learner._core, name, unwaiting(getattr(learner._core, name)))
    assert learner.update(batch).updates == 4


@pytest.mark.parametrize("own", [{}, {"kind": own_losses.OwnConfig}], ids=["ppo", "own loss"])
@pytest.mark.parametrize("network", ["Plain", "Exploding"])
def test_steps_that_a_device_decides_are_those_of_the_host(network, own):
    environment = make_environment(actions=3)
    config = settings(network, **own)
    learners = [config.make_algorithm(environment, SETUP) for _ in range(2)]
    learners[1]._core._at_hand = False
    batch = make_batch(config, environment, learners[0])
    assert len({str(learner.update(batch)) for learner in learners}) == 1
    for left, right in zip(*(each.policy_parameters() for each in learners), strict=True):
        np.testing.assert_array_equal(left, right)


def test_minibatch_that_is_not_finite_is_skipped_and_counted():
    environment, config = make_environment(), settings("Exploding")
    learner = config.make_algorithm(environment, SETUP)
    batch = make_batch(config, environment, learner)
    before = [array.copy() for array in learner.policy_parameters()]
    report = learner.update(batch)
    assert (report.updates, report.skipped) == (0, 4)
    assert report.metrics["nonfinite_updates"] == 4.0
    for old, new in zip(before, learner.policy_parameters(), strict=True):
        np.testing.assert_array_equal(old, new)
