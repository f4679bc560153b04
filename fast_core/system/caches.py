"""Where what was made once is kept: where it outlives a run and its temporary files."""

from __future__ import annotations

import os
from pathlib import Path


def variables() -> dict[str, str]:
    """Environment variables for what compilers keep; empty where there is no place for it.

    By default torch's compiler keeps its kernels, and those of Triton, in the temporary folder:
    batch systems empty that after each job, so that every run compiles anew. Headers it keeps there
    in any case (150 MB), so they are not precompiled; a first compilation takes as long without.
    """
    folder = user_folder("torchinductor")
    if folder is None:
        return {}
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(folder),
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    }


def user_folder(name: str) -> Path | None:
    """A folder in the user's cache, which need not be there yet; None where it can't be written."""
    home = os.environ.get("HOME", "")
    given = os.environ.get("XDG_CACHE_HOME", "") or (os.path.join(home, ".cache") if home else "")
    if not os.path.isabs(given):  # as the XDG specification says
        return None
    folder = Path(given) / "fastloop" / name
    there = next(each for each in (folder, *folder.parents) if os.path.exists(each))
    return folder if there.is_dir() and os.access(there, os.W_OK | os.X_OK) else None
