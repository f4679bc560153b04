"""What is read of a configuration, what is carried between processes, and what is kept."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from fast_core.clients.lightzero.hosts import Collection
from fast_core.clients.lightzero.options import Options, read_options
from fast_core.clients.lightzero.recorder import Recorder, replay
from fast_core.clients.lightzero.snapshots import Snapshots
from fast_core.errors import ConfigError
from tests.clients.lightzero.stand_in import Writer


def test_missing_keys_mean_defaults_and_arguments_win() -> None:
    assert read_options({"batch_size": 3}, {}) == Options()
    policy = {"enable_async_training": True, "data_queue_size": 20, "off_policy_degree": 5}
    changes = {"off_policy_degree": "-1", "enable_async_eval": None}
    options = read_options(policy, changes)
    assert options == Options(data_queue_size=20, off_policy_degree=-1)
    assert read_options({"enable_async_training": False}, {}).is_own_loop


@pytest.mark.parametrize(
    ("policy", "changes", "said"),
    [
        ({"off_policy_degre": 1}, {}, "did you mean 'off_policy_degree'?"),
        ({"off_policy_degree": -2}, {}, "at least 0, or -1 or 'auto'.*got -2"),
        ({}, {"off_policy_degree": "fast"}, "off_policy_degree.*got 'fast'"),
        ({"data_queue_size": 0}, {}, "policy.data_queue_size.*at least 1; got 0"),
        ({"enable_async_eval": "yes"}, {}, "enable_async_eval.*True or False; got 'yes'"),
        ({}, {"async_backend": "ray"}, "async_backend.*one of process, thread; got 'ray'"),
        ({}, {"backend": "thread"}, "'backend' is none of enable_async_training"),
        ({"num_collector_actors": 2}, {}, "num_collector_actors.*nearest is num_collectors"),
        ({"max_policy_lag": 2}, {}, "max_policy_lag.*nearest is off_policy_degree"),
        ({"eval_offline": True}, {}, "eval_offline=True can't be followed.*enable_async_eval"),
        ({"multi_gpu": True}, {}, "multi_gpu=True can't be followed.*LightZero's own entry"),
        ({"periodic_ckpt_keep_last": 3}, {}, "periodic_ckpt_keep_last=3 can't be followed"),
        ({"use_wandb": True}, {}, "use_wandb=True can't be followed.*wandb sync"),
    ],
)
def test_what_cannot_be_followed_is_named_with_the_nearest_way(
    policy: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        read_options(policy, changes)


def test_recorded_calls_are_made_once_where_the_file_is() -> None:
    recorder, writer = Recorder(), Writer()
    recorder.add_scalar("a", 1.0, 2)
    recorder.flush()
    calls = pickle.loads(pickle.dumps(recorder.take()))
    replay(calls, writer)
    replay(calls, None)
    assert writer.scalars == [("a", 1.0, 2)] and recorder.take() == []
    assert not hasattr(recorder, "scalar_dict")


def test_arrays_of_another_process_own_their_memory() -> None:
    packed = Collection([[np.arange(9)], []], 9, 2, None, {}).pack()
    given = pickle.loads(pickle.dumps(packed, 5)).unpack()
    assert given.data[0][0].flags.owndata and not given.packed and given.unpack() is given


def test_snapshots_keep_what_is_evaluated_and_what_may_be_next() -> None:
    now, standing, taken = [0], [(False, None)], []

    def take() -> dict[str, int]:
        taken.append(now[0])
        return {"n": now[0]}

    snapshots: Any = Snapshots(take)
    snapshots.standing = lambda: standing[0]
    for version in range(8):
        now[0] = version
        snapshots.publish(version)
        if version == 1:
            snapshots.want(1)
            standing[0] = (True, None)
        if version == 3:  # begins with weights that newer ones are about to replace
            standing[0] = (True, 2)
        if version == 6:  # what is wanted has begun
            standing[0] = (False, 2)
    assert taken == [1, 2, 3, 4, 5, 6] and sorted(snapshots._states) == [2, 5, 6]
    assert snapshots.of(2) == {"n": 2}
