"""What user code says in numbers and on standard output, and the streams a run is started with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fast_core.monitor.bounded_logs import LIMIT_BYTES
from tests.forms import slow_but
from tests.monitor.event_files import read_scalars
from tests.process import talking
from tests.process.harness import ROOT, TOY, Launched, Workplace, read_lines

pytestmark = pytest.mark.process

TALKS: dict[str, Any] = {
    **TOY,
    "name": "talks",
    "environment": {"id": "fastloop/Talks-v0", "modules": ["talking"], "info": ["is_success"]},
    "evaluation": {"every_env_steps": 64, "episodes": 2, "envs": 2},
    "metrics": {"tensorboard": True, "interval_s": 0.01},
    "stop": {"env_steps": 128},
}


@pytest.fixture
def talked(workplace: Workplace) -> Launched:
    extra = [{"node": "talking:Notes", "name": "notes"}]
    nodes = {"env": {"count": 1}, "extra": extra}
    launched = workplace.launch(config={**TALKS, "nodes": nodes}).done()
    return launched


def evaluate(workplace: Workplace, launched: Launched, *options: str) -> Launched:
    evaluated = workplace.fastloop(["eval", str(launched.run), *options], launched.home).done()
    return evaluated


def test_numbers_of_the_info_and_of_nodes_reach_every_file(
    workplace: Workplace, talked: Launched
) -> None:
    rows = read_lines(talked.run / "metrics.jsonl")
    values = {name: value for row in rows for name, value in row["values"].items()}
    tags = read_scalars(talked.run / "tensorboard")
    expected = {"info/is_success": 1.0, "eval_info/is_success": 1.0, "notes/rows": 16.0}
    for name, value in expected.items():
        assert values[name] == value
        assert tags[name][-1][1] == value
    evaluated = evaluate(workplace, talked)
    # the screen has both streams, and what user code has in a buffer may come last
    (result,) = (line for line in evaluated.screen.splitlines() if line.startswith("{"))
    assert json.loads(result)["info"] == {"is_success": 1.0}


def separately(launched: Launched, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``fastloop`` beside a run, its two streams apart."""
    paths = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    return subprocess.run(
        [sys.executable, "-m", "fast_core.tools.cli", *arguments],
        cwd=launched.home,
        env={**os.environ, "PYTHONPATH": paths, "TMPDIR": str(launched.home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_a_machine_reads_is_free_of_what_user_code_prints(talked: Launched) -> None:
    pytest.importorskip("imageio_ffmpeg")
    arguments = ("eval", str(talked.run.relative_to(talked.home)), "--video", "clip.mp4")
    evaluated = separately(talked, *arguments)
    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads(evaluated.stdout)["video"] == str(talked.home / "clip.mp4")
    assert (talked.home / "clip.mp4").stat().st_size > 0
    assert talking.LINE in evaluated.stderr
    assert talking.LINE not in evaluated.stdout


def test_chatty_simulator_fills_no_disk(workplace: Workplace) -> None:
    chatter = 2 * LIMIT_BYTES // len(talking.LINE)
    environment = {**TALKS["environment"], "kwargs": {"chatter": chatter}}
    rollout = {"shards": 1, "envs_per_shard": 2, "steps": 32}
    changes = {"environment": environment, "rollout": rollout, "evaluation": TOY["evaluation"]}
    launched = workplace.launch("nodes.env.count=1", config={**TALKS, **changes}).done()
    logs = {path.name: path.stat().st_size for path in (launched.run / "logs").iterdir()}
    assert logs["env-0.log.1"] == LIMIT_BYTES
    assert max(logs.values()) <= LIMIT_BYTES


@pytest.mark.parametrize("allowed", slow_but([20], [14, 20]))
@pytest.mark.parametrize("command", [["launch"], ["config", "validate"]])
def test_few_descriptors_are_refused_with_a_sentence(
    workplace: Workplace, command: list[str], allowed: int
) -> None:
    home = workplace.folder()
    (home / "config.yaml").write_text(yaml.safe_dump(TOY))
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({allowed}, {allowed})); "
        f"from fast_core.tools.cli import main; raise SystemExit(main({[*command, 'config.yaml']}))"
    )
    launched = workplace.start(["-c", code], home=home).ends(2)
    assert "ulimit -n" in launched.screen
    assert "Traceback" not in launched.screen
    assert not list(home.glob("runs/*/*"))


def test_closed_streams_receive_nothing_and_harm_nothing(workplace: Workplace) -> None:
    home = workplace.folder()
    (home / "config.yaml").write_text(yaml.safe_dump({**TOY, "stop": {"env_steps": 64}}))
    code = (
        "import os; [os.close(number) for number in range(3)]; "
        "os.execv(os.sys.executable, "
        "[os.sys.executable, '-m', 'fast_core.tools.cli', 'launch', 'config.yaml'])"
    )
    launched = workplace.start(["-c", code], home=home).done()
    assert read_lines(launched.run / "events.jsonl")[-1]["facts"]["outcome"] == "finished"
    assert launched.screen == ""
    launched.assert_gone()
