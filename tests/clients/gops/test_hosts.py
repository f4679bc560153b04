"""GOPS's objects as parts of a trainer: rows, turns, seeds and weights, on tiny fakes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fast_core.clients.gops.hosts import (  # noqa: E402
    Collector,
    RemoteCollector,
    Samples,
    Work,
    opened,
    pack,
    unpack,
)
from fast_core.clients.gops.learning import OwnSamples, Replay  # noqa: E402
from fast_core.clients.gops.options import Options  # noqa: E402
from fast_core.clients.gops.ray_stand_in import Recipe, StandIn, standing_in  # noqa: E402
from fast_core.clients.gops.weights import Tensors, acting_part  # noqa: E402
from fast_core.errors import ConfigError  # noqa: E402


@dataclass
class State:
    """As GOPS's: no array, and no number."""

    x: float

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> State:
        raise AssertionError("nobody may look into it")


def row(number: int, *, state: bool = False) -> tuple[Any, ...]:
    def info(value: float) -> dict[str, Any]:
        kept = {"state": State(value) if state else np.full(2, value), "other": object()}
        return kept | {"TimeLimit.truncated": number == 2}

    obs = np.array([number, -number], dtype=np.float64)
    action = np.full(1, number, dtype=np.float32)
    return obs, action, 0.5 * number, number == 1, info(number), obs + 1, info(-number), 0.1


class Buffer:
    def __init__(self) -> None:
        self.rows: list[Any] = []

    @property
    def size(self) -> int:
        return len(self.rows)

    def __get_RAM__(self) -> float:
        return float(self.size)

    def add_batch(self, rows: list[Any]) -> None:
        self.rows += rows

    def sample_batch(self, count: int) -> Any:
        return np.random.random()  # noqa: NPY002


class Sampler:
    sample_batch_size = 2

    def __init__(self) -> None:
        self.networks, self.calls = torch.nn.Linear(2, 1), 0

    def sample(self) -> Any:
        self.calls += 1
        return [row(self.calls), row(self.calls + 10)], {"ms": float(self.calls)}

    def sample_with_replay_format(self) -> Any:
        return {"obs": torch.ones(2, 3)}, {"ms": 0.0}


class Records:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def sampled(self, figures: Any) -> None:
        self.told += figures


@pytest.mark.parametrize("state", [False, True])
def test_rows_travel_as_columns_with_what_the_buffer_keeps(state: bool) -> None:
    given = [row(number, state=state) for number in range(3)]
    columns = pack(given, ("state",))
    bare = {name: column[1] if "." in name else column for name, column in columns.items()}
    arrays = {name for name, column in bare.items() if isinstance(column, np.ndarray)}
    assert ("info.state" in arrays) is not state and {"obs", "reward", "done", "logp"} <= arrays
    assert columns["obs"].dtype == np.float64 and columns["action"].dtype == np.float32
    for before, after in zip(given, unpack(columns), strict=True):
        for number in (0, 1, 2, 3, 5, 7):
            assert (np.asarray(before[number]) == after[number]).all()
        for number in (4, 6):
            assert after[number].keys() == {"state", "TimeLimit.truncated"}
            assert np.all(before[number]["state"] == after[number]["state"])
            assert before[number]["TimeLimit.truncated"] == after[number]["TimeLimit.truncated"]


def test_what_some_infos_have_stays_with_them() -> None:
    """A wrapper says that a limit cut an episode only where it did."""
    given = []
    for number in range(4):
        info = {"TimeLimit.truncated": True} if number in (1, 3) else {"state": number}
        given.append((np.zeros(2), 0, 1.0, False, info, np.zeros(2), {}, 0.0))
    assert [each[4] for each in unpack(pack(given, ("state",)))] == [each[4] for each in given]


def test_rows_without_infos_have_empty_ones() -> None:
    given = [(np.zeros(2), 0, 1.0, False, {}, np.zeros(2), {}, 0.0)] * 2
    assert [each[4] for each in unpack(pack(given, ()))] == [{}, {}]


def test_round_of_another_process_is_that_of_this_one() -> None:
    work = Work(method="sample", calls=3, kept=("state",))
    here, there = Collector(Sampler(), work), RemoteCollector(Sampler(), work)
    data = there.collect()
    one, other = here.collect(), opened(data)
    assert there.count_env_steps(data) == here.count_env_steps(one) == other.env_steps == 6
    assert one.figures == other.figures == [{"ms": 1.0}, {"ms": 2.0}, {"ms": 3.0}]
    rows = [each for batch in one.batches for each in batch]
    assert [each[0].tolist() for each in other.batches[0]] == [each[0].tolist() for each in rows]
    own = RemoteCollector(Sampler(), Work(method="sample_with_replay_format", calls=1)).collect()
    assert torch.equal(opened(own).batches[0]["obs"], torch.ones(2, 3))


def samples(*numbers: int) -> Samples:
    return Samples([[row(number) for number in numbers]], [{"ms": 1.0}], len(numbers))


def test_first_update_follows_a_round_of_its_own_after_the_warm_up() -> None:
    records: Any = Records()
    replay = Replay([Buffer()], [], 3, 8, records)
    trainable = []
    for number in range(4):
        replay.push(samples(number, number))
        trainable.append(replay.is_trainable())
    assert trainable == [False, False, True, True] and len(records.told) == 2
    assert replay.env_steps == 8 and replay.memory_mb == 8.0


def test_buffers_take_turns_each_with_its_own_random_numbers() -> None:
    buffers, streams, expected = [Buffer(), Buffer()], [], []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002
        streams.append(np.random.get_state())  # noqa: NPY002
        expected.append([np.random.random(), np.random.random()])  # noqa: NPY002
    records: Any = Records()
    replay = Replay(buffers, streams, 1, 8, records)
    for number in range(4):
        replay.push(samples(number))
    assert [[each[0][0] for each in buffer.rows] for buffer in buffers] == [[0, 2], [1, 3]]
    drawn = [replay.sample() for _ in range(4)]
    assert [drawn[0::2], drawn[1::2]] == expected


def test_samples_of_all_samplers_are_one_batch() -> None:
    records: Any = Records()
    store = OwnSamples(records)
    for value in (1.0, 2.0):
        store.push(Samples([{"obs": torch.full((2,), value), "no": None}], [{}], 2))
    assert store.sample()["obs"].tolist() == [1.0, 1.0, 2.0, 2.0]
    assert store.env_steps == 4


def test_weights_travel_as_one_array_of_each_type() -> None:
    def networks() -> Any:
        return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))

    sent, got = networks(), networks()
    sent[1].num_batches_tracked += 7
    expected = {name: value.clone() for name, value in sent.state_dict().items()}
    flat = Tensors(sent, "").flat()
    assert sorted(flat) == ["torch.float32", "torch.int64"]
    with torch.no_grad():
        sent[0].weight += 1  # after the copy was taken
    Tensors(got, "").load(flat)
    for name, value in got.state_dict().items():
        assert torch.equal(value, expected[name])


def test_whole_networks_travel_unless_the_policy_alone_is_known_to_act() -> None:
    known = type("Known", (torch.nn.Module,), {"__module__": "gops.algorithm.sac"})()
    known.policy = torch.nn.Linear(1, 1)
    function = type(known)()
    function.policy = lambda obs: obs  # as of DQN, which acts with its value
    sampler = type("OffSampler", (), {"__module__": "gops.trainer.sampler.off_sampler"})
    assert acting_part(known, sampler) == "policy"
    assert acting_part(function, sampler) == acting_part(known, Sampler) == ""
    own = torch.nn.Module()
    own.policy = torch.nn.Linear(1, 1)
    assert acting_part(own, sampler) == ""


# --- options and Ray -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "trainer", "degree", "inline", "calls"),
    [
        ({}, "off_serial_trainer", 0, True, 1),
        ({}, "on_sync_trainer", 0, True, 1),
        ({"num_samplers": 2}, "on_sync_trainer", 0, False, 1),
        ({"num_samplers": 2}, "off_async_trainer", 1, False, 4),
        ({"off_policy_degree": "3"}, "off_serial_trainer", 3, False, 4),
        ({"off_policy_degree": "auto"}, "off_sync_trainer", -1, False, 4),
        ({"off_policy_degree": 0}, "off_async_trainer", 0, True, 1),
        ({"samples_per_round": 2, "other": 1}, "off_async_trainer", 1, False, 2),
    ],
)
def test_options_follow_arguments_and_trainer(
    given: dict[str, Any], trainer: str, degree: int, inline: bool, calls: int
) -> None:
    options = Options().updated(given)
    assert options.degree(trainer) == degree
    assert options.is_inline(trainer) is inline
    assert options.samples(degree, sample_batch_size=8) == calls


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"off_policy_degree": "x"}, "off_policy_degree must be a whole number, .*; got 'x'"),
        ({"off_policy_degree": -2}, "off_policy_degree must be a whole number, .*; got -2"),
        ({"off_policy_degree": True}, "off_policy_degree must be a whole number, .*; got True"),
        ({"enable_async_eval": "False"}, "enable_async_eval must be True or False; got 'False'"),
        ({"work_timeout_s": 0}, "work_timeout_s must be above 0"),
        ({"samples_per_round": 0}, "samples_per_round must be a whole number, at least 1; got 0"),
        ({"num_samplers": True}, "num_samplers must be a whole number, at least 1; got True"),
        ({"data_queue_size": 0}, "data_queue_size must be a whole number, at least 1; got 0"),
        ({"fused_optimizers": "no"}, "fused_optimizers must be True or False; got 'no'"),
        ({"num_samplers": 1.5}, "num_samplers must be"),
    ],
)
def test_wrong_options_are_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Options().updated(given)


class Thing:
    def __init__(self, index: int, **keywords: Any) -> None:
        self.index, self.keywords, self.set = index, keywords, list[Any]()

    def set_parameters(self, value: Any, *, more: Any = None) -> None:
        self.set.append((value, more))


@pytest.fixture
def ray() -> Iterator[Any]:
    with standing_in(taking_over=True):
        yield importlib.import_module("ray")


def test_actors_are_recipes_that_remember_their_calls(ray: Any) -> None:
    assert isinstance(ray, StandIn) and ray.init(address="local") is None
    actor = ray.remote(num_cpus=1)(Thing).remote(index=3, seed=5)
    actor.set_parameters.remote({"tau": 1}, more=2)
    assert isinstance(actor.recipe, Recipe)
    made = actor.recipe.make()
    assert made.index == 3 and made.keywords == {"seed": 5} and made.set == [({"tau": 1}, 2)]
    assert ray.remote(Thing).remote(index=1).recipe.make().index == 1


def test_ray_is_itself_again_outside() -> None:
    before = sys.modules.get("ray")
    with standing_in(taking_over=True):
        assert isinstance(sys.modules["ray"], StandIn)
    assert sys.modules.get("ray") is before
