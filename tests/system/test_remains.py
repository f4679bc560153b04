"""Folders of runs: made, found, and removed once their launcher is proven to be dead."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fast_core.system import remains
from fast_core.system.owner import Owner, this_process
from fast_core.tools.cli import main
from fast_core.tools.doctor import check_private_folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that is looked through; no process is looked at."""
    monkeypatch.setattr(remains, "places", lambda: [str(tmp_path)])
    monkeypatch.setattr(remains, "_marked", lambda: iter(()))
    return tmp_path


def no_temporary_folder() -> str:
    raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")


def test_run_on_a_read_only_root_has_its_folder_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python finds no temporary folder there; containers have /dev/shm all the same."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", no_temporary_folder)
    monkeypatch.setattr(os, "access", lambda path, mode: path == "/dev/shm")
    assert remains.new_path().startswith("/dev/shm/fastloop-")


def test_run_without_any_place_for_its_folder_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", no_temporary_folder)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    launch = ["launch", "ppo_cartpole", f"directory={tmp_path}/runs"]
    for command in (launch, [*launch, "--inline"]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "a run needs a folder for its sockets" in said and "Set TMPDIR" in said
        assert list(tmp_path.iterdir()) == []
    assert main(["ps"]) == 0
    assert not check_private_folder().ok
    assert main(["demo", "screens"]) == 1, "a folder of its own"
    assert "there is no folder for temporary files: No usable" in capsys.readouterr().err


def folder_of(place: Path, owner: Owner, name: str = "fastloop-00000001") -> Path:
    """A folder with what is in it while a run goes on."""
    path = place / name
    path.mkdir()
    (path / "owner").symlink_to(str(owner))
    (path / "scheduler").touch()
    (path / "deeper").mkdir()
    (path / "deeper" / "file").touch()
    return path


def me() -> Owner:
    found = this_process()
    assert found is not None
    return found


def the_dead() -> Owner:
    return me()._replace(started=1)


def test_folder_of_a_dead_run_goes_and_is_told_of(place: Path) -> None:
    path = folder_of(place, the_dead())
    (told,) = remains.reclaim()
    assert f"the run of process {os.getpid()}, which is dead" in told
    assert str(path) in told
    assert not path.exists()
    assert remains.reclaim() == []


def test_what_a_link_in_it_leads_to_stays(place: Path, tmp_path: Path) -> None:
    precious = tmp_path / "run"
    precious.mkdir()
    (precious / "policy").touch()
    path = folder_of(place, the_dead())
    (path / "run").symlink_to(precious)
    remains.reclaim()
    assert not path.exists()
    assert (precious / "policy").exists()


def test_folder_of_a_living_run_stays(place: Path) -> None:
    path = place / "fastloop-00000002"
    remains.make_folder(str(path))
    assert path.stat().st_mode & 0o777 == 0o700
    assert remains.reclaim() == []
    assert path.exists()
    assert list(remains.folders()) == [(str(path), me())]


def test_folders_of_which_it_is_not_proven_stay(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That their run is dead; a version without links made its folder and then what is in it."""
    folder_of(place, the_dead()._replace(machine="other"), "fastloop-0000000d")
    for name in ("fastloop-0000000e", "fastloop-0000000f"):
        (place / name).mkdir()
    (place / "fastloop-0000000f" / "something").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (place / "fastloop-0000000a").symlink_to(folder_of(elsewhere, the_dead()))
    before = {*place.rglob("*")}
    assert remains.reclaim() == []
    others, me = folder_of(place, the_dead()), os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    assert remains.reclaim() == [] and others.exists(), "another user's"
    assert {*place.rglob("*")} > before


def test_folder_never_has_its_name_without_its_link(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However others look through the place, made and removed."""
    path, seen = place / "fastloop-00000004", set[tuple[str, ...]]()

    def looking(call: Callable[..., None]) -> Callable[..., None]:
        def looks(*given: str | int) -> None:
            call(*given)
            if path.exists():
                seen.add(tuple(os.listdir(path)))

        return looks

    for name in ("mkdir", "symlink", "rename", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, looking(getattr(os, name)))
    remains.make_folder(str(path))
    remains.remove_folder(str(path))
    assert seen == {("owner",)}
    assert os.listdir(place) == []


@pytest.mark.parametrize("link", [False, True])
def test_folder_that_a_death_left_half_made_goes(place: Path, link: bool) -> None:
    unnamed = place / "fastloop-00000005.new"
    unnamed.mkdir()
    if link:
        (unnamed / "owner").symlink_to(str(the_dead()))
    remains.reclaim()
    assert os.listdir(place) == []


def test_maker_begins_anew_when_its_empty_folder_is_removed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody reclaims between the two steps in which a folder is made."""
    symlink, path = os.symlink, place / "fastloop-00000003"

    def late(text: str, link: str) -> None:
        monkeypatch.setattr(os, "symlink", symlink)
        remains.reclaim()
        symlink(text, link)

    monkeypatch.setattr(os, "symlink", late)
    remains.make_folder(str(path))
    assert os.readlink(path / "owner") == str(me())


def test_death_while_a_folder_is_removed_leaves_the_proof(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder_of(place, the_dead())
    unlink = os.unlink

    def dies(each: str, **given: int) -> None:
        if each.endswith("owner"):
            raise OSError
        unlink(each, **given)

    monkeypatch.setattr(os, "unlink", dies)
    remains.remove_folder(str(path))
    monkeypatch.setattr(os, "unlink", unlink)
    (left,) = place.iterdir()
    assert os.listdir(left) == ["owner"]
    remains.reclaim()
    assert os.listdir(place) == []
