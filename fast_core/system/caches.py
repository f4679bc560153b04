"""Where compilers keep what they have compiled: where it outlives a run and its temporary files."""

from __future__ import annotations

import os
from pathlib import Path


def variables() -> dict[str, str]:
    """Environment variables for a run's processes; empty where the user's cache can't be written.

    By default torch's compiler keeps its kernels, and those of Triton, in the temporary folder:
    batch systems empty that after each job, so that every run compiles anew. Headers it keeps there
    in any case (150 MB), so they are not precompiled; a first compilation takes as long without.
    """
    home = os.environ.get("HOME", "")
    given = os.environ.get("XDG_CACHE_HOME", "") or (os.path.join(home, ".cache") if home else "")
    if not os.path.isabs(given):  # as the XDG specification says
        return {}
    folder = Path(given) / "fastloop" / "torchinductor"
    there = next(each for each in (folder, *folder.parents) if os.path.exists(each))
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        return {}
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(folder),
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    }
