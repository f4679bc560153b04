"""Python objects between two processes: bulk data by shared memory, the rest over a socket pair.

A value is a pickle and the memory of its arrays (`fast_core.integrations.parcels`). Where they are
large together, the sender copies them into a segment that it owns, and the socket carries where
they lie, and the segment's descriptor with it. The receiver copies them out again at once, so
what it gives on is nobody else's.

Concurrency:
    One writer: the sender, which writes a segment again only when nobody can be reading it.
    `Placed`, what was written, keeps it until then: whoever sends it or waits for the answer of a
    receiver, which has read it before it answers, holds on to that. The socket orders the bytes:
    they are written before the message, and read after it. Segments have no name, so nothing is
    left of one when its processes are gone, however they went.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
from collections.abc import Callable, Sequence
from itertools import accumulate, count, pairwise
from typing import Any, NamedTuple

import numpy as np

from fast_core.errors import SegmentError, TransportError
from fast_core.integrations.parcels import pack, unpack
from fast_core.memory.segment import Segment

LEAST = 1 << 16  # bytes of a value below which the socket takes all of it
_ALIGNMENT = 64
_PAGE = 1 << 20  # segments are a whole number of these
_SPARE = 4  # and have a quarter more than is needed, so that few have to be made as data grow
_KEPT = 8  # segments that a receiver keeps mapped
_HEADER = struct.Struct("<IIQQ")  # bytes of the head, parts, segment's number, its bytes or 0
_RECEIVED = 1 << 16
_INT = struct.Struct("i")
_DESCRIPTOR = socket.CMSG_LEN(_INT.size)
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_numbers = count(1)


class Board(NamedTuple):
    """A segment, and the number that receivers know it by."""

    number: int
    segment: Segment


class Placed:
    """A value in shared memory, as long as anybody holds it.

    Attributes:
        board: Where it lies.
        sizes: Bytes of its parts, in order.
    """

    def __init__(self, board: Board, sizes: Sequence[int], done: Callable[[Board], None]) -> None:
        """Keep ``board``, and give it to ``done`` in the end."""
        self.board, self.sizes, self._done = board, sizes, done

    def __del__(self) -> None:
        self._done(self.board)

    def read(self) -> Any:
        """Make the value anew, of memory of its own."""
        return unpack(_lying(self.board.segment.buffer, self.sizes))


class Sent:
    """A small value, which the socket takes as it is."""

    def __init__(self, parts: Sequence[memoryview]) -> None:
        """Copy it, since the value may change."""
        self.data = b"".join(parts) if len(parts) > 1 else parts[0].tobytes()
        self.sizes = [part.nbytes for part in parts]

    def read(self) -> Any:
        """Make the value anew, of memory of its own."""
        return unpack(_following(memoryview(self.data), self.sizes))


Parcel = Placed | Sent
Received = bytes | memoryview


class Shelf:
    """The segments of one sender, of which there are as many as are being read."""

    def __init__(self, *, plain: bool = False) -> None:
        """Have none yet.

        Args:
            plain: Whether objects of what this process runs as a script are rare. Then pickle
                itself is tried, until it fails: `cloudpickle` takes five times as long for small
                objects. Where a script is, pickle would send the name of a class of it alone.
        """
        self._free: list[Board] = []
        self._plain, self._closed = plain, False

    def close(self) -> None:
        """Let all segments go, those that are still held when they are not."""
        self._closed = True
        while self._free:
            self._free.pop().segment.close()

    def put(self, value: object) -> Parcel:
        """Copy a value; any number of receivers can be sent it.

        Not for two threads at once; values may be let go by any.
        """
        parts = self._pack(value)
        sizes = [part.nbytes for part in parts]
        if sum(sizes) < LEAST:
            return Sent(parts)
        try:
            board = self._take(sum(map(_aligned, sizes)))
        except (SegmentError, OSError):  # no memory of that kind is left: it goes as it went before
            return Sent(parts)
        for place, part in zip(_lying(board.segment.buffer, sizes), parts, strict=True):
            # NumPy lets other threads go on meanwhile.
            np.frombuffer(place, np.uint8)[:] = np.frombuffer(part, np.uint8)
        return Placed(board, sizes, self._give_back)

    def _pack(self, value: object) -> list[memoryview]:
        if self._plain:
            try:
                return pack(value, plain=True)
            except Exception:  # whatever a user's object raises; it does so again below
                self._plain = False
        return pack(value)

    def _give_back(self, board: Board) -> None:
        self._free.append(board)
        if self._closed:
            self.close()

    def _take(self, nbytes: int) -> Board:
        while self._free:
            board = self._free.pop()
            if board.segment.nbytes >= nbytes:
                return board
            board.segment.close()
        nbytes += nbytes // _SPARE
        return Board(next(_numbers), Segment.create(-(-nbytes // _PAGE) * _PAGE))


class Link:
    """One end of a socket pair over which values go, a message at a time and in turns."""

    def __init__(self, end: socket.socket) -> None:
        """Take the end of a socket pair, which it closes."""
        self.socket = end
        self._boards: dict[int, Segment] = {}  # of the other side, the one used last at the end

    def send(self, head: object, parcel: Parcel | None = None) -> None:
        """Send a small value and, if there is one, what was put on a shelf.

        Raises:
            OSError: The other side is gone.
        """
        first = b"" if head is None else pickle.dumps(head, protocol=5)
        sizes = [] if parcel is None else parcel.sizes
        lengths = struct.pack(f"<{len(sizes)}Q", *sizes)
        if not isinstance(parcel, Placed):
            data = b"" if parcel is None else parcel.data
            start = _HEADER.pack(len(first), len(sizes), 0, 0)
            self.socket.sendall(b"".join((start, lengths, first, data)))
            return
        number, segment = parcel.board
        start = _HEADER.pack(len(first), len(sizes), number, segment.nbytes)
        message = b"".join((start, lengths, first))
        sent = socket.send_fds(self.socket, [message], [segment.fd])
        self.socket.sendall(memoryview(message)[sent:])

    def receive(self) -> tuple[Any, Incoming | None]:
        """Take the next message: its head, and what came with it.

        Raises:
            EOFError: The other side is gone.
            OSError: Likewise, or nothing came in time.
            TransportError: Memory that the message refers to can't be used here.
        """
        received: Received
        received, ancillary, _, _ = self.socket.recvmsg(_RECEIVED, _DESCRIPTOR, _CLOEXEC)
        descriptors = [_INT.unpack(each)[0] for _, _, each in ancillary if len(each) == _INT.size]
        try:
            received = self._more(received, _HEADER.size)
            head_bytes, parts, number, nbytes = _HEADER.unpack_from(received)
            at = _HEADER.size + 8 * parts
            end = at + head_bytes
            received = self._more(received, end)
            sizes = struct.unpack_from(f"<{parts}Q", received, _HEADER.size)
            head = pickle.loads(received[at:end]) if head_bytes else None
            if not parts:
                return head, None
            if nbytes:
                return head, Incoming(_lying(self._board(number, nbytes, descriptors), sizes))
            received = self._more(received, end + sum(sizes))
            return head, Incoming(_following(memoryview(received)[end:], sizes))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _more(self, received: Received, nbytes: int) -> Received:
        """Read on until there are so many bytes."""
        have = len(received)
        if have >= nbytes:
            return received
        memory = np.empty(nbytes, np.uint8).data
        memory[:have] = received
        while have < nbytes:
            got = self.socket.recv_into(memory[have:])
            if not got:
                raise EOFError("the other side is gone")
            have += got
        return memory

    def _board(self, number: int, nbytes: int, descriptors: Sequence[int]) -> memoryview:
        segment = self._boards.pop(number, None)
        if segment is None:
            if not descriptors:
                raise TransportError(
                    "shared memory was sent, and its descriptor did not come with it: this process "
                    "has too many files open. Raise `ulimit -n`, or close some."
                )
            segment = Segment.attach(descriptors[0], nbytes)
            # What is smaller holds this no more: its owner has closed it, or will.
            for other in [key for key, each in self._boards.items() if each.nbytes < nbytes]:
                self._boards.pop(other).close()
            while len(self._boards) >= _KEPT:
                self._boards.pop(next(iter(self._boards))).close()
        self._boards[number] = segment
        return segment.buffer

    def close(self) -> None:
        """Close the socket; segments go with the last who maps them."""
        self.socket.close()


class Incoming:
    """A value that has come, still where it was sent from."""

    def __init__(self, parts: Sequence[memoryview]) -> None:
        self._parts = parts

    def read(self) -> Any:
        """Make the value, of memory of its own; before the other side goes on."""
        return unpack(self._parts)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _lying(memory: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    """Parts that begin at cache lines."""
    places = accumulate(map(_aligned, sizes), initial=0)
    return [memory[at : at + size] for at, size in zip(places, sizes, strict=False)]


def _following(memory: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    """Parts that follow each other."""
    return [memory[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]
