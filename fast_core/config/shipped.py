"""The configurations that come with FastLoop, found by name wherever one works."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from fast_core.errors import ConfigError

ENVIRONMENT = re.compile(r"[\w.:/-]+-v\d+")  # how Gymnasium names one
FOLDER = Path(__file__).parents[1] / "configs"


def names() -> list[str]:
    """All of them."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def shipped(name: str) -> Path:
    """The file of one of them.

    Raises:
        ConfigError: There is none of that name.
    """
    if name in (known := names()):
        return FOLDER / f"{name}.yaml"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}."
    raise ConfigError(f"no configuration named {name!r} comes with FastLoop. {hint}")


def located(path: Path, folder: Path = Path()) -> Path:
    """The file that ``path`` means.

    That is itself, seen from ``folder``; of a bare name, ``NAME.yaml`` there before the one that
    comes with FastLoop.

    Raises:
        ConfigError: There is no such file; says what is near.
    """
    file = folder / path
    if file.exists() and not file.is_dir():
        return file
    bare = bool(path.name) and path.parent == Path() and not path.is_absolute()
    if bare and not path.suffix:
        if (own := file.with_suffix(".yaml")).is_file():
            return own
        if path.name in names():
            return shipped(path.name)
    inside = sorted(file.glob("*.y*ml"))
    runs = sorted(file.glob("*/config.yaml"))
    files = [str(other) for other in file.parent.glob("*.y*ml")] if file.parent.is_dir() else []
    near = difflib.get_close_matches(str(file), [*files, *(names() if bare else ())], n=1)
    if inside:
        hint = f"It is a folder; did you mean {inside[0]}?"
    elif runs:
        hint = (
            f"It is a folder of runs: `fastloop resume {file}` goes on with one, and "
            f"`fastloop launch {runs[-1]}` trains as one did."
        )
    elif ENVIRONMENT.fullmatch(str(path)):
        hint = f"It looks like an environment: `fastloop train ppo --env {path}`."
    elif near:
        hint = f"Did you mean {near[0]}?"
    elif path.stem in names():
        hint = f"FastLoop's own is found by its name alone: {path.stem}"
    else:
        hint = "Give the path of a YAML file, or a name that `fastloop init --list` shows."
    raise ConfigError(f"there is no configuration file {str(file)!r}. {hint}")
