"""What is typed by mistake is answered with what was meant, and that works where it is followed."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fast_core.config import RunConfig
from fast_core.envs.trying.probe import probe
from fast_core.launcher import Outcome
from fast_core.launcher.verdict import Findings, judge
from fast_core.nodes.learn.devices import check_devices
from fast_core.tools.cli import main

FILES = {
    "base.yaml": "name: m\nenvironment: {id: CartPole-v1}\nalgorithm: {name: ppo}\n"
    "stop: {env_steps: 2000}\n",
    "tab.yaml": "name: m\nenvironment:\n\tid: CartPole-v1\n",
    "broken.yaml": "name: m\nenvironment: {id: CartPole-v1\nalgorithm: {name: ppo}\n",
    "open.yaml": 'name: "m\nseed: 1\n',
    "others.yaml": "name: m\nenv: CartPole-v1\nalgorithm: ppo\ntotal_timesteps: 100000\n",
    "keys.yaml": "name: m\nenvironment: {id: CartPole-v1}\nstop: {env_steps: 2000}\n"
    "algorithm: {name: ppo, lr: 3.0e-4, n_steps: 2048, batch_size: 64, ent_coef: 0.01, x: 1}\n",
    "task.py": """
import gymnasium, numpy
class NeedsArg(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, path):
        self.path = path
    def reset(self, seed=None, options=None):
        return numpy.zeros(2, numpy.float32), {}
    def step(self, action):
        return numpy.zeros(2, numpy.float32), 0.0, False, False, {}
class NoSpaces(NeedsArg):
    observation_space = action_space = None
    def __init__(self):
        pass
class Lacking(NeedsArg):
    def __init__(self):
        import no_such_simulator
class Old:
    pass
""",
}


class Mistake(NamedTuple):
    """What is typed, what the answer says, and what else can be typed then, if that is said."""

    typed: str
    says: str
    works: str = ""
    hidden: str = ""  # a module that is not installed


WITH = "launch base.yaml "
MISTAKES = [
    Mistake("launch tab.yaml", "line 3 has a tab before 'id: CartPole-v1'; YAML takes spaces"),
    Mistake(
        "launch broken.yaml", r"line 3.*'algorithm: \{name: ppo\}'.*Is the \{ of line 2 closed"
    ),
    Mistake("launch open.yaml", "Is the quote of line 1 closed"),
    Mistake("launch others.yaml", "env is not a key.*Did you mean environment.id"),
    Mistake("launch others.yaml", r"algorithm must be.*Give its keys: \{name: ppo\}"),
    Mistake("launch others.yaml", "total_timesteps is.*Did you mean stop.env_steps"),
    Mistake("launch keys.yaml", r"algorithm\.lr .*Did you mean algorithm\.learning_rate\?"),
    Mistake("launch keys.yaml", r"algorithm\.n_steps .*Did you mean rollout\.steps\?"),
    Mistake("launch keys.yaml", r"algorithm\.batch_size .*mean algorithm\.minibatch_size\?"),
    Mistake("launch keys.yaml", r"algorithm\.ent_coef .*mean algorithm\.entropy_coef\?"),
    Mistake(
        "launch keys.yaml",
        "algorithm.x .*`fastloop config explain ppo` lists",
        "config explain ppo",
    ),
    Mistake(f"{WITH}steps_per_day=3", "`fastloop config explain` lists", "config explain"),
    Mistake(
        "launch",
        "required: CONFIG\nFor example: fastloop launch ppo_cartpole",
        "launch ppo_cartpole",
    ),
    Mistake(
        "launch CartPole-v1",
        "looks like an environment: `fastloop train ppo --env CartPole-v1`",
        "train ppo --env CartPole-v1",
    ),
    Mistake("lanch base.yaml", "Did you mean launch", "launch base.yaml"),
    Mistake("train base.yaml", "trained with `fastloop launch base.yaml`", "launch base.yaml"),
    Mistake("train ppo", "`fastloop train ppo --env CartPole-v1`", "train ppo --env CartPole-v1"),
    Mistake("train ppo_cartpole", "`fastloop launch ppo_cartpole`", "launch ppo_cartpole"),
    Mistake("train CartPole-v1", "algorithm.name must be one of"),
    Mistake("train ppo --env ''", "`fastloop train ppo --env CartPole-v1`"),
    Mistake("train sac Pendulum-v1", "train sac --env Pendulum-v1`", "train sac --env Pendulum-v1"),
    Mistake("train ppo --env-id CartPole-v1", "Did you mean --env", "train ppo --env CartPole-v1"),
    Mistake("train a2c --env CartPole-v1", "is 'ppo'", "train ppo --env CartPole-v1"),
    Mistake("compare nowhere", "no such folder; '.' holds runs. `fastloop list", "list ."),
    Mistake("eval nowhere", r"holds runs\. Name a run"),
    Mistake("eval runs", "this folder holds m.*as `fastloop list` shows them", "list runs"),
    Mistake(
        "launch environment.id=CartPole-v1",
        "algorithm is needed too: algorithm.name=ppo",
        "launch environment.id=CartPole-v1 algorithm.name=ppo",
    ),
    Mistake("run base.yaml", "Did you mean `fastloop launch`", "launch base.yaml"),
    Mistake("base.yaml", "Did you mean `fastloop launch base.yaml`", "launch base.yaml"),
    Mistake("config nope", "`fastloop config --help` lists them", "config --help"),
    Mistake("launch base.yaml --inlin", "Did you mean --inline", "launch base.yaml --inline"),
    Mistake("gops", "required: SCRIPT\n"),
    Mistake("begin", "`fastloop --help` lists them", "--help"),
    Mistake("help", "Did you mean `fastloop --help`", "--help"),
    Mistake(
        "train ppo --env CartPole-v1 --total-timesteps 100_000",
        "no dashes: stop.env_steps=100_000",
        "train ppo --env CartPole-v1 stop.env_steps=100_000",
    ),
    Mistake(
        "launch base.yaml --algorithm.hidden_sizes '[64, 64]'",
        r"no dashes: 'algorithm\.hidden_sizes=\[64, 64\]'$",
        "launch base.yaml 'algorithm.hidden_sizes=[64, 64]'",
    ),
    Mistake("train dqn --env CartPole-v1 --seed 3", "no dashes: seed=3"),
    Mistake("export runs/m", r"required: -o.*\n.*fastloop export runs/\S+ -o policy\.onnx"),
    Mistake(
        "config explain algorithm.lr",
        "Did you mean algorithm.learning_rate",
        "config explain algorithm.learning_rate",
    ),
    Mistake(
        "config explain evaluation.envz",
        "Did you mean evaluation.envs",
        "config explain evaluation.envs",
    ),
    Mistake(f"{WITH}seed 1", "Did you mean seed=1", f"{WITH}seed=1"),
    Mistake(f"{WITH}seed = 1", "Did you mean seed=1", f"{WITH}seed=1"),
    Mistake(f"{WITH}seed= 1", "Did you mean seed=1", f"{WITH}seed=1"),
    Mistake(f"{WITH}seed:1", "Did you mean seed=1", f"{WITH}seed=1"),
    Mistake(
        f"{WITH}algorithm.hidden_sizes=[64, 64]",
        r"has to be quoted: 'algorithm\.hidden_sizes=\[64, 64\]'$",
        f"{WITH}'algorithm.hidden_sizes=[64, 64]'",
    ),
    Mistake(
        f"{WITH}environment.kwargs={{a: 1, b: 2}}", r"quoted: 'environment.kwargs=\{a: 1, b: 2\}"
    ),
    Mistake(f"{WITH}name=", "Write name=null for nothing and name='\"\"'"),
    Mistake(f"{WITH}what", "Such as seed=1", f"{WITH}seed=1"),
    Mistake(f"{WITH}algorithm.name=a2c", "nearest to it is 'ppo'", f"{WITH}algorithm.name=ppo"),
    Mistake(f"{WITH}algorithm.name=ppp", "Did you mean 'ppo'", f"{WITH}algorithm.name=ppo"),
    Mistake(f"{WITH}environment.id=Nope-v0", r"Nope.*exist\)\. environment\.modules"),
    Mistake(
        f"{WITH}environment.id=cartpole-v9",
        "Nearest: 'CartPole-v1'",
        f"{WITH}environment.id=CartPole-v1",
    ),
    Mistake(f"{WITH}environment.kwargs.push=3", "'push'. It takes: sutton_barto_reward"),
    Mistake(
        f"{WITH}environment.kwargs.push=3 environment.backend=gymnasium_vector",
        "'push'. It takes: max_episode_steps, sutton_barto_reward",
    ),
    Mistake(
        f"{WITH}environment.id=task:NeedsArg",
        "missing a required argument: 'path'. Give it: environment.kwargs.path=VALUE",
        f"{WITH}environment.id=task:NeedsArg environment.kwargs.path=VALUE",
    ),
    Mistake(f"{WITH}environment.id=task:NoSpaces", r"Set self\.observation_space in its __init__"),
    Mistake(f"{WITH}environment.id=task:Lacking", "there is no module 'no_such_simulator'"),
    Mistake(f"{WITH}environment.id=task:Old", r"derive it from gymnasium\.Env"),
    Mistake(f"{WITH}nodes.optimizer.device=gpu", r"\(cpu.*no such kind of device.*is 'cuda'"),
    Mistake("launch runs/m", r"folder of runs: `fastloop resume runs/m` .*launch (runs/m/2\S+)`"),
    Mistake(
        f"{WITH}environment.id=HalfCheetah-v5",
        r"a simulator is not installed. Run `pip install -e '\.\[mujoco\]'` in ",
        hidden="mujoco",
    ),
    Mistake(
        f"{WITH}environment.id=LunarLander-v3", r"pip install -e '\.\[box2d\]'", hidden="Box2D"
    ),
    Mistake(f"{WITH}environment.id=ALE/Pong-v5", r"pip install -e '\.\[atari\]'", hidden="ale_py"),
    Mistake(f"{WITH}algorithm.gradient=autograd", "torch is not installed", hidden="torch"),
]


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with `FILES` and a run, where launches come to their verdict and train nothing."""

    def launch(config: RunConfig, *, resume_from: Path | None = None) -> Outcome:
        def look() -> Findings:
            check_devices(config.nodes.optimizer, config.nodes.policy.device)
            return Findings(probe(config.environment, config.seed), config)

        judge(config, look, str(tmp_path))
        return Outcome("finished", "", None)

    monkeypatch.setattr("fast_core.launcher.run.launch", launch)
    # It would take the standard output of the tests.
    monkeypatch.setattr("fast_core.system.surroundings.reserve_output", lambda: None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    run = Path("runs/m/2026-01-02_03-04-05_seed0")
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(FILES["base.yaml"])


def hide(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a module be found as if it was not installed."""
    original = PathFinder.find_spec

    def find(name: str, *where: Any) -> object:
        return None if name.partition(".")[0] == module else original(name, *where)

    monkeypatch.setattr(PathFinder, "find_spec", find)
    for name in [*sys.modules]:
        if re.match(rf"{module}\b|gymnasium\.envs\.(mujoco|box2d)", name):
            monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[f"{m.typed}, {m.says}" for m in MISTAKES])
def test_mistake_is_answered_with_what_was_meant(
    mistake: Mistake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if mistake.hidden:
        hide(mistake.hidden, monkeypatch)
    assert main(shlex.split(mistake.typed)) == 2
    said = capsys.readouterr().err
    assert re.search(mistake.says, said), said
    assert "Traceback" not in said and max(map(len, said.splitlines())) < 900, said
    if mistake.works:
        assert main(shlex.split(mistake.works)) == 0, capsys.readouterr().err
