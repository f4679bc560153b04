"""What is handed out: the sdist builds the wheel, and the Dockerfile's own commands install it.

There is no Docker in tests: its lines are run as they stand, with folders of the test in place of
the image's, without a compiler in the second stage, as an ordinary user and with a small /dev/shm
where the machine lets us.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.harness import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300)]

SDIST = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
PREPARED = ("apt-get ", "useradd ")  # what only an image can do
SANDBOX = ["unshare", "--mount", "sh", "-c"]
CONFINED = (
    "mount -t tmpfs -o size=1m tmpfs /dev/shm && "
    'exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$@"'
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the sdist of this checkout unpacks to."""
    checkout, made = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("sdist")
    names = subprocess.check_output(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True
    )
    for name in names.splitlines():
        if (path := ROOT / name).exists():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, checkout / name, follow_symlinks=False)
    subprocess.run([sys.executable, "-c", SDIST, made], cwd=checkout, check=True)
    (archive,) = made.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(made, filter="data")
    (unpacked,) = (path for path in made.iterdir() if path.is_dir())
    return unpacked


def instructions() -> Iterator[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    for line in text.strip().splitlines():
        word, _, rest = line.partition(" ")
        if word:
            yield word, rest


def fresh_environment(folder: Path) -> Path:
    """A virtual environment with everything but FastLoop; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    others = folder / "others"
    others.mkdir()
    for place in (path for path in sys.path if path.endswith("site-packages")):
        for path in Path(place).iterdir():
            ours = re.match(r"(__editable__)?_*fast(loop|_core)", path.name)
            link = others / path.name
            if not ours and path.suffix != ".pth" and not link.exists():
                link.symlink_to(path)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib" / version / "site-packages" / "others.pth").write_text(f"{others}\n")
    return folder / "bin" / "python"


def pip(folder: Path, python: Path) -> Path:
    """A folder with a ``pip`` that installs into ``python``'s environment."""
    folder.mkdir()
    script = folder / "pip"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python {python} "$@"\n')
    script.chmod(0o755)
    return folder


def confined(command: list[str]) -> list[str]:
    """As an ordinary user and with 1 MiB of /dev/shm, where this machine lets us do that."""
    tried = [*SANDBOX, CONFINED, "sh", command[0], "--help"]
    possible = subprocess.run(tried, capture_output=True, check=False).returncode == 0
    return [*tried[:-2], *command] if possible else command


def test_dockerfile_builds_a_wheel_that_runs_without_a_compiler(
    source: Path, tmp_path: Path
) -> None:
    places = {name: tmp_path / name for name in ("wheels", "work")}
    places["work"].mkdir(mode=0o777)
    places["work"].chmod(0o777)
    tmp_path.chmod(0o755)
    python = fresh_environment(tmp_path / "environment")
    bare = f"{python.parent}{os.pathsep}/bin"  # no compiler
    paths = [
        f"{pip(tmp_path / 'first', Path(sys.executable))}{os.pathsep}{os.environ['PATH']}",
        f"{pip(tmp_path / 'second', python)}{os.pathsep}{bare}",
    ]
    arguments, stage = "", -1
    entry: list[str] = []
    for word, rest in instructions():
        if word == "FROM":
            stage += 1
        elif word == "ARG":
            arguments += f"{rest}; "
        elif word == "RUN" and not rest.startswith(PREPARED):
            command = rest.replace("/source", str(source)).replace("/wheels", str(places["wheels"]))
            subprocess.run(
                ["/bin/sh", "-c", arguments + command],
                check=True,
                env={**os.environ, "PATH": paths[stage]},
            )
        elif word == "ENTRYPOINT":
            entry = json.loads(rest)
        else:
            assert word in ("COPY", "RUN", "USER", "WORKDIR", "CMD"), word
    (wheel,) = places["wheels"].iterdir()
    assert re.fullmatch(rf"fastloop_rl-.*-cp311-abi3-{platform()}\.whl", wheel.name)

    where = {"PATH": bare, "HOME": str(places["work"]), "TMPDIR": str(places["work"])}
    program = str(python.parent / entry[0])
    launch = confined([program, "launch", "ppo_cartpole", "stop.env_steps=4096"])
    end = subprocess.run(launch, cwd=places["work"], env=where, capture_output=True, text=True)
    assert end.returncode == 0, end.stdout + end.stderr
    assert [*places["work"].glob("runs/ppo_cartpole/*/report.html")]
    listed = subprocess.check_output([program, "init", "--list"], env=where, text=True)
    assert {line.split()[0] for line in listed.splitlines()} == {
        path.stem for path in (ROOT / "configs").glob("*.yaml")
    }


def platform() -> str:
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


def test_image_runs_as_an_ordinary_user() -> None:
    lines = list(instructions())
    users = [rest for word, rest in lines if word == "USER"]
    assert users and users[-1] not in ("root", "0")
    words = [word for word, _ in lines]
    assert words.index("USER") > max(i for i, word in enumerate(words) if word == "RUN")
