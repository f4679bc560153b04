"""Files of lines are read while others write them."""

from __future__ import annotations

import os
from pathlib import Path

from fast_core.monitor.tail import Tail


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_line_is_read_when_all_of_it_is_there(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "x")
    assert tail.read() == (False, [])
    add(tmp_path / "x", "one\ntw")
    assert tail.read() == (False, [b"one"])
    assert tail.read() == (False, [])
    add(tmp_path / "x", "o\n")
    assert tail.read() == (False, [b"two"])


def test_long_file_is_read_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("".join(f"{n:09}\n" for n in range(300_000)))
    tail, lines = Tail(tmp_path / "x"), list[bytes]()
    while found := tail.read()[1]:
        assert len(found) < 200_000
        lines += found
    assert lines == [b"%09d" % n for n in range(300_000)]


def test_file_that_takes_the_place_of_another_is_read_from_its_beginning(tmp_path: Path) -> None:
    file, other = tmp_path / "x", tmp_path / "y"
    add(file, "one\ntw")
    add(other, "two\nthree\n")
    tail = Tail(file)
    assert tail.read() == (False, [b"one"])
    os.replace(other, file)
    assert tail.read() == (True, [b"two", b"three"])
    file.write_text("four\n")
    assert tail.read() == (True, [b"four"])
