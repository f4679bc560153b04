"""Searching anew what is learned from, with the networks as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fast_core.algorithm import Array, PolicySetup, SequenceBatch
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.muzero.config import POLICY, MuZeroConfig
from fast_core.algos.muzero.policy import MuZeroPolicy


class Reanalysis:
    """Renews the policies of a share of each batch's sequences.

    Source: Schrittwieser et al. 2020, appendix H, "MuZero Reanalyze".

    Args:
        settings: Hyper-parameters.
        environment: What is learned.
    """

    def __init__(self, settings: MuZeroConfig, environment: EnvironmentSpec) -> None:
        model = settings.make_model(environment, PolicySetup(settings.policy_backend(environment)))
        self._policy = MuZeroPolicy(settings, environment, model)
        self._share, self._steps = Fraction(str(settings.reanalyze)), settings.unroll + 1

    def renew(
        self,
        batch: SequenceBatch,
        parameters: Sequence[Array],
        update: int,
        rng: np.random.Generator,
    ) -> SequenceBatch:
        """The same batch with what searches by ``parameters`` would choose now.

        Over all updates exactly the share of sequences is renewed, which ones ``rng`` says.
        """
        rows, steps = len(batch.reward), self._steps
        count = int(self._share * rows * (update + 1)) - int(self._share * rows * update)
        chosen = np.zeros(rows, np.bool_)
        chosen[rng.permutation(rows)[:count]] = True
        row, step = np.nonzero(np.logical_and(batch.mask[:, :steps], chosen[:, None]))
        if not len(row):
            return batch
        self._policy.load(parameters)
        policy = batch.extra[POLICY].copy()
        noise = rng.random((len(row), policy.shape[2]), np.float32)
        policy[row, step] = self._policy.search(batch.obs[row, step], noise).policy
        return replace(batch, extra={**batch.extra, POLICY: policy})
