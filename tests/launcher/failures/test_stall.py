"""Hanging nodes, told from their counters and a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fast_core.config import EnvironmentConfig, SupervisionConfig
from fast_core.launcher.failures import stall as module
from fast_core.launcher.failures.stall import StallDetector
from fast_core.memory import StatsColumn
from fast_core.messages import Failed
from fast_core.nodes.node import NodeState
from tests.nodes.stage import Stage, make_config

STEP_LIMIT_S, SILENCE_LIMIT_S, START_LIMIT_S, WORK_LIMIT_S = 10.0, 20.0, 40.0, 60.0
REPEAT_LIMIT_S = 30.0
EVALUATOR_ROW, OPTIMIZER_ROW, ENV_ROW = 3, 2, 0


class Watched:
    """A detector with a clock of its own, over counters that the test writes."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now_s)
        self.stage = stage
        self.detector = StallDetector(stage.plan, stage.memory)
        self.lives = True
        self.lost: set[str] = set()

    def words(self, row: int) -> memoryview:
        return self.stage.memory.stats(self.stage.plan.names.all[row]).words

    def enter(self, row: int, state: NodeState) -> None:
        """As `Node.enter`."""
        works = self.stage.memory.works(self.stage.plan.names.all[row])
        works[self.words(row)[StatsColumn.STATE]] += 1
        self.words(row)[StatsColumn.STATE] = state
        self.words(row)[StatsColumn.STATE_SINCE_NS] += 1

    def beat(self) -> None:
        """Each process gives its sign of life."""
        for name in self.stage.plan.names.all:
            self.stage.memory.pulse(name)[0] += 1

    def turn(self, row: int, state: NodeState) -> None:
        """Wait for something and do it once more."""
        self.enter(row, NodeState.WAITING)
        self.enter(row, state)

    def run(self, seconds: float, *, beside: Callable[[], None] | None = None) -> Failed | None:
        """Check every second; the first failure found."""
        for _ in range(round(seconds)):
            self.now_s += 1.0
            if beside is not None:
                beside()
            if self.lives:
                self.beat()
            failure = self.detector.check(self.now_s, self.lost)
            if failure is not None:
                return failure
        return None

    def finds(
        self, text: str, seconds: float = 3, *, beside: Callable[[], None] | None = None
    ) -> Failed:
        """The failure that is found meanwhile."""
        failure = self.run(seconds, beside=beside)
        assert failure is not None
        assert text in failure.error
        return failure


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    config = make_config(
        environment=EnvironmentConfig(id="CartPole-v1", step_timeout_s=STEP_LIMIT_S),
        supervision=SupervisionConfig(
            heartbeat_timeout_s=SILENCE_LIMIT_S,
            start_timeout_s=START_LIMIT_S,
            work_timeout_s=WORK_LIMIT_S,
            repeat_timeout_s=REPEAT_LIMIT_S,
        ),
    )
    return Watched(Stage(tmp_path, config), monkeypatch)


def test_waiting_learning_and_saving_take_as_long_as_they_like(watched: Watched) -> None:
    assert watched.run(3 * START_LIMIT_S) is None, "the scheduler limits the start of the run"

    def turn() -> None:
        watched.words(ENV_ROW)[StatsColumn.PROGRESS] += 1

    for state in (NodeState.WAITING, NodeState.LEARNING, NodeState.SAVING):
        watched.enter(ENV_ROW, state)
        assert watched.run(3 * WORK_LIMIT_S, beside=turn) is None
    watched.enter(ENV_ROW, NodeState.WRITING)
    assert watched.run(3 * WORK_LIMIT_S) is None, "slow disks disturb nobody"


@pytest.mark.parametrize("state", [NodeState.WAITING, NodeState.LEARNING, NodeState.ACTING])
def test_node_that_takes_no_turn_any_more_is_found(watched: Watched, state: NodeState) -> None:
    """However alive its process is: stuck in C, with the GIL or without, or in a user's call."""
    watched.enter(OPTIMIZER_ROW, state)
    assert watched.run(WORK_LIMIT_S) is None
    assert watched.finds("within 60 s (supervision.work_timeout_s)").node == "optimizer-0"


def test_first_work_of_a_kind_may_take_long_and_is_hardly_a_scale(watched: Watched) -> None:
    """It may compile, or tune kernels."""
    watched.turn(OPTIMIZER_ROW, NodeState.LEARNING)
    assert watched.run(REPEAT_LIMIT_S / 2 - 1) is None
    watched.turn(OPTIMIZER_ROW, NodeState.LEARNING)
    assert watched.run(REPEAT_LIMIT_S) is None
    failure = watched.finds("its learner did not come back from update or change within 30 s")
    assert failure.hangs
    assert "(supervision.repeat_timeout_s" in failure.error


def test_work_that_always_takes_longer_than_the_limit_of_repeats_is_no_hang(
    watched: Watched,
) -> None:
    """Such as an update of minutes: what the first one took is what others take."""
    for _ in range(3):
        watched.turn(OPTIMIZER_ROW, NodeState.LEARNING)
        assert watched.run(REPEAT_LIMIT_S + 10) is None


def test_work_that_often_takes_long_may_take_long(watched: Watched) -> None:
    watched.enter(OPTIMIZER_ROW, NodeState.LEARNING)
    for _ in range(3):
        assert watched.run(2) is None
        watched.enter(OPTIMIZER_ROW, NodeState.LEARNING)
    assert watched.run(20 * 2 - 2) is None, "20 times that are more"
    watched.enter(OPTIMIZER_ROW, NodeState.LEARNING)
    watched.finds("within 60 s (supervision.work_timeout_s)", WORK_LIMIT_S + 2)


def test_node_that_says_only_that_work_came_back_comes_forward(watched: Watched) -> None:
    """As a policy node within a turn; what it does next was done before."""
    watched.enter(OPTIMIZER_ROW, NodeState.ACTING)
    works = watched.stage.memory.works("optimizer-0")

    def act() -> None:
        works[NodeState.ACTING] += 1

    assert watched.run(2 * WORK_LIMIT_S, beside=act) is None
    assert watched.run(REPEAT_LIMIT_S - 1) is None
    assert isinstance(failure := watched.run(3), Failed)
    assert "within 30 s (supervision.repeat_timeout_s" in failure.error


def test_each_kind_of_work_has_a_scale_of_its_own(watched: Watched) -> None:
    watched.enter(OPTIMIZER_ROW, NodeState.LEARNING)
    for _ in range(3):
        assert watched.run(5) is None
        watched.enter(OPTIMIZER_ROW, NodeState.LEARNING)
    watched.enter(OPTIMIZER_ROW, NodeState.SAVING)
    assert watched.run(REPEAT_LIMIT_S / 2 - 1) is None, "the first one"
    watched.enter(OPTIMIZER_ROW, NodeState.PUBLISHING)
    watched.enter(OPTIMIZER_ROW, NodeState.SAVING)
    watched.finds("a checkpoint within 30 s", REPEAT_LIMIT_S + 3)


def test_successor_begins_without_a_scale(watched: Watched) -> None:
    watched.enter(OPTIMIZER_ROW, NodeState.LEARNING)
    assert watched.run(2) is None
    works = watched.stage.memory.works("optimizer-0")
    works[NodeState.LEARNING] = 0  # as each process of a node begins
    watched.lost = {"optimizer-0"}
    assert watched.run(1) is None
    watched.lost = set()
    assert watched.run(REPEAT_LIMIT_S + 5) is None


def test_policy_beside_environments_that_hangs_is_not_blamed_on_them(watched: Watched) -> None:
    watched.enter(ENV_ROW, NodeState.STEPPING)
    watched.words(ENV_ROW)[StatsColumn.SHARD] = 1
    watched.words(ENV_ROW)[StatsColumn.STEP] = 5
    watched.words(ENV_ROW)[StatsColumn.STATE] = NodeState.ACTING
    failure = watched.finds("the policy did not return from act or load", WORK_LIMIT_S + 3)
    assert failure.context == {"shard": "1", "step of the rollout": "5"}


def test_environment_that_is_tried_out_has_the_limit_of_a_step(watched: Watched) -> None:
    watched.enter(ENV_ROW, NodeState.TRYING)
    assert watched.run(STEP_LIMIT_S) is None
    watched.finds("from reset, step or close within 10 s (environment.step_timeout_s)")


def test_shard_that_moved_and_does_not_begin_is_found(watched: Watched) -> None:
    """Its node was ready long ago, so no other limit covers what it makes now."""
    watched.words(ENV_ROW)[StatsColumn.STATE_SINCE_NS] = 7
    watched.enter(ENV_ROW, NodeState.STARTING)
    assert watched.run(START_LIMIT_S) is None
    assert watched.finds("within 40 s (supervision.start_timeout_s)").node == "env-0"


def test_env_node_that_does_not_come_on_is_found_with_its_place(watched: Watched) -> None:
    watched.enter(ENV_ROW, NodeState.STEPPING)
    watched.words(ENV_ROW)[StatsColumn.SHARD] = 1
    progress = watched.stage.memory.progress(1)
    progress[0], progress[1] = 1, 30  # environment 1 is in step 30
    progress[2], progress[3] = 6, 7  # episodes begun
    progress[4], progress[5] = 0, 10  # when they began
    assert watched.run(STEP_LIMIT_S) is None
    failure = watched.finds("within 10 s (environment.step_timeout_s)")
    assert failure.node == "env-0"
    at = [failure.context[name] for name in ("shard", "environment", "episode", "step")]
    assert at == ["1", "1", "6", "20"]


def test_env_node_that_steps_is_no_hang(watched: Watched) -> None:
    watched.enter(ENV_ROW, NodeState.STEPPING)
    progress = watched.stage.memory.progress(0)

    def step() -> None:
        progress[1] += 1

    assert watched.run(5 * STEP_LIMIT_S, beside=step) is None


def test_evaluator_that_hangs_is_found_while_others_step(watched: Watched) -> None:
    """Its row names no shard, so the progress of shard 0 is not its own."""
    watched.enter(EVALUATOR_ROW, NodeState.EVALUATING)
    progress = watched.stage.memory.progress(0)

    def step() -> None:
        progress[1] += 1

    assert watched.finds("", 2 * STEP_LIMIT_S, beside=step).node == "evaluator-0"


def test_evaluator_that_acts_is_no_hang(watched: Watched) -> None:
    watched.enter(EVALUATOR_ROW, NodeState.EVALUATING)

    def act() -> None:
        watched.words(EVALUATOR_ROW)[StatsColumn.PROGRESS] += 1

    assert watched.run(5 * STEP_LIMIT_S, beside=act) is None


def test_process_that_executes_another_program_is_found_when_its_pulse_has_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path)
    watched = Watched(stage, monkeypatch)
    watched.detector = StallDetector(
        stage.plan, stage.memory, lambda node: "sleep 7" if node == "env-1" else ""
    )
    assert watched.run(5) is None, "nobody asks while it gives signs of life"
    watched.lives = False
    failure = watched.run(4)
    assert isinstance(failure, Failed) and (failure.node, failure.hangs) == ("env-1", True)
    assert failure.error.startswith("its process executes another program in its place: 'sleep 7'")


def test_learner_that_is_alive_is_not_silent_however_long_it_takes(watched: Watched) -> None:
    """A call that holds the interpreter lock stops no pulse: only the limit of work ends it."""
    watched.enter(OPTIMIZER_ROW, NodeState.LEARNING)
    assert watched.run(2 * SILENCE_LIMIT_S) is None


@pytest.mark.parametrize(
    ("row", "state"), [(OPTIMIZER_ROW, NodeState.LEARNING), (ENV_ROW, NodeState.STEPPING)]
)
def test_process_that_is_stopped_is_found(watched: Watched, row: int, state: NodeState) -> None:
    """Not blamed on an environment, though a step may take less than a sign of life be absent."""
    watched.enter(row, state)
    assert watched.run(3) is None
    watched.lives = False
    watched.finds("no sign of life for 20 s", SILENCE_LIMIT_S + 2)


def test_process_that_was_stopped_before_a_late_look_is_not_blamed_on_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gave its last sign of life at some time since the look before, perhaps at once."""
    environment = EnvironmentConfig(id="CartPole-v1", step_timeout_s=1.5)
    watched = Watched(Stage(tmp_path, make_config(environment=environment)), monkeypatch)
    watched.enter(ENV_ROW, NodeState.STEPPING)
    assert watched.run(1) is None
    watched.beat()
    watched.lives = False
    watched.now_s += 1.8
    assert watched.detector.check(watched.now_s) is None
    assert isinstance(failure := watched.run(100), Failed)
    assert "no sign of life for" in failure.error


def test_time_that_a_process_was_stopped_for_counts_for_no_limit(watched: Watched) -> None:
    watched.enter(ENV_ROW, NodeState.STEPPING)
    assert watched.run(STEP_LIMIT_S - 3) is None
    watched.lives = False
    assert watched.run(SILENCE_LIMIT_S - 2) is None
    watched.lives = True
    assert watched.run(STEP_LIMIT_S - 1) is None
    watched.finds("step_timeout_s")


def test_node_that_never_began_is_the_start_timeouts_business(watched: Watched) -> None:
    watched.lives = False
    assert watched.run(3 * SILENCE_LIMIT_S) is None


def test_successor_is_silent_until_it_begins(watched: Watched) -> None:
    watched.enter(ENV_ROW, NodeState.WAITING)
    assert watched.run(2) is None
    watched.lives = False
    watched.lost = set(watched.stage.plan.names.all)
    assert watched.run(2) is None
    watched.lost = set()
    assert watched.run(2 * SILENCE_LIMIT_S) is None
    watched.lives = True
    assert watched.run(2) is None
    watched.lives = False
    assert watched.run(SILENCE_LIMIT_S + 3) is not None


def test_pause_of_the_launcher_is_forgiven(watched: Watched) -> None:
    """FT-05's neighbour: a suspended machine. Its nodes were suspended too."""
    watched.enter(ENV_ROW, NodeState.STEPPING)
    assert watched.run(5) is None
    watched.now_s += 3600
    assert watched.run(STEP_LIMIT_S - 1) is None
    assert watched.run(5) is not None, "but not for ever"


def test_pause_of_the_launcher_is_no_scale_of_what_nodes_do(watched: Watched) -> None:
    """20 times the pause would be waited for."""
    watched.enter(OPTIMIZER_ROW, NodeState.LEARNING)
    assert watched.run(1) is None
    watched.turn(OPTIMIZER_ROW, NodeState.LEARNING)
    assert watched.run(1) is None
    watched.now_s += REPEAT_LIMIT_S
    watched.turn(OPTIMIZER_ROW, NodeState.LEARNING)
    assert watched.run(REPEAT_LIMIT_S) is None
    assert watched.run(3) is not None


def test_node_that_is_forgiven_begins_anew(watched: Watched) -> None:
    """Somebody holds it in a debugger."""
    watched.enter(ENV_ROW, NodeState.STEPPING)
    assert watched.run(STEP_LIMIT_S + 3) is not None
    watched.detector.forgive("env-0")
    assert watched.run(STEP_LIMIT_S) is None
    assert watched.run(3) is not None
    watched.lives = False
    watched.detector.forgive("env-0")
    for node in watched.stage.plan.names.all[1:]:
        watched.detector.forgive(node)
    assert watched.run(SILENCE_LIMIT_S - 1) is None
    assert watched.run(3) is not None


def test_node_that_waits_is_given_its_turns_however_short_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervision = SupervisionConfig(work_timeout_s=0.5, repeat_timeout_s=0.5)
    stage = Stage(tmp_path, make_config(supervision=supervision))
    watched = Watched(stage, monkeypatch)
    watched.enter(OPTIMIZER_ROW, NodeState.WAITING)
    assert watched.run(2) is None
    assert watched.run(3) is not None


def test_no_limit_means_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(environment=EnvironmentConfig(id="CartPole-v1", step_timeout_s=None))
    stage = Stage(tmp_path, config)
    watched = Watched(stage, monkeypatch)
    watched.enter(ENV_ROW, NodeState.STEPPING)
    assert watched.run(1000) is None
