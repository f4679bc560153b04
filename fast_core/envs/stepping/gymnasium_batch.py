"""Gymnasium environments stepped one after the other in this process.

Every environment step passes through `GymnasiumBatch._advance`, so its loop does only what
must be done between two environments; the rest is done once for the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Unpack

from fast_core.algorithm import Array
from fast_core.config import EnvironmentConfig
from fast_core.envs.drawing.drawable import Drawable
from fast_core.envs.instance import close_all, make_instances
from fast_core.envs.records import assign, mismatch
from fast_core.envs.rows import as_ends, store_rewards
from fast_core.envs.stepping.batch import Batched, EnvBatch, Flags
from fast_core.envs.stepping.batch_state import OpenEpisode
from fast_core.envs.stepping.repeating import Repetition, not_repeated
from fast_core.errors import EnvironmentFailed
from fast_core.system.progress import ProgressWord
from fast_core.system.seeding import Role

_ENV = int(ProgressWord.ENV)


class GymnasiumBatch(EnvBatch):
    """`EnvBatch` over environments made by `gymnasium.make`."""

    def __init__(self, config: EnvironmentConfig, **which: Unpack[Batched]) -> None:
        """Make environments ``first_env`` to ``first_env + envs - 1`` of ``shard``."""
        envs, first_env = which["envs"], which.get("first_env", 0)
        self._instances = make_instances(
            config,
            seed=which["seed"],
            role=which.get("role", Role.ENVIRONMENT_EPISODE),
            shard=which["shard"],
            indices=range(first_env, first_env + envs),
            incarnation=which.get("incarnation", 1),
            number=which.get("number", 0),
            draws=which.get("draws", ()),
        )
        first = self._instances[0]
        super().__init__(
            config,
            first.spec,
            [instance.where for instance in self._instances],
            first.limit,
            which,
        )
        self._discrete = self.spec.action.kind == "discrete"
        self._steps = [instance.step for instance in self._instances]
        self._given: list[object] = [0.0] * envs
        self._infos: list[object] = [None] * envs  # of the last step

    @property
    def position(self) -> int:
        """See `EnvBatch.position`."""
        return self._first_env + self._open.words[_ENV]

    def _advance(self, action: Array, terminated: Flags, truncated: Flags) -> list[int]:
        terminated.fill(False)
        truncated.fill(False)
        ended: list[int] = []
        words = self._open.words
        given, infos = self._given, self._infos
        place = 0
        try:
            for place, (step, taken, row) in enumerate(
                zip(self._steps, self._for_envs(action), self._obs.unchecked, strict=True)
            ):
                words[_ENV] = place
                obs, given[place], terminates, truncates, infos[place] = step(taken)
                try:
                    row[:] = obs
                except (ValueError, TypeError):
                    self._assign(place, obs, action)
                if terminates is not False or truncates is not False:
                    terminated[place], truncated[place] = ends = as_ends(terminates, truncates)
                    if True in ends:
                        ended.append(place)
        except EnvironmentFailed:
            raise
        except BaseException as error:  # an environment may raise anything
            raise self._failure(place, error, action) from error
        wrong = store_rewards(given, self._reward)
        if wrong is not None:
            cause = f"the reward must be one number; got {given[wrong]!r}"
            raise self._failure(wrong, cause, action)
        outside = self._obs.outside()
        if outside is not None:
            raise self._failure(*outside, action)
        if self.extra:
            self._read_columns(action)
        return ended

    def _read_columns(self, action: Array) -> None:
        for place, info in enumerate(self._infos):
            try:
                self._columns.read(info, place)
            except ValueError as error:
                raise self._failure(place, str(error), action) from error

    def _assign(self, place: int, obs: object, action: Array) -> None:
        """What the quickest way could not: floats of another width, or an error that says why."""
        try:
            assign(self._obs.rows[place], obs)
        except (ValueError, TypeError) as error:
            cause = mismatch(obs, self.spec.row, error)
            raise self._failure(place, cause, action) from error

    def _for_envs(self, action: Array) -> Iterable[object]:
        """Actions as environments take them; none shares memory with ``action`` ``[n, ...]``.

        Discrete ones are NumPy integers, as the space samples them: `gymnasium.spaces.Discrete`
        checks those in 1 us, and in 2 us a Python integer, for which it looks up the limits of
        its dtype.
        """
        return list(action) if self._discrete else action.copy()

    def _info_of(self, place: int) -> dict[str, float]:
        return self._info.read(self._infos[place])

    def _reset(self, places: list[int]) -> None:
        for place in places:
            self._open.words[_ENV] = place
            seed, instance = self._count_on(place), self._instances[place]
            instance.attributes = self._attributes
            instance.reset(self._obs.rows[place], episode=self._open.episode[place], seed=seed)

    def drawable(self, place: int) -> Drawable:
        """See `EnvBatch.drawable`."""
        return self._instances[place].drawable

    def _episode_starts(self) -> Sequence[bytes]:
        return [instance.episode_start for instance in self._instances]

    def _repetitions(
        self, saved: Sequence[OpenEpisode], actions: Array, starts: list[int]
    ) -> list[tuple[Repetition, Sequence[int]]]:
        return [
            (
                Repetition(
                    episode.length,
                    partial(self._repeat, place, episode, actions[starts[place] :, place]),
                ),
                [place],
            )
            for place, episode in enumerate(saved)
            if episode.actions is not None
        ]

    def _repeat(self, place: int, saved: OpenEpisode, actions: Array) -> Iterator[None]:
        """Bring one environment back into the open episode ``saved``, a step each time."""
        self._open.words[_ENV] = place
        seed = self._open.begin(place, saved.episode, self._open.count - saved.length)
        instance, row, total = self._instances[place], self._obs.rows[place], 0.0
        if seed != saved.seed:
            what = f"this run resets that episode with {seed}"
            raise not_repeated(instance.where, saved, what)
        instance.attributes = saved.attributes
        instance.reset(row, episode=saved.episode, seed=seed, start=saved.start)
        for number, action in enumerate(self._for_envs(actions), start=1):
            reward, *ends = instance.checked_step(
                row, action, number=number, episode=saved.episode, seed=seed
            )
            total += reward
            if True in ends:
                what = f"the episode ended at step {number}"
                raise not_repeated(instance.where, saved, what)
            yield
        if total != saved.total:
            what = f"the rewards add up to {total!r}, not {saved.total!r}"
            raise not_repeated(instance.where, saved, what)
        if self._obs.array[place].tobytes() != saved.obs:
            what = "the observation differs from the saved one"
            raise not_repeated(instance.where, saved, what)
        self._resume(place, saved)

    def close(self) -> None:
        """See `EnvBatch.close`."""
        close_all(self._instances)
