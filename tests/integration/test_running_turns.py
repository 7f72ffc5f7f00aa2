"""Loops in turns of which each trace is sent the newest results alone: found in any order of arrival, told once."""

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.finding import FindingKind
from tests.support.eventually import eventually
from tests.support.inputs import inputs
from tests.support.looping import loops_in
from tests.support.otlp import span, span_id, trace_id, traces
from tests.support.running_collector import RunningCollector
from tests.support.scoring import Scoring, assembled
from tests.support.turns import Call, turn_of

SAME = Call("oslo", "none")
FAILED = Call("oslo", "Error: no such city")
CALLS = st.lists(st.sampled_from([SAME, Call("oslo", "one"), Call("rome", "none"), FAILED]), max_size=9)


class Found(NamedTuple):
    """The findings that stand in the end, by trace and kind, and how often each kind of loop was told."""

    findings: Counter[tuple[str, str]]
    told: Counter[str]


def found_in(batches: list[list[Span]], *, restart: bool = False, in_runs: bool = False) -> Found:
    """Score these, batch by batch, and return the findings. `in_runs`: each trace is a run of an agent."""
    return found_of([[in_run(each) if in_runs else [each] for each in batch] for batch in batches], restart=restart)


def found_of(batches: list[list[list[Span]]], *, restart: bool = False) -> Found:
    """Score traces of several spans, and return the findings."""
    with tempfile.TemporaryDirectory() as folder:
        scoring = Scoring(Path(folder))
        try:
            for batch in batches:
                scoring.put(*(assembled(*each) for each in batch))
                if restart:
                    scoring.restart()
            documents = [scoring.trace(each[0].trace_id.hex()) for batch in batches for each in batch]
        finally:
            scoring.close()
    found = [each for document in documents for each in document["findings"]]
    kept = [each for each in found if each["mode"] is not None or each["kind"] == FindingKind.TOOL_FAILED]
    return Found(
        Counter((each["trace_id"], each["kind"]) for each in kept), Counter(each.kind for each in scoring.told)
    )


def in_run(call: Span) -> list[Span]:
    """A model call and the run of an agent around it, which ends where a person or a client runs the tools."""
    run = span(1, 2, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="a")
    run.trace_id, run.start_time_unix_nano, run.end_time_unix_nano = (
        call.trace_id,
        call.start_time_unix_nano,
        call.end_time_unix_nano,
    )
    inner = Span.FromString(call.SerializeToString())
    inner.parent_span_id = span_id(2)
    return [run, inner]


def executing(model: Span, call: Call, call_id: str) -> list[Span]:
    """A run that executes a call of the run before it, as somebody agreed to that, and asks the model then."""
    run, inner = in_run(model)
    run.start_time_unix_nano -= 100
    item = span(
        1,
        3,
        parent=2,
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="search",
        gen_ai__tool__call__id=call_id,
        gen_ai__tool__call__arguments=json.dumps({"query": call.query}),
        gen_ai__tool__call__result=call.result,
    )
    item.trace_id, item.start_time_unix_nano = run.trace_id, run.start_time_unix_nano + 1
    item.end_time_unix_nano = item.start_time_unix_nano + 10
    return [run, item, inner]


def of(trace: int) -> str:
    return trace_id(trace).hex()


@settings(max_examples=inputs(0.25))
@given(
    first=CALLS,
    second=CALLS,
    session=st.sampled_from([None, "s"]),
    at_once=st.integers(1, 20),
    restart=st.booleans(),
    data=st.data(),
)
def test_any_order_of_arrival_gives_the_findings_of_whole_histories(
    first: list[Call], second: list[Call], session: str | None, at_once: int, restart: bool, data: st.DataObject
) -> None:
    # The steps of a whole history stand in each trace: nothing has to be looked up for those.
    told_whole = [turn_of(first, whole=True, session=session), turn_of(second, first=21, whole=True, session=session)]
    expected = found_in([[each] for turn in told_whole for each in turn])
    spans = turn_of(first, session=session) + turn_of(second, first=21, session=session)
    assert found_in([[each] for each in spans]) == expected
    order = data.draw(st.permutations(spans))
    found = found_in([order[start : start + at_once] for start in range(0, len(order), at_once)], restart=restart)
    assert found.findings == expected.findings
    assert found.told >= expected.told, "each was told"


def test_traces_of_one_commit_know_of_each_other_however_many_they_are() -> None:
    spans = turn_of([SAME] * 8, session="s") + turn_of([FAILED, *[SAME] * 8], first=21, session="s")
    numbered = {int.from_bytes(each.trace_id, "big"): each for each in spans}
    order = [1, 5, 24, 26, 8, 23, 29, 30, 2, 7, 27, 22, 28, 25, 3, 4, 6, 9, 21]
    assert found_in([[numbered[each] for each in order]]).findings == found_in([[each] for each in spans]).findings


@pytest.mark.parametrize("session", [None, "s"], ids=["without an id", "with an id"])
@pytest.mark.parametrize("late", range(0, 7, 2), ids=lambda late: f"trace {late} comes last")
def test_a_loop_is_told_once_though_one_of_its_traces_comes_late(late: int, session: str | None) -> None:
    spans = turn_of([SAME] * 6, session=session)
    order = [*spans[:late], *spans[late + 1 :], spans[late]]
    found = found_in([[each] for each in order], restart=True)
    assert found.findings == Counter({(of(4), "identical_call"): 1})
    assert found.told == Counter({"identical_call": 1})


@pytest.mark.parametrize("whole", [False, True], ids=["results alone", "whole histories"])
@pytest.mark.parametrize("call", [SAME, FAILED], ids=["a loop", "failures"])
def test_runs_that_end_in_a_request_are_one_turn_like_calls_without_them(call: Call, whole: bool) -> None:
    spans = turn_of([call] * 6, session="s", whole=whole)
    found = found_in([[each] for each in spans], in_runs=True)
    assert found == found_in([[each] for each in spans])
    assert found.told


@pytest.mark.parametrize("whole", [False, True], ids=["results alone", "whole histories"])
@pytest.mark.parametrize("call", [SAME, FAILED], ids=["a loop", "failures"])
def test_a_tool_that_a_run_executes_before_it_goes_on_counts_once(call: Call, whole: bool) -> None:
    turns = turn_of([call] * 6, session="s", whole=whole)
    executed = [executing(each, call, f"call_{at}") for at, each in enumerate(turns[1:], start=1)]
    found = found_in([[each] for each in turns])
    with_spans = found_of([[each] for each in (in_run(turns[0]), *executed)])
    assert with_spans.findings == found.findings


def test_a_failure_is_found_on_the_trace_that_brings_its_result_though_the_call_is_known_later() -> None:
    asks, answers = turn_of([Call("oslo", "Error: no such city")], session="s")
    assert found_in([[answers], [asks]]).findings == Counter({(of(2), "tool_failed"): 1})


def test_another_session_with_the_same_ids_of_calls_is_another_turn() -> None:
    mine, other = turn_of([SAME] * 2, session="s"), turn_of([SAME] * 2, first=21, session="t")
    for a, b in zip(mine, other, strict=True):
        b.ClearField("attributes")
        b.attributes.extend(a.attributes)
        next(each for each in b.attributes if each.key == "gen_ai.conversation.id").value.string_value = "t"
    assert found_in([[*mine, *other]]).findings == Counter()


@pytest.mark.parametrize("session", [None, "s"], ids=["without an id", "with an id"])
def test_a_loop_is_found_over_a_restart_and_when_the_first_call_comes_last(session: str | None, tmp_path: Path) -> None:
    spans = turn_of([SAME] * 3, session=session)
    with RunningCollector(tmp_path) as collector:
        for each in spans[1:3]:
            collector.send(traces(each))
            collector.scored(each.trace_id.hex())
    with RunningCollector(tmp_path) as collector:
        for each in (spans[3], spans[0]):
            collector.send(traces(each))
            collector.scored(each.trace_id.hex())
        found = eventually(lambda: loops_in(collector.get(f"/api/v1/traces/{of(4)}")))
        assert [each["kind"] for each in found] == ["identical_call"]
        eventually(lambda: len(collector.get("/api/v1/sessions")["items"]) == 1)
        [item] = collector.get("/api/v1/sessions")["items"]
        assert [each["trace_id"] for each in loops_in(item)] == [of(4)]
        assert loops_in(collector.get(f"/api/v1/traces/{of(3)}")) == []
