"""The workload that tests and benchmarks build on: what it is like, and what a real collector makes of it."""

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pytest
from agenteval_collector.app.collector import Collector
from agenteval_collector.config.settings import Settings
from agenteval_collector.evaluation.embedding import EmbeddedEmbedder
from agenteval_collector.serve.api.trace_documents import TraceDocument
from agenteval_collector.stores.schema import run_reports
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy import select

from benchmarks.workload import generator, taubench
from benchmarks.workload.conversation import Conversation
from benchmarks.workload.measure import Measured, measure
from benchmarks.workload.otlp import requests, spans
from benchmarks.workload.plan import SERVICE
from benchmarks.workload.replay import replay
from otel_agenteval import AgentEvalSpanProcessor, semconv
from tests.support.eventually import eventually

SHARED = Path(os.environ.get("AGENTEVAL_SHARED") or Path(__file__).parents[3] / "shared")
RECORDED = SHARED / "taubench" / "gpt-4o-airline-tasks-00-24.json"
STARTED_AT = 1_700_000_000_000_000_000


@pytest.fixture(scope="module")
def embedder() -> EmbeddedEmbedder:
    return EmbeddedEmbedder()


@pytest.fixture(scope="module")
def generated(embedder: EmbeddedEmbedder) -> Measured:
    return measure(list(generator.generate(400)), embedder.embed)


@pytest.fixture(scope="module")
def recorded() -> Sequence[Conversation]:
    if not RECORDED.exists():
        pytest.skip(f"{RECORDED} is absent: the recorded conversations are not part of the repository")
    return taubench.read(RECORDED)


@pytest.mark.parametrize(
    ("measured", "modelled"),
    [
        pytest.param("turns", generator.TURNS, id="turns per conversation"),
        pytest.param("question_length", generator.QUESTION, id="length of questions"),
        pytest.param("answer_length", generator.ANSWER, id="length of answers"),
        pytest.param("arguments_length", generator.ARGUMENTS, id="length of arguments"),
    ],
)
def test_generated_quantiles_stay_near_the_recorded_ones(
    generated: Measured, measured: str, modelled: Sequence[int]
) -> None:
    """A quantile lies between the neighbours of the one it is modelled on."""
    padded = [modelled[0], *modelled, modelled[-1]]
    for below, quantile, above in zip(padded, getattr(generated, measured), padded[2:], strict=False):
        assert 0.9 * below - 2 <= quantile <= 1.1 * above + 2


@pytest.mark.parametrize(
    ("share", "least", "most"),
    [
        pytest.param("repetitions", 0.03, 0.06, id="about 4 % of the traces repeat or restate an answer"),
        pytest.param("loops", 0.004, 0.016, id="somewhat under 1 % are real loops"),
        pytest.param("failed_calls", 0.08, 0.12, id="one tool call in ten fails"),
        pytest.param("unanswered", 0.10, 0.13, id="the last message of a conversation is not answered"),
        pytest.param("ended_by_tool", 0.14, 0.26, id="a fifth of the conversations end with a tool"),
        pytest.param("remarks", 0.05, 0.09, id="a few requests for tools come with a remark"),
        pytest.param("span_bytes", 4100, 5200, id="spans have 4.6 KB"),
    ],
)
def test_generated_shares_stay_near_the_recorded_ones(
    generated: Measured, share: str, least: float, most: float
) -> None:
    assert least <= getattr(generated, share) <= most


def test_generated_tools_and_successes_stay_near_the_recorded_ones() -> None:
    conversations = list(generator.generate(2000))
    turns = [turn for conversation in conversations for turn in conversation.turns[:-1]]
    calls = sum(len(turn.calls) for turn in turns) / len(turns)
    weights = generator.CALLS_PER_TURN
    assert calls == pytest.approx(sum(n * times for n, times in weights.items()) / sum(weights.values()), rel=0.1)
    success = sum(conversation.success for conversation in conversations) / len(conversations)
    assert success == pytest.approx(0.31, abs=0.04)


def test_generated_answers_differ_about_as_much_as_the_recorded_ones(generated: Measured) -> None:
    assert generated.loop_detection[10] == pytest.approx(0.85, abs=0.04)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_ones() -> None:
    first, again, other = (list(requests(generator.generate(8, seed), started_at=STARTED_AT)) for seed in (3, 3, 4))
    assert first == again
    assert first[0] != other[0]


def test_more_conversations_begin_with_the_same_ones() -> None:
    assert list(islice(generator.generate(50), 5)) == list(generator.generate(5))


@pytest.mark.parametrize("marker", [True, False], ids=["as our processor sends them", "as a stock exporter does"])
def test_requests_hold_every_span_of_the_conversations_once(marker: bool) -> None:
    conversations = list(generator.generate(6))
    bodies = requests(conversations, started_at=STARTED_AT, spans_per_request=10, marker=marker)
    sent = [ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans for body in bodies]
    assert {len(batch) for batch in sent[:-1]} == {10}
    ids = {span.span_id for batch in sent for span in batch}
    assert len(ids) == sum(map(len, sent)) == sum(each.span_count for each in conversations)


def test_the_marker_counts_the_spans_of_its_trace() -> None:
    traces: defaultdict[bytes, list[int]] = defaultdict(list)
    for span in spans(generator.generate(4), started_at=STARTED_AT, marker=True):
        marks = [a.value.int_value for a in span.attributes if a.key == semconv.AGENTEVAL_SPAN_COUNT]
        traces[span.trace_id].append(marks[0] if marks else 0)
    assert all(counts[-1] == len(counts) and not any(counts[:-1]) for counts in traces.values())


def test_a_replay_says_the_same_as_the_requests() -> None:
    conversation = next(generator.generate(1))
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    replay(conversation, provider)
    planned = spans([conversation], started_at=STARTED_AT, marker=False)
    for span, sent in zip(exporter.get_finished_spans(), planned, strict=True):
        said = {a.key: a.value.string_value or a.value.int_value for a in sent.attributes}
        del said[semconv.GEN_AI_CONVERSATION_ID]
        assert (span.name, span.kind.value + 1, dict(span.attributes or {})) == (sent.name, sent.kind, said)


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Collector, str]]:
    """A running collector with its gRPC address."""
    anywhere = {"grpc_address": "127.0.0.1:0", "http_address": "127.0.0.1:0", "web_address": "127.0.0.1:0"}
    settings = Settings.model_validate({"data_dir": tmp_path_factory.mktemp("data"), "server": anywhere})
    collector = Collector(settings)
    try:
        yield collector, collector.start()["grpc"]
    finally:
        collector.shutdown()


@pytest.fixture(scope="module")
def sent(recorded: Sequence[Conversation], collector: tuple[Collector, str]) -> dict[str, list[str]]:
    """The trace ids of every session of the recorded conversations, once all of them are scored."""
    service, address = collector
    provider = TracerProvider(resource=Resource.create({"service.name": SERVICE}), shutdown_on_exit=False)
    processor = AgentEvalSpanProcessor(f"http://{address}")
    provider.add_span_processor(processor)
    sent = {each.session_id: [f"{key:032x}" for key in replay(each, provider)] for each in recorded}
    assert provider.force_flush(60_000)
    stats = processor.stats
    processor.shutdown()
    assert (stats.dropped, stats.rejected, stats.evicted) == ({}, 0, 0)
    assert stats.exported == sum(each.span_count for each in recorded)
    waiting = {key for keys in sent.values() for key in keys}

    def all_scored() -> bool:
        waiting.difference_update(
            [key for key in waiting if (trace := service.pipeline.queries.trace(key)) and trace["complete"]]
        )
        return not waiting

    eventually(all_scored, within=100.0, every=0.2)
    return sent


@pytest.fixture(scope="module")
def traces(sent: dict[str, list[str]], collector: tuple[Collector, str]) -> dict[str, TraceDocument]:
    found = {key: collector[0].pipeline.queries.trace(key) for keys in sent.values() for key in keys}
    return {key: document for key, document in found.items() if document is not None}


@pytest.mark.slow
def test_every_conversation_is_a_session_of_its_traces_in_order(
    sent: dict[str, list[str]], collector: tuple[Collector, str]
) -> None:
    for session_id, trace_ids in sent.items():
        session = collector[0].pipeline.queries.session(session_id)
        assert session is not None
        assert session["trace_ids"] == trace_ids


@pytest.mark.slow
def test_every_trace_is_complete_and_holds_all_of_its_turn(
    recorded: Sequence[Conversation], sent: dict[str, list[str]], traces: dict[str, TraceDocument]
) -> None:
    for conversation in recorded:
        for turn, key in zip(conversation.turns, sent[conversation.session_id], strict=True):
            trace = traces[key]
            assert trace["complete"]
            assert trace["revision"] == 1
            assert trace["status"] in ("scored", "unscored")
            assert (trace["span_count"], trace["model_calls"]) == (
                1 + len(turn.steps) + len(turn.calls),
                len(turn.steps),
            )
            assert (trace["input"], trace["output"] or None) == (turn.question, turn.answer)
            assert [call["name"] for call in trace["tools_called"]] == [call.name for call in turn.calls]
            assert [call["error"] is not None for call in trace["tools_called"]] == [c.failed for c in turn.calls]


@pytest.mark.slow
def test_every_report_of_a_run_is_stored(
    recorded: Sequence[Conversation], sent: dict[str, list[str]], collector: tuple[Collector, str]
) -> None:
    service, _ = collector

    def stored() -> dict[tuple[str, str], tuple[bool, str]]:
        with service.pipeline.base.store.outside.engine.connect() as connection:
            rows = connection.execute(select(run_reports))
            return {(row.task_id, row.run_id): (row.success, row.session_id) for row in rows}

    eventually(lambda: len(stored()) == len(recorded))
    assert stored() == {(each.task_id, each.run_id): (each.success, each.session_id) for each in recorded}


@pytest.mark.slow
def test_loops_are_found_where_the_agent_repeats_itself(
    sent: dict[str, list[str]], traces: dict[str, TraceDocument]
) -> None:
    scores = {
        key: outcome["score"]
        for key, trace in traces.items()
        for outcome in trace["outcomes"]
        if outcome["name"] == "loop_detection" and outcome["score"] is not None
    }
    low = sum(score < 0.5 for score in scores.values())
    assert 0.03 <= low / len(traces) <= 0.05
    refused_again = [key for key in sent["tau-13-0"] if scores.get(key, 1.0) < 0.2]
    assert len(refused_again) == 2  # one refusal, said three times


def test_the_generator_is_made_of_the_numbers_of_the_recording(
    recorded: Sequence[Conversation], embedder: EmbeddedEmbedder
) -> None:
    measured = measure(recorded, embedder.embed)
    assert tuple(measured.turns) == generator.TURNS
    assert tuple(measured.question_length) == generator.QUESTION
    assert tuple(measured.answer_length) == generator.ANSWER
    assert tuple(measured.arguments_length) == generator.ARGUMENTS
    assert tuple(measured.result_length) == generator.RESULT
    assert measured.calls_per_turn == generator.CALLS_PER_TURN
    assert measured.tool_names == generator.TOOL_NAMES
    assert measured.successes_of_four == generator.SUCCESSES_OF_FOUR
    assert measured.ended_by_tool == pytest.approx(generator.ENDED_BY_TOOL, abs=5e-4)
    assert measured.remarks == pytest.approx(generator.REMARKS, abs=5e-4)
    assert measured.failed_calls == pytest.approx(generator.FAILED_CALLS, abs=5e-4)
