from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator

import pytest

from fast_core.messages import LogLine
from fast_core.monitor.logging_setup import ForwardHandler, forward_logging


class Wire:
    """A channel for log lines that refuses, raises or takes."""

    def __init__(self) -> None:
        self.lines: list[LogLine] = []
        self.open = True
        self.now_s = 0.0

    def send(self, line: LogLine) -> bool:
        if self.open:
            self.lines.append(line)
        return self.open

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines]


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.Logger("test", logging.DEBUG)
    yield logger
    logger.handlers.clear()


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def attach(logger: logging.Logger, wire: Wire, burst: int = 500) -> ForwardHandler:
    handler = ForwardHandler("env-1", wire.send, burst=burst, clock=lambda: wire.now_s)
    logger.addHandler(handler)
    return handler


def test_record_becomes_a_line_of_its_node(logger: logging.Logger, wire: Wire) -> None:
    attach(logger, wire)
    logger.warning("%d rows", 7)
    assert wire.lines == [LogLine("env-1", "WARNING", "7 rows")]


def test_exception_stays_in_one_record_with_its_traceback(
    logger: logging.Logger, wire: Wire
) -> None:
    attach(logger, wire)
    try:
        raise ValueError("bad joint 7")
    except ValueError:
        logger.exception("step failed")
    (text,) = wire.texts
    assert text.startswith("step failed\nTraceback") and text.endswith("ValueError: bad joint 7")


def test_flood_is_cut_at_the_bound_counted_and_told(logger: logging.Logger, wire: Wire) -> None:
    handler = attach(logger, wire, burst=10)
    for number in range(1000):
        logger.info("line %d", number)
    assert wire.texts == [f"line {number}" for number in range(10)]
    assert handler.dropped == 990
    wire.now_s = 1.0
    logger.info("later")
    assert wire.lines[10:] == [
        LogLine("env-1", "WARNING", "990 log lines dropped"),
        LogLine("env-1", "INFO", "later"),
    ]
    logger.info("then")
    assert wire.texts[12:] == ["then"]


def test_refill_lets_a_steady_number_of_lines_through(logger: logging.Logger, wire: Wire) -> None:
    handler = attach(logger, wire, burst=10)
    for step in range(10_000):
        wire.now_s = step / 1000
        logger.info("x")
    assert wire.texts.count("x") + handler.dropped == 10_000
    assert 900 < len(wire.lines) <= 1010


def test_refusing_channel_costs_lines_and_nothing_else(logger: logging.Logger, wire: Wire) -> None:
    handler = attach(logger, wire)
    wire.open = False
    for _ in range(5):
        logger.info("lost")
    wire.open = True
    logger.info("found")
    assert handler.dropped == 5
    assert wire.texts == ["5 log lines dropped", "found"]


def test_raising_channel_never_fails_the_caller(logger: logging.Logger) -> None:
    def send(line: LogLine) -> bool:
        raise RuntimeError("listener is gone")

    handler = ForwardHandler("env-1", send)
    logger.addHandler(handler)
    logger.info("x")
    assert handler.dropped == 1


def test_channel_that_logs_does_not_recurse(logger: logging.Logger) -> None:
    lines: list[str] = []

    def send(line: LogLine) -> bool:
        lines.append(line.text)
        logger.warning("the channel has something to say")
        return True

    logger.addHandler(ForwardHandler("env-1", send))
    logger.info("x")
    assert lines == ["x"]


def test_wrong_arguments_of_a_logging_call_are_told_not_raised(
    logger: logging.Logger, wire: Wire
) -> None:
    attach(logger, wire)
    logger.info("%d rows", "seven")
    (text,) = wire.texts
    assert text.startswith("unreadable log record '%d rows'")


def test_very_long_line_is_cut_and_says_so(logger: logging.Logger, wire: Wire) -> None:
    attach(logger, wire)
    logger.info("x" * 20_000)
    (text,) = wire.texts
    assert len(text) < 16_500
    assert text.endswith("(... 3616 more characters)")


def test_inherited_handler_with_a_held_lock_blocks_nothing(
    root: logging.Logger, wire: Wire
) -> None:
    inherited = logging.StreamHandler()
    root.addHandler(inherited)
    held, leave = threading.Event(), threading.Event()

    def hold() -> None:
        inherited.acquire()
        held.set()
        leave.wait(10)
        inherited.release()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(10)
    forward_logging("env-1", wire.send)
    logging.getLogger("anything").info("first line")
    assert holder.is_alive(), "the log call waited for the lock"
    leave.set()
    holder.join()
    assert wire.texts == ["first line"]


def test_python_warnings_are_forwarded_and_debug_lines_are_not(
    root: logging.Logger, wire: Wire
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        forward_logging("env-1", wire.send)
        warnings.warn("old interface", UserWarning, stacklevel=1)
        logging.getLogger("x").debug("detail")
        logging.captureWarnings(False)
    (line,) = wire.lines
    assert line.level == "WARNING" and "old interface" in line.text
