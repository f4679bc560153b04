"""Configurations that come with FastLoop are found by name, and copied to start from."""

import shlex
from pathlib import Path

import pytest

from fast_core.config.shipped import located, names, shipped
from fast_core.errors import ConfigError
from fast_core.tools.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_names_are_those_of_the_folder() -> None:
    assert names() == sorted(path.stem for path in (ROOT / "configs").glob("*.yaml"))


def test_bare_name_is_the_own_file_before_the_one_that_comes_along() -> None:
    assert located(Path("sac_pendulum")) == shipped("sac_pendulum")
    Path("sac_pendulum.yaml").touch()
    assert located(Path("sac_pendulum")) == Path("sac_pendulum.yaml")


def test_folder_of_that_name_hides_none() -> None:
    Path("sac_pendulum").mkdir()
    assert located(Path("sac_pendulum")) == shipped("sac_pendulum")
    (own := Path("mine/a.yaml")).parent.mkdir()
    own.touch()
    with pytest.raises(ConfigError, match=r"'mine'. It is a folder; did you mean mine/a.yaml\?"):
        located(Path("mine"))


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("sac_pendulmu", "Did you mean sac_pendulum?"),
        ("configs/sac_pendulum.yaml", "by its name alone: sac_pendulum"),
        ("sac_pendulum.yaml", "Did you mean sac_pendulum?"),
        (".", "Give the path of a YAML file"),
        ("qwertz", "Give the path of a YAML file, or a name that `fastloop init --list` shows."),
    ],
)
def test_what_is_not_there_is_refused_with_what_is_near(given: str, hint: str) -> None:
    with pytest.raises(ConfigError, match="there is no configuration file") as refused:
        located(Path(given))
    assert hint in str(refused.value)


def test_init_copies_one_and_overwrites_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "mine/deep", "--from", "td3_pendulum"]) == 0
    copy = Path("mine/deep/td3_pendulum.yaml")
    assert copy.read_text() == (ROOT / "configs/td3_pendulum.yaml").read_text()
    assert f"fastloop launch {copy}" in capsys.readouterr().out
    copy.write_text("changed")
    assert main(["init", "mine/deep", "--from", "td3_pendulum"]) == 2
    assert copy.read_text() == "changed"
    assert main(["init", str(copy)]) == 2 and main(["init"]) == 2
    assert main(["init", str(copy / "below")]) == 2 and main(["init", "/proc/mine"]) == 2
    assert "can't copy a configuration into '/proc/mine'" in capsys.readouterr().err
    assert main(["init", "mine", "--from", "td3"]) == 2
    assert [*Path().rglob("*.yaml")] == [copy]


def test_init_says_a_command_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "my folder"]) == 0
    *_, command, given = shlex.split(capsys.readouterr().out)[-3:]
    assert command == "launch" and located(Path(given)) == Path("my folder/ppo_cartpole.yaml")
