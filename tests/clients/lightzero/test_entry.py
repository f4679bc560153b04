"""`fastloop lightzero` and the entries, where LightZero is a stand-in of a few lines."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from fast_core.clients.lightzero import entry
from fast_core.errors import ConfigError
from fast_core.integrations import lightzero
from fast_core.tools.cli import main
from tests.clients.lightzero.stand_in import StandIn

CONFIG = """
from types import SimpleNamespace as N
class D(dict):
    __getattr__ = dict.__getitem__
main_config = N(exp_name="x", env=N(), policy=D(type="muzero", update_per_collect=3))
create_config = N(env=N(), env_manager=N(), policy=N(type="muzero"))
max_env_step = 40
"""
CALLS = """
import sys
if __name__ == "__main__":
    from lzero.entry import train_muzero
    train_muzero([main_config, create_config], seed=7, max_env_step=1e2, **eval(sys.argv[1]))
"""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stand-ins that runs were made with; `lzero` has what its scripts import."""
    found: list[Any] = []

    def library(name: str) -> Any:
        found.append(StandIn(name))
        return found[-1]

    lzero, entries = types.ModuleType("lzero"), types.ModuleType("lzero.entry")
    one = types.ModuleType("lzero.entry.train_muzero")
    for module in (entries, one):
        vars(module).update(train_muzero=None)
    vars(entries).update(train_rezero=None, train_muzero_segment=None, eval_muzero="as it was")
    for module in (lzero, entries, one):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(entry, "LightZero", library)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.py"


def test_configuration_that_calls_its_entry_is_trained_unchanged(
    made: list[Any], file: Path
) -> None:
    file.write_text(CONFIG + CALLS)
    arguments = ["lightzero", "--backend", "thread", "--off-policy-degree", "2", str(file), "{}"]
    assert main(arguments) == 0
    learner = made[0].made["learner"]
    assert "103 env steps (max_env_step: 100)" in learner.said[-1]
    assert "async, degree 2" in learner.said[-1]
    assert learner.train_iter == 3 * 16 and made[0].evaluates_first
    assert sys.argv[0] != str(file)


def test_configuration_that_calls_nothing_is_trained_as_far_as_it_says(
    made: list[Any], file: Path
) -> None:
    file.write_text(CONFIG)
    assert main(["lightzero", "--own-loop", str(file)]) == 0
    assert made[0].made["collector_0"].envstep == 46  # 8, 8 and 3 in turn, and at least 40
    assert made[0].calls[-1] == ("hook", "after_run")


def test_policy_decides_on_the_entry_where_a_configuration_calls_none(
    made: list[Any], file: Path
) -> None:
    file.write_text(CONFIG.replace('type="muzero"', 'type="unizero"', 2))
    assert main(["lightzero", "--own-loop", str(file)]) == 0
    assert made[0]._is_unizero and made[0].made["learner"].train_iter > 0


def test_two_lines_do_the_same(made: list[Any]) -> None:
    names: dict[str, Any] = {}
    exec(CONFIG, names)
    both = [names["main_config"], names["create_config"]]
    policy = lightzero.train_muzero_segment(both, max_train_iter=9, async_backend="thread")
    assert policy.version == 9 and not made[0].evaluates_first and made[0].reanalyzes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "calls no entry of LightZero's and has no main_config and no create_config"),
        (CONFIG.replace("exp_name=", "name="), "main_config needs exp_name.*'exp_name' is missing"),
        (CONFIG.replace("env_manager=N(), ", ""), "create_config needs.*'env_manager' is missing"),
        (CONFIG.replace('N(type="muzero"))', "N())"), "create_config.policy needs a type"),
        ("from lzero.entry import train_rezero as t\nt([])", "train_rezero is not among.*Async"),
        ("from lzero.entry import train_muzero as t\nt(3)", "is .main_config, create_config.; got"),
        (CONFIG + CALLS.replace("1e2", "0"), "max_env_step must be a number, at least 1; got 0"),
    ],
)
def test_what_a_configuration_lacks_is_said(
    made: list[Any], file: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(text)
    assert main(["lightzero", str(file), "{}"]) == 2
    error = capsys.readouterr().err.replace("\n", " ")
    assert re.search(said, error), error


def test_missing_library_and_file_are_said(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lightzero", str(file)]) == 2
    assert "there is no LightZero configuration" in capsys.readouterr().err
    file.write_text(CONFIG)
    if "lzero" not in sys.modules:
        assert main(["lightzero", str(file)]) == 2
        assert "LightZero can't be used here: importing lzero.entry" in capsys.readouterr().err


def test_installing_takes_all_entries_and_nothing_else(made: list[Any]) -> None:
    entries = sys.modules["lzero.entry"]
    called = lightzero.install(async_backend="thread")
    assert vars(entries)["eval_muzero"] == "as it was"
    assert vars(sys.modules["lzero.entry.train_muzero"])["train_muzero"] is not None
    with pytest.raises(ConfigError, match="train_rezero"):
        vars(entries)["train_rezero"]([])
    assert called == ["train_rezero"]
    with pytest.raises(ConfigError, match="'degree' is none of"):
        lightzero.install(degree=3)
