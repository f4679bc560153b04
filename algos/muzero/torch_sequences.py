"""Sequences from replay on the device, as MuZero's losses take them."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fast_core.algorithm import Array, SequenceBatch
from fast_core.algos.muzero.config import POLICY, TO_PLAY, VALUE, MuZeroConfig
from fast_core.algos.muzero.targets import Targets, find_targets
from fast_core.algos.nets.observations import Bool, ObservationEncoder
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.nets_torch.tables import Uploader
from fast_core.algos.replay.torch_vectors import TensorScaling
from fast_core.errors import ConfigError


class TorchSequences(NamedTuple):
    """``N`` sequences that are unrolled ``K`` steps; what follows one another comes first.

    Attributes:
        obs: ``N`` rows, where each begins.
        later: ``(K + 1) * N`` rows, those whose values the targets need.
        action: ``[K, N]`` int64; any, where the episode is over.
        reward: ``[K, N]``.
        reward_sum: ``[K + 1, N]``, and all that follow as `Targets` has them; flags are 1 or 0.
        factor: ``[K + 1, N]``.
        played: ``[K + 1, N]``.
        known: ``[K + 1, N]``.
        policy: ``[K + 1, N, A]``, what the search made of it.
        root_value: ``[K + 1, N]``, of the search at ``later``; of the final observation, and where
            actions were any (`random_warmup`), there is none.
        searched: ``[K + 1, N]``, whether there is one.
        weight: ``[N]``, importance weights.
    """

    obs: Rows
    later: Rows
    action: Tensor
    reward: Tensor
    reward_sum: Tensor
    factor: Tensor
    played: Tensor
    known: Tensor
    policy: Tensor
    root_value: Tensor
    searched: Tensor
    weight: Tensor


class Sequences:
    """Brings them there.

    Args:
        settings: Hyper-parameters.
        encoder: Takes observations apart.
        upload: Brings arrays there.
        scaling: How the numbers of observations are normalised, if they are.
    """

    def __init__(
        self,
        settings: MuZeroConfig,
        encoder: ObservationEncoder,
        upload: Uploader,
        scaling: TensorScaling | None,
    ) -> None:
        self._settings, self._encoder = settings, encoder
        self._upload, self._scaling = upload, scaling
        self._looked = False  # at whether players take turns

    def take(self, batch: SequenceBatch, rng: np.random.Generator) -> TorchSequences:
        """A batch on the device; ``rng`` draws actions behind the ends of episodes."""
        settings, unroll = self._settings, self._settings.unroll
        if not self._looked:
            check_turns(batch, two_players=settings.two_players)
            self._looked = True
        # What one player gains the other loses.
        discount = -settings.gamma if settings.two_players else settings.gamma
        targets = find_targets(batch, unroll, settings.n_step, discount)
        policy = batch.extra[POLICY][:, : unroll + 1]
        action = rng.integers(policy.shape[2], size=(len(policy), unroll))
        np.copyto(action, batch.action[:, :unroll], where=batch.mask[:, :unroll])
        every = np.arange(len(policy))
        later = batch.obs[every, targets.later.T]
        return TorchSequences(
            self._rows(batch.obs[:, 0]),
            self._rows(later.reshape(-1, *later.shape[2:])),
            self._first(action),
            self._first(batch.reward[:, :unroll]),
            self._first(targets.reward_sum),
            self._first(targets.factor),
            self._first(targets.played.astype(np.float32)),
            self._first(targets.known.astype(np.float32)),
            self._first(policy),
            *self._searched(batch, targets),
            self._upload(np.array(batch.weight)),
        )

    def _searched(self, batch: SequenceBatch, targets: Targets) -> tuple[Tensor, Tensor]:
        """Values that searches found, and where: not at final observations, nor in a warm-up."""
        values = batch.extra[VALUE]
        last = values.shape[1] - 1
        inside: Bool = targets.later < batch.mask.sum(axis=1)[:, None]
        found = np.take_along_axis(values, np.minimum(targets.later, last), 1)
        return self._first(found), self._first((inside & ~np.isnan(found)).astype(np.float32))

    def _first(self, column: Array) -> Tensor:
        """A column ``[N, k, ...]`` as ``[k, N, ...]`` on the device."""
        return self._upload(np.array(column.swapaxes(0, 1), order="C"))

    def _rows(self, obs: Array) -> Rows:
        vector = self._upload(np.array(self._encoder.vector(obs)))
        images = tuple(self._upload(np.array(image)) for image in self._encoder.images(obs))
        return Rows(vector if self._scaling is None else self._scaling(vector), images)


def check_turns(batch: SequenceBatch, *, two_players: bool) -> None:
    """See whether another player moves with every step, or always the same one.

    Raises:
        ConfigError: It is not as the settings say.
    """
    if TO_PLAY not in (batch.obs.dtype.names or ()):
        return
    player = cast("NDArray[np.void]", batch.obs)[TO_PLAY].astype(np.int64)
    player = player.reshape(*batch.obs.shape[:2], -1)[..., 0]
    wrong = ((player[:, 1:] == player[:, :-1]) == two_players) & batch.mask
    if not wrong.any():
        return
    where = f"in {wrong.sum()} of {batch.mask.sum()} steps of the first batch"
    if two_players:
        raise ConfigError(
            f"algorithm.two_players is for games in which another player moves with every step; "
            f"{TO_PLAY!r} stayed {player[:, :-1][wrong][0]} {where}. Set it to false where one "
            "agent plays against an opponent that is part of the environment."
        )
    raise ConfigError(
        f"algorithm.two_players is false, so that one player would gain what the other gains; "
        f"{TO_PLAY!r} changed {where}. Set it to true where one agent moves for both in turn."
    )
