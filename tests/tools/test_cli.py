import json
import os
import signal
import subprocess
import sys
import types
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest

from fast_core.config import RunConfig
from fast_core.config.file import loads
from fast_core.errors import ConfigError, NodeFailed, SegmentError, TopologyError
from fast_core.integrations.scripts import as_main
from fast_core.launcher import Outcome
from fast_core.tools.bench import find_checkout
from fast_core.tools.cli import main
from fast_core.tools.unwinding import unwinding

ROOT = Path(__file__).parents[2]

MINIMAL = """\
name: cart
environment: {id: CartPole-v1}
algorithm: {name: ppo}
stop: {env_steps: 1000}
"""


def outcome(status: int) -> Outcome:
    """One with this exit status."""
    if status <= 1:
        return Outcome(("finished", "failed")[status], "", None, report="first cause\n" * status)
    return Outcome("interrupted", "", None, signal=signal.Signals(status - 128))


class Launcher(types.ModuleType):
    """Stands for `fast_core.launcher` and notes how it was called."""

    def __init__(self) -> None:
        super().__init__("fast_core.launcher")
        self.calls: list[tuple[object, ...]] = []
        self.result: int | Exception = 0

    def _end(self, *call: object) -> int:
        self.calls.append(call)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def launch(self, config: RunConfig, *, resume_from: Path | None = None) -> Outcome:
        return outcome(self._end("launch", config, resume_from))

    def validate(self, config: RunConfig) -> int:
        return self._end("validate", config)

    def resume(self, run: Path, overrides: Sequence[str]) -> Outcome:
        return outcome(self._end("resume", run, list(overrides)))

    def evaluate_run(self, run: Path, episodes: int | None, **options: object) -> int:
        unset = (None, False, ())
        given = {key: value for key, value in options.items() if not any(value is u for u in unset)}
        return self._end("eval", run, episodes, given)

    def play(
        self, what: str, checkpoint: str | None, modules: Sequence[str], overrides: Sequence[str]
    ) -> int:
        return self._end("play", what, checkpoint, *modules, *overrides)

    def sweep(self, file: Path, overrides: Sequence[str]) -> types.SimpleNamespace:
        return types.SimpleNamespace(exit_code=self._end("sweep", file, list(overrides)))

    def compare_and_show(self, runs: Sequence[Path], **options: object) -> int:
        unset = (None, False)
        given = {key: value for key, value in options.items() if not any(value is u for u in unset)}
        return self._end("compare", runs, given)

    def export_run(
        self, run: Path, file: Path, checkpoint: str | None, modules: Sequence[str]
    ) -> int:
        return self._end("export", run, file, checkpoint, *modules)

    def show_replay(self, run: Path, checkpoint: str | None, top: int) -> int:
        return self._end("replay", run, checkpoint, top)


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Launcher:
    module = Launcher()
    for tool in ("evaluate", "export", "play", "replay_view", "sweep.run", "compare.table"):
        monkeypatch.setitem(sys.modules, f"fast_core.tools.{tool}", module)
    for name in ("launcher", "launcher.run", "launcher.rerun"):
        monkeypatch.setitem(sys.modules, f"fast_core.{name}", module)
    return module


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "cart.yaml"
    path.write_text(MINIMAL)
    return str(path)


def resolved(*overrides: str) -> RunConfig:
    from fast_core.config.algorithms import algorithm_config_type

    return loads(MINIMAL, overrides, algorithm_config_type, source="x")


PAGE = "dashboard.enabled=true"
LAUNCHED: list[tuple[list[str], list[str], str | None]] = [
    (["seed=3", "algorithm.learning_rate=1e-4"], ["seed=3", "algorithm.learning_rate=1e-4"], None),
    (["mode=process", "--inline"], ["mode=inline"], None),
    (["--resume", "runs/a"], [], "runs/a"),
    (["--dashboard", "--port", "0"], ["dashboard.enabled=true", "dashboard.port=0"], None),
    (
        ["dashboard.enabled=true", "--port", "9"],
        ["dashboard.enabled=true", "dashboard.port=9"],
        None,
    ),
]


@pytest.mark.parametrize(("typed", "keys", "resumed"), LAUNCHED)
def test_launch_hands_over_the_resolved_configuration(
    launcher: Launcher, config: str, typed: list[str], keys: list[str], resumed: str | None
) -> None:
    assert main(["launch", config, *typed]) == 0
    assert launcher.calls == [("launch", resolved(*keys), resumed and Path(resumed))]


A = Path("runs/a")
WATCHED = {"video": Path("b.mp4"), "repeat": True, "explore": True, "modules": ["m"]}
OTHERWISE = {"overrides": ["environment.kwargs.gain=2"], "record": Path("t.npz")}
COMPARED = {"output": Path("c.svg"), "at": 9, "score": 0.5}
HANDED: list[tuple[str, tuple[object, ...]]] = [
    ("resume runs/a stop.env_steps=5", ("resume", A, ["stop.env_steps=5"])),
    ("resume runs/a --dashboard --port 9000", ("resume", A, [PAGE, "dashboard.port=9000"])),
    ("sweep many.yaml", ("sweep", Path("many.yaml"), [])),
    ("compare a b -o c.svg --at 9 --score 0.5", ("compare", [Path("a"), Path("b")], COMPARED)),
    ("eval runs/a", ("eval", A, None, {})),
    ("eval runs/a --episodes 7", ("eval", A, 7, {})),
    (
        "eval runs/a --render --seed 0 --checkpoint best",
        ("eval", A, None, {"render": True, "seed": 0, "checkpoint": "best"}),
    ),
    ("eval runs/a --video b.mp4 --explore --repeat --module m", ("eval", A, None, WATCHED)),
    ("eval runs/a environment.kwargs.gain=2 --record t.npz", ("eval", A, None, OTHERWISE)),
    ("play CartPole-v1", ("play", "CartPole-v1", None)),
    (
        "play runs/a --checkpoint newest --module a --module b",
        ("play", "runs/a", "newest", "a", "b"),
    ),
    (
        "play TicTacToe environment.kwargs.opponent=perfect",
        ("play", "TicTacToe", None, "environment.kwargs.opponent=perfect"),
    ),
    ("export runs/a -o p.onnx", ("export", A, Path("p.onnx"), None)),
    ("export runs/a --output p.h --checkpoint newest", ("export", A, Path("p.h"), "newest")),
    ("replay runs/a", ("replay", A, None, 10)),
    ("replay runs/a --checkpoint newest --top 3", ("replay", A, "newest", 3)),
]


@pytest.mark.parametrize(("typed", "call"), HANDED)
def test_command_hands_over_what_was_typed(
    launcher: Launcher, typed: str, call: tuple[object, ...]
) -> None:
    assert main(typed.split()) == 0
    assert launcher.calls == [call]


def test_folder_of_a_sweep_is_resumed_as_one(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text("")
    assert main(["resume", str(tmp_path), "jobs=2"]) == 0
    assert launcher.calls == [("sweep", tmp_path, ["jobs=2"])]


def test_export_without_a_file_is_refused_with_an_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["export", "runs/a"]) == 2
    told = "arguments are required: -o/--output\nFor example: fastloop export"
    assert told in capsys.readouterr().err


def test_port_of_a_page_that_is_not_asked_for_is_refused(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_bytes(Path(config).read_bytes())  # as a run has it
    for command in (["launch", config], ["resume", str(tmp_path)]):
        assert main([*command, "--port", "9000"]) == 2
        assert "--port is that of the page: add --dashboard" in capsys.readouterr().err


def test_page_that_may_not_be_served_is_refused_before_anything_starts(
    config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DASH-01: another address than loopback, and no token."""
    monkeypatch.delenv("FASTLOOP_DASHBOARD_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    asked = [config, "dashboard.host=0.0.0.0"]
    for command in (["launch", *asked, "--dashboard"], ["config", "validate", *asked]):
        more = [] if command[0] == "launch" else ["dashboard.enabled=true"]
        assert main([*command, *more]) == 2
        assert "needs a token" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["cart.yaml"]


def test_bench_lists_every_benchmark_of_the_checkout(capsys: pytest.CaptureFixture[str]) -> None:
    before = [path for path in sys.path if path != os.getcwd()]
    assert main(["bench", "--list"]) == 0
    assert [path for path in sys.path if path != os.getcwd()] == before, (
        "a user's folders come first"
    )
    shown = capsys.readouterr().out
    assert "ppo_throughput" in shown and "at least 2.7" in shown
    assert main(["bench", "no_such_benchmark"]) == 2


@pytest.mark.process
def test_bench_finds_its_own_beside_a_folder_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("raise RuntimeError('of a user')")
    code = (
        f"import sys; sys.path.append({str(ROOT)!r}); import fast_core.tools.bench; "
        f"sys.path.remove({str(ROOT)!r}); "
        "from fast_core.tools.cli import main; sys.exit(main(['bench', '--list']))"
    )
    found = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert "ppo_throughput" in found.stdout, found.stderr


def test_bench_of_an_installed_package_says_where_benchmarks_are(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "fast_core"
    package.mkdir(parents=True)
    with pytest.raises(ConfigError, match="clone FastLoop's repository"):
        find_checkout(package, tmp_path)
    assert find_checkout(package, ROOT / "tests") == ROOT


@pytest.mark.parametrize("code", [0, 1, 130, 143])
def test_exit_status_of_the_run_is_passed_on(
    code: int, launcher: Launcher, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher.result = code
    assert main(["launch", config]) == code
    assert capsys.readouterr().out == "first cause\n" * (code == 1), "a crash report comes last"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("seed is wrong"), 2),
        (TopologyError("nobody consumes Train"), 2),
        (SegmentError("no room"), 2),
        (NodeFailed("env-1 died"), 1),
    ],
)
def test_expected_error_is_one_message_without_traceback(
    error: Exception, code: int, launcher: Launcher, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher.result = error
    assert main(["launch", config]) == code
    assert capsys.readouterr() == ("", f"fastloop: {error}\n")


def test_debug_switch_shows_the_traceback(
    launcher: Launcher, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher.result = NodeFailed("env-1 died")
    monkeypatch.setenv("FASTLOOP_DEBUG", "1")
    with pytest.raises(NodeFailed):
        main(["launch", config])


def test_unexpected_error_keeps_its_traceback(launcher: Launcher, config: str) -> None:
    launcher.result = ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError):
        main(["launch", config])


def test_wrong_configuration_never_reaches_the_launcher(
    launcher: Launcher, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["launch", config, "sed=3"]) == 2
    assert "Did you mean seed?" in capsys.readouterr().err
    assert launcher.calls == []


@pytest.mark.parametrize(
    "arguments", [["lanch"], ["launch"], ["eval", "r", "--episodes", "0"], ["launch", "--zzz"]]
)
def test_wrong_command_line_is_status_2(
    arguments: list[str], launcher: Launcher, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert launcher.calls == []


def test_keyboard_interrupt_is_status_130(
    config: str, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*call: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(launcher, "_end", interrupt)
    assert main(["launch", config]) == 130


def test_main_puts_back_the_interrupt_handler(launcher: Launcher, config: str) -> None:
    def mine(number: int, frame: object) -> None:
        raise AssertionError

    before = signal.signal(signal.SIGINT, mine)
    try:
        main(["launch", config])
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)


def test_main_works_in_any_thread(launcher: Launcher, config: str, tmp_path: Path) -> None:
    """Only the main thread may set handlers; what sets some in others raises."""
    script = tmp_path / "script.py"
    script.write_text("")

    def work() -> list[int]:
        with as_main(script, ()), unwinding():
            return [main(["launch", config]), main(["config", "validate", config])]

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() == [0, 0]


def test_validate_says_what_is_valid(
    launcher: Launcher, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "validate", config, "name=other"]) == 0
    assert capsys.readouterr().out == f"{config} is valid: run 'other', ppo on CartPole-v1.\n"
    assert launcher.calls == [("validate", resolved("name=other"))]
    launcher.result = ConfigError("no such environment")
    assert main(["config", "validate", config]) == 2
    assert capsys.readouterr() == ("", "fastloop: no such environment\n")


def test_configuration_of_a_run_finds_the_modules_of_that_run(
    launcher: Launcher, config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    run, modules = tmp_path / "run", tmp_path / "modules"
    for folder in (run, modules):
        folder.mkdir()
    (run / "versions.json").write_text(json.dumps([{"modules_in": str(modules)}]))
    (run / "config.yaml").write_bytes(Path(config).read_bytes())
    (modules / "only_of_the_run.py").write_text(
        "from fast_core.algos.ppo.config import PPOConfig\n\n\nclass Mine(PPOConfig): ...\n"
    )
    given = [str(run / "config.yaml"), "algorithm.name=only_of_the_run:Mine"]
    assert main(["config", "validate", *given]) == 0


def test_validate_can_show_every_default(
    launcher: Launcher, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "validate", config, "--show"]) == 0
    shown = capsys.readouterr().out
    from fast_core.config.algorithms import algorithm_config_type

    assert loads(shown, [], algorithm_config_type, source="shown") == resolved()
    assert "score_held: 1" in shown


def test_schema_and_defaults_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema"]) == 0
    assert capsys.readouterr().out.startswith('{\n  "$schema"')
    assert main(["config", "schema", "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("# Configuration reference\n")
    assert main(["config", "defaults", "--algorithm", "ppo"]) == 0
    assert "\n  name: ppo\n" in capsys.readouterr().out
    assert main(["config", "defaults", "--algorithm", "ppp"]) == 2


def test_doctor_fails_when_something_is_to_be_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from fast_core.tools import doctor

    findings = [doctor.Finding("cores", "2")]
    monkeypatch.setattr(doctor, "diagnose", lambda: findings)
    assert main(["doctor"]) == 0
    findings.append(doctor.Finding("open files", "9", "Raise the limit."))
    assert main(["doctor"]) == 1
    assert "-> Raise the limit." in capsys.readouterr().out


# --- what must hold for a real process ----------------------------------------------------------


def python(code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )


@pytest.mark.process
@pytest.mark.parametrize("typed", ["--help", "eval --help", "config defaults", "init --list"])
def test_output_that_nobody_reads_ends_a_command_quietly(typed: str) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    call = [sys.executable, "-m", "fast_core.tools.cli", *typed.split()]
    with os.fdopen(writes) as nobody:
        ended = subprocess.run(call, cwd=ROOT, stdout=nobody, stderr=subprocess.PIPE, timeout=60)
    assert ended.returncode in (0, 1) and ended.stderr == b""


@pytest.mark.process
def test_what_the_output_has_no_letters_for_is_escaped(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "fast_core.tools.cli", "init", "ö"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    told = subprocess.run(call, cwd=tmp_path, env=environment, capture_output=True, timeout=60)
    assert rb"\xf6/ppo_cartpole.yaml is yours to edit" in told.stdout, told.stderr


def test_broken_pipe_of_another_is_no_quiet_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks() -> NoReturn:
        raise BrokenPipeError  # a simulator's, say

    monkeypatch.setattr("fast_core.tools.doctor.diagnose", breaks)
    with pytest.raises(BrokenPipeError):
        main(["doctor"])


ENVIRONMENTS = {"torch", "gymnasium", "rich"}
NOT_IMPORTED = [
    ("import fast_core.tools.commands", ENVIRONMENTS),
    ("main(['--help'])", ENVIRONMENTS | {"numpy", "msgspec", "yaml", "zmq"}),
    ("assert main(['config', 'defaults']) == 0", ENVIRONMENTS),
    ("assert main(['config', 'validate', {path!r}, 'x=1']) == 2", ENVIRONMENTS),
    # which makes the environment, in another process
    (
        "assert main(['config', 'validate', {path!r}]) == 0",
        {"torch", "gymnasium.envs.classic_control"},
    ),
]


@pytest.mark.process
@pytest.mark.parametrize(("statement", "modules"), NOT_IMPORTED)
def test_command_line_does_not_import(statement: str, modules: set[str], config: str) -> None:
    done = python(
        "import sys; from fast_core.tools.cli import main; "
        f"{statement.format(path=config)}; print(*{modules} & sys.modules.keys())"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""


# Interrupts the process at the moment when it begins to import the commands.
INTERRUPTED_IMPORT = """
import importlib.abc, os, signal, sys, time

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "fast_core.tools.commands":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)

sys.meta_path.insert(0, Interrupt())
{before}
from fast_core.tools.cli import main
sys.exit(main(["--help"]))
"""


@pytest.mark.process
@pytest.mark.parametrize("before", ["", "signal.signal(signal.SIGINT, signal.SIG_IGN)"])
def test_interrupt_during_the_imports_is_status_130_and_silent(before: str) -> None:
    done = python(INTERRUPTED_IMPORT.format(before=before))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.process
def test_surroundings_that_are_missing_are_put_in_words(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    removed = (
        f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); "
        "from fast_core.tools.cli import main; raise SystemExit(main(['doctor']))"
    )
    nobody = (
        "from fast_core.tools.cli import main; "
        "raise SystemExit(main(['eval', '~nobody-of-that-name/r']))"
    )
    for code, sentence in ((removed, "was it removed?"), (nobody, "Write the whole path")):
        done = python(code)
        assert done.returncode == 2, done.stderr
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["--seed", "3"], "seed=3"),
        (["--stop.env_steps=10"], "stop.env_steps=10"),
        (["--mode"], "mode=VALUE"),
        (["--seed", "--inline"], "seed=VALUE"),
        (["--sed", "3"], None),
        (["--sed", "--dashboard"], None),
    ],
)
def test_key_that_is_given_as_an_option_is_answered_with_how_it_is_given(
    given: list[str], meant: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["launch", "ppo_cartpole", *given]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == (
        f"Keys of the configuration have no dashes: {meant}"
        if meant
        else "`fastloop launch --help` shows all that there is."
    )


@pytest.mark.parametrize("command", [[], ["launch"], ["config", "validate"]])
def test_help_has_a_short_name(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "-h"]) == 0
    assert "usage: fastloop" in capsys.readouterr().out
