"""Staging on a device that is as lazy as it may be: copies happen only when they are waited for."""

import subprocess
import sys
from functools import partial

import msgspec
import numpy as np
import pytest
import torch

from fast_core.algorithm import LearnerSetup, PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.nets_torch.staging import Staging, make_staging
from fast_core.algos.ppo.autograd import clipped_loss
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.rollouts.torch_core import Objective, TorchCore
from fast_core.algos.rollouts.torch_policy import TorchPolicy
from fast_core.testing.samples import replayed
from tests.algos.pixel_cases import pixel_batch, pixel_environment
from tests.algos.replay_cases import (
    ALL,
    changed,
    environment_for,
    make_batch,
    make_config,
    make_learner,
)
from tests.algos.rollout_cases import make_batch as collected
from tests.forms import slow_but


class LazyDevice:
    """Runs every copy as late as its events allow, and writes down what is asked of it."""

    def __init__(self):
        self.log = []
        self._queue = []
        self._done = 0

    def pinned(self, nbytes):
        return torch.full((nbytes,), 0xAB, dtype=torch.uint8)

    def empty(self, shape, dtype):
        tensor = torch.empty(shape, dtype=dtype)
        tensor.view(-1).view(torch.uint8).fill_(0xCD) if tensor.numel() else None
        return tensor

    def copy_in(self, target, source):
        self._queue.append((target, source))
        self.log.append(("in", source.data_ptr()))
        return LazyEvent(self, len(self._queue))

    def use(self, tensor, event):
        self.log.append(("use", event.place))
        self.run_to(event.place)

    def copy_out(self, target, source):
        self._queue.append((target, source))
        self.log.append(("out", target.data_ptr()))
        return LazyEvent(self, len(self._queue))

    def run_to(self, place):
        while self._done < place:
            target, source = self._queue[self._done]
            target.copy_(source)
            self._done += 1


class LazyEvent:
    def __init__(self, device, place):
        self._device, self.place = device, place

    def query(self):
        return self._device._done >= self.place

    def synchronize(self):
        self._device.log.append(("synchronize", self.place))
        self._device.run_to(self.place)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64", "bool"])
@pytest.mark.parametrize("count", [0, 1, 7, 64, 65, 1000])
def test_arrays_arrive_whole_through_a_ring_of_small_blocks(dtype, count):
    staging = Staging(LazyDevice(), block_bytes=64, blocks=2)
    array = np.random.default_rng(0).integers(0, 2, (count, 3)).astype(dtype)
    got = staging.upload(array)
    assert got.shape == array.shape
    np.testing.assert_array_equal(got.numpy(), array)
    assert got.numpy().dtype == array.dtype


def test_no_block_is_filled_again_before_the_device_has_read_it():
    device = LazyDevice()
    staging = Staging(device, block_bytes=4, blocks=2)
    staging.upload(np.arange(5, dtype=np.int32))
    copies = [place for kind, place in device.log if kind == "in"]
    assert copies[0] == copies[2] == copies[4] and copies[1] == copies[3]
    kinds = [kind for kind, _ in device.log]
    assert kinds == ["in", "in", *["synchronize", "in"] * 3, "use"]
    waited = [place for kind, place in device.log if kind == "synchronize"]
    assert waited == [1, 2, 3], "for the copy that last read this block"


def test_tensor_is_used_after_its_last_block_only():
    device = LazyDevice()
    staging = Staging(device, block_bytes=8, blocks=3)
    staging.upload(np.arange(5, dtype=np.int32))
    assert device.log[-1] == ("use", 3)


def test_array_may_change_once_upload_returns():
    device = LazyDevice()
    array = np.arange(4, dtype=np.float32)
    first = Staging(device, block_bytes=8, blocks=4).upload(array)
    array[:] = -1
    assert first.tolist() == [0, 1, 2, 3]


def test_arrays_that_nobody_may_write_to_are_uploaded_without_a_warning():
    array = np.arange(4, dtype=np.float32)
    array.flags.writeable = False
    assert Staging(LazyDevice()).upload(array).tolist() == [0, 1, 2, 3]


def test_arrays_that_are_not_contiguous_are_uploaded_in_their_order():
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T
    got = Staging(LazyDevice(), block_bytes=16).upload(array)
    np.testing.assert_array_equal(got.numpy(), array)


def test_download_waits_for_its_copy():
    device = LazyDevice()
    staging = Staging(device)
    got = staging.download(torch.arange(6, dtype=torch.float32).reshape(2, 3))
    assert not got.there and got.array.tolist() != [[0, 1, 2], [3, 4, 5]]
    assert got.wait().tolist() == [[0, 1, 2], [3, 4, 5]] and got.there
    assert [kind for kind, _ in device.log] == ["out", "synchronize"]


def test_cpu_needs_no_staging():
    assert make_staging(torch.device("cpu")) is None


PICTURES = EnvironmentSpec(
    "Pictures-v0",
    SpaceSpec("box", (36, 36), "uint8", low=(0.0,), high=(255.0,)),
    SpaceSpec("discrete", (), "int64", n=3),
)


def test_learner_behind_staging_trains_as_the_plain_one():
    config = PPOConfig(minibatch_size=32)
    setup = LearnerSetup(seed=0, shards=2, envs_per_shard=4, steps=8)
    plain, staged = (config.make_algorithm(PICTURES, setup) for _ in range(2))
    device = LazyDevice()
    staged._core = TorchCore(
        config, config.shape(PICTURES), staged._core.parameters().copy(), setup,
        Objective(partial(clipped_loss, config)),
        staging=Staging(device, block_bytes=1000, blocks=2),
    )  # fmt: skip
    for seed in range(2):
        batch = collected(config, PICTURES, plain, seed=seed)
        assert plain.update(batch) == staged.update(batch)
    pairs = zip(plain.policy_parameters(), staged.policy_parameters(), strict=True)
    assert all((a == b).all() for a, b in pairs)
    assert {kind for kind, _ in device.log} == {"in", "use", "out", "synchronize"}


def test_policy_behind_staging_acts_as_the_plain_one():
    config = PPOConfig()
    shape = config.shape(PICTURES)
    parameters = config.make_algorithm(
        PICTURES, LearnerSetup(seed=0, shards=1, envs_per_shard=8, steps=64)
    ).policy_parameters()
    staging = Staging(LazyDevice(), block_bytes=1000, blocks=2)
    outputs = []
    for one in (None, staging):
        policy = TorchPolicy(shape, PICTURES, None, PolicySetup("torch"), one)
        policy.load(parameters)
        obs = np.random.default_rng(0).integers(0, 256, (5, 36, 36), dtype=np.uint8)
        outputs.append(policy.act(obs, noise=np.full(5, 0.5, np.float32), explore=True))
    assert (outputs[0].action == outputs[1].action).all()
    assert (outputs[0].behaviour_log_prob == outputs[1].behaviour_log_prob).all()


@pytest.mark.slow
def test_learning_on_the_cpu_neither_touches_cuda_nor_imports_the_compiler():
    code = (
        "import sys, torch, numpy as np;"
        "import fast_core.algos.ppo.autograd, fast_core.algos.rollouts.torch_policy;"
        "import fast_core.algos.nets_torch.staging;"
        "import fast_core.nodes.learn.optimizer, fast_core.nodes.collect.env;"
        "import fast_core.launcher.processes.node_process;"
        "from fast_core.algos.ppo.config import PPOConfig;"
        "from fast_core.algorithm import LearnerSetup, PolicySetup;"
        "from fast_core.algorithm.spec import EnvironmentSpec as E, SpaceSpec as S;"
        "e = E('x', S('box', (36, 36), 'uint8', low=(0.,), high=(255.,)),"
        " S('discrete', (), 'int64', n=2));"
        "c = PPOConfig(minibatch_size=4);"
        "l = c.make_algorithm(e, LearnerSetup(seed=0, shards=1, envs_per_shard=1, steps=8));"
        "p = c.make_policy(e, PolicySetup('torch')); p.load(l.policy_parameters());"
        "p.act(np.zeros((2, 36, 36), np.uint8), noise=np.zeros(2), explore=True);"
        "assert not torch.cuda.is_initialized();"
        "assert not torch.cuda._is_in_bad_fork();"
        "l._core._flat.grad.fill_(1.0); l._core.apply(0.1, 1.0);"
        "assert 'torch._dynamo' not in sys.modules"  # as long to import as all of torch
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.fixture
def lazy(monkeypatch):
    """Learners in torch that are built from here on are behind staging; what it was asked."""
    device = LazyDevice()
    staging = Staging(device, block_bytes=5000, blocks=2)
    monkeypatch.setattr("fast_core.algos.replay.torch_vectors.make_staging", lambda _: staging)
    return device


def replay_pair(name, environment, monkeypatch, **changes):
    """Equal learners, the first without staging."""
    config = make_config(name, backend="torch", **changes)
    with monkeypatch.context() as context:
        context.setattr("fast_core.algos.replay.torch_vectors.make_staging", lambda _: None)
        plain = make_learner(config, environment)
    return plain, make_learner(config, environment)


QUICK = [
    *((name, {}, "numbers") for name in ALL),
    ("td3", {}, "stacked"),
    ("dqn", {"double": False, "dueling": False}, "numbers"),
    ("sac", {"normalize_observations": True}, "composite"),  # by what is newest when taken
]


@pytest.mark.parametrize(
    ("name", "changes", "seen"),
    slow_but(QUICK, [*QUICK, *((name, {}, "composite") for name in ("sac", "dsact", "dqn"))]),
)
def test_replay_learner_behind_staging_trains_as_the_plain_one(
    lazy, monkeypatch, name, changes, seen
):
    environment = environment_for(name) if seen == "numbers" else pixel_environment(name, seen)
    draw = make_batch if seen == "numbers" else pixel_batch
    plain, staged = replay_pair(name, environment, monkeypatch, **changes)
    batches = [draw(environment, seed=seed) for seed in range(4)]
    for batch, later in zip(batches, [*batches[1:], None], strict=True):
        if later is not None:
            staged.prefetch(later)
        ours, theirs = staged.update(batch), plain.update(batch)
        np.testing.assert_allclose(ours.priority, theirs.priority, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(staged.networks(), plain.networks(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "seen"), [("sac", "numbers"), ("dqn", "stacked")])
def test_sequences_behind_staging_train_as_plain_ones(lazy, monkeypatch, name, seen):
    """Errors are of each batch's own sequences, though the next one is sent before they are."""
    environment = environment_for(name) if seen == "numbers" else pixel_environment(name, seen)
    given = {"recurrent": "gru", "recurrent_size": 4, "sequence_length": 4, "burn_in": 2}
    plain, staged = replay_pair(name, environment, monkeypatch, **given)
    batches = [replayed(plain.settings, environment, 5, seed) for seed in range(4)]
    for batch, later in zip(batches, [*batches[1:], None], strict=True):
        if later is not None:
            staged.prefetch(later)
        ours, theirs = staged.update(batch), plain.update(batch)
        np.testing.assert_allclose(ours.priority, theirs.priority, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(staged.networks(), plain.networks(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_next_batch_is_copied_while_the_device_sees_this_one(lazy, monkeypatch):
    """Its copies begin before the first result is waited for, and nothing waits for them."""
    environment = pixel_environment("dqn")
    _, learner = replay_pair("dqn", environment, monkeypatch)
    first, second = (pixel_batch(environment, seed=seed) for seed in range(2))
    learner.prefetch(second)
    learner.update(first)
    kinds = [kind for kind, _ in lazy.log]
    out = kinds.index("out")
    own = 2 + 2 * -(-first.obs.nbytes // 5000)  # actions, numbers of rows, pictures
    assert kinds[:out].count("in") >= 2 * own, "both batches before the first result"
    used = [place for kind, place in lazy.log if kind == "use"]
    copies = [kind for kind, _ in lazy.log if kind in ("in", "out")]
    theirs = range(own + 1, 2 * own + 1)
    assert copies[: 2 * own] == ["in"] * 2 * own
    assert not set(used) & set(theirs), "the second batch is not used by the first update"
    del lazy.log[:]
    learner.update(second)
    kinds = [kind for kind, _ in lazy.log]
    assert kinds[0] == "use", "it is there: nothing is copied before it is used"
    assert set(theirs) & {place for kind, place in lazy.log if kind == "use"}


@pytest.mark.parametrize("changes", [{}, {"network": "tests.algos.own_networks:Plain"}])
def test_batch_that_was_sent_before_its_origin_was_known_is_sent_again(lazy, monkeypatch, changes):
    environment = environment_for("sac")
    doubles = msgspec.structs.replace(environment.observation, dtype="float64")
    environment = msgspec.structs.replace(environment, observation=doubles)
    plain, staged = replay_pair(
        "sac", environment, monkeypatch, normalize_observations=True, **changes
    )
    drawn = [make_batch(environment, seed=seed) for seed in range(3)]
    batches = [changed(b, obs=b.obs + 5.4e9, next_obs=b.next_obs + 5.4e9) for b in drawn]
    for batch, later in zip(batches, [*batches[1:], None], strict=True):
        if later is not None:
            staged.prefetch(later)
        ours, theirs = staged.update(batch), plain.update(batch)
        np.testing.assert_allclose(ours.priority, theirs.priority, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["sac", "dqn"])
def test_step_is_begun_without_waiting_and_finished_when_the_device_is(lazy, monkeypatch, name):
    environment = environment_for(name)
    plain, staged = replay_pair(name, environment, monkeypatch)
    for seed in range(3):
        batch = make_batch(environment, seed=seed)
        staged.begin(batch)
        first = lazy.log[-1]
        assert first[0] == "out" and staged.finished() is None and lazy.log[-1] == first
        lazy.run_to(len(lazy._queue))
        report, wanted = staged.finished(), plain.update(batch)
        assert report.updates == 1 and staged.updates == seed + 1
        np.testing.assert_allclose(report.priority, wanted.priority, rtol=1e-5, atol=1e-6)


def test_announced_batch_that_is_not_taken_is_forgotten(lazy, monkeypatch):
    environment = pixel_environment("sac")
    plain, staged = replay_pair("sac", environment, monkeypatch)
    first, second, third = (pixel_batch(environment, seed=seed) for seed in range(3))
    staged.prefetch(second)
    for batch in (first, third):
        ours, theirs = staged.update(batch), plain.update(batch)
        np.testing.assert_allclose(ours.priority, theirs.priority, rtol=1e-5, atol=1e-6)
