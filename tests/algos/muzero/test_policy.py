"""What acts: each row for itself, by a search, within the mask."""

import msgspec
import numpy as np
import pytest

from fast_core.algorithm import LearnerSetup, PolicySetup
from fast_core.algorithm.spec import SpaceSpec
from fast_core.algos.muzero.config import POLICY, VALUE
from fast_core.algos.muzero.search import Search
from tests.algos.muzero.cases import CHOICES, ENVIRONMENT, SEEN, make_config, make_learner

MASKED = msgspec.structs.replace(
    ENVIRONMENT,
    observation=SpaceSpec.composite(
        (
            ("seen", SEEN),
            ("allowed", SpaceSpec("box", (CHOICES,), "int8", low=(0.0,), high=(1.0,))),
        )
    ),
    action_mask="allowed",
)


def make_policy(environment=ENVIRONMENT, backend="numpy", **changes):
    config = make_config(**changes)
    policy = config.make_policy(environment, PolicySetup(backend))
    policy.load(make_learner(config).policy_parameters())
    return policy


def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(count, 5)).astype(np.float32)
    return obs, rng.random((count, CHOICES), np.float32)


def masked(count, seed=0):
    obs, noise = rows(count, seed)
    rng = np.random.default_rng(seed)
    seen = np.zeros(count, MASKED.observation.row_dtype)
    seen["seen"], seen["allowed"] = obs, rng.random((count, CHOICES)) < 0.5
    seen["allowed"][~seen["allowed"].any(1), 1] = 1
    return seen, noise


@pytest.mark.parametrize("root", ["gumbel", "puct"])
def test_both_backends_act_alike(root):
    obs, noise = rows(50)
    for explore in (True, False):
        outputs = [
            make_policy(backend=backend, root=root).act(obs, noise=noise, explore=explore)
            for backend in ("numpy", "torch")
        ]
        actions = [output.action.copy() for output in outputs]
        assert (actions[0] == actions[1]).mean() > 0.95, "but for ties by rounding"
        values = [output.extra[VALUE].copy() for output in outputs]
        assert np.isclose(*values, rtol=1e-3, atol=1e-4).mean() > 0.95


def test_columns_are_what_the_search_found():
    policy = make_policy()
    obs, noise = rows(9)
    output = policy.act(obs, noise=noise, explore=True)
    kept = {name: array.copy() for name, array in output.extra.items()}
    found = policy.search(obs, noise)
    np.testing.assert_array_equal(kept[POLICY], found.policy)
    np.testing.assert_array_equal(kept[VALUE], found.value)
    np.testing.assert_array_equal(output.action, found.action)
    chosen = np.log(found.policy[np.arange(9), found.action])
    np.testing.assert_allclose(output.behaviour_log_prob, chosen, rtol=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {"gamma": 0.5},
        {"two_players": True},
        {"root": "puct"},
        {"considered": 2},
        {"c_scale": 1.0},
        {"least_span": 3.0},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_its_search_is_that_of_the_settings(changes):
    obs, noise = rows(40)
    usual = make_policy().search(obs, noise).policy.copy()
    policy, model = make_policy(**changes), make_config().make_model(ENVIRONMENT, PolicySetup())
    model.load(make_learner(make_config()).policy_parameters()[:-1])
    given = {"root": "gumbel", "two_players": False, "gamma": 0.9} | changes
    discount = given.pop("gamma")
    search = Search(CHOICES, make_config().simulations, discount=discount, **given)
    wanted = search.run(*model.root(obs), model.step, noise=noise)
    found = policy.search(obs, noise)
    np.testing.assert_array_equal(found.policy, wanted.policy)
    np.testing.assert_array_equal(found.action, wanted.action)
    assert (found.policy != usual).any()


def test_it_explores_by_noise_alone():
    policy = make_policy()
    obs, noise = rows(64)
    _, others = rows(64, seed=1)
    first, second = (policy.act(obs, noise=n, explore=True).action.copy() for n in (noise, others))
    assert (first != second).any()
    first, second = (policy.act(obs, noise=n, explore=False).action.copy() for n in (noise, others))
    assert (first == second).all()


@pytest.mark.parametrize("warm", [True, False])
def test_only_allowed_actions_are_taken_and_learned(warm):
    config = make_config(random_warmup=warm, normalize_observations=False)
    policy = config.make_policy(MASKED, PolicySetup())
    policy.load(config.make_algorithm(MASKED, LearnerSetup(0, 1, 1, 1)).policy_parameters())
    seen, noise = masked(300)
    output = policy.act(seen, noise=noise, explore=True)
    assert np.take_along_axis(seen["allowed"], output.action[:, None], 1).all()
    forbidden = seen["allowed"] == 0
    assert forbidden.any() and not output.extra[POLICY][forbidden].any()
    np.testing.assert_allclose(output.extra[POLICY].sum(1), 1, rtol=1e-5)


def test_any_action_is_taken_until_the_first_update():
    config = make_config(random_warmup=True)
    policy = config.make_policy(ENVIRONMENT, PolicySetup())
    policy.load(config.make_algorithm(ENVIRONMENT, LearnerSetup(0, 1, 1, 1)).policy_parameters())
    obs, noise = rows(3000)
    output = policy.act(obs, noise=noise, explore=True)
    counts = np.bincount(output.action, minlength=CHOICES)
    assert (abs(counts - 1000) < 120).all()
    np.testing.assert_allclose(output.extra[POLICY], 1 / CHOICES)
    assert np.isnan(output.extra[VALUE]).all(), "no search said it"


def test_more_simulations_find_what_pays():
    """A model in which action 2 earns 1 and others nothing."""
    config = make_config(simulations=24)
    learner = make_learner(config)
    state = learner.state_dict()
    for name, array in state["parameters"].items():
        if name.startswith(("dynamics.1", "prediction.1")):
            array[...] = 0
    first, last = state["parameters"]["dynamics.0.weight"], state["parameters"]["dynamics.1.weight"]
    first[...], state["parameters"]["dynamics.0.bias"][...] = 0, 0
    first[0, 0, config.latent + 2] = 1  # the hidden number that says whether it is action 2
    reward = last[0, config.latent :]
    assert len(reward) == 5
    reward[2, 0], reward[3, 0] = -30, 30  # of the category of 1 on the scale
    state["parameters"]["dynamics.1.bias"][0, config.latent + 2] = 15
    learner.load_state_dict(state)
    policy = config.make_policy(ENVIRONMENT, PolicySetup())
    policy.load(learner.policy_parameters())
    obs, _ = rows(6)
    output = policy.act(obs, noise=np.zeros((6, CHOICES), np.float32), explore=False)
    assert output.action.tolist() == [2] * 6
    assert (output.extra[POLICY][:, 2] > 0.8).all()


@pytest.mark.parametrize("two_players", [False, True])
def test_page_shows_what_a_search_finds(two_players):
    config = make_config(two_players=two_players)
    policy, thinker = make_policy(two_players=two_players), config.make_thinker(ENVIRONMENT)
    thinker.load(make_learner(config).policy_parameters())
    obs, _ = rows(1)
    thoughts = thinker.think(obs, np.zeros(1, np.int64), None)
    found = policy.search(obs)
    assert thoughts.value == pytest.approx(float(found.value[0]))
    np.testing.assert_array_equal(thoughts.probabilities[0], found.policy[0])
    model = config.make_model(ENVIRONMENT, PolicySetup())
    model.load(make_learner(config).policy_parameters()[:-1])
    then = -config.gamma if two_players else config.gamma  # what the other gains
    for action, worth in enumerate(thoughts.q):
        step = model.step(model.root(obs).latent, np.array([action]))
        assert worth == pytest.approx(float(step.reward[0] + then * step.value[0]), 1e-4)


def test_page_shows_no_value_of_what_is_forbidden():
    config = make_config()
    thinker = config.make_thinker(MASKED)
    thinker.load(config.make_algorithm(MASKED, LearnerSetup(0, 1, 1, 1)).policy_parameters())
    seen, _ = masked(1)
    thoughts = thinker.think(seen, np.zeros(1, np.int64), None)
    assert np.isnan(thoughts.q).tolist() == (seen["allowed"][0] == 0).tolist()
    assert np.isnan(thoughts.q).any() and not thoughts.probabilities[0][np.isnan(thoughts.q)].any()
