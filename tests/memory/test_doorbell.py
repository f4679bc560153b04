from __future__ import annotations

import struct
import time

from fast_core.memory import Doorbell
from tests.memory.conftest import Memory

WORD = 64  # offset of the word in a doorbell's region


def test_ring_changes_the_value_for_everybody(memory: Memory) -> None:
    region = memory(Doorbell.nbytes())
    owner, ringer = Doorbell.create(region), Doorbell.attach(region)
    seen = owner.value()
    ringer.ring()
    assert owner.value() != seen
    assert owner.wait(seen, 0) is True


def test_wait_does_not_sleep_on_a_value_that_passed(memory: Memory) -> None:
    bell = Doorbell.create(memory(Doorbell.nbytes()))
    seen = bell.value()
    bell.ring()
    assert bell.wait(seen, timeout_s=None)


def test_wait_without_a_ring_ends_false(memory: Memory) -> None:
    bell = Doorbell.create(memory(Doorbell.nbytes()))
    assert bell.wait(bell.value(), timeout_s=0) is False
    begin_s = time.monotonic()
    assert bell.wait(bell.value(), timeout_s=0.02) is False
    assert time.monotonic() - begin_s >= 0.02


def test_word_wraps_without_harm(memory: Memory) -> None:
    region = memory(Doorbell.nbytes())
    bell = Doorbell.create(region)
    struct.pack_into("<I", region, WORD, 2**32 - 1)
    seen = bell.value()
    assert seen == 2**32 - 1
    bell.ring()
    assert bell.value() == 0
    assert bell.wait(seen, 0)
