"""What can be typed at `fastloop`: every command shows examples that it takes, and is completed."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from fast_core.config import RunConfig
from fast_core.config.algorithms import REGISTRY, algorithm_config_type
from fast_core.config.explaining import explain
from fast_core.config.file import loads
from fast_core.config.meant import ELSEWHERE
from fast_core.config.schema import paths
from fast_core.errors import ConfigError
from fast_core.tools.cli import main
from fast_core.tools.commands import program
from fast_core.tools.completion import SCRIPTS, candidates, script
from fast_core.tools.init import ENV_STEPS, of_environment

TYPES = {name: algorithm_config_type(name) for name in REGISTRY}
EXAMPLES = [(name, line) for name, each in program.commands.items() for line in each.examples]


@pytest.mark.parametrize("name", [*program.commands])
def test_help_shows_what_there_is_and_examples(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: fastloop {name}")
    assert name == "complete" or "examples:\n  " in shown


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_example_of_the_help_can_be_typed(name: str, line: str) -> None:
    typed = re.search(r"fastloop (.*?)(?: [>|] .*|\)\".*|$)", line)
    assert typed is not None
    given = shlex.split(typed[1])[len(name.split()) :]
    command = program.commands[name]
    parser = command.parser()
    if command.rest:
        parser.parse_args(given)
    else:
        assert parser.parse_known_intermixed_args(given)[1] == []


def test_options_may_stand_anywhere_between_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr("fast_core.tools.commands._launch", lambda *given: calls.append(given) or 0)
    assert main(["launch", "--inline", "ppo_cartpole", "seed=3", "--port", "0", "--dashboard"]) == 0
    config, port, resume = calls[0]
    assert isinstance(config, RunConfig) and config.mode == "inline" and config.seed == 3
    assert (port, resume, config.dashboard.enabled) == (0, None, True)


def test_option_may_be_given_several_times() -> None:
    parser = program.commands["eval"].parser()
    values, unknown = parser.parse_known_intermixed_args(
        ["r", "--module", "a", "x=1", "--module", "b"]
    )
    assert (values.modules, values.overrides, unknown) == (["a", "b"], ["x=1"], [])


@pytest.mark.parametrize("number", ["-20", "-1e3", "-.5", "-1.5e-3"])
def test_number_below_zero_is_no_option(number: str) -> None:
    parser = program.commands["compare"].parser()
    values, unknown = parser.parse_known_intermixed_args(["runs", "--score", number])
    assert (values.score, unknown) == (float(number), [])


@pytest.mark.parametrize("typed", ["--at 1e5", "--at 0", "--score x", "--at"])
def test_value_that_an_option_does_not_take_is_refused(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "runs", *typed.split()]) == 2
    assert f"argument {typed.split()[0]}: " in capsys.readouterr().err


def test_defaults_of_an_algorithm_on_an_environment() -> None:
    config = of_environment("sac", "Pendulum-v1", ["seed=3"])
    assert (config.name, config.environment.id) == ("sac_Pendulum-v1", "Pendulum-v1")
    assert (config.seed, config.stop.env_steps) == (3, ENV_STEPS)
    text = "name: sac_Pendulum-v1\nenvironment: {id: Pendulum-v1}\nalgorithm: {name: sac}\n"
    text += f"seed: 3\nstop: {{env_steps: {ENV_STEPS}}}"
    assert config == loads(text, [], algorithm_config_type, source="text")
    timed = of_environment("ppo", None, ["environment.id=task:Own", "stop.time_s=5"])
    assert (timed.name, timed.stop.env_steps, timed.stop.time_s) == ("ppo_task-Own", None, 5)
    game = of_environment("ppo", "ALE/Pong-v5", []).environment
    assert game.atari is not None and game.frame_stack == 4


def test_launch_without_a_file_is_told_by_keys_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[RunConfig] = []
    monkeypatch.setattr(
        "fast_core.tools.commands._launch", lambda config, *_: calls.append(config) or 0
    )
    assert main(["launch", "algorithm.name=dqn", "environment.id=CartPole-v1", "seed=1"]) == 0
    assert main(["train", "dqn", "--env", "CartPole-v1", "seed=1"]) == 0
    assert calls[0] == calls[1] and calls[0].algorithm.name == "dqn"
    assert main(["launch", "seed=1"]) == 2


@pytest.mark.parametrize("path", ["", *paths(RunConfig), *REGISTRY, "nodes.extra[0].name"])
def test_every_key_is_explained(path: str) -> None:
    shown = explain(path, TYPES)
    assert shown.startswith(path if path not in REGISTRY else "algorithm") and len(shown) > 40


def test_key_of_several_algorithms_is_explained_for_each() -> None:
    shown = explain("algorithm.learning_rate", TYPES)
    assert re.search(r"with ppo, .*sac.*:\n.*\n.*\n  default: 0.0003\n\n  with td3, ddpg\b", shown)
    wet = explain("evaluation.environments.wet.kwargs", TYPES)
    assert wet.startswith("evaluation.environments.wet.kwargs\n  Arguments of `gymnasium.make`")
    with pytest.raises(ConfigError, match=r"Did you mean rollout.envs_per_shard\?"):
        explain("rollout.n_envs", TYPES)


def test_what_other_libraries_call_a_key_leads_to_one_that_there_is() -> None:
    known = {*paths(RunConfig)}.union(*(paths(kind, "algorithm.") for kind in TYPES.values()))
    for name, keys in ELSEWHERE.items():
        assert known >= {*keys}, name


@pytest.mark.parametrize(
    ("line", "includes", "excludes"),
    [
        ("fastloop la", "launch", "list"),
        ("fastloop com", "compare", "complete"),
        ("fastloop config validate x --s", "--show", "--markdown"),
        ("fastloop ", "config", "complete LINE"),
        ("fastloop config ", "explain", "launch"),
        ("fastloop launch ppo_c", "ppo_cartpole", "sac_pendulum"),
        ("fastloop launch base.yaml algorithm.lear", "algorithm.learning_rate=", "algorithm="),
        ("fastloop launch x policy.backend=t", "policy.backend=torch", "policy.backend=numpy"),
        ("fastloop launch x algorithm.name=s", "algorithm.name=sac", "algorithm.name=ppo"),
        ("fastloop launch x algorithm.gradient=", "algorithm.gradient=autograd", ""),
        ("fastloop launch x --in", "--inline", "--resume"),
        ("fastloop train ", "ppo", "random.x"),
        ("fastloop train ppo --env Cart", "CartPole-v1", "Pendulum-v1"),
        ("fastloop config explain rollout.s", "rollout.steps", "seed"),
        ("fastloop completion ", "fish", "ppo"),
        (
            "fastloop launch x environment.backend=e",
            "environment.backend=envpool",
            "environment.id=",
        ),
    ],
)
def test_line_is_completed(line: str, includes: str, excludes: str) -> None:
    found = candidates(program, line)
    assert includes in found and excludes not in found


@pytest.mark.parametrize(
    "line", ["fastloop eval ", "fastloop resume runs/a", "fastloop 'x", "fastloop no ", ""]
)
def test_what_is_a_file_is_left_to_the_shell(line: str) -> None:
    assert candidates(program, line) in ([], candidates(program, "fastloop "))


@pytest.mark.process
def test_bash_completes_what_stands_behind_an_equals_sign(tmp_path: Path) -> None:
    (tmp_path / "fastloop").write_text('#!/bin/sh\nprintf "policy.backend=torch\\n"\n')
    (tmp_path / "fastloop").chmod(0o755)
    line = "fastloop launch x policy.backend=t"
    ask = (
        f"PATH={tmp_path}:$PATH\n{script('bash')}\nCOMP_LINE={line!r} COMP_POINT={len(line)}\n"
        "COMP_WORDS=(fastloop launch x policy.backend = t) COMP_CWORD=5\n_fastloop\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, timeout=60)
    assert done.stdout == "torch\n", done.stderr
    with pytest.raises(ConfigError, match="bash, zsh, fish; got 'tcsh'"):
        script("tcsh")
    assert [*SCRIPTS] == ["bash", "zsh", "fish"]
