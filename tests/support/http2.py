"""HTTP/2 by hand, to say what no client of gRPC would."""

import socket
import struct
from contextlib import suppress
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GO_AWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
WINDOW: Final = 65_535
FRAME_BYTES: Final = 16_384


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """A frame as it goes over the wire."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack("!I", stream) + payload


def header(name: str, value: str) -> bytes:
    """A header for HPACK that nobody has to remember."""
    return b"\0" + _text(name) + _text(value)


def _text(text: str) -> bytes:
    raw = text.encode()
    if len(raw) < 127:
        return bytes([len(raw)]) + raw
    rest, length = len(raw) - 127, bytearray([127])
    while rest >= 128:
        length.append(rest % 128 | 128)
        rest //= 128
    return bytes([*length, rest]) + raw


def call_headers(path: str, *more: tuple[str, str]) -> bytes:
    """The headers of a gRPC call."""
    fixed = ((":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"))
    return b"".join(header(*each) for each in (*fixed, ("content-type", "application/grpc"), ("te", "trailers"), *more))


class Peer:
    """One end of a connection, which sends no more than it may."""

    def __init__(self, place: tuple[str, int]) -> None:
        self.socket = socket.create_connection(place, 20)
        self.socket.sendall(PREFACE + frame(SETTINGS))
        self.ended: set[int] = set()
        """Streams that the other end has ended; 0: the connection."""
        self._windows = {0: WINDOW}
        self._unread = b""

    def call(self, stream: int, path: str, *more: tuple[str, str]) -> None:
        """Begin a call."""
        self._windows[stream] = WINDOW
        self.socket.sendall(frame(HEADERS, END_HEADERS, stream, call_headers(path, *more)))

    def send(self, stream: int, content: bytes) -> None:
        """Send content of a stream that does not end, as far as the other end takes it."""
        view = memoryview(content)
        while view and not {0, stream} & self.ended:
            if size := min(len(view), FRAME_BYTES, self._windows[0], self._windows[stream]):
                self.socket.sendall(frame(DATA, 0, stream, bytes(view[:size])))
                self._windows[0] -= size
                self._windows[stream] -= size
                view = view[size:]
            else:
                self.read()

    def read(self) -> None:
        """Take in the next frame."""
        head = self._take(9)
        if head is None:
            return
        size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        stream = int.from_bytes(head[5:9], "big") & 0x7FFFFFFF
        payload = self._take(size)
        if payload is None:
            return
        if kind == WINDOW_UPDATE:
            self._windows[stream] = self._windows.get(stream, WINDOW) + int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags:
            self.socket.sendall(frame(SETTINGS, 1))
        elif kind == PING and not flags:
            self.socket.sendall(frame(PING, 1, 0, payload))
        elif kind in (RESET, GO_AWAY) or (kind == HEADERS and flags & END_STREAM):
            self.ended.add(stream)

    def close(self) -> None:
        """Close the connection."""
        self.ended.add(0)
        self.socket.close()

    def _take(self, size: int) -> bytes | None:
        """Return so many bytes; None where the connection has ended."""
        while len(self._unread) < size:
            more = b""
            with suppress(OSError):
                more = self.socket.recv(1 << 20)
            if not more:
                self.ended.add(0)
                return None
            self._unread += more
        taken, self._unread = self._unread[:size], self._unread[size:]
        return taken
