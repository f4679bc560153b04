"""Launches a run with nodes on other hosts, which no key of the configuration offers yet.

``python -m tests.process.placed NODE=PLACE,... CONFIG OVERRIDES...``
"""

from __future__ import annotations

import sys
from functools import partial

from fast_core.launcher import run
from fast_core.tools.cli import main

if __name__ == "__main__":
    where = dict(pair.split("=") for pair in sys.argv[1].split(","))
    run.Session = partial(run.Session, places=where)  # type: ignore[misc, assignment]
    sys.exit(main(["launch", *sys.argv[2:]]))
