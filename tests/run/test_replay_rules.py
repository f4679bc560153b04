"""What a run that learns from replay must fulfil before anything starts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fast_core.algorithm import ReplaySpec, Window
from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.config import ExtraNodeConfig, RunConfig
from fast_core.errors import ConfigError
from fast_core.launcher.prepare import scheduler_settings
from fast_core.run.columns import replay_columns
from fast_core.run.plan import RunPlan
from fast_core.run.structures import rows_per_batch, rows_per_log
from tests.nodes.replay_stage import ENVS, SHARDS, replay_config
from tests.nodes.stage import CARTPOLE, make_run_plan, stacked

ALL = SHARDS * ENVS


class AloneConfig(DQNConfig, frozen=True, kw_only=True):
    """Says nothing of what several optimizers would exchange."""

    def exchanged(self, environment: object) -> int:
        return 0


class WrongConfig(DQNConfig, frozen=True, kw_only=True):
    """Asks for something that can't be drawn."""

    asks: tuple[float, ...] = ()

    def replay(self) -> ReplaySpec:
        return ReplaySpec(*self.asks) if self.asks else None  # type: ignore[arg-type,return-value]


def n_step(config: RunConfig, steps: int, batch_size: int = 8) -> RunConfig:
    algorithm = DQNConfig(hidden_sizes=(4,), n_step=steps, batch_size=batch_size)
    return msgspec.structs.replace(config, algorithm=algorithm)


def plan(folder: Path, config: RunConfig, frames: int = 1) -> RunPlan:
    environment = CARTPOLE if frames == 1 else stacked(frames)
    return make_run_plan(folder, config, environment=environment)


def test_run_that_learns_from_replay_has_its_nodes(tmp_path: Path) -> None:
    made = plan(tmp_path, replay_config(optimizers=2))
    names = ("replay-0", "optimizer-0", "optimizer-1", "evaluator-0", "metrics-0")
    assert made.names.all[-5:] == names
    assert made.replay_spec == ReplaySpec(8, 1, 0.99)


@pytest.mark.parametrize(("frames", "steps"), [(1, 1), (1, 5), (4, 3)])
def test_share_of_an_environment_holds_a_window(tmp_path: Path, frames: int, steps: int) -> None:
    needed = steps + frames + 2
    starts = {"learning_starts": ALL * steps}
    enough = replay_config(replay={"capacity": ALL * needed, **starts})
    assert rows_per_log(plan(tmp_path, n_step(enough, steps), frames)) == needed
    less = replay_config(replay={"capacity": ALL * (needed - 1), **starts})
    text = rf"replay\.capacity .* at least {needed} rows .*Raise it to {ALL * needed} or more"
    with pytest.raises(ConfigError, match=text):
        plan(tmp_path, n_step(less, steps), frames)


def test_first_update_finds_a_window(tmp_path: Path) -> None:
    enough = replay_config(replay={"learning_starts": 3 * ALL})
    plan(tmp_path, n_step(enough, 3))
    less = replay_config(replay={"learning_starts": 3 * ALL - 1})
    with pytest.raises(ConfigError, match=rf"learning_starts must be at least {3 * ALL}.*got 11"):
        plan(tmp_path, n_step(less, 3))


def remembering(config: RunConfig, **changes: object) -> RunConfig:
    """Sequences of 3 + 4 rows, with a target of two steps; two of them a batch."""
    given = {"recurrent": "gru", "sequence_length": 4, "burn_in": 3, "n_step": 2, "batch_size": 8}
    algorithm = DQNConfig(**given | {"hidden_sizes": (4,)} | changes)  # type: ignore[arg-type]
    return msgspec.structs.replace(config, algorithm=algorithm)


def test_replay_holds_a_sequence_and_what_it_is_warmed_up_with(tmp_path: Path) -> None:
    needed = 3 + 4 + 1 + 1 + 2
    made = plan(
        tmp_path,
        remembering(replay_config(replay={"capacity": ALL * needed, "learning_starts": 99})),
    )
    assert rows_per_log(made) == needed and rows_per_batch(made) == 2
    assert made.replay_spec == ReplaySpec(2, sequence=Window(4, 3, 1), stored_state=True)
    less = replay_config(replay={"capacity": ALL * (needed - 1), "learning_starts": 99})
    text = (
        r"at least 11 rows \(a sequence of 8 rows, 3 of them to warm a memory up, .*got 40.*to 44"
    )
    with pytest.raises(ConfigError, match=text):
        plan(tmp_path, remembering(less))
    early = replay_config(replay={"learning_starts": 5 * ALL - 1})
    with pytest.raises(
        ConfigError, match=r"at least 20, 5 steps \(a sequence of 8 rows, 3 of them"
    ):
        plan(tmp_path, remembering(early))
    plan(tmp_path, remembering(early, sequence_length=2, n_step=1))


def test_shares_of_optimizers_are_whole_sequences(tmp_path: Path) -> None:
    given = {"replay": {"learning_starts": 99}}
    assert rows_per_batch(plan(tmp_path, remembering(replay_config(optimizers=2, **given)))) == 1
    text = r"must divide the sequences of a batch .*got 3 for 2\. Use 2\."
    with pytest.raises(ConfigError, match=text):
        plan(tmp_path, remembering(replay_config(optimizers=3, **given)))


def test_what_was_remembered_is_kept_only_where_it_is_asked_for(tmp_path: Path) -> None:
    given = replay_config(replay={"learning_starts": 99})
    kept = [
        [each.name for each in replay_columns(plan(tmp_path, config))]
        for config in (remembering(given), remembering(given, stored_state=False), given)
    ]
    usual = ["obs", "action", "reward"]
    assert kept == [[*usual, "state"], usual, usual]


def test_shares_of_optimizers_that_average_are_equal(tmp_path: Path) -> None:
    assert rows_per_batch(plan(tmp_path, replay_config(optimizers=4))) == 2
    with pytest.raises(ConfigError, match=r"must divide .* got 3 for 8\. Use 2, 4, 8\."):
        plan(tmp_path, replay_config(optimizers=3))
    with pytest.raises(ConfigError, match=r"got 2 for 7\. Use 7\."):
        plan(tmp_path, n_step(replay_config(optimizers=2), 1, batch_size=7))


def test_asynchronous_optimizers_need_no_equal_shares(tmp_path: Path) -> None:
    assert rows_per_batch(plan(tmp_path, replay_config(optimizers=3, update="async"))) == 8


def test_several_optimizers_need_an_algorithm_that_can_share(tmp_path: Path) -> None:
    alone = AloneConfig(name="mine:Config", hidden_sizes=(4,), batch_size=8)
    config = replay_config(optimizers=2)
    with pytest.raises(ConfigError, match=r"count must be 1: .*'mine:Config' does not say"):
        plan(tmp_path, msgspec.structs.replace(config, algorithm=alone))
    plan(tmp_path, msgspec.structs.replace(replay_config(), algorithm=alone))


def test_stages_that_take_rollouts_are_refused(tmp_path: Path) -> None:
    config = replay_config()
    stage = ExtraNodeConfig(node="tests.nodes.test_rollout_stage:Adder")
    nodes = msgspec.structs.replace(config.nodes, extra=(stage,))
    with pytest.raises(ConfigError, match=r"takes rollouts \(Transform\).*learns from replay"):
        plan(tmp_path, msgspec.structs.replace(config, nodes=nodes))


@pytest.mark.parametrize("asks", [(), (0, 1, 0.9), (8, 0, 0.9), (8, 1, 1.5), (8.0, 1, 0.9)])
def test_draws_that_make_no_sense_are_refused(tmp_path: Path, asks: tuple[float, ...]) -> None:
    wrong = WrongConfig(name="mine:Config", hidden_sizes=(4,), asks=asks)
    with pytest.raises(ConfigError, match=r"'mine:Config': replay\(\) must return"):
        plan(tmp_path, msgspec.structs.replace(replay_config(), algorithm=wrong))


def test_algorithm_that_learns_from_replay_need_not_say_what_a_ticket_grants(
    tmp_path: Path,
) -> None:
    class Silent(DQNConfig, frozen=True, kw_only=True):
        def updates_granted(self, rows: int) -> int:
            raise NotImplementedError

    silent = Silent(hidden_sizes=(4,), batch_size=8)
    made = plan(tmp_path, msgspec.structs.replace(replay_config(), algorithm=silent))
    assert scheduler_settings(made, "").updates_granted == 0
