"""A configuration to start from: a file in a folder of one's own, or an algorithm's defaults."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from fast_core.config import RunConfig, file
from fast_core.config.algorithms import REGISTRY, algorithm_config_type
from fast_core.config.shipped import ENVIRONMENT, names, shipped
from fast_core.config.yaml_text import Document
from fast_core.errors import ConfigError

ENV_STEPS = 1_000_000  # that `fastloop train` trains for


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


def of_environment(algorithm: str, id: str | None, overrides: Sequence[str]) -> RunConfig:
    """An algorithm's defaults on an environment, for `ENV_STEPS` where no override says.

    Raises:
        ConfigError: There is no such algorithm, or a key or value is wrong.
    """
    if algorithm not in REGISTRY and (algorithm in names() or Path(algorithm).exists()):
        raise ConfigError(
            f"`fastloop train` begins with the name of an algorithm; got {algorithm!r}. A "
            f"configuration is trained with `fastloop launch {algorithm}`."
        )
    algorithm_config_type(algorithm)  # first, since what is said next begins with it
    given = {each.partition("=")[0].partition(".")[0] for each in overrides}
    ids = [each.partition("=")[2] for each in overrides if each.startswith("environment.id=")]
    if not id and not ids:
        near = next((each for each in overrides if ENVIRONMENT.fullmatch(each)), "CartPole-v1")
        raise ConfigError(
            "`fastloop train` needs the environment too: "
            f"`fastloop train {algorithm} --env {near}`."
        )
    from fast_core.tools.demo import environment_of  # here, because it imports the launcher

    environment = environment_of(id or ids[-1])
    if "atari" in environment:
        environment["frame_stack"] = 4
    tree: dict[str, object] = {
        "name": re.sub(r"[^\w.-]+", "-", f"{algorithm}_{environment['id']}"),
        "environment": environment,
        "algorithm": {"name": algorithm},
        **({} if "stop" in given else {"stop": {"env_steps": ENV_STEPS}}),
    }
    document = Document(tree, {})
    return file.read(document, overrides, algorithm_config_type, source="fastloop train")
