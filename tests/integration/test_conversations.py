"""Own loops around plain clients, recorded: a trace of every model call, and no session's id anywhere.

Each recording holds the same six conversations of one process: two users who begin with the same words, side by side;
six equal searches; a fork; one whose program forgets the steps of tools after each turn (dora); and one with a failed
call.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from agenteval_collector.app.offline import OfflineCollector
from agenteval_collector.config.settings import Settings
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.logged_requests import Origin
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.serve.api.trace_documents import SessionDocument, TraceDocument
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.looping import loops_in
from tests.support.recordings import DATA, read_requests

FOLDER = DATA / "conversations"
RECORDINGS = sorted(path.name.removesuffix(".otlp.pb") for path in FOLDER.glob("*.otlp.pb"))
# The service keeps the conversation, and the instrumentation does not record what a call goes on from.
UNSEEN = {"otel-genai--openai-responses-previous", "traceloop--openai-responses-previous"}


class Recording(NamedTuple):
    """`users`: the turns of each conversation, in truth."""

    traces: dict[str, AssembledTrace]
    users: dict[str, list[dict[str, Any]]]

    def sessions(self, *, is_kept: bool = False) -> list[list[list[str]]]:
        """The trace ids of each, turn by turn. Those of dora's turns are apart: what is sent without the calls before
        may be another user's. `is_kept`: the service keeps the conversation, and her program forgets nothing."""
        ids = {who: [turn["trace_ids"] for turn in turns] for who, turns in self.users.items()}
        forgotten = [] if is_kept else [[turn] for turn in ids.pop("dora")]
        return sorted([*forgotten, *ids.values()])


class Scored(NamedTuple):
    traces: dict[str, TraceDocument]
    sessions: list[SessionDocument]


def recording(name: str) -> Recording:
    expected = json.loads((FOLDER / f"{name}.expected.json").read_text())
    traces = {}
    for offset, request in enumerate(read_requests(FOLDER / f"{name}.otlp.pb", ExportTraceServiceRequest)):
        [of_resource] = request.resource_spans
        [of_scope] = of_resource.scope_spans
        [span] = of_scope.spans
        origin = Origin(of_resource.resource.SerializeToString(), of_scope.scope.name, None)
        traces[span.trace_id.hex()] = AssembledTrace(
            trace_id=span.trace_id.hex(),
            tenant="default",
            revision=1,
            spans=[(span.SerializeToString(), origin)],
            logs=(),
            offsets=[offset],
            received_at=span.end_time_unix_nano,
        )
    return Recording(traces, expected["sessions"])


def score(folder: Path, batches: Sequence[Sequence[AssembledTrace]], *, restart: bool = False) -> Scored:
    """What is stored when the batches were scored one after the other; `restart`: by another collector each."""
    settings, clock = Settings(), SystemClock()
    assembled = {trace.trace_id: trace for batch in batches for trace in batch}
    for at_once in [[batch] for batch in batches] if restart else [batches]:
        with OfflineCollector(settings, folder, clock, assembled) as offline:
            for batch in at_once:
                offline.score(batch, lambda _: None)
    with OfflineCollector(settings, folder, clock, {}) as offline:
        sessions = [offline.queries.session(each) for each in offline.store.live_sessions()]
        traces = {trace_id: offline.queries.trace(trace_id) for trace_id in assembled}
    return Scored({key: each for key, each in traces.items() if each}, [each for each in sessions if each])


class Case(NamedTuple):
    name: str
    recorded: Recording
    scored: Scored


@pytest.fixture(scope="module", params=RECORDINGS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A recording, its traces scored one by one as they arrived."""
    recorded = recording(request.param)
    batches = [[trace] for trace in recorded.traces.values()]
    return Case(request.param, recorded, score(tmp_path_factory.mktemp("store"), batches))


def drawn(scored: Scored) -> list[list[list[str]]]:
    return sorted(session["turn_traces"] for session in scored.sessions)


def retried(sessions: list[list[list[str]]], scored: Scored) -> list[list[list[str]]]:
    """A call that failed and its second attempt are asked the same, so each looks like the beginning of a turn."""
    failed = {key for key, trace in scored.traces.items() if any(turn["error"] for turn in trace["turns"])}
    parted: list[list[list[str]]] = []
    for turns in sessions:
        parted.append([])
        for turn in turns:
            at = next((at + 1 for at, each in enumerate(turn) if each in failed), 0)
            parted[-1] += [part for part in (turn[:at], turn[at:]) if part]
    return sorted(parted)


def test_sessions_and_turns_are_those_of_the_conversations(case: Case) -> None:
    if case.name not in UNSEEN:
        sessions = case.recorded.sessions(is_kept=case.name.endswith("-previous"))
        assert drawn(case.scored) == retried(sessions, case.scored)
    for session in case.scored.sessions:
        for trace_id in session["trace_ids"]:
            assert case.scored.traces[trace_id]["session_id"] == session["session_id"]


def test_no_session_is_of_two_conversations(case: Case) -> None:
    users = case.recorded.users
    whose = {each: who for who, turns in users.items() for turn in turns for each in turn["trace_ids"]}
    for session in case.scored.sessions:
        assert len({whose[trace_id] for trace_id in session["trace_ids"]}) == 1


def test_the_loop_is_found_across_the_traces_of_its_turn_and_told_once(case: Case) -> None:
    loops = {key: [each["kind"] for each in loops_in(trace)] for key, trace in case.scored.traces.items()}
    looping = case.recorded.users["cem"][0]["trace_ids"]
    assert {key: kinds for key, kinds in loops.items() if kinds} == {looping[3]: ["identical_call"]}
    [session] = [each for each in case.scored.sessions if loops_in(each)]
    assert session["turn_traces"] == [looping]


@pytest.mark.parametrize("name", ["openinference--openai-responses-previous", "traceloop--openai-responses-previous"])
def test_a_loop_of_results_alone_is_found_over_restarts_in_any_order(name: str, tmp_path: Path) -> None:
    recorded = recording(name)
    looping = recorded.users["cem"][0]["trace_ids"]
    order = [[recorded.traces[each]] for each in looping]
    random.Random(1).shuffle(order)
    scored = score(tmp_path, order, restart=True)
    assert drawn(scored) == [[looping]]
    assert [key for key in looping if loops_in(scored.traces[key])] == [looping[3]]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["otel-genai--openai-chat", "openinference--anthropic-stream"])
def test_sessions_are_the_same_whatever_order_the_traces_arrive_in(name: str, seed: int, tmp_path: Path) -> None:
    recorded = recording(name)
    order = list(recorded.traces.values())
    random.Random(seed).shuffle(order)
    in_order = score(tmp_path / "in order", [list(recorded.traces.values())])
    scored = score(tmp_path / "shuffled", [order[first : first + 5] for first in range(0, len(order), 5)])
    assert drawn(scored) == drawn(in_order)
    assert all_scores(scored) == all_scores(in_order)


@pytest.mark.parametrize("at_once", [1, 100], ids=["one by one", "in one commit"])
def test_a_fork_that_came_first_leaves_for_a_session_of_its_own(at_once: int, tmp_path: Path) -> None:
    recorded = recording("otel-genai--openai-chat")
    [fork] = recorded.users["ada-again"][0]["trace_ids"]
    turns = recorded.users["ada"]
    order = [recorded.traces[each] for each in (*turns[0]["trace_ids"], fork, *turns[1]["trace_ids"])]
    scored = score(tmp_path, [order[first : first + at_once] for first in range(0, len(order), at_once)])
    assert drawn(scored) == sorted([[turn["trace_ids"] for turn in turns], [[fork]]])
    in_order = score(tmp_path / "in order", [sorted(order, key=lambda each: each.trace_id == fork)])
    assert all_scores(scored) == all_scores(in_order)
    counts = {session["session_id"]: len(session["trace_ids"]) for session in scored.sessions}
    assert counts == {fork: 1, turns[0]["trace_ids"][0]: 4}


@pytest.mark.parametrize("comes_first", [False, True])
def test_a_call_that_the_client_library_records_as_well_is_one_turn(comes_first: bool, tmp_path: Path) -> None:
    recorded = recording("otel-genai--openai-chat")
    turn, *_ = recorded.users["ada"]
    traces = [recorded.traces[each] for each in turn["trace_ids"]]
    silent = [recorded_again(each) for each in traces]
    order = silent + traces if comes_first else traces + silent
    scored = score(tmp_path, [[each] for each in order])
    [session] = scored.sessions
    assert [sorted(ids) for ids in session["turn_traces"]] == [sorted(each.trace_id for each in order)]


@pytest.mark.parametrize("comes_first", [False, True])
def test_an_id_that_appears_midway_is_that_of_the_whole_conversation(comes_first: bool, tmp_path: Path) -> None:
    recorded = recording("otel-genai--openai-chat")
    traces = [recorded.traces[each] for turn in recorded.users["ada"] for each in turn["trace_ids"]]
    named = naming_session(traces[1], "chat-42")
    order = [traces[0], named, *traces[2:]]
    scored = score(tmp_path, [[each] for each in sorted(order, key=lambda each: (each is named) != comes_first)])
    assert [(each["session_id"], len(each["trace_ids"])) for each in scored.sessions] == [("chat-42", len(traces))]
    assert {each["session_id"] for each in scored.traces.values()} == {"chat-42"}


def recorded_again(trace: AssembledTrace) -> AssembledTrace:
    """Make the client library's own span of the call: it has the reply's id, and no content."""
    [(data, origin)] = trace.spans
    span = Span.FromString(data)
    kept = [each for each in span.attributes if each.key not in ("gen_ai.input.messages", "gen_ai.output.messages")]
    del span.attributes[:]
    span.attributes.extend(kept)
    span.trace_id = bytes(reversed(span.trace_id))
    span.start_time_unix_nano += 1
    again = (span.SerializeToString(), replace(origin, scope="com.client"))
    return replace(trace, trace_id=span.trace_id.hex(), spans=[again])


def naming_session(trace: AssembledTrace, session_id: str) -> AssembledTrace:
    [(data, origin)] = trace.spans
    span = Span.FromString(data)
    span.attributes.append(KeyValue(key="gen_ai.conversation.id", value=AnyValue(string_value=session_id)))
    return replace(trace, spans=[(span.SerializeToString(), origin)])


def all_scores(scored: Scored) -> Counter[tuple[Any, ...]]:
    """Every outcome of a session, and of what its answers repeat."""
    return Counter(
        (each["name"], each["method"], each["status"], each["score"])
        for document in (*scored.sessions, *scored.traces.values())
        for each in document["outcomes"]
        if each["name"] in ("loop_detection", "agent_reliability", "agent_consistency")
    )


def test_a_conversation_goes_on_after_a_restart(tmp_path: Path) -> None:
    recorded = recording("otel-genai--openai-chat")
    scored = score(tmp_path, [[trace] for trace in recorded.traces.values()], restart=True)
    assert drawn(scored) == retried(recorded.sessions(), scored)
