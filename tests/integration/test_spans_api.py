"""The spans of a trace over HTTP, from a real collector: as a listing, one by itself, gone."""

from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest
from agenteval_collector.ingest.request_file import RequestFile
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.eventually import eventually
from tests.support.otlp import log, logs, span, span_id, trace_id, traces
from tests.support.running_collector import RunningCollector

ROOT, CHAT, TOOL = (span_id(number).hex() for number in (1, 2, 3))
SAID = '[{"role": "user", "parts": [{"type": "text", "content": "refund order 7731"}]}]'
ASKED = '[{"role": "assistant", "parts": [{"type": "tool_call", "name": "search", "arguments": {"q": "7731"}}]}]'


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    prices = {"sample": {"input": 1.0, "output": 2.0}}
    with RunningCollector(tmp_path_factory.mktemp("data"), prices=prices) as collector:
        collector.send(traces(*spans(1), scope="lib"))
        collector.scored(trace_id(1).hex())
        yield collector


def spans(trace: int) -> list[Span]:
    found = [
        span(trace, 1, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="planner"),
        span(
            trace, 2, parent=1, gen_ai__operation__name="chat", gen_ai__request__model="sample",
            gen_ai__usage__input_tokens=1000, gen_ai__usage__output_tokens=50,
            gen_ai__input__messages=SAID, gen_ai__output__messages=ASKED,
        ),
        span(
            trace, 3, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="search",
            gen_ai__tool__call__arguments='{"q": "7731"}', gen_ai__tool__call__result="[]",
        ),
    ]  # fmt: skip
    found[0].end_time_unix_nano += 1000
    found[2].status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message="no connection"))
    found[2].events.add(name="exception", time_unix_nano=1_700_000_000_000_000_000)
    found[2].links.add(trace_id=b"o" * 16, span_id=b"s" * 8)
    return found


def address(trace: int, rest: str = "") -> str:
    return f"/api/v1/traces/{trace_id(trace).hex()}/spans{rest}"


def test_spans_come_in_the_order_of_the_tree_with_models_tokens_and_money(collector: RunningCollector) -> None:
    page = collector.get(address(1))
    assert (page["span_count"], page["next_cursor"]) == (3, None)
    root, chat, tool = page["items"]
    assert (root["span_id"], root["parent_id"], root["depth"], root["below"]) == (ROOT, None, 0, 2)
    assert (chat["parent_id"], chat["role"], chat["model"], root["agent"]) == (ROOT, "model", "sample", "planner")
    assert (chat["input_tokens"], chat["output_tokens"], chat["usd"]) == (1000, 50, pytest.approx(0.0011))
    assert (tool["role"], tool["tool"], tool["error"], tool["usd"]) == ("tool", "search", "no connection", None)


def test_pages_of_spans_put_together_are_all(collector: RunningCollector) -> None:
    first = collector.get(address(1, "?limit=2"))
    second = collector.get(address(1, f"?limit=2&cursor={first['next_cursor']}"))
    assert [each["span_id"] for each in first["items"] + second["items"]] == [ROOT, CHAT, TOOL]
    assert second["next_cursor"] is None


def test_a_span_has_its_messages_arguments_and_attributes(collector: RunningCollector) -> None:
    chat, tool = (collector.get(address(1, f"/{each}")) for each in (CHAT, TOOL))
    assert chat["input"] == [
        {"role": "user", "text": "refund order 7731", "reasoning": [], "requests": [], "results": []}
    ]
    assert chat["output"][0]["requests"] == [{"name": "search", "arguments": {"q": "7731"}}]
    assert chat["attributes"]["gen_ai.usage.input_tokens"] == 1000
    assert (chat["scope"], chat["resource"]) == ("lib", {"service.name": "shop"})
    assert (tool["arguments"], tool["result"]) == ({"q": "7731"}, [])
    assert tool["links"] == [{"trace_id": "6f" * 16, "span_id": "73" * 8, "attributes": {}}]
    assert tool["events"] == [{"name": "exception", "time": "2023-11-14T22:13:20.000000Z", "attributes": {}}]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param(address(1, f"/{'f' * 16}"), None, id="an unknown span"),
        pytest.param(address(99), None, id="an unknown trace"),
        pytest.param(address(1, "/xyz"), 400, id="no id of a span"),
        pytest.param(address(1, "?cursor=WzEsMl0="), 400, id="a cursor of another listing"),
        pytest.param(address(1, "?cursor=Wy0xXQ=="), 400, id="a cursor before the first"),
        pytest.param(address(1, "?limit=501"), 400, id="too many"),
    ],
)
def test_what_is_not_there_is_an_error(collector: RunningCollector, path: str, status: int | None) -> None:
    if status is None:
        assert collector.get(path) is None
        return
    with pytest.raises(HTTPError) as refused:
        collector.get(path)
    assert refused.value.code == status


def test_content_in_log_records_is_shown_with_its_span(collector: RunningCollector) -> None:
    record = log(2, 1, gen_ai__input__messages=SAID, event__name="gen_ai.client.inference.operation.details")
    collector.send_logs(logs(record))
    collector.send(traces(span(2, 1, gen_ai__operation__name="chat", gen_ai__request__model="sample")))
    collector.scored(trace_id(2).hex())
    eventually(lambda: collector.get(address(2, f"/{ROOT}"))["input"])
    assert collector.get(address(2, f"/{ROOT}"))["input"][0]["text"] == "refund order 7731"


def test_spans_that_have_arrived_are_shown_while_the_trace_runs(collector: RunningCollector) -> None:
    collector.send(traces(span(3, 2, parent=1, gen_ai__operation__name="chat"), process="p"))
    page = eventually(lambda: collector.get(address(3)))
    assert [each["span_id"] for each in page["items"]] == [CHAT]


def test_spans_that_the_log_has_forgotten_are_said_to_be(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(*spans(1)))
        collector.scored(trace_id(1).hex())
    log = RequestFile(tmp_path / "log.db")
    assert log.trim(below=log.last_offset() + 1, older_than=2**62, batch=9) == 1
    log.shutdown()
    with RunningCollector(tmp_path) as collector:
        assert collector.get(address(1)) == {"items": [], "next_cursor": None, "span_count": None}
        assert collector.get(address(1, f"/{ROOT}")) is None
        assert "Its spans are forgotten" in collector.get(f"/traces/{trace_id(1).hex()}")
