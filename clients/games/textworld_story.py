"""Stories that TextWorld generates and jericho plays; registers ``fastloop/TextGame-v0``."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any, Literal

import gymnasium

from fast_core.clients.games.stored_stories import stored
from fast_core.clients.games.text_game import Scene, TextGame
from fast_core.errors import ConfigError
from fast_core.system.extras import to_install

_TELL = ("look", "inventory")  # commands that tell something and change nothing, as does examine


class TextWorldStory:
    """Plays a story of TextWorld; implements `fast_core.clients.games.text_game.Story`.

    Args:
        file: The story, ``.z8``, with TextWorld's ``.json`` of the same name beside it.
        idle: Whether commands that only tell something are among those that can be chosen.
    """

    def __init__(self, file: Path, *, idle: bool = False) -> None:
        textworld = _textworld()
        asked = ("admissible_commands", "description", "inventory", "score", "won", "lost")
        infos = textworld.EnvInfos(**dict.fromkeys((*asked, "max_score", "objective"), True))
        with warnings.catch_warnings():  # jericho says that it has no points of TextWorld's games
            warnings.simplefilter("ignore")
            self._played: Any = textworld.start(str(file), infos)
        self._idle = idle

    def begin(self) -> Scene:
        """Begin with the task and the first place."""
        state = self._played.reset()
        return self._scene(state, state["objective"])

    def tell(self, command: str) -> Scene:
        """Type a command."""
        state, _, _ = self._played.step(command)
        told, _, _ = state["feedback"].partition("\n>")  # what follows is the line of the state
        return self._scene(state, told)

    def close(self) -> None:
        """End the interpreter."""
        self._played.close()

    def _scene(self, state: Any, told: str) -> Scene:
        over = bool(state["won"] or state["lost"])
        parts = (told, state["description"], state["inventory"])
        text = "\n\n".join(part.strip() for part in parts if part)
        numbers = {"max_score": float(state["max_score"]), "won": float(state["won"])}
        commands = self._chosen(state["admissible_commands"])
        return Scene(text, commands, float(state["score"] or 0), over, numbers)

    def _chosen(self, commands: list[str]) -> list[str]:
        """Commands that change something come first, and alone unless there is none."""
        leading = [each for each in commands if not _only_tells(each)]
        telling = [each for each in commands if _only_tells(each)]
        return [*leading, *telling] if self._idle or not leading else leading


def _only_tells(command: str) -> bool:
    return command in _TELL or command.startswith("examine ")


class TextWorldGame(TextGame):
    """A story of TextWorld as an environment; see `fast_core.clients.games.text_game.TextGame`.

    It is made when it is needed for the first time, which takes some seconds, and kept. It is
    TextWorld's ``simple`` one: leave a locked bedroom, find something to eat, put it on the stove.

    Args:
        seed: Of the story: what is where, and what is to be found. Each seed is another story.
        rewards: How often there is a point: ``dense``, ``balanced``, or ``sparse``, at the end.
        file: Another story of TextWorld, ``.z8`` with its ``.json`` beside it (``tw-make``), in
            place of what ``seed`` and ``rewards`` say.
        idle: Offer commands, too, that only tell something: examine, look, inventory.
        cache: Folder in which stories are kept; None: ``fastloop/stories`` in the user's cache.
        commands: Length of the list of commands.
        words: Places in a bag of words.
        render_mode: ``rgb_array``, ``ansi`` or None.

    Raises:
        ConfigError: TextWorld or jericho is not installed, a value is not allowed, there is no such
            file, or the story can't be made or kept.
    """

    def __init__(
        self,
        seed: int = 1,
        rewards: Literal["dense", "balanced", "sparse"] = "dense",
        file: str | None = None,
        idle: bool = False,
        cache: str | None = None,
        commands: int = 32,
        words: int = 256,
        render_mode: str | None = None,
    ) -> None:
        _check_types(file, cache, idle)
        if file is None:
            story = stored(seed, rewards, _textworld().__version__, cache)
        else:
            story = _given(file)
        played = TextWorldStory(story, idle=idle)
        try:
            super().__init__(played, commands=commands, words=words, render_mode=render_mode)
        except ConfigError:
            played.close()
            raise


def _check_types(file: object, cache: object, idle: object) -> None:
    """Refuse what YAML makes of a slip, such as ``idle: "no"``, which would count as true.

    Raises:
        ConfigError: A value has another type.
    """
    for name, value in (("file", file), ("cache", cache)):
        if not isinstance(value, str | None):
            raise ConfigError(
                f"environment.kwargs.{name} of a text game must be a path, or null for none; got "
                f"{value!r}"
            )
    if type(idle) is not bool:
        raise ConfigError(
            f"environment.kwargs.idle of a text game must be true or false; got {idle!r}"
        )


def _given(file: str) -> Path:
    """A user's story, if it is one of TextWorld.

    Raises:
        ConfigError: It is not.
    """
    path = Path(file).expanduser()
    if path.suffix != ".z8" or not path.is_file() or not path.with_suffix(".json").is_file():
        raise ConfigError(
            "environment.kwargs.file must be a story of TextWorld, NAME.z8 with its NAME.json "
            f"beside it, as `tw-make simple --output NAME.z8` writes them; got {file!r}"
        )
    return path


def _textworld() -> Any:
    try:
        importlib.import_module("jericho")
        return importlib.import_module("textworld")
    except ImportError as error:
        raise ConfigError(
            "fastloop/TextGame-v0 needs TextWorld and jericho, which can't be imported "
            f"({error}). Run {to_install('textgame')}."
        ) from error


gymnasium.register("fastloop/TextGame-v0", f"{__name__}:TextWorldGame", max_episode_steps=100)
