from __future__ import annotations

import msgspec
import pytest

from fast_core.algos.ppo.config import PPOConfig
from fast_core.errors import ConfigError
from fast_core.launcher.failures.blame import blaming
from fast_core.launcher.prepare import make_plan, resolve
from tests.nodes.stage import CARTPOLE, make_config


class Broken(PPOConfig, frozen=True, kw_only=True):
    """Of a user."""

    def check(self, environment: object, setup: object) -> None:
        raise KeyError("speed")


def test_what_an_algorithm_raises_names_it_and_the_place() -> None:
    algorithm = Broken(name="tests.launcher.failures.test_blame:Broken")
    with (
        pytest.raises(
            ConfigError, match=r"'tests\.launcher\.test_blame:Broken': check\(\)"
        ) as told,
        blaming(algorithm),
    ):
        algorithm.check(None, None)
    said = "algorithm.name 'tests.launcher.failures.test_blame:Broken': check() raised KeyError: 'speed'"
    assert said in str(told.value)
    assert "test_blame.py:" in str(told.value)


def test_what_others_raise_passes() -> None:
    with pytest.raises(ZeroDivisionError), blaming(PPOConfig(name="ppo")):
        _ = 1 / 0
    with pytest.raises(ConfigError, match=r"^ours$"), blaming(PPOConfig(name="ppo")):
        raise ConfigError("ours")


def test_updates_granted_must_be_a_number() -> None:
    class Text(PPOConfig, frozen=True, kw_only=True):
        def updates_granted(self, rows: int) -> int:
            return "four"  # type: ignore[return-value]

    config = make_config()
    config = msgspec.structs.replace(config, algorithm=Text(minibatch_size=16, epochs=1))
    resolved = resolve(config, CARTPOLE, 2)
    with pytest.raises(ConfigError, match=r"updates_granted\(\) must return the number.*'four'"):
        make_plan(resolved, CARTPOLE, "", None, None)
