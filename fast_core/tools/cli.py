"""The `fastloop` command: its entry point, kept free of everything that takes time to import.

Importing this module does nothing, because nodes import it too: Python's process start runs the
main script's imports again in every child.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from fast_core.system import forks

INTERRUPTED = 130  # 128 + SIGINT, what shells expect after Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0 is success, 2 a wrong configuration, topology, memory size or command line, 130 Ctrl-C,
    and 1 anything else. Errors that FastLoop raises on purpose are shown as one message;
    ``FASTLOOP_DEBUG=1`` shows their tracebacks.
    """
    # First, so that Ctrl-C during the imports ends quietly. `launch` puts its own in its place.
    # Also where a script's background job inherited it ignored: whoever interrupts the script
    # wants its runs gone too.
    with forks.handling(_exit_interrupted, signal.SIGINT):
        return _run(sys.argv[1:] if arguments is None else arguments)


def _exit_interrupted(number: int, frame: FrameType | None) -> NoReturn:
    # An exception could surface anywhere, for instance in a destructor that swallows it.
    os._exit(INTERRUPTED)


def run_on_cores(cores: str, *arguments: str) -> int:
    """`main`, in the process of a sweep's run, which computes on ``cores`` (``0,1``) alone."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, forks.STOP_SIGNALS)  # held back while it began
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [int(core) for core in cores.split(",")])
    return main(arguments)


def _run(arguments: Sequence[str]) -> int:
    from fast_core.errors import (
        ConfigError,
        FastLoopError,
        PolicyError,
        SegmentError,
        TopologyError,
    )
    from fast_core.system.surroundings import explained, is_unread, mend, working_folder
    from fast_core.system.text import harmless
    from fast_core.tools.command_line import WRONG_USE, WrongUse
    from fast_core.tools.commands import program

    try:
        mend()
        # A user's environments and algorithms are named by modules that lie where they work. Last,
        # so that a stray file can't stand in for a library.
        sys.path.append(working_folder())
        try:
            return program(list(arguments))
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where somebody hears that it fails
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return INTERRUPTED
    except WrongUse as error:
        print(f"fastloop: {harmless(str(error))}", file=sys.stderr)
        if meant := _without_dashes(arguments):
            print(f"Keys of the configuration have no dashes: {harmless(meant)}", file=sys.stderr)
        return WRONG_USE
    except FastLoopError as error:
        if os.environ.get("FASTLOOP_DEBUG") == "1":
            raise
        print(f"fastloop: {harmless(str(error))}", file=sys.stderr)
        refused = ConfigError | PolicyError | TopologyError | SegmentError
        return 2 if isinstance(error, refused) else 1
    except OSError as error:
        if isinstance(error, BrokenPipeError) and is_unread():  # `| head` has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is left in buffers
            return 1
        if (sentence := explained(error)) is None or os.environ.get("FASTLOOP_DEBUG") == "1":
            raise
        print(f"fastloop: {sentence}", file=sys.stderr)
        return 1


def _without_dashes(arguments: Sequence[str]) -> str:
    """What was meant by a key of the configuration that is given as an option; else nothing."""
    from fast_core.config import RunConfig
    from fast_core.config.meant import ELSEWHERE
    from fast_core.tools.commands import program

    if not arguments or arguments[0] not in ("launch", "train", "resume", "sweep", "config"):
        return ""
    known = program.options(arguments[0])
    for given, following in zip(arguments, [*arguments[1:], ""], strict=True):
        option, equals, value = given.partition("=")
        key = option.removeprefix("--")
        if option in known or not option.startswith("--"):
            continue
        key = ELSEWHERE.get(key.replace("-", "_"), [key])[0]
        if key.partition(".")[0] in RunConfig.__struct_fields__:
            follows = "VALUE" if following.startswith("-") else following or "VALUE"
            return shlex.quote(f"{key}={value if equals else follows}")
    return ""


if __name__ == "__main__":
    sys.exit(main())
