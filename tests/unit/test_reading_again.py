"""Traces that are read again as more of them comes, and what is kept for that."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from agenteval_collector.assembly.open_trace import SpanLogRecord
from agenteval_collector.assembly.restoring import items_of
from agenteval_collector.evaluation.reading import Decoded, DecodedTraces, LastReadings, TraceReader
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.logged_requests import LoggedRequest, Origin, Signal
from agenteval_collector.model.sessions import StoredPlace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.conventions.dialect import SpanFacts
from otel_agenteval.conventions.span_reader import read_span
from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from tests.support.otlp import START, log, span, turn
from tests.support.recordings import logs_of, name_of, read_requests, recorded_logs, recorded_spans, recordings
from tests.support.scoring import assembled

RECORDINGS = recordings("corpus", "recorded", "conversations")
ORIGIN = Origin(b"", "lib", None)


@dataclass
class Pieces:
    """Spans and log records of one trace as they come, the newest of each id."""

    trace_id: str
    spans: dict[bytes, tuple[bytes, Origin]] = field(default_factory=dict)
    logs: dict[bytes, Origin] = field(default_factory=dict)

    def add(self, item: Span | SpanLogRecord, raw: bytes, origin: Origin) -> None:
        if isinstance(item, SpanLogRecord):
            self.logs[raw] = origin
        else:
            self.spans[item.span_id] = (raw, origin)

    def assembled(self) -> AssembledTrace:
        return AssembledTrace(
            trace_id=self.trace_id, tenant="default", revision=1, spans=list(self.spans.values()),
            logs=list(self.logs.items()), offsets=[], received_at=0,
        )  # fmt: skip


@cache
def items(path: Path) -> dict[str, list[tuple[Span | SpanLogRecord, bytes, Origin]]]:
    """All that came, by trace."""
    found = defaultdict(list)
    logs = logs_of(path)
    bodies = [(Signal.TRACES, each) for each in read_requests(path, ExportTraceServiceRequest)]
    more = [(Signal.LOGS, each) for each in read_requests(logs, ExportLogsServiceRequest)] if logs.exists() else []
    for signal, request in [*bodies, *more]:
        for trace_id, item, raw, origin in items_of(
            LoggedRequest(1, "default", signal, 0, request.SerializeToString())
        ):
            found[trace_id.hex()].append((item, raw, origin))
    return dict(found)


def begun(item: Span) -> Span:
    """The span as it may come first: open, and with half of its attributes."""
    first = Span()
    first.CopyFrom(item)
    first.end_time_unix_nano = 0
    del first.attributes[len(item.attributes) // 2 :]
    return first


def revisions(
    trace_id: str, recorded: Sequence[tuple[Span | SpanLogRecord, bytes, Origin]], random: Random
) -> Iterator[AssembledTrace]:
    """The trace as it stands after each of some pieces, in any order; some spans come before they have ended."""
    came = [*recorded]
    random.shuffle(came)
    early: list[tuple[Span | SpanLogRecord, bytes, Origin]] = []
    for item, _, origin in came:
        if isinstance(item, Span) and random.random() < 0.2:
            first = begun(item)
            early.append((first, first.SerializeToString(), origin))
    pieces = Pieces(trace_id)
    for piece in (early, came):
        while piece:
            size = random.randint(1, len(piece))
            for item, raw, origin in piece[:size]:
                pieces.add(item, raw, origin)
            del piece[:size]
            yield pieces.assembled()


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_a_trace_that_comes_in_pieces_is_read_as_if_it_had_come_at_once(path: Path) -> None:
    reader = TraceReader(kept=DecodedTraces(1 << 30, min_items=1))
    for trace_id, recorded in items(path).items():
        for revision in revisions(trace_id, recorded, Random(trace_id)):
            assert reader.read(revision) == TraceReader().read(revision)


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_reading_a_trace_leaves_the_facts_of_its_spans_as_they_were(path: Path) -> None:
    given: list[tuple[SpanFacts, SpanFacts]] = []

    def read(span: SpanRecord, logs: Sequence[LogRecord]) -> tuple[SpanFacts | None, tuple[str, ...]]:
        facts, names = read_span(span, logs)
        if facts is not None:
            given.append((facts, replace(facts)))
        return facts, names

    logs = recorded_logs(logs_of(path))
    for trace_id, spans in recorded_spans(path).items():
        read_trace(trace_id, spans, logs.get(trace_id, ()), read_span=read)
    assert given
    assert all(facts == before for facts, before in given)


def raw(number: int, **attributes: Any) -> tuple[bytes, Origin]:
    return span(1, number, gen_ai__operation__name="chat", **attributes).SerializeToString(), ORIGIN


def test_only_what_is_new_is_decoded_and_read() -> None:
    decoded = Decoded()
    [first], _ = decoded.decode([raw(1)], [])
    facts, _ = decoded.read_span(first, ())
    [again, second], _ = decoded.decode([raw(1), raw(2)], [])
    assert again is first
    assert decoded.read_span(first, ())[0] is facts
    assert decoded.read_span(second, ())[0] is not facts


def test_a_span_is_read_again_when_a_log_record_of_it_has_come() -> None:
    decoded = Decoded()
    record = (log(1, 1, event__name="gen_ai.choice").SerializeToString(), ORIGIN)
    [model], _ = decoded.decode([raw(1)], [])
    facts, _ = decoded.read_span(model, ())
    _, logs = decoded.decode([raw(1)], [record])
    told, _ = decoded.read_span(model, logs)
    assert told is not facts
    _, logs = decoded.decode([raw(1)], [record])
    assert decoded.read_span(model, logs)[0] is told


def test_what_is_not_in_the_newest_revision_is_forgotten() -> None:
    decoded = Decoded()
    [first, _], _ = decoded.decode([raw(1), raw(2)], [])
    size = decoded.size
    decoded.decode([raw(2)], [])
    [again], _ = decoded.decode([raw(1)], [])
    assert again is not first
    assert 0 < decoded.size < size


def test_what_is_kept_is_bounded_and_the_trace_that_was_read_longest_ago_goes() -> None:
    sized = Decoded()
    sized.decode([raw(number) for number in range(1, 6)], [])
    kept = DecodedTraces(2 * sized.size, min_items=2)
    reader = TraceReader(kept=kept)
    traces = [
        assembled(*(span(trace, number, gen_ai__operation__name="chat") for number in range(1, 6)))
        for trace in (1, 2, 3)
    ]
    for trace in (traces[0], traces[1], traces[0], traces[2]):
        reader.read(trace)
    assert [trace.trace_id in kept for trace in traces] == [True, False, True]
    assert 0 < kept.size <= 2 * sized.size


def test_small_traces_are_not_kept() -> None:
    kept = DecodedTraces(1 << 20, min_items=2)
    TraceReader(kept=kept).read(assembled(span(1, 1)))
    assert kept.size == 0


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        pytest.param(
            [turn(1, "hi", "hello", at=START)],
            [turn(1, "hi", "hello", at=START), span(1, 9, parent=1)],
            True,
            id="a span more",
        ),
        pytest.param(
            [turn(1, "hi", "hello", at=START)],
            [turn(1, "hi", "goodbye", at=START)],
            False,
            id="a span that is another now",
        ),
        pytest.param(
            [turn(1, "hi", "hello", at=START)],
            [turn(1, "hi", "hello", at=START), span(1, 9, parent=1, gen_ai__operation__name="execute_tool")],
            False,
            id="a span that says something",
        ),
    ],
)
def test_a_small_trace_is_read_again_to_tell_what_its_first_revision_said(
    earlier: list[Span], later: list[Span], expected: bool
) -> None:
    first, second = assembled(*earlier), replace(assembled(*later), revision=2)
    readings, reader = LastReadings(), TraceReader()
    read: list[AssembledTrace] = []

    def read_apart(part: AssembledTrace) -> Any:
        read.append(part)
        return reader.read_apart(part)

    assert not readings.same(first, reader.read(first), None, read_apart)
    assert read == [], "most traces have one revision"
    before = StoredPlace(session_id="s", place=(0, first.trace_id), revision=1)
    assert readings.same(second, reader.read(second), before, read_apart) is expected
    assert [len(part.spans) for part in read] in ([len(first.spans)], [])
