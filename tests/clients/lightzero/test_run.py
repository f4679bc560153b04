"""LightZero's loop under `AsyncTrainer`, with stand-ins for its objects."""

from __future__ import annotations

import copy
import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from fast_core.clients.lightzero.hosts import Begun, Evaluated, Place
from fast_core.clients.lightzero.library import LightZero
from fast_core.clients.lightzero.options import Options
from fast_core.clients.lightzero.run import Bench, Limits, attend, train
from fast_core.clients.lightzero.snapshots import Snapshots
from fast_core.errors import NodeFailed
from tests.clients.lightzero.stand_in import StandIn, config
from tests.forms import slow_but
from tests.process.harness import GONE_WITHIN_S, eventually, processes

LIMITS = Limits(max_env_step=100, max_train_iter=10**10)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before, going = children(), {*threading.enumerate()}
    yield
    assert {*threading.enumerate()} <= going, "threads of other tests may go on"
    eventually(lambda: children() == before, "no process is left", GONE_WITHIN_S)


def children() -> list[int]:
    return [each.pid for each in processes() if each.parent == os.getpid()]


def own_loop(library: StandIn, cfg: Any, limits: Limits) -> None:
    """LightZero's, written down from what its entries do."""
    policy = library.policy(cfg, None)
    writer, learner = library.writer(cfg), None
    learner = library.learner(cfg, policy, writer)
    buffer = library.buffer(cfg)
    collector = library.collector(cfg, policy, None, writer, 0)
    evaluator = library.evaluator(cfg, policy, None, writer)
    learner.call_hook("before_run")
    if cfg.policy.random_collect_episode_num > 0:
        buffer.push_game_segments(library.collect_at_random(cfg, policy, collector, None))
        buffer.remove_oldest_data_to_fit()
    if library.evaluates_first:
        evaluator.eval(learner.save_checkpoint, learner.train_iter, collector.envstep)
    epoch = 0
    often, unizero = cfg.policy.buffer_reanalyze_freq, library._is_unizero
    while True:
        library.log_buffer(learner.train_iter, buffer, writer)
        given = library.collect_kwargs(cfg, learner.train_iter, collector.envstep)
        if evaluator.should_eval(learner.train_iter):
            stop, _ = evaluator.eval(learner.save_checkpoint, learner.train_iter, collector.envstep)
            if stop:
                break
        data = collector.collect(train_iter=learner.train_iter, policy_kwargs=given)
        updates = library.updates(cfg, data)
        buffer.push_game_segments(data)
        buffer.remove_oldest_data_to_fit()
        enough = buffer.get_num_of_transitions() > 8
        every = int(1 / often) if unizero else 1 // often
        due = epoch % every == 0 and (epoch > 0 or not unizero) if often < 1 else False
        if library.reanalyzes and due and enough:
            buffer.reanalyze_buffer(8, policy)
        for i in range(updates):
            if library.reanalyzes and often >= 1 and i % (updates // often) == 0 and enough:
                buffer.reanalyze_buffer(8, policy)
            if buffer.get_num_of_transitions() <= cfg.policy.batch_size:
                break
            if unizero and collector.envstep <= cfg.policy.train_start_after_envsteps:
                break
            batch = buffer.sample(cfg.policy.batch_size, policy)
            if unizero:
                if not library.reanalyzes and i % 20 == 0:
                    policy.recompute_pos_emb_diff_and_clear_cache()
                batch.append(learner.train_iter)
            told = learner.train(batch, collector.envstep)
            if cfg.policy.use_priority:
                buffer.update_priority(batch, told[0]["value_priority_orig"])
        if unizero:
            policy.recompute_pos_emb_diff_and_clear_cache()
        epoch += 1
        if collector.envstep >= limits.max_env_step or learner.train_iter >= limits.max_train_iter:
            break
    learner.call_hook("after_run")


@pytest.mark.parametrize(
    ("entry", "policy"),
    [
        ("train_muzero", {}),
        ("train_muzero", {"update_per_collect": None, "random_collect_episode_num": 1}),
        ("train_muzero", {"batch_size": 17, "use_priority": False, "stop_value": 8}),
        ("train_muzero_segment", {"update_per_collect": 5, "buffer_reanalyze_freq": 2}),
        ("train_muzero_segment", {"buffer_reanalyze_freq": 1 / 3, "batch_size": 9}),
        ("train_unizero", {"update_per_collect": 41}),
        ("train_unizero_segment", {"buffer_reanalyze_freq": 1 / 3}),
    ],
)
@pytest.mark.parametrize("limits", [LIMITS, Limits(max_env_step=10**10, max_train_iter=21)])
def test_without_asynchronous_training_it_is_the_own_loop_call_for_call(
    entry: str, policy: dict[str, Any], limits: Limits
) -> None:
    own: Any = StandIn(entry)
    ours: Any = StandIn(entry)
    own_loop(own, config(**policy), limits)
    train(ours, config(**policy), Options(enable_async_training=False), limits=limits)
    assert ours.calls == own.calls and len(own.calls) > 40
    assert ours.made["writer"].scalars == own.made["writer"].scalars


BACKENDS = slow_but(["thread"], ["thread", "process"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_asynchronous_training_acts_with_bounded_age_and_saves_what_it_evaluated(
    backend: Any,
) -> None:
    library: Any = StandIn()
    cfg = config(random_collect_episode_num=1)
    options = Options(async_backend=backend, off_policy_degree=1)
    policy = train(library, cfg, options, limits=LIMITS)
    learner, buffer = library.made["learner"], library.made["buffer"]
    rounds = learner.train_iter // 2
    assert policy.version == learner.train_iter and rounds >= 10
    collected = [pushed for name, *pushed in library.calls if name == "push"]
    assert len(collected) == rounds + 1  # nothing is dropped; and what was played at random
    acted = [version for _, version in buffer.rows]
    assert acted == sorted(acted) and acted[-1] >= 2 * (rounds - 2)  # the degree and one
    assert [rest[0] for name, *rest in library.calls if name == "train"][-1] == len(buffer.rows)
    # Each saved state is whole, of one version, and the one that was evaluated.
    assert library.saved
    for path, state in library.saved:
        assert path == "./run/ckpt/ckpt_best.pth.tar"
        assert int(state["model"]["w"]) == state["optimizer"]["steps"] == state["last_iter"]
    scalars = library.made["writer"].scalars
    scores = [(score, at) for name, score, at in scalars if name == "evaluator/score"]
    assert scores and all(score == at for score, at in scores)
    assert [each[1] for each in scalars if each[0] == "collector/envstep"][-1] == len(buffer.rows)
    hooks = [rest for name, *rest in library.calls if name == "hook"]
    assert hooks == [["before_run"], ["after_run"]]
    assert "asynchronous training ended" in learner.said[-1]
    if backend == "thread":
        assert library.made["collector_0"].closed and library.made["evaluator"].closed


@pytest.mark.parametrize("backend", BACKENDS)
def test_stop_value_ends_the_run(backend: Any) -> None:
    library: Any = StandIn()
    options = Options(async_backend=backend, num_collectors=2, enable_async_eval=False)
    limits = Limits(max_env_step=10**10, max_train_iter=10**10)
    train(library, config(stop_value=12), options, limits=limits)
    learner = library.made["learner"]
    assert "the evaluator said stop" in learner.said[-1]
    ranks = {rank for rank, _ in library.made["buffer"].rows}
    assert ranks == {0, 1} and 12 <= learner.train_iter <= 24


@pytest.mark.parametrize("backend", BACKENDS)
def test_error_of_a_collector_comes_with_traceback_and_place(backend: Any) -> None:
    options = Options(async_backend=backend, enable_async_debug_log=True)
    library: Any = StandIn()
    with pytest.raises(NodeFailed, match="collector-0") as failed:
        train(library, config(raises="collector"), options, limits=LIMITS)
    assert "stand_in.py" in str(failed.value)
    assert ("(process " in str(failed.value)) == (backend == "process")
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    assert any("round 0: version 2" in each for each in library.made["learner"].said)
    assert ("hook", "after_run") not in library.calls


def test_best_is_saved_as_it_was_evaluated_though_the_learner_has_gone_on() -> None:
    library: Any = StandIn()
    cfg = config()
    policy = library.policy(cfg, None)
    learner = library.learner(cfg, policy, None)
    bench = Bench(library, cfg, policy, None, learner, library.buffer(cfg))
    snapshots = Snapshots(lambda: copy.deepcopy(policy.learn_mode.state_dict()))
    snapshots.want(0)
    attend(bench, snapshots, 0, None)
    library.remember(policy, 1, 0)
    learner.train([], 8)
    attend(bench, snapshots, 0, (False, Evaluated({}, True, 0, 5, [])))
    ((_, state),) = library.saved
    assert int(state["model"]["w"]) == 0 and (state["last_iter"], state["last_step"]) == (0, 5)


def test_processes_share_the_cores_and_the_callers_threads_come_back() -> None:
    library: Any = StandIn()
    Place(library, config(), None, Begun(), 3, None).collector(0, 1)
    assert library.threads == [3]  # for as long as the process lives
    train(library, config(), Options(async_backend="thread"), limits=LIMITS)
    assert library.threads[1] >= 1 and library.threads[2:] == [7]
    real, before = LightZero("train_muzero"), torch.get_num_threads()
    assert real.set_threads(before + 1) == before
    gc.collect()
    assert real.set_threads(before) == before + (not os.environ.get("OMP_NUM_THREADS"))
