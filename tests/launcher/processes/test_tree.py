"""What goes over the link between the launcher and a child."""

from __future__ import annotations

import os
import socket

import pytest

from fast_core.launcher.processes.tree import Child, frame, take, unframe


def test_child_gets_the_value_and_a_descriptor_that_it_does_not_pass_on() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, open(os.devnull, "rb") as nothing:
        Child("env-0", ours, pid=1).give(("plan", 1), nothing.fileno())
        value, descriptor = take(theirs)
        assert value == ("plan", 1)
        assert not os.get_inheritable(descriptor)
        os.close(descriptor)


def test_child_leaves_when_the_launcher_is_gone() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs, pytest.raises(SystemExit):
        take(theirs)


@pytest.mark.parametrize("data", [b"", b"x", b"x" * 100])
def test_frame_is_whole_with_its_last_byte(data: bytes) -> None:
    framed = frame(data)
    assert unframe(framed) == data
    for length in range(len(framed)):
        assert unframe(framed[:length]) is None
