"""Run benchmarks and show a table of what they found: ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
import sys

from benchmarks.suite import run


def main() -> int:
    """Read the command line, run, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--list", action="store_true", help="show what there is")
    parser.add_argument("--json", action="store_true", help="a JSON object per benchmark")
    given = parser.parse_args()
    return run(given.names, quick=given.quick, only_list=given.list, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
