"""How to install what FastLoop can do without, told as it is installed here itself."""

from __future__ import annotations

from pathlib import Path

DISTRIBUTION = "fastloop-rl"  # on the index; `fastloop` is somebody else's there
_FOLDER = Path(__file__).parents[2]


def to_install(extra: str) -> str:
    """What to run for an extra of FastLoop's: in the clone, if it runs from one."""
    if (_FOLDER / "setup.py").is_file():
        return f"`pip install -e '.[{extra}]'` in {_FOLDER}"
    return f"`pip install '{DISTRIBUTION}[{extra}]'`"
