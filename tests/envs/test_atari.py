from __future__ import annotations

import sys
from typing import Any, cast

import gymnasium
import numpy as np
import pytest

from fast_core.config import AtariConfig, EnvironmentConfig
from fast_core.envs.atari import AtariGame
from fast_core.envs.making import make_env
from fast_core.envs.playing.evaluation import evaluated, make_runner
from fast_core.envs.stepping.gymnasium_batch import GymnasiumBatch
from fast_core.envs.trying.probe import probe
from fast_core.errors import ConfigError
from fast_core.system.seeding import EpisodeSeeds, Role
from tests.envs.driver import Driver, random_actions, same
from tests.forms import slow_but

pytest.importorskip("ale_py")
pytest.importorskip("cv2")

PLAIN = {"noop_max": 0, "fire_on_reset": False}
LIVES = {"terminal_on_life_loss": True, "noop_max": 5}


def config(game: str = "Breakout", atari: dict[str, Any] | None = None, **keys: Any) -> Any:
    return EnvironmentConfig(id=f"ALE/{game}-v5", atari=AtariConfig(**(atari or {})), **keys)


def make(game: str = "Breakout", atari: dict[str, Any] | None = None, **keys: Any) -> AtariGame:
    return cast("AtariGame", make_env(config(game, atari, **keys)))


def play(env: Any, actions: Any, *, resets: bool = True) -> list[Any]:
    """What each step gave; the info only in part."""
    results = []
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        results.append((obs.tobytes(), reward, terminated, truncated))
        if resets and (terminated or truncated):
            results.append((env.reset()[0].tobytes(),))
    return results


def steps_of_a_life() -> int:
    """Steps until the paddle, pushed to the right, first misses the ball."""
    env = make(atari=LIVES)
    env.reset(seed=0)
    steps = 1
    while not env.step(np.int64(2))[2]:
        steps += 1
    return steps


def actions(env: Any, steps: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, env.action_space.n, steps)


@pytest.mark.parametrize(
    ("grayscale", "skip", "life_loss"),
    slow_but(
        [(True, 4, True), (False, 4, False)],
        [(g, skip, loss) for g in (True, False) for skip in (1, 2, 4) for loss in (True, False)],
    ),
)
def test_frames_and_rewards_are_those_of_gymnasiums_wrapper(
    grayscale: bool, skip: int, life_loss: bool
) -> None:
    ours = make(
        atari=PLAIN
        | {"grayscale": grayscale, "frame_skip": skip, "terminal_on_life_loss": life_loss}
    )
    theirs = gymnasium.wrappers.AtariPreprocessing(
        gymnasium.make("ALE/Breakout-v5", frameskip=1, repeat_action_probability=0.0),
        noop_max=0,
        frame_skip=skip,
        grayscale_obs=grayscale,
        terminal_on_life_loss=life_loss,
    )
    assert ours.observation_space == theirs.observation_space
    assert np.array_equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    ended = rewarded = False
    for step, action in enumerate(actions(ours, 1600 // skip)):
        action = np.int64(1) if step % (80 // skip) == 0 else action  # serve the ball
        obs, reward, *flags, _ = ours.step(action)
        expected, gain, *expected_flags, _ = theirs.step(action)
        assert (reward, flags) == (gain, expected_flags)
        rewarded |= reward > 0
        if any(flags):  # theirs shows an older frame then
            ended = True
            frames = [each.getEpisodeFrameNumber() for each in (ours._ale, theirs.ale)]
            assert frames[0] == frames[1]
            break
        assert np.array_equal(obs, expected)
    assert rewarded or ended
    assert ended or not life_loss


def test_the_final_frame_shows_the_end() -> None:
    env = make(atari=PLAIN | {"terminal_on_life_loss": True, "frame_skip": 4})
    env.reset(seed=0)
    ended = False
    while not ended:
        obs, _, ended, _, _ = env.step(np.int64(1))
    screen = np.zeros((210, 160), np.uint8)
    env._ale.getScreenGrayscale(screen)
    drawn = np.abs(obs.astype(int) - env._resize(screen)).mean()
    assert drawn < 1.0  # but for the maximum with the frame before it


def test_a_seeded_reset_begins_the_same_game_as_in_a_fresh_environment() -> None:
    used, fresh = make(), make()
    used.reset(seed=1)
    play(used, actions(used, 500, seed=7))
    assert np.array_equal(used.reset(seed=5)[0], fresh.reset(seed=5)[0])
    taken = actions(used, 300)
    assert play(used, taken) == play(fresh, taken)


def test_seeds_draw_the_number_of_actions_without_effect() -> None:
    env = make(atari={"noop_max": 30, "fire_on_reset": False})
    counts = []
    for seed in range(60):
        env.reset(seed=seed)
        counts.append(env._ale.getEpisodeFrameNumber())
    assert min(counts) >= 1
    assert max(counts) <= 30
    assert len(set(counts)) > 15
    env.reset(seed=3)
    assert env._ale.getEpisodeFrameNumber() == counts[3]


def test_fire_is_pressed_where_the_game_waits_for_it() -> None:
    waiting, fired = (make(atari={"noop_max": 0, "fire_on_reset": fire}) for fire in (False, True))
    frames = []
    for env in (waiting, fired):
        env.reset(seed=0)
        frames.append({result[0] for result in play(env, [np.int64(0)] * 15)})
    assert len(frames[0]) == 1
    assert len(frames[1]) > 5  # the ball flies
    assert make("Freeway")._fire is None


def test_a_lost_life_ends_the_episode_but_not_the_game() -> None:
    env = make(atari=LIVES)
    _, info = env.reset(seed=0)
    lives, episodes = info["lives"], 0
    assert lives == 5
    seen = []
    for action in actions(env, 3000):
        _, _, terminated, truncated, info = env.step(action)
        assert not truncated
        assert terminated == (info["lives"] < lives)
        lives = info["lives"]
        if terminated:
            episodes += 1
            seen.append(lives)
            _, info = env.reset(seed=episodes)
            assert info["lives"] == (lives or 5)
            assert (env.episode_start == b"") == (lives == 0)
            lives = info["lives"]
    assert seen[:7] == [4, 3, 2, 1, 0, 4, 3]


def test_a_time_limit_counts_the_steps_of_the_game_and_begins_a_new_one() -> None:
    env = make(atari=LIVES, kwargs={"max_episode_steps": 60})
    assert env.spec is not None
    assert env.spec.max_episode_steps == 60
    env.reset(seed=0)
    ends, lives = [], 5
    for step, action in enumerate(actions(env, 600), start=1):
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            ends.append((step, truncated, info["lives"] < lives))
            _, info = env.reset(seed=step)
            if truncated:
                assert info["lives"] == 5
        lives = info["lives"]
    assert [step for step, truncated, _ in ends if truncated] == list(range(60, 601, 60))
    assert any(not truncated for _, truncated, _ in ends)
    assert all(truncated or lost for _, truncated, lost in ends)


def test_a_new_game_begins_where_a_life_is_lost_in_the_last_step() -> None:
    steps = steps_of_a_life()
    env = make(atari=LIVES, kwargs={"max_episode_steps": steps})
    env.reset(seed=0)
    results = [env.step(np.int64(2)) for _ in range(steps)]
    assert results[-1][2:4] == (True, True)
    assert results[-1][4]["lives"] == 4
    assert env.reset(seed=1)[1]["lives"] == 5
    assert env.episode_start == b""


def test_the_emulators_limit_in_frames_truncates() -> None:
    env = make(atari=PLAIN, kwargs={"max_num_frames_per_episode": 100})
    assert env.max_episode_steps == 25
    assert make().max_episode_steps == 27_000
    env.reset(seed=0)
    flags = [env.step(np.int64(0))[2:4] for _ in range(25)]
    assert flags == [(False, False)] * 24 + [(False, True)]
    assert env.reset(seed=1)[1]["lives"] == 5
    assert env.step(np.int64(0))[2:4] == (False, False)


def test_an_episode_that_began_within_a_game_begins_there_again() -> None:
    steps = steps_of_a_life()
    env, other = (make(atari=LIVES, kwargs={"max_episode_steps": steps + 20}) for _ in range(2))
    env.reset(seed=0)
    assert [env.step(np.int64(2))[2] for _ in range(steps)].index(True) == steps - 1
    first, info = env.reset(seed=11)
    start, taken = env.episode_start, actions(env, 60)
    assert info["lives"] == 4
    expected = play(env, taken, resets=False)
    assert [result[3] for result in expected].count(True) == 1  # at the time limit of the game
    other.reset(seed=3)
    play(other, actions(other, 77), resets=False)
    other.begin_at(start)
    again, info = other.reset(seed=11)
    assert info["lives"] == 4
    assert np.array_equal(first, again)
    assert play(other, taken, resets=False) == expected
    other.begin_at(b"")
    assert other.reset(seed=0)[1]["lives"] == 5


@pytest.mark.parametrize("sticky", slow_but([0.25], [0.0, 0.25]))
def test_a_restored_batch_goes_on_within_a_game(sticky: float) -> None:
    settings = config(atari=LIVES | {"repeat_action_probability": sticky})
    batch = GymnasiumBatch(settings, seed=1, shard=0, envs=2)
    taken = random_actions(batch, 2, 160)
    driver = Driver(batch, 2).run(taken[:80])
    state = batch.state()
    assert driver.ended.any()
    restored = GymnasiumBatch(settings, seed=1, shard=0, envs=2)
    obs = np.zeros_like(driver.obs[0])
    assert restored.restore(state, obs) == {}
    assert np.array_equal(obs, driver.obs[-1])
    assert restored.state() == state
    rest = [Driver(each, 2, obs).run(taken[80:]) for each in (batch, restored)]
    assert same(*rest)
    assert rest[0].ended.any()


def test_repeated_actions_come_from_the_seed() -> None:
    sticky = {"repeat_action_probability": 0.5}
    plain, one, other = make(), make(atari=sticky), make(atari=sticky)
    taken = actions(plain, 60)
    for env in (plain, one, other):
        env.reset(seed=4)
    runs = [play(env, taken, resets=False) for env in (plain, one, other)]
    assert runs[1] == runs[2]
    assert runs[0] != runs[1]
    one.reset(seed=5)
    assert play(one, taken, resets=False) != runs[1]


def test_an_action_is_repeated_as_often_as_configured() -> None:
    class Counting:
        """An emulator that counts how often the action changed."""

        def __init__(self, ale: Any) -> None:
            self.ale, self.last, self.kept, self.frames = ale, None, 0, 0

        def act(self, action: Any) -> float:
            self.kept += action == self.last
            self.frames += 1
            self.last = action
            return 0.0

        def __getattr__(self, name: str) -> Any:
            return getattr(self.ale, name)

    env = make(atari=PLAIN | {"repeat_action_probability": 0.25, "frame_skip": 1})
    env.reset(seed=0)
    env._ale = counting = Counting(env._ale)
    for step in range(4000):
        env.step(np.int64(2 + step % 2))  # each differs from the one before
    # kept where it is repeated, and where the one before was: 1/4 + (3/4)(1/4) - overlaps, by
    # simulation of the chain: a repeated action equals the next choice every second time
    rng = np.random.default_rng(0)
    held, kept = -1, 0
    for step in range(400_000):
        new = held if rng.random() < 0.25 else step % 2
        kept += new == held
        held = new
    assert counting.kept / 4000 == pytest.approx(kept / 400_000, abs=0.03)


def test_rewards_are_clipped_to_their_sign() -> None:
    plain, clipped = (make("SpaceInvaders", {"clip_rewards": clip}) for clip in (False, True))
    rewards = []
    for env in (plain, clipped):
        env.reset(seed=0)
        rewards.append([result[1] for result in play(env, actions(env, 200), resets=False)])
    assert max(rewards[0]) > 1
    assert rewards[1] == np.sign(rewards[0]).tolist()


def test_one_frame_is_stored_and_frames_are_stacked_for_the_policy() -> None:
    spec = probe(config("Pong", frame_stack=4), 0)
    assert (spec.row.shape, spec.row.dtype, spec.frames) == ((84, 84), "uint8", 4)
    assert spec.observation.shape == (4, 84, 84)
    assert (spec.row.low, spec.row.high) == ((0.0,), (255.0,))
    assert spec.max_episode_steps == 27_000
    assert spec.repeatable
    assert probe(config(atari=LIVES | {"screen_size": 42}), 0).row.shape == (42, 42)


def test_an_evaluation_counts_the_games_own_score() -> None:
    trained = config(atari=LIVES | {"clip_rewards": True, "frame_skip": 3})
    atari = evaluated(trained).atari
    assert atari == AtariConfig(noop_max=5, frame_skip=3, terminal_on_life_loss=True)
    plain = EnvironmentConfig(id="CartPole-v1")
    assert evaluated(plain) == plain


def played_life_by_life(seeds: EpisodeSeeds, episode: int) -> tuple[float, int, list[bytes]]:
    """Score and steps of a game, and the first frame of each life, begun as training does."""
    env = make(atari=LIVES)
    obs, _ = env.reset(seed=seeds[episode])
    score, steps, first = 0.0, 0, [obs.tobytes()]
    while True:
        obs, reward, terminated, truncated, info = env.step(np.int64(2))
        score, steps = score + float(reward), steps + 1
        if truncated or (terminated and info["lives"] == 0):
            return score, steps, first
        if terminated:
            first.append(env.reset()[0].tobytes())


def test_an_evaluation_plays_whole_games_each_life_begun_as_in_training() -> None:
    """A policy that never fires stood still from the first lost life to the time limit."""
    trained = config(atari=LIVES | {"clip_rewards": True}, frame_stack=2)
    runner = make_runner(trained, episodes=3, envs=2, seed=0, max_episode_steps=30)
    begun: list[list[bytes]] = [[], []]

    def act(obs: Any, began: Any) -> Any:
        for place in np.flatnonzero(began):
            assert np.array_equal(obs[place, 0], obs[place, 1]), "no frame of the life before"
            begun[place].append(obs[place, -1].tobytes())
        return np.full(2, 2, np.int64)

    while runner.step(act):
        pass
    seeds = EpisodeSeeds(0, Role.EVALUATION, 0, 0)
    games = [played_life_by_life(seeds, episode) for episode in range(3)]
    assert runner.returns == [score for score, _, _ in games]
    assert runner.lengths == [steps for _, steps, _ in games]
    assert min(runner.lengths) > 60 and runner.cut == 0, "the limit is for games without one"
    assert begun == [games[0][2] + games[2][2], games[1][2]]
    assert len(games[0][2]) == 5
    runner.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kwargs": {"frameskip": 2}}, "environment.atari.frame_skip"),
        ({"kwargs": {"repeat_action_probability": 0.1}}, "atari.repeat_action_probability"),
        ({"kwargs": {"obs_type": "ram"}}, "kwargs.obs_type and environment.atari contradict"),
        ({"kwargs": {"sound_obs": True}}, "kwargs.sound_obs and environment.atari contradict"),
        ({"frame_skip": 2}, "environment.frame_skip 2 and environment.atari contradict"),
        ({"kwargs": {"continuous": True}}, "discrete actions"),
    ],
)
def test_contradictions_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make(**settings)


def test_what_is_no_atari_game_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"needs an ALE game.*'CartPole-v1' is none"):
        make_env(EnvironmentConfig(id="CartPole-v1", atari=AtariConfig()))


@pytest.mark.parametrize("missing", ["ale_py", "cv2"])
def test_a_missing_package_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=r"pip install -e '.\[atari\]'"):
        make()


def test_pictures_are_drawn_at_the_pace_of_steps() -> None:
    env = make("Pong", kwargs={"render_mode": "rgb_array"})
    env.reset(seed=0)
    assert env.render().shape == (210, 160, 3)
    slower = make("Pong", {"frame_skip": 1}).metadata["render_fps"]
    assert env.metadata["render_fps"] == slower / 4
    assert set(env.get_keys_to_action().values()) == set(range(6))
    env.close()
