"""Modules under the names they had before."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys

import pytest

from fast_core.system.former import MOVED


@pytest.mark.parametrize("former", [name for name in MOVED if "integrations" not in name])
def test_a_moved_module_is_found_under_its_former_name_and_made_once(former: str) -> None:
    assert importlib.import_module(former) is importlib.import_module(MOVED[former])


def test_parts_of_a_moved_package_move_with_it() -> None:
    options = importlib.import_module("fast_core.integrations.gops.options")
    assert options is importlib.import_module("fast_core.clients.gops.options")


def test_messages_have_their_former_names_and_so_has_how_they_travel() -> None:
    from fast_core.messages import UserMessage, wire
    from fast_core.messages.metrics import MetricsRow

    assert importlib.import_module("fast_core.events").UserMessage is UserMessage
    assert importlib.import_module("fast_core.distributed.wire") is wire
    assert importlib.import_module("fast_core.metrics").MetricsRow is MetricsRow


def test_a_module_that_moved_twice_has_both_former_names() -> None:
    from fast_core.run import watching

    assert importlib.import_module("fast_core.screens.watching") is watching
    assert importlib.import_module("fast_core.monitor.screens.watching") is watching


def test_a_class_pickled_under_its_former_name_is_the_same_class() -> None:
    from fast_core.clients.games.color_lines import ColorLines

    text = pickle.dumps(ColorLines, protocol=0)
    before = text.replace(b"fast_core.clients.games.", b"fast_core.envs.")
    assert before != text
    assert pickle.loads(before) is ColorLines


def test_a_program_is_run_under_its_former_name() -> None:
    command = [sys.executable, "-m", "fast_core.cli", "--version"]
    assert subprocess.check_output(command, text=True).startswith("fastloop ")


def test_a_module_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"fast_core\.integrations\.gopsy"):
        importlib.import_module("fast_core.integrations.gopsy")


def test_the_former_name_comes_first_in_a_new_process() -> None:
    program = (
        "import fast_core.integrations.lightzero.options as before\n"
        "import fast_core.clients.lightzero.options as now\n"
        "assert before is now and now.__name__ == 'fast_core.clients.lightzero.options'\n"
        "from fast_core.envs import memory_task\n"
        "assert memory_task.__name__ == 'fast_core.clients.games.memory_task'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
