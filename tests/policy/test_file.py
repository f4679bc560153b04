"""The policy file: what is in it, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fast_core import __version__
from fast_core.algorithm import ORIGIN
from fast_core.errors import CheckpointError, ConfigError
from fast_core.policy import load_policy
from fast_core.policy.file import (
    BareFile,
    BestPolicy,
    Origin,
    PolicyFile,
    best_policy_path,
    describe,
    read_origin,
    read_policy,
    write_policy,
)
from tests.launcher.trained_run import make_trained
from tests.nodes.stage import CARTPOLE, make_config


def a_policy(version: int = 1, mean_return: float = 5.0) -> PolicyFile:
    config = make_config()
    fields = config.algorithm.policy_fields(CARTPOLE)
    arrays = [np.full(field.shape, index, np.float32) for index, field in enumerate(fields)]
    origin = Origin(
        run="toy/1", version=version, env_steps=10, mean_return=mean_return, std_return=1.0
    )
    return describe(config, CARTPOLE, arrays, origin)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write_policy(tmp_path / "p", a_policy())
    return tmp_path / "p"


def test_any_reader_of_messagepack_finds_everything_by_name(written: Path) -> None:
    found = msgspec.msgpack.decode(written.read_bytes())
    assert list(found) == ["fastloop_policy", "sha256", "policy"]
    policy = found["policy"]
    assert policy["algorithm"]["name"] == "ppo"
    assert policy["algorithm"]["observation_clip"] == 10.0, "normalisation"
    assert policy["environment"]["action"]["n"] == 2
    assert policy["environment"]["frames"] == 1
    assert policy["origin"]["run"] == "toy/1" and policy["origin"]["fastloop"] == __version__
    by_name = {each["name"]: each for each in policy["parameters"]}
    assert by_name["observation.mean"]["shape"] == [4]
    weight = by_name["policy.0.weight"]
    assert (np.frombuffer(weight["data"], weight["dtype"]).reshape(weight["shape"]) == 0).all()
    assert read_policy(written) == a_policy()


def test_what_is_cut_short_is_refused(written: Path) -> None:
    data = written.read_bytes()
    for size in (0, 1, 17, 30, 80, len(data) // 2, len(data) - 1):
        written.write_bytes(data[:size])
        with pytest.raises(CheckpointError, match=f"the policy in {written}.*(damaged|empty)"):
            load_policy(written)
    written.write_bytes(data + b"\0")
    with pytest.raises(CheckpointError, match="damaged"):
        load_policy(written)


def test_a_changed_byte_anywhere_is_refused(written: Path) -> None:
    data = bytearray(written.read_bytes())
    rng = np.random.default_rng(0)
    for place in [*range(60), *rng.integers(60, len(data), 200).tolist()]:
        data[place] ^= 1
        written.write_bytes(data)
        with pytest.raises(CheckpointError, match=f"the policy in {written}"):
            read_policy(written)
        data[place] ^= 1


def test_what_is_something_else_is_refused(written: Path) -> None:
    others = (b"PK\x03\x04 a zip file", b"\x93NUMPY", b"name: my_run\n", msgspec.msgpack.encode([]))
    for data in (*others, msgspec.msgpack.encode({"version": 1})):
        written.write_bytes(data)
        with pytest.raises(CheckpointError, match=r"it is no policy of FastLoop, or damaged"):
            load_policy(written)


def test_a_newer_format_is_refused_whatever_is_in_it(written: Path) -> None:
    newer = {"fastloop_policy": 9, "checksum": 5, "parts": [1, 2]}
    written.write_bytes(msgspec.msgpack.encode(newer))
    with pytest.raises(CheckpointError, match=r"has format 9, this FastLoop \(.*\) reads up to 1"):
        load_policy(written)


def test_what_is_not_there_says_what_may_be_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"no policy at '.*nowhere'.*holds no folder\. Name a run"
    ):
        load_policy(tmp_path / "nowhere")
    for source in (None, 5):
        with pytest.raises(ConfigError, match=f"takes the path of a run.*got {source}"):
            load_policy(source)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"no run at .*this folder holds no folder"):
        load_policy(tmp_path)


def test_best_policy_is_replaced_only_by_one_as_good(tmp_path: Path) -> None:
    path = tmp_path / "best"
    best = BestPolicy(path)
    assert best.offer(a_policy(1, 5.0))
    assert not best.offer(a_policy(2, 4.0))
    assert not best.offer(a_policy(3, float("nan")))
    assert best.offer(a_policy(4, 5.0)), "the later one of two equals"
    best.write()
    assert read_origin(path).version == 4
    again = BestPolicy(path)
    assert not again.offer(a_policy(5, 4.9)), "also after a restart"


def test_a_file_of_before_origins_and_units_acts_as_it_did(tmp_path: Path) -> None:
    config = make_config()
    doubles = msgspec.structs.replace(CARTPOLE.observation, dtype="float64")
    environment = msgspec.structs.replace(CARTPOLE, observation=doubles)
    fields = config.algorithm.policy_fields(environment)
    assert fields[-1].name == ORIGIN
    arrays = [np.full(field.shape, 1e9, np.float32) for field in fields]
    origin = Origin(run="toy/1", version=1, env_steps=10)
    policy = describe(config, environment, arrays, origin)
    later = ("center_observations", "normalize_actions")
    algorithm = {k: v for k, v in policy.algorithm.items() if k not in later}
    old = msgspec.structs.replace(
        policy, algorithm=algorithm, parameters=policy.parameters[: len(fields) - 1]
    )
    write_policy(tmp_path / "old", old)
    loaded = load_policy(tmp_path / "old")
    assert [each.name for each in loaded.file.parameters] == [f.name for f in fields[:-1]]
    assert [getattr(loaded.config, key) for key in later] == [False, False]
    assert loaded(np.zeros(4))[0] in (0, 1)


def bare(run: Path) -> bytes:
    """The run's best policy as runs wrote it before."""
    policy = read_policy(best_policy_path(run))
    assert isinstance(policy, PolicyFile)
    data = b"".join(each.data for each in policy.parameters)
    return msgspec.msgpack.encode(BareFile(7, 448, 12.5, 0.5, data))


def test_a_bare_file_is_read_through_its_run_and_written_anew(tmp_path: Path) -> None:
    run = make_trained(tmp_path, "CartPole-v1").path
    modern = load_policy(run)
    best_policy_path(run).write_bytes(bare(run))
    for source in (run, best_policy_path(run)):
        policy = load_policy(source)
        assert (policy.version, policy.env_steps, policy.origin.mean_return) == (7, 448, 12.5)
        assert policy.file.parameters == modern.file.parameters
    assert BestPolicy(best_policy_path(run)).offer(a_policy(8, 12.4)) is False
    policy.save(tmp_path / "anew")
    assert load_policy(tmp_path / "anew").file.parameters == modern.file.parameters
    shutil.copy(best_policy_path(run), tmp_path / "copied")
    with pytest.raises(CheckpointError, match=r"bare parameters, .*load_policy\(RUN\).save\(FILE"):
        load_policy(tmp_path / "copied")


def test_checkpoints_are_policies_too(tmp_path: Path) -> None:
    run = make_trained(tmp_path, "CartPole-v1", checkpoints=2)
    named = [load_policy(run.path, checkpoint=name) for name in ("000000000001", "newest")]
    assert [policy.version for policy in named] == [10, 20]
    direct = load_policy(run.checkpoints / "000000000001")
    assert direct.file == named[0].file
    assert direct.run == run.path
    assert np.isnan(direct.origin.mean_return)
    with pytest.raises(ConfigError, match=r"checkpoint='best' needs a run's directory"):
        load_policy(run.checkpoints / "000000000001", checkpoint="best")
    best_policy_path(run.path).write_bytes(b"damaged")
    tried = load_policy(run.path, checkpoint="newest").file
    assert tried.parameters == named[1].file.parameters
    with pytest.raises(CheckpointError, match=r"'7'.*000000000001, 000000000002, best"):
        load_policy(run.path, checkpoint="7")


OWN = '''
from fast_core.algos.ppo.config import PPOConfig

class Mine(PPOConfig, frozen=True, kw_only=True):
    """PPO under another name."""
'''

DEPLOYED = """
import sys
for name in ("torch", "gymnasium", "zmq", "posix_ipc", "yaml"):
    sys.modules[name] = None  # importing it fails
import numpy as np
from fast_core.policy import load_policy
policy = load_policy(sys.argv[1], modules=sys.argv[2:])
obs = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
print(policy.version, policy(obs)[0].tolist(), policy(obs[0])[0])
"""


def deployed(path: Path, folder: Path, *modules: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", DEPLOYED, str(path), *modules]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.mark.process
def test_it_loads_where_neither_torch_nor_a_simulator_can_be_imported(
    written: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    ended = deployed(written, tmp_path / "empty")
    obs = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    policy = load_policy(written)
    expected = f"1 {policy(obs)[0].tolist()} {policy(obs[0])[0]}\n"
    assert (ended.stdout, ended.stderr) == (expected, "")


@pytest.mark.process
def test_an_own_algorithm_is_imported_and_a_missing_one_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    policy = a_policy()
    own = msgspec.structs.replace(policy, algorithm={**policy.algorithm, "name": "mine:Mine"})
    write_policy(tmp_path / "p", own)
    assert deployed(tmp_path / "p", tmp_path, "mine").stdout.startswith("1 [")
    (tmp_path / "empty").mkdir()
    said = deployed(tmp_path / "p", tmp_path / "empty", "mine").stderr.splitlines()[-1]
    assert said.startswith(
        f"fast_core.errors.CheckpointError: the policy in {tmp_path / 'p'} can't"
    )
    assert "'mine:Mine' can't be imported: there is no module 'mine'" in said
