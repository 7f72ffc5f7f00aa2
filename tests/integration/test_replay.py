import json
from pathlib import Path

import pytest
from agenteval_collector.cli.offline_replay import replay
from agenteval_collector.cli.recordings import read_recording
from agenteval_collector.config.settings import Settings
from agenteval_collector.runtime.errors import InvalidRequest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.otlp import traces, turn
from tests.support.recordings import DATA

LOOP = DATA / "corpus" / "otel-genai-openai--loop.otlp.pb"


def as_json(request: ExportTraceServiceRequest) -> str:
    """OTLP/JSON: ids in hex."""
    document = MessageToDict(request)
    for spans in document["resourceSpans"][0]["scopeSpans"]:
        for span, original in zip(spans["spans"], request.resource_spans[0].scope_spans[0].spans, strict=True):
            span["traceId"], span["spanId"] = original.trace_id.hex(), original.span_id.hex()
    return json.dumps(document, ensure_ascii=False)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("x.otlp.pb", b"", "x.otlp.pb: is empty", id="an empty recording"),
        pytest.param("x.otlp.pb", b"\x05abc", "ends within a request of 5 bytes", id="a recording cut in a request"),
        pytest.param("x.otlp.pb", b"\xff", "ends within a length", id="a recording cut in a length"),
        pytest.param("x.otlp.pb", b"\x03abc", "x.otlp.pb, byte 1: .*no opentelemetry", id="bytes that are no protobuf"),
        pytest.param("x.json", b"", "x.json: is empty", id="an empty JSON file"),
        pytest.param("x.json", b'{"a": 1}', "neither resourceSpans nor resourceLogs", id="JSON of something else"),
        pytest.param("x.json", b'{"resourceSpans": []}\nnonsense', "line 2 is not JSON", id="a broken line"),
        pytest.param("x.json", b'{"resourceSpans": 7}', "request 1: .*no OTLP/JSON", id="a field of the wrong kind"),
        pytest.param("x.json", b"\xff\xfe", "cannot be read as text", id="JSON that is no text"),
    ],
)
def test_what_is_wrong_with_a_recording_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(InvalidRequest, match=message):
        replay(read_recording(file), Settings(), lambda _: None)


def test_a_recording_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"absent\.otlp\.pb: cannot be read"):
        list(read_recording(tmp_path / "absent.otlp.pb"))


def test_json_lines_say_what_the_binary_recording_says(tmp_path: Path) -> None:
    requests = [traces(turn(n, "hi", f"answer {n}", session="s\u2028\x85")) for n in (1, 2)]
    lines = tmp_path / "x.jsonl"
    lines.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(map(as_json, requests)).encode())
    binary = tmp_path / "x.otlp.pb"
    binary.write_bytes(b"".join(_delimited(request.SerializeToString()) for request in requests))
    read, again = (replay(read_recording(file), Settings(), lambda _: None) for file in (lines, binary))
    for document in (*read["traces"], *again["traces"]):
        for finding in document["findings"]:
            finding["found_at"] = None  # It says when it was replayed.
    assert read["traces"] == again["traces"]
    assert [session["session_id"] for session in read["sessions"]] == ["s\u2028\x85"]


def test_a_replay_reports_how_many_traces_are_scored() -> None:
    scored: list[int] = []
    document = replay(read_recording(LOOP), Settings(), scored.append)
    assert sum(scored) == len(document["traces"]) == 4
    assert [trace["started_at"] for trace in document["traces"]] == sorted(
        t["started_at"] or "" for t in document["traces"]
    )


def _delimited(body: bytes) -> bytes:
    size, prefix = len(body), bytearray()
    while size >= 0x80:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*prefix, size]) + body
