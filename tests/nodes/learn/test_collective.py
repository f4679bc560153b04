"""Which library averages, and what torch's does in a group of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
import torch.distributed as dist

from fast_core.errors import ConfigError, TransportError
from fast_core.nodes.learn import collective
from fast_core.nodes.learn.collective import CollectiveExchange, chosen_collective
from fast_core.run.memory import RunMemory
from fast_core.run.parts import parts_of
from fast_core.run.plan import RunPlan
from tests.closing import until_the_end
from tests.nodes.replicas import plan_for

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="torch without gloo")


def plan_with(folder: Path, device: str, asked: str, *, mode: str = "process") -> RunPlan:
    plan = plan_for(folder, "td3", 2, collective=asked)
    optimizer = msgspec.structs.replace(plan.config.nodes.optimizer, device=device)
    nodes = msgspec.structs.replace(plan.config.nodes, optimizer=optimizer)
    config = msgspec.structs.replace(plan.config, nodes=nodes, mode=mode)
    return RunPlan(config, plan.environment, plan.run_directory, parts_of(config, 1), "numpy")


@pytest.mark.parametrize(
    ("device", "asked", "gpus", "mode", "chosen"),
    [
        ("cpu", "shared", 0, "process", "shared"),
        ("cpu", "gloo", 0, "process", "gloo"),
        ("cuda", "auto", 2, "process", "nccl"),
        ("cuda", "auto", 2, "inline", "shared"),
        ("cuda", "auto", 1, "process", "shared"),
        ("cuda:0", "auto", 2, "process", "shared"),
        ("cuda", "nccl", 2, "process", "nccl"),
    ],
)
def test_auto_is_nccl_where_each_has_a_gpu_of_its_own(
    tmp_path: Path, monkeypatch, device, asked, gpus, mode, chosen
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert chosen_collective(plan_with(tmp_path, device, asked, mode=mode)) == chosen


@pytest.mark.parametrize(("device", "gpus"), [("cuda", 1), ("cuda:0", 4), ("cpu", 4)])
def test_nccl_without_a_gpu_for_each_is_refused(tmp_path: Path, monkeypatch, device, gpus) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    with pytest.raises(ConfigError, match=r"needs .* a GPU for each of the 2 optimizers"):
        chosen_collective(plan_with(tmp_path, device, "nccl"))


# --- a group of one, in this process -------------------------------------------------------------


class Single:
    """An exchange that believes to have one optimizer, whose reduction gives twice its vector."""

    def __init__(self, folder: Path) -> None:
        plan = plan_for(folder, "td3", 2, collective="gloo")
        self.memory = until_the_end(RunMemory.create(plan))
        self.exchange: Any = CollectiveExchange.__new__(CollectiveExchange)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunPlan, "optimizers", property(lambda self: 1))
            self.exchange.__init__(plan, self.memory, 0, "gloo")
        until_the_end(self.exchange)
        self.bell = self.memory.doorbell("optimizer-0")
        self.folder = Path(plan.run_directory)

    def reduced(self) -> Any:
        """The result, waiting on the doorbell as a node does."""
        while True:
            seen = self.bell.value()
            found = self.exchange.collect()
            if found is not None:
                return found
            assert self.bell.wait(seen, 20.0), "torch's thread did not ring"


@pytest.fixture
def single(tmp_path: Path, monkeypatch) -> Single:
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "")  # so that it is as before afterwards
    return Single(tmp_path)


def test_vector_comes_back_with_what_was_said_of_it(single: Single) -> None:
    digest = bytes(range(32))
    for step, length in enumerate((5000, 4096, 7), start=1):
        gradient = np.arange(length, dtype=np.float32)[: single.exchange._vector.size - 3]
        single.exchange.offer(step, gradient, digest if step == 1 else b"")
        averaged = single.reduced()
        np.testing.assert_array_equal(averaged.gradient, gradient)
        assert averaged.digests == ((digest,) if step == 1 else (b"",))


def test_vector_on_a_device_of_its_own_is_copied_there_and_back(single: Single) -> None:
    """As with NCCL, whose work is waited for; another part of the host's memory stands for it."""
    exchange = single.exchange
    exchange._reduced, exchange._backend = torch.zeros_like(exchange._host), "nccl"
    for step, value in enumerate((3.0, 5.0), start=1):
        gradient = np.full(9, value, np.float32)
        exchange.offer(step, gradient, b"")
        assert exchange._reduced[0] == value, "it is there before the reduction begins"
        exchange._works[0].wait()
        exchange._reduced.mul_(2.0)  # what another one would have added
        exchange._count = 2
        averaged = exchange.collect()
        assert averaged is not None
        np.testing.assert_array_equal(averaged.gradient[:9], gradient)
        exchange._count = 1


def test_no_batch_is_no_vector(single: Single) -> None:
    single.exchange.offer(1, np.ones(4, np.float32), b"")
    assert single.reduced().gradient is not None
    single.exchange.offer(2, None, b"")
    assert single.reduced().gradient is None


def test_sum_of_other_lengths_is_refused(single: Single) -> None:
    single.exchange.offer(1, np.ones(4, np.float32), b"")
    single.exchange._length = 5
    with pytest.raises(TransportError, match="one length at step 1; optimizer-0 has 5"):
        single.reduced()


def test_it_is_bound_to_the_loopback_and_leaves_no_file(single: Single, monkeypatch) -> None:
    assert os.environ["GLOO_SOCKET_IFNAME"] in ("lo", "lo0")
    assert list(single.folder.glob("optimizers-*"))
    single.exchange.close()
    assert not list(single.folder.glob("optimizers-*"))
    assert not dist.is_initialized()


def test_failed_reduction_is_silent_while_the_run_may_end_for_its_cause(
    single: Single, monkeypatch
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(collective.time, "monotonic", lambda: now_s[0])

    def fails() -> None:
        raise RuntimeError("Connection closed by peer")

    single.exchange._begin(fails)
    assert single.exchange.collect() is None
    now_s[0] += collective.FAREWELL_S - 0.1
    assert single.exchange.collect() is None
    now_s[0] += 0.2
    with pytest.raises(TransportError, match=r"step 0 failed.*Connection closed by peer.*shared"):
        single.exchange.collect()


def test_one_who_never_hears_where_to_meet_says_so(tmp_path: Path, monkeypatch) -> None:
    plan = plan_for(tmp_path, "td3", 2, collective="gloo")
    memory = RunMemory.create(plan)
    monkeypatch.setattr(collective, "MEETING_S", -1.0)
    with pytest.raises(TransportError, match=r"optimizer-1 waited .* for optimizer-0"):
        CollectiveExchange(plan, memory, 1, "gloo")
    memory.close()
