"""Findings of complete traces, from the evaluation to the documents, the counts and those who are told."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from agenteval_collector.config.findings import FindingsConfig
from agenteval_collector.evaluation.findings.effort import AgentEfforts
from agenteval_collector.evaluation.findings.trace_loops import TraceLoops
from agenteval_collector.evaluation.trace_evaluation import MAX_SAID, TraceObservation, searchable, turn_of
from agenteval_collector.model.assembled_trace import AssembledTrace, ClosedBy, Closing, Death
from agenteval_collector.model.running_traces import UnendedSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.finding import Finding, Mode
from otel_agenteval.model import ModelCall, ToolCall, Trace, Turn
from tests.support.clock import ManualClock
from tests.support.findings import finding
from tests.support.looping import root_span, tool_span
from tests.support.otlp import span, span_id, trace_id, traces, turn
from tests.support.running_collector import RunningCollector
from tests.support.scoring import Scoring, assembled

pytestmark = pytest.mark.databases

TRACE = trace_id(1).hex()


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path)
    yield made
    made.close()


def failed(number: int, session: str = "s") -> Span:
    """A turn that raised, and has no answer."""
    item = turn(number, "Where is it?", None, session=session)
    item.status.code, item.status.message = Status.STATUS_CODE_ERROR, "out of memory"
    return item


def test_a_failed_turn_is_found_flags_its_trace_and_counts(scoring: Scoring) -> None:
    scoring.put(assembled(failed(1)), assembled(turn(2, "Hello?", "Hello.", session="s")))
    [found] = [each for each in scoring.trace(TRACE)["findings"] if each["kind"] == "turn_failed"]
    assert (found["severity"], found["turn"], found["mode"], found["agent"]) == ("error", 0, None, "planner")
    session = scoring.session("s")
    assert session["flagged_traces"] == [TRACE]
    assert found in session["findings"]
    assert "turn_failed" in [each.kind for each in scoring.counted]
    assert scoring.told == [], "nobody is told live of what only the complete trace shows"
    worst = {name: [each.severity for of, each in scoring.worst if of == name] for name in ("trace", "session")}
    assert worst["trace"][0] == "error"
    scoring.stage.finalize(["s"])
    assert [each.severity for of, each in scoring.worst if of == "session"] == ["error"]


def test_a_kind_that_the_settings_want_told_is_told_once(tmp_path: Path) -> None:
    scoring = Scoring(tmp_path, findings={"turn_failed": {"mode": "alarm", "severity": "warning"}})
    scoring.put(assembled(failed(1)))
    scoring.put(assembled(failed(1), span(1, 9, parent=1), revision=2))
    assert [(each.kind, each.mode, each.severity) for each in scoring.told] == [("turn_failed", Mode.ALARM, "warning")]
    assert scoring.session("s")["flagged_traces"] == []
    scoring.close()


def test_a_kind_that_is_off_is_not_found(tmp_path: Path) -> None:
    kinds = ("turn_failed", "no_answer")
    scoring = Scoring(tmp_path, findings={kind: {"mode": "off"} for kind in kinds})
    scoring.put(assembled(failed(1)))
    assert not {each["kind"] for each in scoring.trace(TRACE)["findings"]} & set(kinds)
    scoring.close()


def test_a_loop_in_a_complete_trace_has_its_turn(scoring: Scoring) -> None:
    scoring.put(assembled(root_span(1, session="s"), *(tool_span(1, number) for number in (2, 3, 4))))
    [found] = [each for each in scoring.trace(TRACE)["findings"] if each["kind"] == "identical_call"]
    assert (found["turn"], found["span_id"], found["tool"]) == (0, span_id(4).hex(), "search")
    assert [each.kind for each in scoring.told] == ["identical_call"]


def test_an_agent_that_died_in_the_middle_is_a_finding(scoring: Scoring) -> None:
    death = Death(
        reason="the agent died in the middle", session_id="s", agent="planner", service="shop", started_at=1,
        heard_at=2, open_spans=[UnendedSpan("a" * 16, "search", 1)],
    )  # fmt: skip
    scoring.put(replace(assembled(root_span(1, session="s")), death=death))
    [found] = [each for each in scoring.trace(TRACE)["findings"] if each["kind"] == "agent_died"]
    assert (found["severity"], found["turn"], found["span_id"]) == ("error", None, None)
    assert (found["reason"], found["metadata"]) == (death.reason, {"open_spans": ["search"]})


@pytest.mark.parametrize(
    ("by", "found"),
    [(ClosedBy.MAX_AGE, True), (ClosedBy.SILENCE, True), (ClosedBy.ROOT, False), (ClosedBy.MEMORY, False)],
)
def test_a_run_that_never_ends_is_a_finding_with_its_last_step(scoring: Scoring, by: ClosedBy, found: bool) -> None:
    closing = Closing(by=by, reason="it was 600 s old, though more of it was expected", partial=True)
    without_root = assembled(tool_span(1, 2, session__id="s"), tool_span(1, 3))
    scoring.put(replace(without_root, closing=closing))
    findings = [each for each in scoring.trace(TRACE)["findings"] if each["kind"] == "unfinished"]
    assert len(findings) == found
    for each in findings:
        assert (each["severity"], each["turn"], each["span_id"]) == ("warning", 0, span_id(3).hex())
        assert each["reason"] == (
            "the run did not end: its last step was the call of search, and it was 600 s old, though more of it was "
            "expected"
        )


def test_a_run_whose_root_ended_is_not_unfinished_whatever_else_is_missing(scoring: Scoring) -> None:
    closing = Closing(by=ClosedBy.MAX_AGE, reason="it was old", partial=True)
    scoring.put(replace(assembled(root_span(1, session="s"), tool_span(1, 2)), closing=closing))
    assert "unfinished" not in {each["kind"] for each in scoring.trace(TRACE)["findings"]}


def test_a_run_that_ends_after_all_is_no_finding_any_more(scoring: Scoring) -> None:
    closing = Closing(by=ClosedBy.MAX_AGE, reason="it was old", partial=True)
    scoring.put(replace(assembled(tool_span(1, 2, session__id="s")), closing=closing))
    done = Closing(by=ClosedBy.ROOT, reason="its root came")
    scoring.put(replace(assembled(root_span(1, session="s"), tool_span(1, 2), revision=2), closing=done))
    assert "unfinished" not in {each["kind"] for each in scoring.trace(TRACE)["findings"]}


class FoundLoops(TraceLoops):
    """Finds what it is given."""

    def __init__(self, *found: Finding) -> None:
        super().__init__(RuleBook(), Mode.ALARM, ManualClock())
        self._found = found

    def in_trace(self, trace: Trace, session_id: str, assembled: AssembledTrace) -> list[Finding]:
        return list(self._found)


def observe(*turns: Turn, loops: TraceLoops) -> list[Finding]:
    complete = assembled(root_span(1), *(tool_span(1, number) for number in (2, 3, 4)))
    trace = Trace(trace_id=TRACE, turns=TURNS)
    observation = TraceObservation(loops, AgentEfforts(), FindingsConfig(), ManualClock())
    return observation.observe(
        replace(trace, turns=turns), complete, session_id="s", is_first=True, turns=turn_of(trace)
    )


def call(number: int) -> ToolCall:
    return ToolCall(name="search", span_id=span_id(number).hex())


TURNS = (
    Turn(
        span_id=span_id(1).hex(),
        input="Where?",
        output="HERE, in Köln.",
        tool_calls=(call(2),),
        started_at=1,
        ended_at=2,
    ),
    Turn(
        span_id=span_id(5).hex(),
        input=None,
        output="There.",
        tool_calls=(replace(call(6), span_id=None),),
        model_calls=(ModelCall(span_id=span_id(7).hex(), started_at=1, ended_at=2),),
        started_at=3,
        ended_at=4,
    ),
)


def test_findings_get_the_turn_of_their_span_and_keep_one_that_they_have() -> None:
    on = [finding(kind="identical_call", span_id=span_id(number).hex()) for number in (2, 7, 9)]
    found = observe(loops=FoundLoops(*on, finding(kind="identical_call", span_id=span_id(2).hex(), turn=1)))
    assert [each.turn for each in found] == [0, 1, None, 1]


def test_what_cannot_be_found_by_a_defect_costs_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    broken: Any = None
    loop = finding(kind="identical_call", span_id=span_id(2).hex())
    assert [each.kind for each in observe(broken, loops=FoundLoops(loop))] == ["identical_call"]
    assert "could not be found" in caplog.text


def test_each_span_belongs_to_its_turn() -> None:
    turns = turn_of(Trace(trace_id=TRACE, turns=TURNS))
    assert turns == {span_id(1).hex(): 0, span_id(2).hex(): 0, span_id(5).hex(): 1, span_id(7).hex(): 1}


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        pytest.param(TURNS, "where?\nhere, in köln.\nthere.", id="all that was said, in one case"),
        pytest.param((), "", id="nothing"),
        pytest.param((replace(TURNS[0], input="x" * 3 * MAX_SAID),), "x" * MAX_SAID, id="the beginning of much"),
    ],
)
def test_what_was_said_can_be_searched(turns: tuple[Turn, ...], said: str) -> None:
    assert searchable(Trace(trace_id=TRACE, turns=turns)) == said


def test_sessions_with_errors_are_listed_first(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(turn(1, "Where?", "Here.", session="calm")))
        loud = failed(2, session="loud")
        collector.send(traces(loud))
        for number in (1, 2):
            collector.scored(trace_id(number).hex())
        query = urlencode({"order": "attention", "service": "shop", "until": "2100-01-01T00:00:00Z"})
        items = collector.get(f"/api/v1/sessions?{query}")["items"]
        assert [item["session_id"] for item in items] == ["loud", "calm"]
        [loud] = collector.get("/api/v1/sessions?finding=turn_failed")["items"]
        assert loud == items[0] | {"attention": None}
        assert items[0]["attention"] == {"reason": "it has a finding of severity error"}
        of_agent = collector.get("/api/v1/sessions?agent=planner&order=attention&limit=1")
        assert [item["session_id"] for item in of_agent["items"]] == ["loud"]
        assert of_agent["attention"] == {"learnt_from": 0, "auroc": None, "precision_at_20": None}
        rest = collector.get(f"/api/v1/sessions?agent=planner&order=attention&cursor={of_agent['next_cursor']}")
        assert [item["session_id"] for item in rest["items"]] == ["calm"]
        metrics = collector.get("/metrics")
    assert 'agenteval_finding_kind="turn_failed",agenteval_finding_severity="error"' in metrics
    for worst in ("error", "none"):
        assert f'agenteval_traces_total{{agenteval_worst="{worst}",gen_ai_agent_name="planner"' in metrics
