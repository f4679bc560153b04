"""Environments, sequences and learners that the tests of MuZero share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fast_core.algorithm import LearnerSetup, SequenceBatch
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.muzero.config import POLICY, VALUE, MuZeroConfig
from fast_core.algos.muzero.learner import MuZero
from fast_core.testing.samples import replayed

CHOICES = 3
SEEN = SpaceSpec("box", (5,), "float32", low=(-np.inf,), high=(np.inf,))
ENVIRONMENT = EnvironmentSpec("Test-v0", SEEN, SpaceSpec("discrete", (), "int64", n=CHOICES))
SMALL: dict[str, Any] = {
    "hidden_sizes": (7,),
    "latent": 6,
    "batch_size": 12,
    "unroll": 3,
    "n_step": 2,
    "gamma": 0.9,
    "simulations": 6,
    "value_support": 4,
    "reward_support": 2,
    "random_warmup": False,
}


def make_config(**changes: Any) -> MuZeroConfig:
    return MuZeroConfig(**(SMALL | changes))


def make_sequences(config: MuZeroConfig, rows: int = 12, seed: int = 0) -> SequenceBatch:
    """Whole ones, and some that end within; searches that said anything."""
    rng = np.random.default_rng(seed)
    batch = replayed(config, ENVIRONMENT, rows, seed)
    assert isinstance(batch, SequenceBatch)
    policy = rng.dirichlet(np.ones(CHOICES), batch.mask.shape).astype(np.float32)
    value = rng.normal(size=batch.mask.shape).astype(np.float32)
    policy[~batch.mask], value[~batch.mask] = 0, 0
    return replace(batch, extra={POLICY: policy, VALUE: value})


def make_learner(config: MuZeroConfig, *, seed: int = 0) -> Any:
    """One whose networks say something everywhere, online and target not the same.

    Two players may be learned of, though observations don't say who moves.
    """
    learner: Any = MuZero(config, ENVIRONMENT, LearnerSetup(seed, 1, 1, 1))
    learner.update(make_sequences(config, seed=100))  # statistics, if there are any
    state, rng = learner.state_dict(), np.random.default_rng(seed)
    for where in ("parameters", "targets"):
        for name, array in state[where].items():
            if not name.startswith("observations"):
                state[where][name] = rng.normal(0, 0.4, array.shape).astype(np.float32)
    learner.load_state_dict(state)
    return learner
