"""What every environment keeps, and whatever steps it (`fast_core.envs.EnvBatch`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from fast_core.config import EnvironmentConfig
from fast_core.envs import EnvBatch, FinishedEpisodes, make_batch
from fast_core.envs.instance import Instance
from fast_core.envs.trying.probe import probe
from fast_core.errors import ContractBroken
from fast_core.system.seeding import EpisodeSeeds, Role
from fast_core.testing.driver import Driver, same
from fast_core.testing.remains import Remains

ROLE, SEED, SHARD = Role.ENVIRONMENT_EPISODE, 1, 2
LAST = 3  # episodes of each environment that are played once more beside the first
Make = Callable[..., EnvBatch]


def check_environment(
    environment: EnvironmentConfig | type[gymnasium.Env[Any, Any]] | str,
    *,
    envs: int = 3,
    steps: int = 200,
    repeatable: bool = True,
    make: Make = make_batch,
) -> None:
    """Check an environment as env nodes use it, with random allowed actions.

    It is what a launch tries it out as: it can be made and closed, its spaces are supported, and
    what it returns is what they declare. A seed and actions decide an episode, whatever was played
    before it, so that a run is repeated, and resumed, bit for bit; the final observation of an
    episode is its true successor and not that of the reset; batches of several go on from their
    saved state as if they had never stopped; and nothing is left of them once they are closed.

    Args:
        environment: What ``environment.id`` takes, its class, or the whole configuration.
        envs: How many are stepped together.
        steps: Steps of each.
        repeatable: Whether that must hold; without, a resumed run begins new episodes.
        make: What makes a batch of them; for a backend of one's own.

    Raises:
        ContractBroken: It does not keep one of these.
        ConfigError: What a launch would refuse.
        EnvironmentFailed: It raised, or returned what its spaces don't declare.
    """
    if isinstance(environment, type):
        environment = f"{environment.__module__}:{environment.__qualname__}"
    if isinstance(environment, str):
        environment = EnvironmentConfig(id=environment)
    spec = probe(environment, SEED)
    if repeatable and not spec.repeatable:
        raise ContractBroken(
            f"{environment.id}: the same seed and actions must give the same episode; what came in "
            "30 steps differs. Draw random numbers from self.np_random, which "
            "super().reset(seed=seed) makes, and keep nothing over a reset. Where that can't be, "
            "repeatable=False leaves it out, and a resumed run begins new episodes."
        )
    check = _Check(environment, envs, steps, make)
    check.leaves_nothing()
    if spec.repeatable:
        check.repeats()


class _Check:
    def __init__(self, config: EnvironmentConfig, envs: int, steps: int, make: Make) -> None:
        self._config, self._envs, self._steps, self._make = config, envs, steps, make

    def leaves_nothing(self) -> None:
        """Batches can be closed twice, and a second one leaves no more than the first."""
        remains = []
        for _ in range(2):
            driver = self._driver()
            driver.play(min(self._steps, 20))
            driver.batch.close()
            driver.batch.close()
            remains.append(Remains.now())
        if more := remains[1].beyond(remains[0]):
            raise self._broken(
                f"close must let go of everything; with each batch made and closed come {more}",
                "End in close what __init__ and reset began: processes, threads, files, windows",
            )

    def repeats(self) -> None:
        """Twice the same, alone the same, and the same once it was stopped."""
        whole, again = self._driver(), self._driver()
        actions = whole.play(self._steps)
        again.run(actions)
        if not same(whole, again):
            raise self._broken(
                "two batches with the same seeds and actions must come to the same; they differ "
                f"in {self._steps} steps",
                "Let nothing depend on the process, the time or global generators",
            )
        finished = self._accounted(whole)
        if self._config.one_by_one and self._config.atari is None:
            for env in range(self._envs):
                self._alone(env, whole, actions)
        for stop in sorted({1, self._steps // 3, self._steps - 1}):
            self._resumes(stop, whole, actions, finished)
        for driver in (whole, again):
            driver.batch.close()

    def _alone(self, env: int, whole: Driver, actions: Any) -> None:
        """Episodes of one of them are those of a fresh environment with the same seed."""
        if self._config.no_reward_timeout_steps or np.array(whole.quarantined)[:, env].any():
            return  # the batch ends some episodes itself
        seeds, column = EpisodeSeeds(SEED, ROLE, SHARD, env), whole.column(env)
        begins = [0, *(np.flatnonzero(whole.ended[:, env]) + 1).tolist()]
        episodes = list(enumerate(begins))
        for episode, begin in [*episodes[:1], *episodes[1:][-LAST:]]:
            single = Instance(
                self._config,
                seed=SEED,
                role=ROLE,
                shard=SHARD,
                index=env,
                incarnation=1,
                number=env,
            )
            rows, seed = single.observations(1), seeds[episode]
            single.reset(rows.rows[0], episode=episode, seed=seed)
            self._equal(rows.array[0], whole.obs[begin][env], episode, 0, "observation")
            for number, step in enumerate(column[begin:], 1):
                action = actions[begin + number - 1, env].copy()[()]
                reward, *ends = single.checked_step(
                    rows.rows[0], action, number=number, episode=episode, seed=seed
                )
                self._equal(np.float32(reward), step.reward, episode, number, "reward")
                self._equal(ends, step.ends, episode, number, "end")
                self._equal(rows.array[0], step.after, episode, number, "observation")
                if any(ends):
                    break
            single.close()

    def _equal(self, alone: Any, among: Any, episode: int, step: int, what: str) -> None:
        if not np.array_equal(alone, among):
            raise self._broken(
                f"an episode must follow from its seed and actions, whatever was played before; "
                f"the {what} of step {step} of episode {episode} is {_short(among)}, and "
                f"{_short(alone)} in a fresh environment",
                "Set in reset everything that step changes",
            )

    def _accounted(self, whole: Driver) -> FinishedEpisodes:
        """The finished episodes: all that ended, in that order, with their returns and lengths."""
        finished, lengths, returns = whole.batch.take_episodes(), [], []
        length, total = np.zeros(self._envs, np.int64), np.zeros(self._envs)
        for reward, ended in zip(whole.reward, whole.ended, strict=True):
            length, total = length + 1, total + reward
            lengths += length[ended].tolist()
            returns += total[ended].tolist()
            length[ended], total[ended] = 0, 0.0
        lost = np.array(whole.quarantined).any()  # of which nobody knows what they came to
        if not lost and not (
            finished.lengths == lengths and np.allclose(finished.returns, returns)
        ):
            raise self._broken(
                f"take_episodes must account for every episode that ended; got lengths "
                f"{finished.lengths} and returns {finished.returns}, not {lengths} and {returns}",
                "Count steps and rewards from each reset, and an episode when it ends",
            )
        return finished

    def _resumes(self, stop: int, whole: Driver, actions: Any, finished: FinishedEpisodes) -> None:
        """A batch that goes on from a saved state is one that never stopped."""
        stopped, resumed = self._driver().run(actions[:stop]), self._batch()
        obs = np.zeros_like(stopped.obs[0])
        state = stopped.batch.state()
        lost = resumed.restore(state, obs)
        if lost or not np.array_equal(obs, stopped.obs[-1]) or resumed.state() != state:
            raise self._broken(
                f"a batch that was saved at step {stop} must come back to where it was; got "
                f"{'; '.join(lost.values()) or 'another observation or state'}",
                "Let an episode follow from its seed and actions alone",
            )
        rest = Driver(resumed, self._envs, obs).run(actions[stop:])
        if not same(rest, whole, stop) or not _same_episodes(resumed.take_episodes(), finished):
            raise self._broken(
                f"a batch that was resumed at step {stop} must go on as one that never stopped; "
                "what came after differs",
                "Keep nothing that taking the actions of an episode again does not bring back",
            )
        for batch in (stopped.batch, resumed):
            batch.close()

    def _batch(self) -> EnvBatch:
        return self._make(self._config, seed=SEED, shard=SHARD, envs=self._envs)

    def _driver(self) -> Driver:
        return Driver(self._batch(), self._envs)

    def _broken(self, promise: str, advice: str) -> ContractBroken:
        return ContractBroken(f"{self._config.id}: {promise}. {advice}.")


def _same_episodes(first: FinishedEpisodes, second: FinishedEpisodes) -> bool:
    """Returns may be NaN."""
    return np.array_equal(first.returns, second.returns, equal_nan=True) and first[1:] == second[1:]


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) < 80 else f"{text[:77]}..."
