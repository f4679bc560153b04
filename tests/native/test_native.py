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
MUZERO = HERE.parents[1] / "algos" / "muzero" / "native"

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
@pytest.mark.parametrize("source", ["trees.cpp", "heads.cpp"])
@pytest.mark.parametrize("flags", [ADDRESS, ("-O3",)], ids=["address", "as released"])
def test_searches_stay_whole_whatever_networks_say(
    tmp_path: Path, source: str, flags: tuple[str, ...]
) -> None:
    status, output = run(build(source, flags, MUZERO, tmp_path))
    assert (status, output) == (0, "ALL GOOD\n")


# What a program, with its flags, catches in a header, by name: text, replacement.
CAUGHT = {
    ("stress.cpp", THREAD, "ring.hpp"): {
        "commit before the payload": (
            "    copy_owned(claimed(), record, record_bytes_);\n    publish();",
            "    char* place = claimed();\n"
            "    publish();\n"
            "    copy_owned(place, record, record_bytes_);",
        ),
        "missing release of head": (
            "own_head() + 1, std::memory_order_release",
            "own_head() + 1, std::memory_order_relaxed",
        ),
        "missing acquire of head": (
            "head.load(std::memory_order_acquire)",
            "head.load(std::memory_order_relaxed)",
        ),
        "missing release of tail": (
            "own_tail() + 1, std::memory_order_release",
            "own_tail() + 1, std::memory_order_relaxed",
        ),
        "tail given back before the copy": (
            "    copy_owned(to, oldest(), record_bytes_);\n    give_back();",
            "    const char* place = oldest();\n"
            "    give_back();\n"
            "    copy_owned(to, place, record_bytes_);",
        ),
        "one record too many": (
            "return head - cached_tail_ < capacity_;",
            "return head - cached_tail_ <= capacity_;",
        ),
    },
    ("kill.cpp", FAILPOINTS, "ring.hpp"): {
        "commit before the payload, killed": (
            "    copy_owned(claimed(), record, record_bytes_);\n    publish();",
            "    char* place = claimed();\n"
            "    publish();\n"
            "    copy_owned(place, record, record_bytes_);",
        ),
        "two records given back": (
            "own_tail() + 1, std::memory_order_release",
            "own_tail() + 2, std::memory_order_release",
        ),
    },
    ("stress.cpp", THREAD, "doorbell.hpp"): {
        "sleep not announced": (
            "bell.asleep_on.store(seen, std::memory_order_relaxed)",
            "bell.asleep_on.store(seen + 9, std::memory_order_relaxed)",
        )
    },
    ("interleave.cpp", FAILPOINTS, "doorbell.hpp"): {
        "sleep on any value": ("FUTEX_WAIT, seen,", "FUTEX_WAIT, seen + word.load() - seen,")
    },
    ("interleave.cpp", FAILPOINTS, "seqlock.hpp"): {
        "no check for lapping": ("- publication < 2", "- publication < 200"),
        "lapping noticed one late": ("- publication < 2", "- publication < 3"),
        "two copies instead of three": ("publication % 3", "publication % 2"),
    },
    ("kill.cpp", FAILPOINTS, "seqlock.hpp"): {
        "weights published first": (
            "    char* place = copy_of(next);",
            "    block_->published.store(next);\n    char* place = copy_of(next);",
        )
    },
    ("sum_tree.cpp", (), "sum_tree.hpp"): {
        "leaf of zero at a border": ("sum <= left", "sum < left"),
        "rest beyond the last leaf": ("chosen > 0 && child[chosen] == 0.0", "false"),
        "parent off by one child": (
            "for (std::size_t k = 0; k < kFan; k += 4)",
            "for (std::size_t k = 0; k < kFan - 4; k += 4)",
        ),
        "all-time greatest": (
            "most[4] = {};",
            "most[4] = {level == 1 ? greatest_[level][node] : 0.0};",
        ),
    },
    ("replay.cpp", WEAK, "replay_log.hpp"): {
        "rows committed before they are written": (
            "      write_step(env, row, k, columns,",
            "      store_release(commit_word(env), row + (end == 0 ? 1 : 2));\n"
            "      write_step(env, row, k, columns,",
        ),
        "no fence after the commits": (
            "    release_fence();\n    FASTLOOP_FAILPOINT",
            "    FASTLOOP_FAILPOINT",
        ),
        "open rows ignored": ("kOpenRows = 2", "kOpenRows = 0"),
        "room for one open row only": ("kOpenRows = 2", "kOpenRows = 1"),
        "successor not marked": (
            "continues ? Next::ask : Next::begins",
            "continues ? Next::ask : load_relaxed(commit_of(0)) ? Next::follows : Next::begins",
        ),
        "successor continues": (
            "continues ? Next::ask : Next::begins",
            "continues ? Next::begins : Next::ask",
        ),
        "open rows taken for reserve": ("plan_.places - kOpenRows", "plan_.places"),
        "no fence before the second look at a copy": ("    acquire_fence();\n", ""),
        "copy not looked at again": (
            "return std::max(first, commit - whole(env, commit));",
            "return std::max(first, 0 * commit);",
        ),
        "final observation not committed": ("row + (end == 0 ? 1 : 2)", "row + (end == 9 ? 2 : 1)"),
    },
    ("replay.cpp", WEAK, "windows.hpp"): {
        "no fence before the second look": ("    acquire_fence();\n", ""),
        "no second look": (
            "window.age >= sources_[window.source].kept",
            "window.age >= 0 * sources_[window.source].kept",
        ),
        "second look without the stacked frames": (
            "window.row - window.age >= sources_[window.source].kept",
            "window.row >= sources_[window.source].kept",
        ),
        "mark ignored by windows": ("if ((bits & kBegins) != 0) return State::never;", ""),
        "mark ignored by stacks": (
            "reach() && (bits & kBegins) == 0)",
            "reach() && window.row > window.age && bits < 99)",
        ),
        "newest row drawn": (
            "if (next >= source.commit) return State::open;",
            "if (next > source.commit) return State::open;",
        ),
    },
    ("replay.cpp", (*WEAK, *ADDRESS), "replay_log.hpp"): {
        "copy does not wrap": ("std::min(count, plan_.places - begin)", "count + 0 * begin")
    },
}
MUTANTS = {name: (*where, *change) for where, of in CAUGHT.items() for name, change in of.items()}


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
