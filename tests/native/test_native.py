"""The native headers under sanitizers, killed at every point, and with bugs put in.

Each mutant is a copy of the headers with one text replaced. A mutant that passes means that the
stress program or the sanitizer would miss that bug in the real headers, too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.native

HERE = Path(__file__).parent
HEADERS = HERE.parents[1] / "fast_core" / "memory" / "native"
TREES = HERE.parents[1] / "algos" / "muzero" / "native"

THREAD = ("-fsanitize=thread", "-DFASTLOOP_TSAN", "-Wno-tsan")
ADDRESS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FAILPOINTS = ("-DFASTLOOP_FAILPOINTS",)
WEAK = (*FAILPOINTS, "-DFASTLOOP_WEAK_ORDER")


def build(source: str, flags: tuple[str, ...], headers: Path, folder: Path) -> Path:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = folder / "program"
    warnings = ("-Wall", "-Wextra", "-Werror")
    lines = ("-g",) if {*THREAD, *ADDRESS} & {*flags} else ()  # a sanitizer names them
    built = subprocess.run(
        [compiler, "-std=c++17", "-O1", *lines, *warnings, *flags, f"-I{headers}", "-pthread",
         str(HERE / source), "-o", str(program)],
        capture_output=True,
        text=True,
    )  # fmt: skip
    if "cannot find" in built.stderr and "san" in built.stderr:
        pytest.skip(f"the compiler has no {flags[0]}")
    assert built.returncode == 0, built.stderr
    return program


def run(program: Path, timeout_s: float = 60) -> tuple[int, str]:
    finished = subprocess.run(
        [program],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1"},
    )
    return finished.returncode, finished.stdout + finished.stderr


@pytest.mark.slow
@pytest.mark.parametrize("source", ["stress.cpp", "replay_stress.cpp"])
@pytest.mark.parametrize("flags", [THREAD, ADDRESS], ids=["thread", "address"])
def test_stress_is_clean_under_the_sanitizer(
    tmp_path: Path, source: str, flags: tuple[str, ...]
) -> None:
    status, output = run(build(source, flags, HEADERS, tmp_path))
    assert (status, output) == (0, "ALL GOOD\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "flags"),
    [("stress.cpp", ()), ("stress.cpp", ("-DFASTLOOP_NO_FUTEX",)), ("replay_stress.cpp", ())],
    ids=["futex", "no futex", "replay"],
)
def test_stress_is_clean_as_released(tmp_path: Path, source: str, flags: tuple[str, ...]) -> None:
    status, output = run(build(source, ("-O3", *flags), HEADERS, tmp_path))
    assert (status, output) == (0, "ALL GOOD\n")


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ADDRESS], ids=["plain", "address"])
def test_no_interleaving_and_no_death_gives_a_torn_or_joined_window(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    status, output = run(build("replay.cpp", (*WEAK, *flags), HEADERS, tmp_path))
    assert (status, output) == (0, "ALL GOOD\n")


@pytest.mark.slow
def test_no_interleaving_gives_a_torn_version(tmp_path: Path) -> None:
    status, output = run(build("interleave.cpp", FAILPOINTS, HEADERS, tmp_path))
    assert (status, output) == (0, "ALL GOOD\n")


def test_death_at_any_point_loses_one_record_and_stops_nobody(tmp_path: Path) -> None:
    status, output = run(build("kill.cpp", FAILPOINTS, HEADERS, tmp_path))
    assert (status, output) == (0, "ALL GOOD\n")


def test_priority_tree_finds_the_leaf_of_every_sum(tmp_path: Path) -> None:
    status, output = run(build("sum_tree.cpp", ADDRESS, HEADERS, tmp_path))
    assert (status, output) == (0, "ALL GOOD\n")


@pytest.mark.slow
@pytest.mark.parametrize("flags", [ADDRESS, ("-O3",)], ids=["address", "as released"])
def test_trees_of_any_search_stay_whole(tmp_path: Path, flags: tuple[str, ...]) -> None:
    status, output = run(build("trees.cpp", flags, TREES, tmp_path))
    assert (status, output) == (0, "ALL GOOD\n")


# Name: program, its flags, header, text, replacement.
MUTANTS = {
    "commit before the payload": (
        "stress.cpp",
        THREAD,
        "ring.hpp",
        "    copy_owned(claimed(), record, record_bytes_);\n    publish();",
        "    char* place = claimed();\n    publish();\n"
        "    copy_owned(place, record, record_bytes_);",
    ),
    "commit before the payload, killed": (
        "kill.cpp",
        FAILPOINTS,
        "ring.hpp",
        "    copy_owned(claimed(), record, record_bytes_);\n    publish();",
        "    char* place = claimed();\n    publish();\n"
        "    copy_owned(place, record, record_bytes_);",
    ),
    "missing release of head": (
        "stress.cpp",
        THREAD,
        "ring.hpp",
        "own_head() + 1, std::memory_order_release",
        "own_head() + 1, std::memory_order_relaxed",
    ),
    "missing acquire of head": (
        "stress.cpp",
        THREAD,
        "ring.hpp",
        "head.load(std::memory_order_acquire)",
        "head.load(std::memory_order_relaxed)",
    ),
    "missing release of tail": (
        "stress.cpp",
        THREAD,
        "ring.hpp",
        "own_tail() + 1, std::memory_order_release",
        "own_tail() + 1, std::memory_order_relaxed",
    ),
    "tail given back before the copy": (
        "stress.cpp",
        THREAD,
        "ring.hpp",
        "    copy_owned(to, oldest(), record_bytes_);\n    give_back();",
        "    const char* place = oldest();\n    give_back();\n"
        "    copy_owned(to, place, record_bytes_);",
    ),
    "one record too many": (
        "stress.cpp",
        THREAD,
        "ring.hpp",
        "return head - cached_tail_ < capacity_;",
        "return head - cached_tail_ <= capacity_;",
    ),
    "two records given back": (
        "kill.cpp",
        FAILPOINTS,
        "ring.hpp",
        "own_tail() + 1, std::memory_order_release",
        "own_tail() + 2, std::memory_order_release",
    ),
    "sleep not announced": (
        "stress.cpp",
        THREAD,
        "doorbell.hpp",
        "bell.asleep_on.store(seen, std::memory_order_relaxed)",
        "bell.asleep_on.store(seen + 9, std::memory_order_relaxed)",
    ),
    "sleep on any value": (
        "interleave.cpp",
        FAILPOINTS,
        "doorbell.hpp",
        "FUTEX_WAIT, seen,",
        "FUTEX_WAIT, seen + word.load() - seen,",
    ),
    "no check for lapping": (
        "interleave.cpp",
        FAILPOINTS,
        "seqlock.hpp",
        "- publication < 2",
        "- publication < 200",
    ),
    "lapping noticed one late": (
        "interleave.cpp",
        FAILPOINTS,
        "seqlock.hpp",
        "- publication < 2",
        "- publication < 3",
    ),
    "two copies instead of three": (
        "interleave.cpp",
        FAILPOINTS,
        "seqlock.hpp",
        "publication % 3",
        "publication % 2",
    ),
    "weights published first": (
        "kill.cpp",
        FAILPOINTS,
        "seqlock.hpp",
        "    char* place = copy_of(next);",
        "    block_->published.store(next);\n    char* place = copy_of(next);",
    ),
    "leaf of zero at a border": (
        "sum_tree.cpp",
        (),
        "sum_tree.hpp",
        "sum <= left",
        "sum < left",
    ),
    "rest beyond the last leaf": (
        "sum_tree.cpp",
        (),
        "sum_tree.hpp",
        "chosen > 0 && child[chosen] == 0.0",
        "false",
    ),
    "parent off by one child": (
        "sum_tree.cpp",
        (),
        "sum_tree.hpp",
        "for (std::size_t k = 0; k < kFan; k += 4)",
        "for (std::size_t k = 0; k < kFan - 4; k += 4)",
    ),
    "all-time greatest": (
        "sum_tree.cpp",
        (),
        "sum_tree.hpp",
        "most[4] = {};",
        "most[4] = {level == 1 ? greatest_[level][node] : 0.0};",
    ),
    "rows committed before they are written": (
        "replay.cpp",
        WEAK,
        "replay_log.hpp",
        "      write_step(env, row, k, columns,",
        "      store_release(commit_word(env), row + (end == 0 ? 1 : 2));\n"
        "      write_step(env, row, k, columns,",
    ),
    "no fence after the commits": (
        "replay.cpp",
        WEAK,
        "replay_log.hpp",
        "    release_fence();\n    FASTLOOP_FAILPOINT",
        "    FASTLOOP_FAILPOINT",
    ),
    "no fence before the second look": (
        "replay.cpp",
        WEAK,
        "windows.hpp",
        "    acquire_fence();\n",
        "",
    ),
    "no second look": (
        "replay.cpp",
        WEAK,
        "windows.hpp",
        "window.age >= sources_[window.source].kept",
        "window.age >= 0 * sources_[window.source].kept",
    ),
    "second look without the stacked frames": (
        "replay.cpp",
        WEAK,
        "windows.hpp",
        "window.row - window.age >= sources_[window.source].kept",
        "window.row >= sources_[window.source].kept",
    ),
    "open rows ignored": (
        "replay.cpp",
        WEAK,
        "replay_log.hpp",
        "kOpenRows = 2",
        "kOpenRows = 0",
    ),
    "room for one open row only": (
        "replay.cpp",
        WEAK,
        "replay_log.hpp",
        "kOpenRows = 2",
        "kOpenRows = 1",
    ),
    "successor not marked": (
        "replay.cpp",
        WEAK,
        "replay_log.hpp",
        "continues ? Next::ask : Next::begins",
        "continues ? Next::ask : load_relaxed(commit_of(0)) ? Next::follows : Next::begins",
    ),
    "successor continues": (
        "replay.cpp",
        WEAK,
        "replay_log.hpp",
        "continues ? Next::ask : Next::begins",
        "continues ? Next::begins : Next::ask",
    ),
    "open rows taken for reserve": (
        "replay.cpp",
        WEAK,
        "replay_log.hpp",
        "plan_.places - kOpenRows",
        "plan_.places",
    ),
    "no fence before the second look at a copy": (
        "replay.cpp",
        WEAK,
        "replay_log.hpp",
        "    acquire_fence();\n",
        "",
    ),
    "copy not looked at again": (
        "replay.cpp",
        WEAK,
        "replay_log.hpp",
        "return std::max(first, commit - whole(env, commit));",
        "return std::max(first, 0 * commit);",
    ),
    "copy does not wrap": (
        "replay.cpp",
        (*WEAK, *ADDRESS),
        "replay_log.hpp",
        "std::min(count, plan_.places - begin)",
        "count + 0 * begin",
    ),
    "mark ignored by windows": (
        "replay.cpp",
        WEAK,
        "windows.hpp",
        "if ((bits & kBegins) != 0) return State::never;",
        "",
    ),
    "mark ignored by stacks": (
        "replay.cpp",
        WEAK,
        "windows.hpp",
        "reach() && (bits & kBegins) == 0)",
        "reach() && window.row > window.age && bits < 99)",
    ),
    "final observation not committed": (
        "replay.cpp",
        WEAK,
        "replay_log.hpp",
        "row + (end == 0 ? 1 : 2)",
        "row + (end == 9 ? 2 : 1)",
    ),
    "newest row drawn": (
        "replay.cpp",
        WEAK,
        "windows.hpp",
        "if (next >= source.commit) return State::open;",
        "if (next > source.commit) return State::open;",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_caught(tmp_path: Path, mutant: str) -> None:
    source, flags, header, text, replacement = MUTANTS[mutant]
    headers = tmp_path / "headers"
    shutil.copytree(HEADERS, headers, ignore=shutil.ignore_patterns("*.cpp"))
    sound = (headers / header).read_text()
    assert sound.count(text) == 1, "the mutant no longer fits the header; write it anew"
    (headers / header).write_text(sound.replace(text, replacement))
    status, output = run(build(source, flags, headers, tmp_path))
    assert status != 0, output
    caught = ("FAILED", "ThreadSanitizer: data race", "the region is damaged")
    assert any(words in output for words in caught), output
