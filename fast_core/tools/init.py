"""`fastloop init`: a configuration to start from, in a folder of one's own."""

from __future__ import annotations

from pathlib import Path

from fast_core.config.shipped import names, shipped
from fast_core.errors import ConfigError


def listing() -> str:
    """Every configuration that comes with FastLoop, with the first sentence of its comment."""
    width = max(map(len, names()))
    return "\n".join(f"{name:{width}}  {_about(name)}".rstrip() for name in names())


def begin(folder: Path, name: str) -> Path:
    """Copy the configuration ``name`` into ``folder``, which is made if it isn't there.

    Returns:
        The new file.

    Raises:
        ConfigError: There is no such configuration, the file is there already, or can't be.
    """
    source, target = shipped(name), folder / f"{name}.yaml"
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{str(folder)!r} is a file. Name a folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(source.read_text(encoding="utf-8"))
    except FileExistsError as error:
        raise ConfigError(
            f"{str(target)!r} is there already and stays as it is. Name another folder."
        ) from error
    except OSError as error:
        raise ConfigError(
            f"can't copy a configuration into {str(folder)!r}: {error.strerror or error}. Name a "
            "folder that you may write to."
        ) from error
    return target


def _about(name: str) -> str:
    comment: list[str] = []
    for line in shipped(name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.lstrip("# "))
    return " ".join(comment).partition(". ")[0].rstrip(".")
