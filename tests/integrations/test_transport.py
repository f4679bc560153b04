"""Values that go from one process to another, here from one end of a socket pair to the other."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from fast_core.errors import SegmentError, TransportError
from fast_core.integrations import tensors, transport
from fast_core.integrations.transport import Link, Placed, Sent, Shelf

MANY = 40_000  # numbers, more than the socket takes


@pytest.fixture
def ends() -> Iterator[tuple[Link, Link]]:
    ours, theirs = map(Link, socket.socketpair())
    yield ours, theirs
    ours.close()
    theirs.close()


def carried(ends: tuple[Link, Link], value: object, shelf: Shelf | None = None) -> Any:
    parcel = (shelf or Shelf()).put(value)
    ends[0].send("head", parcel)
    head, incoming = ends[1].receive()
    assert head == "head" and incoming is not None
    return incoming.read()


@dataclass
class Segment:
    """A piece of a game, as users have them."""

    obs: np.ndarray
    value: Any
    info: dict[str, Any]


def of_any_kind(number: int) -> list[Any]:
    rng = np.random.default_rng(number)
    big = rng.random((200, 200))
    record = np.zeros(3_000, [("a", "f8"), ("b", "i4", (2,))])
    record["b"] = number
    return [
        Segment(big, {"deep": [(big[:, 0], np.float32(1.5))]}, {"t": torch.ones(MANY) * number}),
        [Segment(rng.random(7), None, {}) for _ in range(2_000)],
        big.T[::3, 5:],
        np.asfortranarray(big),
        np.array([number, "text", None, big[0]], object),
        record,
        rng.integers(0, 9, MANY).astype("M8[s]"),
        np.zeros((0, 5)),
        b"x" * MANY * number,
        "text",
        {"state": torch.full((300, 300), number / 3), "scalar": torch.tensor(2.5)},
    ]


def equal(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, np.ndarray) and a.dtype == object:
        equal([*a], [*b])
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    elif isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.requires_grad == b.requires_grad and torch.equal(a, b)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            equal(one, other)
    elif isinstance(a, dict):
        equal([*a.items()], [*b.items()])
    elif isinstance(a, Segment):
        equal(vars(a), vars(b))
    else:
        assert a == b


@pytest.mark.parametrize("plain", [False, True])
def test_objects_of_any_kind_arrive_as_they_were_and_stay_so(
    ends: tuple[Link, Link], plain: bool
) -> None:
    """Though one segment after the other is written again."""
    shelf = Shelf(plain=plain)
    numbers = (3, 1, 4)
    got = [[carried(ends, value, shelf) for value in of_any_kind(n)] for n in numbers]
    for number, values in zip(numbers, got, strict=True):
        equal(values, of_any_kind(number))
    assert len(shelf._free) == 1 and len(ends[1]._boards) == 1
    got[0][0].obs[:] = 0  # it may be written


def test_segment_grows_and_what_is_too_small_goes(ends: tuple[Link, Link]) -> None:
    shelf, files = Shelf(), len(os.listdir("/proc/self/fd"))
    for size in (1 << 16, 1 << 20, 5, 100 << 20, 1 << 17):
        value = np.arange(size // 8)
        assert np.array_equal(carried(ends, value, shelf), value)
    assert len(os.listdir("/proc/self/fd")) == files + 1, "one segment is left, with its owner"
    assert [each.nbytes for each in ends[1]._boards.values()] == [126 << 20]
    shelf.close()
    assert len(os.listdir("/proc/self/fd")) == files


def test_value_that_is_held_is_not_overwritten() -> None:
    shelf = Shelf()
    first = shelf.put(np.full(MANY, 1.0))
    second = shelf.put(np.full(MANY, 2.0))
    assert first.read()[-1] == 1 and second.read()[-1] == 2
    assert isinstance(first, Placed) and isinstance(second, Placed)
    number = first.board.number
    del first
    third = shelf.put(np.full(MANY, 3.0))
    assert isinstance(third, Placed) and third.board.number == number
    segment = second.board.segment
    shelf.close()
    assert second.read()[-1] == 2
    del second
    with pytest.raises(SegmentError, match="closed"):
        segment.buffer  # noqa: B018


def test_small_values_need_no_shared_memory(ends: tuple[Link, Link]) -> None:
    assert isinstance(Shelf().put({"obs": np.zeros(100)}), Sent)
    assert isinstance(Shelf().put(np.zeros(MANY)), Placed)


def test_value_that_finds_no_shared_memory_goes_by_the_socket(
    ends: tuple[Link, Link], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(nbytes: int) -> None:
        raise SegmentError("there is none")

    monkeypatch.setattr(transport.Segment, "create", refuse)
    value = of_any_kind(7)
    parcel = Shelf().put(value)
    sender = threading.Thread(target=ends[0].send, args=(None, parcel))
    sender.start()
    _, incoming = ends[1].receive()
    sender.join(20)
    assert incoming is not None
    equal(incoming.read(), value)


def test_descriptor_that_does_not_arrive_is_named(
    ends: tuple[Link, Link], monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(end: socket.socket, buffers: list[bytes], fds: list[int]) -> int:
        return end.send(buffers[0])

    monkeypatch.setattr(socket, "send_fds", without)
    with pytest.raises(TransportError, match="has too many files open"):
        carried(ends, np.zeros(MANY))


def test_end_that_is_gone_is_told(ends: tuple[Link, Link]) -> None:
    ends[0].socket.sendall(b"half")
    ends[0].close()
    with pytest.raises(EOFError):
        ends[1].receive()


def test_what_pickle_alone_cannot_take_is_taken_all_the_same() -> None:
    shelf = Shelf(plain=True)
    assert shelf.put(lambda: 5).read()() == 5
    with pytest.raises(TypeError, match="generator"):
        shelf.put(number for number in range(3))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(0, 3),
        torch.tensor(3.0, dtype=torch.float64),
        torch.arange(MANY, dtype=torch.bfloat16),
        torch.arange(6).reshape(2, 3).t(),
        torch.ones(MANY)[::2],
        torch.ones(3, dtype=torch.bool),
        torch.ones(2, 2, dtype=torch.complex64).conj(),
        torch.nn.Parameter(torch.ones(3)),
        torch.nn.Parameter(torch.ones(3), requires_grad=False),
        torch.ones(3, requires_grad=True) * 2,
        torch.ones(1).expand(10**9)[:5],
        torch.eye(3).to_sparse().to_dense(),
    ],
)
def test_tensors_arrive_as_they_were(tensor: torch.Tensor) -> None:
    got = Shelf().put([tensor, tensor]).read()
    equal(got[0].detach(), tensor.detach().resolve_conj())
    assert got[0] is got[1] and type(got[0]) is type(tensor)
    assert got[0].requires_grad == tensor.requires_grad and got[0].grad_fn is None


def test_tensor_takes_its_own_elements_alone_and_repeats_none() -> None:
    view, repeated = torch.ones(10**6)[:5], torch.ones(1).expand(10**9)
    assert isinstance(Shelf().put([view, repeated]), Sent)


def test_tensor_of_a_device_comes_to_where_the_device_is_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved: list[object] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device: moved.append(device) or tensor)
    memory = bytearray(torch.ones(2).numpy().tobytes())
    given = (memory, torch.float32, (2,), False, False)
    for used, device in ((False, "cuda:0"), (True, "cuda:0"), (True, "cuda:1"), (True, "")):
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda used=used: used)
        assert torch.equal(tensors.remake(*given, device), torch.ones(2))
    assert moved == ["cuda:0"]
