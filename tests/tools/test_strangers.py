"""A folder with a run that somebody else made: reading it runs nothing, waits for nothing, is
bounded, and steers no terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import fast_core
from fast_core.dashboard.configurations import Configurations
from fast_core.dashboard.overview import Overview
from fast_core.errors import ConfigError, FastLoopError
from fast_core.messages.requests import StatusRequest
from fast_core.monitor import control_socket
from fast_core.monitor.run_directory import RunDirectory
from fast_core.run.schedule import read_schedule
from fast_core.system import state_file
from fast_core.tools.compare.compare import compare
from fast_core.tools.listing import list_runs
from fast_core.tools.replay_view import show_replay
from tests.tools.made_runs import made_run
from tests.tools.test_replay_view import saved_run

FILES = [
    *("config.yaml", "events.jsonl", "metrics.jsonl", "crash.txt", "lock", "versions.json"),
    *("dashboard.json", "checkpoints/best-policy.msgpack", "checkpoints/52/manifest.json"),
    *("checkpoints/52/learner.msgpack", "schedule/part-0.gz", "sweep.yaml"),
]


def look_at(run: Path, *more: Callable[[], object]) -> None:
    """All that only reads a run, and ``more``; what is refused is refused in words."""
    read: list[Callable[[], object]] = [
        *more,
        lambda: list_runs(run.parent),
        lambda: compare([run.parent]),
        lambda: Overview(run.parent).look(),
        lambda: show_replay(run),
        lambda: state_file.load(run / "checkpoints" / "52" / "learner.msgpack"),
        lambda: read_schedule(run / "schedule" / "part-0.gz"),
    ]
    kept = ("config", "metrics", "evaluations", "events", "checkpoints", "versions", "crash")
    read += [lambda name=name: getattr(fast_core.Run(run), name) for name in kept]  # type: ignore[misc]
    for look in read:
        with contextlib.suppress(FastLoopError, OSError):
            look()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_nobody_waits_for_what_is_no_file(tmp_path: Path, name: str, kind: str) -> None:
    run = made_run(tmp_path, values=[1.0])
    for folder in ("checkpoints/52", "schedule"):
        (run / folder).mkdir(parents=True)
    (run / "checkpoints/52/manifest.json").write_text("{}")
    (run / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to("/dev/zero")
    best = run / "checkpoints" / "best-policy.msgpack"
    look_at(run, lambda: fast_core.load_policy(run), lambda: fast_core.load_policy(best))


@pytest.mark.timeout(30)
def test_checkpoint_of_devices_is_damaged(tmp_path: Path) -> None:
    run, stage = saved_run(tmp_path)
    stage.close()
    (checkpoint,) = run.checkpoints.glob("0*")
    for name in ("replay-priorities.bin", "replay-0.bin"):
        kept = (checkpoint / name).read_bytes()
        (checkpoint / name).unlink()
        (checkpoint / name).symlink_to("/dev/zero")
        with pytest.raises(FastLoopError, match="not a regular file"):
            show_replay(run.path)
        (checkpoint / name).unlink()
        (checkpoint / name).write_bytes(kept)
    assert show_replay(run.path) == 0


EVIL = "import pathlib; pathlib.Path('ran').touch(); raise RuntimeError('evil ran')"


def test_nothing_that_a_run_names_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, stage = saved_run(tmp_path)
    stage.close()
    (tmp_path / "evil.py").write_text(EVIL)
    text = run.config.read_text()
    for line in ("environment:\n  id: ", "algorithm:\n  name: "):
        assert line in text
        text = text.replace(line, f"{line}evil:Class #")
    run.config.write_text(text)
    run.versions.write_text(f'[{{"modules_in": "{tmp_path}"}}]')
    monkeypatch.chdir(tmp_path)
    before = [*sys.path]
    look_at(run.path)
    assert show_replay(run.path) == 0
    folder = str(run.path.parent)
    commands(tmp_path, ["list", folder], ["compare", folder], ["replay", folder], ["ps"])
    assert not (tmp_path / "ran").exists() and "evil" not in sys.modules
    assert [each for each in sys.path if each not in before] == []
    with pytest.raises(ConfigError, match=r"only a file names\. .*modules=\['evil'\]"):
        _ = fast_core.Run(run.path).config
    with pytest.raises(ConfigError, match="evil ran"):
        _ = fast_core.Run(run.path, modules=["evil"]).config


def test_runs_of_an_algorithm_that_is_not_there_are_compared(tmp_path: Path) -> None:
    for seed in range(2):
        run = RunDirectory(made_run(tmp_path, f"seed={seed}", values=[1.0]))
        run.config.write_text(run.config.read_text().replace("name: ppo", "name: nowhere:Class"))
    (row,) = compare([tmp_path]).rows
    assert (row.name, row.final.n) == ("made", 2)


def test_aliases_that_would_fill_memory_are_told_and_hide_no_other(tmp_path: Path) -> None:
    made_run(tmp_path, values=[1.0])
    run = RunDirectory(made_run(tmp_path, "name=bomb", values=[1.0]))
    lines = ["x0: &x0 [lol, lol, lol]"]
    for level in range(1, 13):
        lines.append(f"x{level}: &x{level} [{', '.join([f'*x{level - 1}'] * 9)}]")
    run.config.write_text(
        "\n".join(lines) + "\nalgorithm: {name: *x12}\nenvironment: {id: a}\nseed: 0\nname: a\n"
    )
    (found,) = [each for each in list_runs(tmp_path) if each.path == run.path]
    assert (found.algorithm, found.environment) == ("", "")
    assert len(compare([tmp_path]).rows) == 1
    with pytest.raises(ConfigError, match="it is too much with what its aliases stand for"):
        compare([run.path])
    with pytest.raises(ConfigError, match="it is too much with what its aliases stand for"):
        Configurations().read(run)
    said = commands(tmp_path, ["config", "validate", str(run.config)])
    assert "it is too much with what its aliases stand for written out (line " in said


def commands(folder: Path, *lines: list[str]) -> str:
    """What commands of `fastloop` print, one after the other in one process."""
    code = "import sys, json\nfrom fast_core.tools.cli import main\n"
    code += "for line in json.loads(sys.argv[1]): main(line)"
    told = {**os.environ, "PYTHONPATH": str(Path(fast_core.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(lines)],
        cwd=folder,
        env=told,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=True,
    )
    return done.stdout.decode()


def test_a_stranger_steers_no_terminal(tmp_path: Path) -> None:
    code = "\\e]0;owned\\a\\e[2J\\x9b2J"
    run = RunDirectory(made_run(tmp_path, values=[1.0], crash="x: \x1b[2J\x9b\x07"))
    text = run.config.read_text()
    for key in ("name: made", "  id: CartPole-v1", "  name: ppo"):
        text = text.replace(key, f'{key.partition(":")[0]}: "{code}"')
    run.config.write_text(text)
    moved = run.path.parent.with_name("\x1b[31mred")
    run.path.parent.rename(moved)
    nothing = str(moved / "nothing")
    lines = [["list", "."], ["list", "--json", "."], ["compare", "."]]
    lines += [[command, nothing] for command in ("watch", "replay", "eval", "stop")]
    said = commands(tmp_path, *lines)
    assert said.count("owned") >= 6 and said.count("[31mred") >= 7
    assert [char for char in said if not (char.isprintable() or char == "\n")] == []


@pytest.mark.timeout(30)
def test_answer_without_an_end_is_refused(tmp_path: Path) -> None:
    run = RunDirectory(made_run(tmp_path))
    with (
        tempfile.TemporaryDirectory(prefix="fl-") as folder,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        path = Path(folder) / "s"
        listener.bind(str(path))
        listener.listen()
        run.control.symlink_to(path)

        def talk() -> None:
            link, _ = listener.accept()
            with link, contextlib.suppress(OSError):
                while True:
                    link.sendall(b"[" * 65_536)

        talker = threading.Thread(target=talk)
        talker.start()
        with pytest.raises(ConfigError, match="answers with a line of more than"):
            list(control_socket.ask(run, StatusRequest()))
        talker.join()


def test_numbers_of_any_length_and_halves_of_characters_are_damage(tmp_path: Path) -> None:
    run = RunDirectory(made_run(tmp_path, values=[1.0, 2.0]))
    for path in (run.events, run.metrics):
        path.write_text(path.read_text().replace('"env_steps": 200', f'"env_steps": {"9" * 400}'))
    (found,) = list_runs(tmp_path)
    assert (found.env_steps, found.last) == (100, 1.0)
    assert fast_core.Run(run.path).evaluations["env_steps"].tolist() == [100]
    run.config.write_text(run.config.read_text().replace("id: CartPole-v1", 'id: "\\uD800"'))
    with pytest.raises(ConfigError, match="half a character"):
        _ = fast_core.Run(run.path).config
