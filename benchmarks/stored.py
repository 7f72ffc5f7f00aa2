"""A store full of sessions, and a log with the spans of some of their traces. Both are made up without a collector."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from agenteval_collector.ingest.request_file import NewRequest, RequestFile
from agenteval_collector.model.commit import Commit, ScoredTrace
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.model.news import no_events
from agenteval_collector.model.sessions import SessionState, SessionUpdate
from agenteval_collector.model.trace_view import TraceView, TurnView
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.stores.store import Store
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from otel_agenteval.finding import Finding, Severity
from otel_agenteval.model import ToolCall
from otel_agenteval.outcome import Evaluation, JudgedPart, Method, Score, Status, SubjectKind, Unscored

SECOND: Final = 1_000_000_000
MONTH: Final = 30 * 86_400
"""Seconds over which the sessions are spread."""
WORDS: Final = tuple(f"{a}{b}" for a in ("book", "fly", "pay", "ask", "send", "find") for b in range(200))
ERRORS: Final = ("timeout after {} ms", "order {} is unknown", "HTTP 502 from upstream {}")
BATCH: Final = 50
"""Sessions in one commit."""
NAMED: Final = {"invoke_agent": "planner", "chat": "gpt-4o-mini", "execute_tool": "search"}
"""The agent, model or tool in the name of each kind of span."""
LONGEST: Final = 100
"""One of this many sessions has the most traces."""


def fill(folder: Path, *, sessions: int, longest: int, spans: int) -> None:
    """Fill the data folder of a collector: `sessions` sessions of 1 to `longest` traces each.

    Session `s00000` has `longest` traces. The log has `spans` spans of its first trace, and 10 spans of each other. All
    other traces have no spans in the log any more.
    """
    clock = SystemClock()
    store, requests = Store(folder / "agenteval.db", clock, events_of=no_events), RequestFile(folder / "log.db")
    try:
        sizes = random.Random(0)
        for first in range(0, sessions, BATCH):
            commit = Commit()
            for number in range(first, min(first + BATCH, sessions)):
                count = longest if number % LONGEST == 0 else min(longest, 1 + int(sizes.expovariate(1 / 9)))
                add_session(commit, number, count, clock.now() - number * MONTH * SECOND // sessions)
            if first == 0:
                for place, trace in enumerate(commit.traces[:longest]):
                    commit.traces[place] = _with_spans(trace, spans if place == 0 else 10, requests)
            store.commit(commit)
        store.save_checkpoint(requests.last_offset() + 1)
    finally:
        requests.shutdown()
        store.shutdown()


def trace_id(session: int, number: int) -> str:
    """Return the id of a trace. No other id begins in the same way."""
    return random.Random(f"{session}/{number}").randbytes(16).hex()


def add_session(commit: Commit, number: int, traces: int, last_seen_at: int) -> None:
    """Add a session such as `s00042` to a commit. A session with a single trace has no name."""
    chance = random.Random(number)
    session_id = f"s{number:05}" if traces > 1 else trace_id(number, 0)
    agent, version = f"agent-{chance.randrange(12)}", f"1.{chance.randrange(4)}"
    started_at = last_seen_at - traces * 40 * SECOND
    for place in range(traces):
        trace = _trace(chance, session_id, trace_id(number, place), started_at + place * 40 * SECOND, agent, version)
        commit.traces.append(trace)
        commit.evaluations += _evaluations(chance, trace)
    record = SessionState(
        session_id=session_id,
        user_id=f"user-{chance.randrange(3000)}",
        agent=agent,
        services=[f"service-{chance.randrange(4)}"],
        versions=[version],
        started_at=started_at,
        last_seen_at=last_seen_at,
        trace_count=traces,
        is_blind=False,
    )
    commit.add(SessionUpdate(state=record, evaluations=[_session_score(chance, commit.traces[-1])]))


def _with_spans(trace: ScoredTrace, spans: int, requests: RequestFile) -> ScoredTrace:
    """Write spans of the trace to the log, and return the trace as it is read from the log."""
    new = [NewRequest("default", Signal.TRACES, trace.scored_at, body) for body in _requests(trace, spans)]
    return replace(trace, offsets=[each.offset for each in requests.commit(new)])


def _trace(
    chance: random.Random, session_id: str, trace_id: str, started_at: int, agent: str, version: str
) -> ScoredTrace:
    asked, answered = (" ".join(chance.choices(WORDS, k=k)) for k in (20, 60))
    calls = [
        ToolCall(name=f"tool_{chance.randrange(20)}", arguments={"id": chance.randrange(10**6)}, result={"ok": True})
        for _ in range(2)
    ]
    view = TraceView(
        trace_id=trace_id,
        session_id=session_id,
        names_session=session_id != trace_id,
        service="service-0",
        agents=(agent,),
        turns=[TurnView(input=asked, output=answered, tool_calls=calls)],
        model_calls=3,
        span_count=10,
        started_at=started_at,
        ended_at=started_at + chance.randrange(1, 20) * SECOND,
        revision=1,
        complete=True,
    )
    return ScoredTrace(
        view=view,
        offsets=[],
        scored_at=started_at,
        findings=_findings(chance, view, agent, version),
        text=f"{asked}\n{answered}",
        effort=Effort(steps=5, tokens=4000, seconds=8.0, usd=0.01),
        agent=agent,
        service="service-0",
        service_version=version,
    )


def _findings(chance: random.Random, view: TraceView, agent: str, version: str) -> list[Finding]:
    kinds = [("tool_failed", Severity.WARNING, 0.06), ("no_answer", Severity.ERROR, 0.01)]
    return [
        Finding(
            kind=kind,
            severity=severity,
            reason="it failed",
            trace_id=view.trace_id,
            session_id=view.session_id,
            span_id=f"{1:016x}",
            turn=0,
            agent=agent,
            tool=f"tool_{chance.randrange(20)}",
            service_version=version,
            metadata={"error": chance.choice(ERRORS).format(chance.randrange(10**6))},
            found_at=view.ended_at,
        )
        for kind, severity, share in kinds
        if chance.random() < share
    ]


def _evaluations(chance: random.Random, trace: ScoredTrace) -> Iterator[Evaluation]:
    for name, method in (
        ("coherence", Method.EMBEDDING),
        ("loop_detection", Method.EMBEDDING),
        ("tool_correctness", Method.EXACT),
        ("confidence", Method.LLM),
        ("task_completion", Method.LLM),
    ):
        is_judged = method is not Method.LLM or chance.random() < 0.2
        value = min(1.0, chance.betavariate(8, 2))
        yield Evaluation(
            name=name,
            method=method,
            version="1",
            subject=SubjectKind.TRACE,
            subject_id=trace.trace_id,
            session_id=trace.session_id,
            trace_id=trace.trace_id,
            span_id=f"{1:016x}",
            revision=1,
            agent=trace.agent,
            service=trace.service,
            service_version=trace.service_version,
            threshold=0.5 if method is Method.LLM else None,
            outcome=Score(value=value, reason="as it says")
            if is_judged
            else Unscored(status=Status.SAMPLED_OUT, reason="not drawn"),
            evaluated_at=trace.scored_at,
            model="gpt-4o-mini" if method is Method.LLM else None,
            part=JudgedPart.RANDOM if is_judged and method is Method.LLM else None,
        )


def _session_score(chance: random.Random, trace: ScoredTrace) -> Evaluation:
    return Evaluation(
        name="agent_reliability",
        method=Method.LLM,
        version="1",
        subject=SubjectKind.SESSION,
        subject_id=trace.session_id,
        session_id=trace.session_id,
        trace_id=trace.trace_id,
        span_id=None,
        revision=1,
        agent=trace.agent,
        service=trace.service,
        service_version=trace.service_version,
        threshold=0.5,
        outcome=Score(value=chance.betavariate(8, 2), reason="the mean of its signals", coverage=0.75),
        evaluated_at=trace.scored_at,
    )


def _requests(trace: ScoredTrace, spans: int) -> Iterator[bytes]:
    resource = Resource(attributes=_attributes({"service.name": "service-0", "service.version": "1.0"}))
    for first in range(0, spans, 64):
        scope = ScopeSpans(spans=[_span(trace, number) for number in range(first, min(first + 64, spans))])
        yield ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(resource=resource, scope_spans=[scope])]
        ).SerializeToString()


def _span(trace: ScoredTrace, number: int) -> Span:
    """Return a span of a tree. Every eighth span is an agent, with up to 64 spans under it."""
    parent = 8 * ((number - 1) // 64)
    kind = "invoke_agent" if number < 1 or number % 8 == 0 else ("chat", "execute_tool")[number % 2]
    said = '[{"role": "user", "parts": [{"type": "text", "content": "' + "word " * 500 + '"}]}]'
    about: dict[str, str | int] = {"gen_ai.operation.name": kind, "gen_ai.agent.name": trace.agent or ""}
    if kind == "chat":
        about |= {"gen_ai.request.model": "gpt-4o-mini", "gen_ai.input.messages": said}
        about |= {"gen_ai.usage.input_tokens": 900, "gen_ai.usage.output_tokens": 40}
    if kind == "execute_tool":
        about |= {"gen_ai.tool.name": "search", "gen_ai.tool.call.arguments": '{"q": 1}'}
    started_at = trace.started_at + number * 1_000_000
    return Span(
        trace_id=bytes.fromhex(trace.trace_id),
        span_id=(number + 1).to_bytes(8, "big"),
        parent_span_id=b"" if number == 0 else (parent + 1).to_bytes(8, "big"),
        name=f"{kind} {NAMED[kind]}",
        start_time_unix_nano=started_at,
        end_time_unix_nano=max(started_at + 5_000_000, trace.view.ended_at if number % 8 == 0 else 0),
        attributes=_attributes(about),
    )


def _attributes(about: dict[str, str | int]) -> list[KeyValue]:
    return [
        KeyValue(key=key, value=AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value))
        for key, value in about.items()
    ]
