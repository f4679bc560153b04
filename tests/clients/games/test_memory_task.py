from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import fast_core.clients.games.memory_task  # noqa: F401, registers the task
from fast_core.errors import ConfigError


def make(**kwargs: int) -> gymnasium.Env:
    return gymnasium.make("fastloop/Recall-v0", disable_env_checker=True, **kwargs).unwrapped


def play(env: gymnasium.Env, seed: int, answer) -> tuple[list[np.ndarray], float]:
    """All observations and the return of an episode; ``answer`` maps the cue to an action."""
    obs, _ = env.reset(seed=seed)
    cue = int(obs[:-1].argmax())
    seen, total, ended = [obs], 0.0, False
    while not ended:
        obs, reward, ended, truncated, _ = env.step(np.int64(answer(cue)))
        assert not truncated
        seen.append(obs)
        total += reward
    return seen, total


def test_recall_task_keeps_the_contract_of_gymnasium() -> None:
    check_env(make(), skip_render_check=True)


@pytest.mark.parametrize("cues", [2, 3])
@pytest.mark.parametrize("delay", [0, 1, 6])
def test_cue_is_shown_once_and_asked_for_after_the_delay(cues: int, delay: int) -> None:
    seen, total = play(make(cues=cues, delay=delay), 0, lambda cue: cue)
    assert total == 1.0
    rows = np.array(seen[:-1])  # the last one follows the answer
    assert len(rows) == delay + 2
    assert rows[0, :-1].sum() == 1.0 and rows[0, -1] == 0.0
    assert not rows[1:, :-1].any(), "nothing of the cue is left"
    assert rows[:, -1].tolist() == [0.0] * (delay + 1) + [1.0]


def test_wrong_answer_earns_nothing() -> None:
    assert play(make(), 0, lambda cue: 1 - cue)[1] == 0.0


def test_policy_without_memory_gets_its_share_by_chance() -> None:
    env = make(cues=2)
    returns = [play(env, seed, lambda cue: 1)[1] for seed in range(200)]
    assert 0.35 < np.mean(returns) < 0.65


def test_impossible_task_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="cues of at least 2"):
        make(cues=1)
