"""What `fastloop play` does: show a run's policy for ever, or let a person play by keyboard."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from fast_core.config import EnvironmentConfig, shipped, yaml_text
from fast_core.config import file as config_file
from fast_core.envs.drawing.video_file import DEFAULT_FPS
from fast_core.envs.making import Env, make_env, registered
from fast_core.envs.playing.rendering import check_screen, drawing, watch_mode
from fast_core.errors import ConfigError
from fast_core.policy.evaluation import setting_of
from fast_core.policy.file import is_policy
from fast_core.system.interrupts import Interrupts
from fast_core.tools.demo import OWN
from fast_core.tools.evaluate import Shown, load_as_in_a_node
from fast_core.tools.play_words import play_in_words

EPISODES = 1000  # then the first one comes again
_KEYS = 10
_NOTHING_LEARNED = {"name": "play", "algorithm": {"name": "random"}, "stop": {"env_steps": 1}}


def play(
    what: str,
    checkpoint: str | None,
    modules: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> int:
    """Open a window, or write text, until it is closed or somebody presses Ctrl-C.

    Args:
        what: A run directory, one of its checkpoints or a policy's file, to watch the policy; a
            configuration file or an environment's id, to play it.
        checkpoint: Which policy of the run, see `load_policy`.
        modules: What a policy's file may import, see `load_policy`.
        overrides: What of the environment is to be another.

    Returns:
        The exit status: 0, or 128 + signal number when interrupted.

    Raises:
        FastLoopError: There is no such thing, or no window can show it.
    """
    path = Path(what)
    if path.is_dir() or (path.is_file() and is_policy(path)):
        return watch(path, checkpoint, modules, overrides)
    if checkpoint is not None:
        raise ConfigError(f"--checkpoint needs a run directory; {what!r} is none")
    return play_by_hand(_environment(path, what, overrides))


def _environment(path: Path, what: str, overrides: Sequence[str]) -> EnvironmentConfig:
    from fast_core.config.algorithms import algorithm_config_type

    named = path.is_file() or what in shipped.names()
    if path.suffix in (".yaml", ".yml") or named:
        return config_file.load(path, overrides, algorithm_config_type).environment
    alone = {"environment": {"id": what, **OWN.get(what, {})}, **_NOTHING_LEARNED}
    text = yaml_text.dump(alone)
    read = config_file.loads(text, overrides, algorithm_config_type, source="fastloop play")
    try:
        registered(read.environment)
    except ConfigError as error:
        raise ConfigError(
            f"{what!r} is no run directory, no configuration file and no environment: {error}"
        ) from error
    return read.environment


def watch(
    path: Path,
    checkpoint: str | None,
    modules: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> int:
    """Show a run's policy, episode after episode, each with its return.

    In a window, or in the terminal where the environment writes text.
    """
    policy = load_as_in_a_node(path, checkpoint, modules)
    with Interrupts() as interrupts:
        interrupts.raises = True
        setting = setting_of(policy, overrides=overrides)
        mode = watch_mode(setting.environment)
        playing = Shown(policy, setting, mode, episodes=EPISODES)
        try:
            while not (interrupts.count or window_closed()):
                if not playing.step():
                    playing.restart()
                elif ended := playing.ended():
                    print(ended, flush=True)
        finally:
            playing.close()
        return interrupts.exit_code if interrupts.count else 0


def window_closed() -> bool:
    """Whether the window that an environment has opened was closed by the person."""
    pygame, glfw = sys.modules.get("pygame"), sys.modules.get("glfw")
    if pygame is not None and pygame.display.get_init() and pygame.event.peek(pygame.QUIT):
        return True
    if glfw is None or "mujoco" not in sys.modules:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # GLFW warns as long as there has been no window
        window = glfw.get_current_context()
        return bool(window) and bool(glfw.window_should_close(window))


def play_by_hand(config: EnvironmentConfig) -> int:
    """Let a person play: keys of the environment's own, or digits and arrows for its choices.

    In the terminal where it writes text.
    """
    if watch_mode(config, by_hand=True) == "ansi":
        return play_in_words(config)
    check_screen(config)
    module, pygame = _import_play()
    env = make_env(drawing(config, "rgb_array"))
    try:
        keys = _keys(env, config, pygame)
        print("Escape or closing the window ends it.", flush=True)
        with Interrupts() as interrupts:
            interrupts.raises = True

            def after_step(*step: object) -> None:
                if interrupts.count:
                    pygame.event.post(pygame.event.Event(pygame.QUIT))

            fps = env.metadata.get("render_fps") or DEFAULT_FPS
            module.play(env, fps=max(1, round(fps)), keys_to_action=keys, callback=after_step)
            return interrupts.exit_code if interrupts.count else 0
    finally:
        env.close()


def _import_play() -> tuple[ModuleType, Any]:
    try:
        with warnings.catch_warnings():
            # It plots with matplotlib, which nothing here asks for.
            warnings.filterwarnings("ignore", ".*matplotlib is not installed")
            play = importlib.import_module("gymnasium.utils.play")
        return play, importlib.import_module("pygame")
    except ImportError as error:  # Gymnasium's own is one too
        raise ConfigError(
            f"a window to play in needs pygame: {error}. Run `pip install pygame-ce`."
        ) from error


def _keys(env: Env, config: EnvironmentConfig, pygame: Any) -> dict[Any, int] | None:
    """Keys for an environment that names none; None where it does.

    Raises:
        ConfigError: Its actions can't be chosen by single keys.
    """
    if env.has_wrapper_attr("get_keys_to_action"):
        print("The keys are the environment's own.", flush=True)
        return None
    count = getattr(env.action_space, "n", None)
    if count is None or getattr(env.action_space, "shape", None) != () or count > _KEYS:
        raise ConfigError(
            f"environment {config.id!r} can't be played by keyboard: it names no keys "
            f"(get_keys_to_action), and its actions are {env.action_space}, not up to {_KEYS} "
            "choices"
        )
    first = int(getattr(env.action_space, "start", 0))
    keys: dict[Any, int] = {str(choice): first + choice for choice in range(int(count))}
    print(f"Keys 0 to {count - 1} are its actions; none is the first.", flush=True)
    if count <= 3:
        keys |= {(pygame.K_LEFT,): first, (pygame.K_RIGHT,): first + int(count) - 1}
        print("The left and right arrows are the first and the last.", flush=True)
    return keys
