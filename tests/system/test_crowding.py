"""How crowded the cores are is told by how long a thread waits for one."""

from __future__ import annotations

from pathlib import Path

from fast_core.system.crowding import SHORTEST_NS, Crowding


def test_waiting_for_a_core_counts_and_nothing_else_does(tmp_path: Path) -> None:
    path = tmp_path / "schedstat"
    path.write_text("1000 500 7\n")
    crowding = Crowding(path)
    path.write_text(f"{1000 + SHORTEST_NS} {500 + 2 * SHORTEST_NS} 8\n")
    assert crowding.factor() == 3.0
    path.write_text(f"{1000 + SHORTEST_NS + 10} {500 + 9 * SHORTEST_NS} 9\n")
    assert crowding.factor() == 3.0, "too little to tell"
    path.write_text(f"{1000 + 3 * SHORTEST_NS} {500 + 2 * SHORTEST_NS} 9\n")
    assert crowding.factor() == 1.0


def test_machine_that_does_not_tell_is_not_crowded(tmp_path: Path) -> None:
    path = tmp_path / "schedstat"
    assert Crowding(path).factor() == 1.0
    path.write_text("")
    assert Crowding(path).factor() == 1.0


def test_this_machine_tells_or_not() -> None:
    assert Crowding().factor() >= 1.0
