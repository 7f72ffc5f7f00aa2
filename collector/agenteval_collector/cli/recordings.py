"""Read recordings of telemetry, and other files that a replay takes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agenteval_collector.ingest.otlp_json import parse_json
from agenteval_collector.ingest.validity import Checked
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.runtime.errors import InvalidRequest


class Recorded(NamedTuple):
    """One recorded export request. `place` names the file and the position in the file."""

    signal: Signal
    body: bytes
    place: str


def read_recording(path: Path) -> Iterator[Recorded]:
    """Read the requests of a recording. Raises InvalidRequest, which names the file and the position in it.

    `X.otlp.pb` holds requests with spans, each behind its length as a varint. `X.logs.otlp.pb` beside it holds the log
    records of the same run. Any other file is read as OTLP/JSON, with one request a line or one in the whole file.
    """
    if path.name.endswith(".logs.otlp.pb"):
        yield from _delimited(path, Signal.LOGS)
    elif path.name.endswith(".pb"):
        yield from _delimited(path, Signal.TRACES)
        beside = path.with_name(path.name.removesuffix(".otlp.pb") + ".logs.otlp.pb")
        if path.name.endswith(".otlp.pb") and beside.exists():
            yield from _delimited(beside, Signal.LOGS)
    else:
        yield from _json(path)


def read_text(path: Path) -> str:
    """Read a text file in UTF-8. Raises InvalidRequest, which names the file."""
    try:
        # This encoding ignores a byte order mark at the beginning.
        return _read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path}: cannot be read as text: {error}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{path}: cannot be read: {error.strerror}") from error


def _delimited(path: Path, signal: Signal) -> Iterator[Recorded]:
    if not (data := _read(path)):
        raise InvalidRequest(f"{path}: is empty")
    start = 0
    while start < len(data):
        try:
            size, first = _varint(data, start)
        except IndexError as error:
            raise InvalidRequest(f"{path}: ends within a length, at byte {start}") from error
        if first + size > len(data):
            raise InvalidRequest(f"{path}: ends within a request of {size} bytes, at byte {first}")
        yield Recorded(signal, data[first : first + size], f"{path}, byte {first}")
        start = first + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read the protobuf varint at position `at`. Return its value and the position behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        # The highest bit says that another byte follows.
        if byte < 0x80:
            return value, at


def _json(path: Path) -> Iterator[Recorded]:
    text = read_text(path)
    try:
        documents = [json.loads(text)]
    except ValueError:
        # More than one document: the file has one on each line.
        documents = []
        for number, line in enumerate(text.split("\n"), 1):
            try:
                documents += [json.loads(line)] if line.strip() else []
            except ValueError as error:
                raise InvalidRequest(f"{path}: line {number} is not JSON: {error}") from error
    if not documents:
        raise InvalidRequest(f"{path}: is empty")
    for number, document in enumerate(documents, 1):
        location = f"{path}, request {number}"
        if not isinstance(document, dict) or not ({"resourceSpans", "resourceLogs"} & document.keys()):
            raise InvalidRequest(f"{location}: has neither resourceSpans nor resourceLogs, so it is no OTLP/JSON")
        signal = Signal.LOGS if "resourceLogs" in document else Signal.TRACES
        checked = Checked()
        try:
            body = parse_json(signal, json.dumps(document).encode(), checked)
        except InvalidRequest as error:
            raise InvalidRequest(f"{location}: {error}") from error
        if checked.rejected:
            raise InvalidRequest(f"{location}: {checked.reason}")
        yield Recorded(signal, body, location)
