"""A user's own classes: found by import path, and explained where they are not."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from fast_core.errors import ConfigError
from fast_core.system.importing import began_in, look_in_too, named


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_class_is_found_in_a_module_on_the_path(folder: Path) -> None:
    (folder / "mine_ok.py").write_text("class Mine: pass\n")
    assert getattr(named("mine_ok:Mine", "key"), "__name__", "") == "Mine"


def test_missing_module_says_where_it_was_looked_for() -> None:
    with pytest.raises(
        ConfigError, match=r"key 'nowhere_at:X'.*no module 'nowhere_at'.*PYTHONPATH"
    ):
        named("nowhere_at:X", "key")


def test_module_that_a_users_module_lacks_is_the_one_named(folder: Path) -> None:
    (folder / "mine_lacks.py").write_text("import nowhere_else\n")
    with pytest.raises(ConfigError, match="no module 'nowhere_else'"):
        named("mine_lacks:Mine", "key")


def test_missing_name_suggests_the_nearest(folder: Path) -> None:
    (folder / "mine_near.py").write_text("class CountBonus: pass\n")
    with pytest.raises(ConfigError, match=r"has no 'CountBonis'\. Did you mean 'CountBonus'"):
        named("mine_near:CountBonis", "key")


def test_class_of_a_script_that_a_node_lacks_says_where_to_put_it() -> None:
    with pytest.raises(ConfigError, match=r"main program of its own: put Net .* name 'own:Net'"):
        named("__main__:Net", "key")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("\nx = undefined\n", r"NameError: name 'undefined' .*mine_\d.py, line 2"),
        ("def f(:\n", r"SyntaxError.*mine_\d.py, line 1"),
        ("raise SystemExit(3)\n", r"SystemExit: 3 .*line 1"),
    ],
)
def test_module_whose_code_raises_is_named_with_the_line(
    folder: Path, code: str, text: str
) -> None:
    name = f"mine_{len(code) % 10}"
    (folder / f"{name}.py").write_text(code)
    with pytest.raises(ConfigError, match=text):
        named(f"{name}:Mine", "key")


def test_missing_name_without_a_near_one_lists_the_classes_made_there(folder: Path) -> None:
    (folder / "mine_list.py").write_text("from pathlib import Path\nclass A: pass\nclass B: pass\n")
    with pytest.raises(ConfigError, match=r"has no 'Other'\. It has 'A', 'B'\.$"):
        named("mine_list:Other", "key")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("mine.py:A", "'mine', not as a file"),
        ("./own/mine.py:A", "'own.mine', not as a file"),
        ("own/mine:A", "'own.mine', not as a file"),
        ("../mine.py:A", "'mine', not as a file, with fastloop started in its folder"),
        ("/own/mine.py:A", "'mine', not as a file, with fastloop started in its folder"),
        ("own.mine.A", "Did you mean 'own.mine:A'?"),
    ],
)
def test_file_or_dotted_class_is_answered_with_how_it_is_named(path: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        named(path, "key")
    assert meant in str(caught.value)


@pytest.mark.parametrize("path", ["", ":", "module", "module:", ":Class"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match=r"key must look like 'package.module:Class'"):
        named(path, "key")


def test_named_module_is_taken_from_the_current_folder_and_what_it_imports_is_not(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path_factory.mktemp("here")
    monkeypatch.chdir(here)
    for place, text in ((folder, "installed"), (here, "here")):
        (place / "library_xy.py").write_text(f"WHERE = {text!r}\n")
        (place / "folder_xy").mkdir()
        code = f"import library_xy\nclass Mine: where = {text!r}, library_xy.WHERE\n"
        (place / "folder_xy" / "mine.py").write_text(code)
    (folder / "folder_xy" / "__init__.py").write_text("")
    (here / "json").mkdir()
    (here / "json" / "tool.py").write_text("raise RuntimeError")
    assert getattr(named("folder_xy.mine:Mine", "key"), "where", "") == ("here", "installed")
    assert callable(named("json.tool:main", "key"))


def test_package_of_the_current_folder_that_raises_is_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "broken_xy").mkdir()
    (folder / "broken_xy" / "__init__.py").write_text("raise KeyError('no licence')")
    for _ in range(2):
        with pytest.raises(ConfigError, match="no licence"):
            named("broken_xy:Mine", "key")


def test_folders_of_modules_are_what_is_on_the_path_and_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("here", "script", "put:there", "lib/site-packages", "of\ntwo", "\udcff")
    here, script, put, installed, lines, odd = (str(tmp_path / name) for name in names)
    for each in (here, script, put, installed, lines, odd):
        os.makedirs(each)
    root, stdlib = str(Path(__file__).parents[2]), sysconfig.get_path("stdlib")
    path = ["", script, put, installed, lines, odd, root, stdlib, str(tmp_path / "gone"), script]
    monkeypatch.setattr(sys, "path", [*path])
    monkeypatch.chdir(here)
    assert began_in() == [here, script, put]
    os.rmdir(here)
    assert began_in() == [script, put]
    monkeypatch.chdir(tmp_path)
    look_in_too(["script", "", installed, installed, script, "\0", here])
    assert sys.path == path
    look_in_too([str(tmp_path), str(tmp_path)])
    assert sys.path == [*path, str(tmp_path)]
