"""Finds the benchmarks, runs them one after the other, and shows what they found.

A benchmark is a module of this folder with a ``TARGET``; its docstring's first line says what it
compares. Nothing has to be registered.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.measure import installed
from fast_core.system.surroundings import write_result

FOLDER = Path(__file__).resolve().parent
INTERRUPT_GRACE_S = 10.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FAILED = 1
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Benchmark:
    """One benchmark, as its source describes it.

    Attributes:
        name: Module below ``benchmarks``.
        compares: What with what, in a line.
        target: The ratio that it is meant to reach.
        better: Whether above or below the target is good.
        peers: Distributions that it compares with or runs on, ``PEERS`` in its source.
    """

    name: str
    compares: str
    target: float
    better: Better
    peers: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Those of ``peers`` that are not installed."""
        return tuple(peer for peer in self.peers if installed(peer) is None)


class Result(msgspec.Struct):
    """The last line of a benchmark, as far as the table needs it."""

    name: str
    ratio: float | None
    target: float
    better: Better
    skipped: list[str]

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where nothing was compared."""
        if self.ratio is None:
            return None
        return self.ratio >= self.target if self.better == "higher" else self.ratio <= self.target


@dataclass(frozen=True)
class Outcome:
    """What became of one benchmark.

    Attributes:
        benchmark: Which.
        seconds: How long it took.
        result: Its last line; None if it failed.
        text: That line as it was printed, or how it failed.
    """

    benchmark: Benchmark
    seconds: float
    result: Result | None
    text: str


def find(folder: Path = FOLDER) -> list[Benchmark]:
    """Every benchmark of ``folder``, by name; reads them without importing any."""
    found = (describe(path.stem, path.read_text("utf-8")) for path in sorted(folder.glob("*.py")))
    return [benchmark for benchmark in found if benchmark is not None]


def describe(name: str, source: str) -> Benchmark | None:
    """The benchmark that a module is; None if it has no ``TARGET``."""
    module = ast.parse(source)
    constants = {
        to.id: statement.value
        for statement in module.body
        if isinstance(statement, ast.Assign)
        for to in statement.targets
        if isinstance(to, ast.Name)
    }
    if "TARGET" not in constants:
        return None
    peers = ast.literal_eval(constants["PEERS"]) if "PEERS" in constants else ()
    lower = any(
        keyword.arg == "better"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value == "lower"
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
    )
    compares = (ast.get_docstring(module) or "").strip().partition("\n")[0].replace("``", "")
    target = _number(constants["TARGET"])
    return Benchmark(name, compares, target, "lower" if lower else "higher", peers)


def _number(value: ast.expr) -> float:
    """A number, or one divided by another; not a number where it is something else."""
    if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
        return float(value.value)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        return _number(value.left) / _number(value.right)
    return float("nan")


def run(names: Sequence[str], *, quick: bool, only_list: bool, as_json: bool) -> int:
    """List or run benchmarks and show a table.

    Args:
        names: Which ones; none means all.
        quick: Whether to run them with ``--quick``.
        only_list: Show what there is, run nothing.
        as_json: Print a JSON object per benchmark on standard output, and progress on standard
            error.

    Returns:
        0 whether or not targets are met, 1 if one failed to run, 2 for a name that is not there,
        130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
    """
    benchmarks = find()
    unknown = sorted(set(names) - {benchmark.name for benchmark in benchmarks})
    if unknown:
        known = ", ".join(benchmark.name for benchmark in benchmarks)
        print(f"fastloop: no benchmark {', '.join(unknown)}; there are {known}", file=sys.stderr)
        return 2
    chosen = [each for each in benchmarks if not names or each.name in names]
    console = make_console(stderr=as_json)
    if only_list:
        _print_list(console, chosen, as_json=as_json)
        return 0
    if lacking := missing_text(chosen):
        console.print(Text(lacking), style="yellow")
    outcomes: list[Outcome] = []
    status = 0
    try:
        with _signals_raised():
            for number, benchmark in enumerate(chosen, start=1):
                console.print(f"{benchmark.name} ({number} of {len(chosen)})", style="bold")
                outcome = run_one(benchmark, quick=quick, tell=_dimly(console))
                outcomes.append(outcome)
                if as_json:
                    write_result(json.dumps(_as_dict(outcome)))
    except Signalled as signalled:
        status = 128 + signalled.number
    if outcomes and not as_json:
        console.print(table(outcomes))
    if status == 0 and any(outcome.result is None for outcome in outcomes):
        status = FAILED
    return status


class Signalled(BaseException):
    """A signal came that asks this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def _signals_raised() -> Iterator[None]:
    """Raise `Signalled` on each of them, so that the benchmark that runs is ended, too."""

    def interrupt(number: int, frame: object) -> None:
        raise Signalled(number)

    before = {number: signal.signal(number, interrupt) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def make_console(*, stderr: bool = False) -> Console:
    """A console that draws nothing but text where NO_COLOR is set (https://no-color.org)."""
    if os.environ.get("NO_COLOR"):
        return Console(stderr=stderr, highlight=False, color_system=None)
    return Console(stderr=stderr, highlight=False)


def run_one(benchmark: Benchmark, *, quick: bool, tell: Callable[[str], None]) -> Outcome:
    """Run one benchmark in a process of its own, and pass its lines on as they come.

    Raises:
        Signalled: After the benchmark and all that it started have ended.
    """
    # Unbuffered, so that what it says last comes last.
    command = [sys.executable, "-u", "-m", f"benchmarks.{benchmark.name}", *(("--quick",) * quick)]
    begun_s, last = time.monotonic(), ""
    # A process group of its own, so that it is interrupted once, by us, and nothing of it stays.
    with subprocess.Popen(
        command,
        cwd=FOLDER.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if (line := line.rstrip()) and not is_result(last := line):
                    tell(line)
            status = process.wait()
        except BaseException:
            _end(process)
            raise
    result = read_result(last)
    seconds = time.monotonic() - begun_s
    if status != 0 or result is None:
        return Outcome(benchmark, seconds, None, f"ended with status {status}: {last[:200]}")
    return Outcome(benchmark, seconds, result, last)


def _end(process: subprocess.Popen[str]) -> None:
    """Interrupt a benchmark as Ctrl-C does, which ends what it started; then insist.

    A second signal while it ends insists at once.
    """
    try:
        _signal_group(process, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(INTERRUPT_GRACE_S)
    finally:
        _signal_group(process, signal.SIGKILL)
        process.wait()


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def is_result(line: str) -> bool:
    """Whether a line looks like the last one of a benchmark."""
    return line.startswith('{"name"')


def read_result(line: str) -> Result | None:
    """The last line of a benchmark; None if it is something else."""
    try:
        return msgspec.json.decode(line, type=Result)
    except msgspec.MsgspecError:
        return None


def table(outcomes: Iterable[Outcome]) -> Table:
    """One row for each benchmark that ran."""
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("benchmark", "ratio", "target", "met", "took", "note"):
        made.add_column(head, justify="right" if head in ("ratio", "took") else "left")
    for outcome in outcomes:
        result, benchmark = outcome.result, outcome.benchmark
        if result is None:
            ratio, met, note = "-", Text("failed", "bold red"), outcome.text
        else:
            ratio = "-" if result.ratio is None else f"{result.ratio:.3g}"
            met, note = _met(result), "; ".join(result.skipped)
        goal = target_text(benchmark)
        made.add_row(benchmark.name, ratio, goal, met, f"{outcome.seconds:.0f} s", Text(note))
    return made


def _met(result: Result) -> Text:
    words = {True: ("yes", "green"), False: ("no", "yellow"), None: ("not compared", "")}
    return Text(*words[result.met])


def target_text(benchmark: Benchmark) -> str:
    """``at least 2.7`` and the like."""
    return f"at {'least' if benchmark.better == 'higher' else 'most'} {benchmark.target:.3g}"


def missing_text(benchmarks: Sequence[Benchmark]) -> str:
    """What is not installed, and who would leave something out or fail for it; else empty."""
    peers = dict.fromkeys(peer for each in benchmarks for peer in each.missing)
    lacking = [
        f"{peer} ({', '.join(each.name for each in benchmarks if peer in each.missing)})"
        for peer in peers
    ]
    if not lacking:
        return ""
    return f"not installed: {'; '.join(lacking)}. pip install -e '.[bench]' brings them."


def _print_list(console: Console, benchmarks: Sequence[Benchmark], *, as_json: bool) -> None:
    if as_json:
        for benchmark in benchmarks:
            write_result(msgspec.json.encode(benchmark).decode())
        return
    made = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("benchmark", "target", "compares"):
        made.add_column(head, no_wrap=head != "compares")
    for benchmark in benchmarks:
        made.add_row(benchmark.name, target_text(benchmark), Text(benchmark.compares))
    console.print(made)
    if lacking := missing_text(benchmarks):
        console.print(Text(lacking), style="yellow")


def _dimly(console: Console) -> Callable[[str], None]:
    return lambda line: console.print(
        Text(f"  {line}"), style="dim", no_wrap=True, overflow="ellipsis", crop=False
    )


def _as_dict(outcome: Outcome) -> dict[str, object]:
    seconds = round(outcome.seconds, 1)
    if outcome.result is None:
        return {"name": outcome.benchmark.name, "failed": outcome.text, "seconds": seconds}
    return {**json.loads(outcome.text), "met": outcome.result.met, "seconds": seconds}
