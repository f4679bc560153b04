"""Makes a story of TextWorld: ``textworld_maker.py FILE.z8 SEED REWARDS``; a program of its own.

TextWorld draws with a generator of the whole process and leaves temporary files where it is killed.
"""

from __future__ import annotations

import importlib
import sys


def main(file: str, seed: int, rewards: str) -> None:
    """Write the story to ``file`` and what TextWorld knows of it beside it, as ``.json``."""
    textworld, generator, simple = (
        importlib.import_module(name)
        for name in ("textworld", "textworld.generator", "textworld.challenges.tw_simple.simple")
    )
    options = textworld.GameOptions()
    options.seeds, options.path = seed, file
    game = simple.make({"rewards": rewards, "goal": "detailed", "test": False}, options)
    generator.compile_game(game, options)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
