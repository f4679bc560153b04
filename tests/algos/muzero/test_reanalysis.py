"""What is searched anew: a share of the sequences, exactly, with the networks of now."""

import numpy as np
import pytest

from fast_core.algorithm import PolicySetup
from fast_core.algos.muzero.config import POLICY, VALUE
from fast_core.algos.muzero.reanalysis import Reanalysis
from tests.algos.muzero.cases import ENVIRONMENT, make_config, make_learner, make_sequences


def renewed(share, update=0, rows=12, seed=0, **changes):
    config = make_config(reanalyze=share, **changes)
    batch = make_sequences(config, rows)
    parameters = make_learner(config).policy_parameters()
    rng = np.random.default_rng(seed)
    return batch, Reanalysis(config, ENVIRONMENT).renew(batch, parameters, update, rng), config


def test_policies_are_those_that_the_policy_itself_would_write():
    batch, found, config = renewed(1.0)
    policy = config.make_policy(ENVIRONMENT, PolicySetup())
    policy.load(make_learner(config).policy_parameters())
    rng = np.random.default_rng(0)
    rng.permutation(12)
    row, step = np.nonzero(batch.mask[:, : config.unroll + 1])
    noise = rng.random((len(row), 3), np.float32)
    wanted = policy.act(batch.obs[row, step], noise=noise, explore=True).extra[POLICY]
    np.testing.assert_array_equal(found.extra[POLICY][row, step], wanted)
    assert (abs(wanted - batch.extra[POLICY][row, step]) > 1e-3).any(axis=1).all()


@pytest.mark.parametrize(
    ("share", "counts"), [(0.1, [1, 1, 1, 1, 2]), (1 / 3, [3, 4, 4]), (1, [12])]
)
def test_share_of_the_sequences_is_exact_over_the_updates(share, counts):
    changed = []
    for update in range(len(counts)):
        batch, found, _ = renewed(share, update)
        differ = (batch.extra[POLICY] != found.extra[POLICY]).any(axis=(1, 2))
        changed.append(int(differ.sum()))
        assert found.extra[VALUE] is batch.extra[VALUE]
    assert changed == counts


def test_what_is_not_there_is_not_searched():
    batch, found, config = renewed(1.0)
    beyond = ~batch.mask
    beyond[:, config.unroll + 1 :] = True
    assert beyond[:, : config.unroll + 1].any()
    np.testing.assert_array_equal(found.extra[POLICY][beyond], batch.extra[POLICY][beyond])


def test_other_sequences_are_chosen_by_the_stream_alone():
    masks = []
    for seed in (0, 0, 1):
        batch, found, _ = renewed(0.5, seed=seed)
        masks.append((batch.extra[POLICY] != found.extra[POLICY]).any(axis=(1, 2)).tolist())
    assert masks[0] == masks[1] != masks[2]


def test_learner_counts_its_updates_for_the_share():
    learner, counts = make_learner(make_config(reanalyze=0.1)), []
    take = learner._sequences.take

    def count(batch, rng):
        counts.append(int((batch.extra[POLICY] != drawn.extra[POLICY]).any(axis=(1, 2)).sum()))
        return take(batch, rng)

    learner._sequences.take = count
    for seed in range(10):
        drawn = make_sequences(make_config(), seed=seed)
        learner.update(drawn)
    assert sum(counts) == 12 and set(counts) == {1, 2}, "a tenth of 120 sequences"
