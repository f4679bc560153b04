"""What users of `AsyncTrainer` do that is not meant, or that it has to know better."""

from __future__ import annotations

import asyncio
import functools
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fast_core.errors import ConfigError, NodeFailed
from fast_core.integrations import AsyncTrainer
from tests.integrations.toy_hosts import Collector, Evaluator, Forking, Giving, Learner, run
from tests.process.harness import ROOT, eventually, processes


def evaluator(gives: object) -> Evaluator:
    made = Evaluator()
    made.eval = lambda: gives  # type: ignore[method-assign, assignment, return-value]
    return made


def test_mean_and_deviation_are_not_taken_for_stop_and_score() -> None:
    """Stable-Baselines3's `evaluate_policy` gives that pair: it would end each run at once."""
    with pytest.raises(NodeFailed, match=r"first of which is 12\.5.*\(stop, score\)"):
        run(evaluator=evaluator((12.5, 0.5)))
    for stop in (True, np.True_, torch.tensor(True)):
        assert run(evaluator=evaluator((stop, 0.5))).stats.updates == 0
    for stop in (False, np.False_):
        assert run(evaluator=evaluator((stop, 0.5))).stats.updates == 3


@pytest.mark.parametrize("score", [np.float32(2), np.array(2.0), torch.tensor(2.0), 2])
def test_score_may_be_an_array_of_one_number(score: object) -> None:
    saved: list[int] = []
    host = evaluator((False, score))
    host.save_evaluated = lambda weights: saved.append(weights.version)  # type: ignore[attr-defined]
    run(evaluator=host)
    assert saved == [0], "as good later is not better"


def test_figures_that_training_tells_may_be_tensors() -> None:
    class Telling(Learner):
        def train(self, batch: Any) -> Any:
            super().train(batch)
            return {"ess": torch.tensor(0.5, requires_grad=True), "clip_fraction": np.array(0.25)}

    stats = run(learner=Telling()).stats
    assert (stats.ess, stats.clip_fraction) == (0.5, 0.25)


def test_generator_of_data_is_refused() -> None:
    """It would collect later, in the learner's thread and with other weights."""

    class Yielding(Collector):
        def collect(self) -> Any:
            yield 1

    with pytest.raises(NodeFailed, match=r"collect\(\) gave a generator, which collects only when"):
        run(collector=Yielding())


def test_columns_count_as_their_rows() -> None:
    def steps(*data: Any) -> int:
        collector = Collector()
        collector.collect = lambda: data[0]  # type: ignore[method-assign]
        return int(run(1, collector=collector).stats.env_steps_collected)

    assert steps({"obs": np.zeros((7, 4)), "reward": np.zeros(7)}) == 7
    assert steps([1, 2]) == 2 and steps(object()) == 1 and steps({}) == 0
    assert steps(np.array(3.0)) == 1
    for odd in ({"obs": np.zeros(8), "action": np.zeros(7)}, {"obs": np.zeros(8), "mean": 1.0}):
        with pytest.raises(NodeFailed, match=r"count_env_steps\(data\).*obs 8, "):
            steps(odd)


def test_fields_of_a_tuple_are_not_counted_as_steps() -> None:
    class Columns(Collector):
        def collect(self) -> Any:
            return np.zeros((7, 4)), np.zeros(7), np.zeros(7)

    with pytest.raises(NodeFailed, match=r"a tuple, here of 3, needs a method count_env_steps"):
        run(1, collector=Columns())

    class Counting(Columns):
        def count_env_steps(self, data: Any) -> int:
            return len(data[0])

    assert run(1, collector=Counting()).stats.env_steps_collected == 7


@pytest.mark.parametrize("method", ["count_env_steps", "count_updates"])
def test_counts_are_whole_numbers(method: str) -> None:
    def counted(told: Any) -> Any:
        collector = Collector()
        setattr(collector, method, lambda data: told)
        return run(2, collector=collector).stats

    for wrong in (-1, 0.5, float("nan"), float("inf"), "many", True):
        with pytest.raises(NodeFailed, match=rf"{method}\(data\) must give a whole number"):
            counted(wrong)
    for right in (2, 2.0, np.int64(2), np.array(2), torch.tensor(2)):
        stats = counted(right)
        assert 2 in (stats.updates, stats.env_steps_collected // stats.rounds_collected)


def test_best_without_a_score_and_arguments_without_names_are_refused() -> None:
    host = evaluator("good")
    assert run(evaluator=host).evaluations[0] == (0, "good")
    host.save_evaluated = lambda weights: None  # type: ignore[attr-defined]
    with pytest.raises(NodeFailed, match=r"no number in what eval.*'good'"):
        run(evaluator=host)
    host = evaluator(1.0)
    host.eval_kwargs = lambda train_iter, envstep: (train_iter, envstep)  # type: ignore[attr-defined]
    with pytest.raises(NodeFailed, match=r"keyword arguments of eval\(\).*got \(0, 0\)"):
        run(evaluator=host)


class Connected(Collector):
    """Has something open that belongs to the loop of its first call, as a client's connection."""

    reader: asyncio.Task[None] | None = None

    async def collect(self) -> Any:  # type: ignore[override]
        if self.reader is None:
            self.asked: asyncio.Queue[asyncio.Future[int]] = asyncio.Queue()
            self.reader = asyncio.create_task(self.answer())
        answer = asyncio.get_running_loop().create_future()
        await self.asked.put(answer)
        return [await asyncio.wait_for(answer, 20)]

    async def answer(self) -> None:
        while True:
            (await self.asked.get()).set_result(self.version)


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("backend", ["inline", "thread"])
def test_calls_of_a_coroutine_have_one_loop(backend: Any, in_loop: bool) -> None:
    """Also where another loop runs already, as in a notebook."""
    collector, learner = Connected(), Learner()

    async def notebook() -> Any:
        return run(backend=backend, collector=collector, learner=learner)

    result = (
        asyncio.run(notebook())
        if in_loop
        else run(backend=backend, collector=collector, learner=learner)
    )
    assert result.stats.updates == 3 and learner.batches == [[0], [1], [2]]
    assert collector.reader is not None and collector.reader.done(), "nothing is left of it"


def test_trainer_runs_again_but_not_twice_at_once() -> None:
    trainers: list[AsyncTrainer] = []

    class Nested(Learner):
        def train(self, batch: Any) -> Any:
            trainers[0].run(max_train_iter=1)

    trainers.append(AsyncTrainer(collector=Collector(), learner=Nested()))
    with pytest.raises(NodeFailed, match=r"run\(\) of this trainer is going on already"):
        trainers[0].run(max_train_iter=1)
    trainer = AsyncTrainer(collector=Collector, learner=lambda rank, seed: Learner())
    assert [trainer.run(max_train_iter=n).stats.updates for n in (2, 3)] == [2, 3]


@pytest.mark.parametrize(
    ("part", "given"),
    [
        ("collector", lambda: Collector()),
        ("collector", lambda rank: Collector()),
        ("learner", type("Bare", (), {"__init__": lambda self: None, "train": print})),
        ("evaluator", lambda rank, seed, env: Evaluator()),
    ],
)
def test_factory_that_takes_something_else_is_refused_at_once(part: str, given: Any) -> None:
    parts: dict[str, Any] = {"collector": Collector(), "learner": Learner(), part: given}
    with pytest.raises(ConfigError, match=rf"the {part} .* is called as fn\(rank, seed\)"):
        AsyncTrainer(**parts)


@pytest.mark.parametrize("backend", ["thread", "process"])
def test_weights_that_cannot_be_copied_are_named(backend: Any) -> None:
    learner = Learner()
    learner.state = {"n": 0, "lock": threading.Lock()}  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match=r"get_weights\(\) gave can't be copied: .*pickle"):
        run(backend=backend, learner=learner, collector=Collector)


def giving(what: str) -> Any:
    return functools.partial(Giving, what=what)


@pytest.mark.process
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("lock", "gave what can't be sent, in collect():\nTypeError: cannot pickle '_thread.lock'"),
        ("generator", "collect() gave a generator"),
        ("exit", "SystemExit: 3"),
        ("odd", "gave in collect() can't be made in this process: ValueError: not here"),
    ],
)
def test_result_that_cannot_travel_is_named(what: str, said: str) -> None:
    with pytest.raises(NodeFailed) as failed:
        run(backend="process", collector=giving(what))
    assert said in str(failed.value) and "collector-0 (process " in str(failed.value)


@pytest.mark.process
def test_tensors_with_a_graph_travel_without_it() -> None:
    learner = Learner()
    run(backend="process", collector=giving("graph"), learner=learner)
    assert [float(batch["loss"].detach()) for batch in learner.batches] == [2.0, 2.0, 2.0]
    assert all(batch["loss"].requires_grad for batch in learner.batches)
    learner.batches[0]["obs"][:] = 5
    assert learner.batches[1]["obs"].sum() == 200_000, "each is its own"


@pytest.mark.process
def test_death_of_a_collector_is_told_though_what_it_forked_lives_on(tmp_path: Path) -> None:
    began_s = time.monotonic()
    with pytest.raises(NodeFailed, match=r"was killed by SIGKILL in collect\(\)"):
        run(backend="process", collector=Forking)
    assert time.monotonic() - began_s < 60, "not when what it forked ends"


@pytest.mark.process
@pytest.mark.slow
def test_evaluation_that_takes_longer_than_the_rest_is_waited_for() -> None:
    result = run(
        backend="process",
        collector=Collector,
        evaluator=functools.partial(Evaluator, wait_s=1.5),
        should_eval=lambda train_iter: train_iter == 2,
        enable_async_eval=True,
    )
    assert result.evaluations == ((2, 2.0),)


SCRIPT = """
import threading, time
from dataclasses import dataclass
import numpy as np
from fast_core.integrations import AsyncTrainer

@dataclass
class Episode:
    obs: np.ndarray
    def __len__(self):
        return len(self.obs)

class Collector:
    def __init__(self, rank, seed):
        self.state = 0
    def collect(self):
        return Episode(np.full(50_000, self.state))
    def load_weights(self, state, version):
        self.state = state

class Learner:
    state = 0
    def train(self, episode):
        assert type(episode) is Episode, type(episode)
        assert (episode.obs == self.state).all()
        self.state += 1
        if BLOCKS:
            print("in train", flush=True)
            time.sleep(1000)
    def get_weights(self):
        return self.state

BLOCKS = False
"""
RUN = """
result = AsyncTrainer(collector=Collector, learner=Learner(), backend="process").run(
    max_train_iter=3
)
print(result.stats.env_steps_trained)
"""


@pytest.mark.process
@pytest.mark.parametrize("guard", ["", 'if __name__ == "__main__":\n'])
def test_script_may_have_its_classes_and_its_run_anywhere(guard: str, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    body = RUN.replace("\n", "\n    ") if guard else RUN
    path.write_text(SCRIPT + guard + body, encoding="utf-8")
    command = [sys.executable, str(path)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.stdout == "150000\n", done.stderr


@pytest.mark.process
@pytest.mark.slow
def test_second_ctrl_c_ends_a_run_that_the_first_one_waits_in(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.replace("BLOCKS = False", "BLOCKS = True") + RUN, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(path)],
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "in train\n"
    below = [each.pid for each in processes() if each.parent == process.pid]
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(15) == -signal.SIGINT
    process.stdout.close()
    eventually(lambda: not {each.pid for each in processes()} & {*below}, "all are gone")
