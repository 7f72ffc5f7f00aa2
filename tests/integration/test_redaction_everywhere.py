"""Where `redaction.store` is `all`: secrets and personal data of every field are nowhere, whichever door is opened."""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.asking import get
from tests.support.eventually import eventually
from tests.support.judge.judge_server import JudgeServer
from tests.support.kept_bytes import all_kept_bytes
from tests.support.otlp import log, logs, marked, span, trace_id, traces, turn
from tests.support.otlp_backend import Backend
from tests.support.running_collector import RunningCollector

SESSION = "everywhere"


@pytest.fixture
def backend() -> Iterator[Backend]:
    made = Backend()
    yield made
    made.stop()


class Seeds:
    """Makes values that no two fields share, and knows all that it made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def secret(self) -> str:
        """`password=...`, with a secret of its own."""
        return f"password={self._new(f'Zq{len(self.made)}kw7-hTr{len(self.made)}')}"

    def address(self) -> str:
        return self._new(f"ann.lee{len(self.made)}@example.com")

    def both(self) -> str:
        return f"{self.secret()} of {self.address()}"

    def of(self, name: str) -> Any:
        """A list and a map that hold seeds, as an attribute."""
        held = AnyValue()
        held.array_value.values.add(string_value=self.both())
        inner = held.array_value.values.add().kvlist_value.values
        inner.add(key=self.address()).value.string_value = self.both()
        inner.add(key="note").value.bytes_value = self.both().encode()
        return KeyValue(key=name, value=held)

    def _new(self, value: str) -> str:
        self.made.append(value)
        return value


def seeded_spans(seeds: Seeds) -> list[Span]:
    """A trace with seeds in each field that holds text, of which findings and problems are made."""
    root = turn(1, f"My order, {seeds.both()}", f"Done, {seeds.both()}", session=SESSION)
    del root.attributes[-1]
    root.name = f"invoke_agent {seeds.both()}"
    root.trace_state = f"shop={seeds.address()}"
    root.attributes.extend([seeds.of("list"), seeds.of("gen_ai.unknown")])
    root.attributes.add(key=seeds.address()).value.string_value = "a key"
    parts = [{"type": "text", "content": seeds.both()}]
    root.attributes.add(key="gen_ai.system_instructions").value.string_value = json.dumps(parts)
    root.attributes.add(key="gen_ai.tool.definitions").value.string_value = json.dumps(
        [{"type": "function", "name": "find_order", "description": seeds.both()}]
    )
    event = root.events.add(name=seeds.both(), time_unix_nano=root.start_time_unix_nano)
    event.attributes.append(seeds.of("seen"))
    event.attributes.add(key="exception.stacktrace").value.string_value = f"File x\n  login({seeds.both()})"
    link = root.links.add(trace_id=trace_id(99), span_id=b"12345678", trace_state=f"a={seeds.address()}")
    link.attributes.append(seeds.of("linked"))
    calls = list(_failed_calls(root, seeds))
    return [*calls, marked(root, 1 + len(calls), "p1")]


def _failed_calls(root: Span, seeds: Seeds) -> Iterator[Span]:
    """Five equal calls that fail: a loop, failures, and a problem that names what the tool said."""
    arguments, said, status = seeds.both(), seeds.both(), seeds.both()
    for number in range(3, 8):
        call = span(
            1, number, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="find_order",
            gen_ai__tool__call__id=f"c{number}", gen_ai__tool__call__arguments=json.dumps({"q": arguments}),
            gen_ai__tool__call__result=json.dumps({"error": said}),
            error__type=f"LoginError {seeds.address()}", gen_ai__tool__description=seeds.both(),
        )  # fmt: skip
        call.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=f"refused: {status}"))
        call.start_time_unix_nano = root.start_time_unix_nano + number
        call.end_time_unix_nano = call.start_time_unix_nano + 1
        yield call


def seeded_log(seeds: Seeds) -> LogRecord:
    record = log(1, 1, body=seeds.both(), note=seeds.both())
    record.severity_text, record.severity_number = seeds.address(), SeverityNumber.SEVERITY_NUMBER_ERROR
    record.event_name = seeds.both()
    record.attributes.append(seeds.of("list"))
    return record


def send(collector: RunningCollector, seeds: Seeds) -> None:
    records = logs(seeded_log(seeds))
    spans = traces(*seeded_spans(seeds))
    for request in (records.resource_logs[0], spans.resource_spans[0]):
        request.resource.entity_refs.add(type="host", description_keys=[seeds.address()])
        request.resource.attributes.append(seeds.of("host"))
        request.resource.attributes.add(key="process.command_line").value.string_value = f"run {seeds.both()}"
        request.schema_url = f"https://example.com/?{seeds.secret()}"
    for scope in (records.resource_logs[0].scope_logs[0], spans.resource_spans[0].scope_spans[0]):
        scope.scope.name, scope.scope.version = f"lib {seeds.both()}", seeds.address()
        scope.scope.attributes.append(seeds.of("scope"))
        scope.schema_url = f"https://example.com/?{seeds.secret()}"
    collector.send_logs(records)
    spans.resource_spans[0].scope_spans[0].spans[0].MergeFromString(unknown_field(seeds.both()))
    collector.send(spans)


def unknown_field(text: str) -> bytes:
    """A field with a number that no message of OTLP has, yet."""
    return bytes([0xFA, 0x3E, len(text)]) + text.encode()


def shown(web: str, *, session: str = SESSION, agent: str = "planner") -> dict[str, str]:
    """All that the web port answers to GET: each path of the API's description, and each page that another links to."""
    known = {"trace_id": trace_id(1).hex(), "session_id": session, "agent": agent}
    described = get(f"http://{web}/api/v1/openapi.json").json()["paths"]
    answers: dict[str, str] = {}
    paths = [path.format_map(known) for path, methods in described.items() if "get" in methods and _fits(path, known)]
    paths += ["/", "/metrics", f"/traces/{known['trace_id']}", f"/sessions/{session}", f"/agents/{agent}", "/problems"]
    paths += ["/alarms"]
    while paths:
        path = paths.pop()
        if path not in answers and not path.startswith("//"):
            answers[path] = _body(web, path)
            paths += map(html.unescape, re.findall(r'href="(/[^"#]*)', answers[path]))
            paths += [f"/api/v1/problems/{each}" for each in re.findall(r'"problem_id": ?"(\w+)"', answers[path])]
    return answers


def _fits(path: str, known: dict[str, str]) -> bool:
    return set(re.findall(r"{(\w+)}", path)) <= known.keys()


def _body(web: str, path: str) -> str:
    answer: httpx.Response = get(f"http://{web}{path}", follow_redirects=True)
    return answer.text + json.dumps(dict(answer.headers))


def leaked(seeds: Seeds, text: str | bytes) -> list[str]:
    """The seeds that stand in a text, as they are or as a URL writes them."""
    whole = text if isinstance(text, bytes) else text.encode()
    return [each for each in seeds.made if each.encode() in whole or quote(each).encode() in whole]


def leaking_files(folder: Path, seeds: Seeds) -> dict[str, list[str]]:
    return {name: found for name, content in all_kept_bytes(folder).items() if (found := leaked(seeds, content))}


def test_what_is_seeded_into_every_field_is_nowhere(
    backend: Backend, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seeds = Seeds()
    export = {"endpoint": backend.endpoint, "protocol": "http/protobuf", "interval": 1}
    with JudgeServer() as judge:
        with RunningCollector(
            tmp_path, redaction={"store": "all"}, judge={"base_url": judge.url}, export=export
        ) as collector:
            send(collector, seeds)
            document = collector.scored(trace_id(1).hex())
            assert document["findings"]
            eventually(lambda: judge.requests)
            pages = shown(collector.addresses["web"])
            assert leaking_files(tmp_path, seeds) == {}
        asked = "".join(each.text for each in judge.requests)
    pushed = [body for queue in backend.taken.values() for body, _ in queue.queue]
    assert len(seeds.made) > 80
    assert len(pages) > 25
    assert pushed
    assert {path: found for path, body in pages.items() if (found := leaked(seeds, body))} == {}
    assert leaked(seeds, b"".join(pushed)) == []
    assert leaked(seeds, asked) == []
    assert leaked(seeds, caplog.text) == []
    assert leaking_files(tmp_path, seeds) == {}
