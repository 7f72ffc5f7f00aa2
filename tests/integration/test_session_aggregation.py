import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.evaluation.evaluators import EvaluationContext, plugins
from agenteval_collector.evaluation.evaluators.coherence import Coherence
from agenteval_collector.evaluation.sessions.live_sessions import LiveSessions
from agenteval_collector.runtime.times import rfc3339
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.metrics import agent_reliability
from otel_agenteval.outcome import Outcome
from tests.support.clock import ManualClock
from tests.support.inputs import inputs
from tests.support.otlp import marked, span, trace_id, turn
from tests.support.scoring import IDLE, Scoring, assembled

pytestmark = pytest.mark.databases

SAID = ("Your order is on its way.", "Your order is on its way today.", "I cannot do that.", "The weather is fine.")


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path)
    yield made
    made.close()


def outcome(document: Any, name: str) -> Any:
    [found] = [each for each in document["outcomes"] if each["name"] == name]
    return found


def said(number: int, text: str | None, session: str | None = "s") -> Span:
    return turn(number, "Where is it?", text, session=session)


def stable(document: Any) -> Any:
    """A session without when it was seen, and what was told of it on the way."""
    on_the_way = ("last_seen_at", "findings", "findings_count", "worst", "flagged_traces")
    return {key: value for key, value in document.items() if key not in on_the_way}


ANSWERS = st.lists(st.sampled_from([*SAID, None]), min_size=2, max_size=24)


@hypothesis_settings(max_examples=inputs(0.1), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), answers=ANSWERS)
def test_any_order_of_arrival_gives_the_scores_of_the_order_in_time(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, answers: list[str | None]
) -> None:
    traces = [assembled(said(number, text)) for number, text in enumerate(answers, 1)]
    arrival = data.draw(st.permutations(traces))
    restarts = data.draw(st.sets(st.integers(0, len(traces) - 1), max_size=3))
    in_time, as_it_came = (Scoring(tmp_path_factory.mktemp("s"), session={"min_coverage": 0.0}) for _ in range(2))
    for trace in traces:
        in_time.put(trace)
    for index, trace in enumerate(arrival):
        if index in restarts:
            as_it_came.restart()
        as_it_came.put(trace)
    assert stable(as_it_came.session("s")) == stable(in_time.session("s"))
    for trace in traces:
        assert as_it_came.trace(trace.trace_id)["outcomes"] == in_time.trace(trace.trace_id)["outcomes"]

    # The session's score is the plain formula on the stored signals.
    document = in_time.session("s")
    plain = agent_reliability([document["signals"][each] for each in document["trace_ids"]], {"coherence": 0.0})
    found = outcome(document, "agent_reliability")
    if plain.evaluated:
        assert found["score"] == plain.score
    else:
        # A judge would have nothing to go by where no answer was recorded.
        assert (found["status"], found["score"]) == ("no_judge" if any(answers) else "no_content", None)
    in_time.close()
    as_it_came.close()


@hypothesis_settings(max_examples=inputs(0.05), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), answers=ANSWERS)
def test_sessions_without_room_in_memory_are_scored_alike(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, answers: list[str | None]
) -> None:
    names = data.draw(st.lists(st.sampled_from("rst"), min_size=len(answers), max_size=len(answers)))
    traces = [
        assembled(said(number, text, name)) for number, (text, name) in enumerate(zip(answers, names, strict=True), 1)
    ]
    roomy, cramped = (
        Scoring(tmp_path_factory.mktemp("s"), server={"memory_limit": limit}) for limit in ("1GiB", "1KiB")
    )
    cut = data.draw(st.integers(0, len(traces)))
    for batch in (traces[:cut], traces[cut:]):
        roomy.put(*batch)
        cramped.put(*batch)
    for name in set(names):
        assert stable(cramped.session(name)) == stable(roomy.session(name))
    for trace in traces:
        assert cramped.trace(trace.trace_id)["outcomes"] == roomy.trace(trace.trace_id)["outcomes"]
    roomy.close()
    cramped.close()


def test_a_session_is_scored_once_for_all_its_traces_of_a_batch(tmp_path_factory: pytest.TempPathFactory) -> None:
    # The second is the first by time, so that what came before it is evaluated again.
    order = (3, 1, 2, 5, 4)
    traces = [assembled(said(number, SAID[number % 2], "s" if number < 5 else "other")) for number in order]
    at_once, one_by_one = (Scoring(tmp_path_factory.mktemp("s")) for _ in range(2))
    at_once.put(*traces)
    for trace in traces:
        one_by_one.put(trace)
    for session in ("s", "other"):
        assert stable(at_once.session(session)) == stable(one_by_one.session(session))
    scores = [
        (each.evaluation.session_id, each.evaluation.revision)
        for each in at_once.emitted
        if each.evaluation.name == "agent_reliability"
    ]
    assert scores == [("s", 4), ("other", 1)]
    at_once.close()
    one_by_one.close()


def test_traces_of_one_commit_know_of_one_another_however_far_back_they_are(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    known = [assembled(said(number, f"Order {number} is on its way.")) for number in (*range(1, 30), *range(100, 130))]
    # In the middle of what only the store has, twice as many as are compared.
    late = [assembled(said(number, SAID[number % 2])) for number in (52, 50, 57, 51, 56, 53, 58, 55, 54)]
    at_once, one_by_one = (Scoring(tmp_path_factory.mktemp("s")) for _ in range(2))
    for each in (at_once, one_by_one):
        each.put(*known)
    at_once.put(*late)
    for trace in late:
        one_by_one.put(trace)
    for trace in (*known, *late):
        assert at_once.trace(trace.trace_id)["outcomes"] == one_by_one.trace(trace.trace_id)["outcomes"]
    assert stable(at_once.session("s")) == stable(one_by_one.session("s"))
    at_once.close()
    one_by_one.close()


def test_a_late_span_of_a_trace_far_back_changes_nothing_that_it_does_not_touch(scoring: Scoring) -> None:
    for number in range(1, 41):
        scoring.put(assembled(said(number, SAID[number % 2])))
    before = {number: scoring.trace(trace_id(number).hex())["outcomes"] for number in range(1, 41)}
    assert outcome(scoring.trace(trace_id(5).hex()), "loop_detection")["status"] == "scored"
    late = span(5, 9, parent=1)
    late.start_time_unix_nano = late.end_time_unix_nano = said(5, "").end_time_unix_nano
    scoring.put(assembled(said(5, SAID[1]), late, revision=2))
    assert {n: scoring.trace(trace_id(n).hex())["outcomes"] for n in range(1, 41)} == before


def test_a_session_was_last_seen_when_its_newest_trace_was_received_not_when_it_was_scored(scoring: Scoring) -> None:
    begin = scoring.clock.now()
    scoring.clock.advance(24 * 60)
    scoring.put(assembled(said(1, SAID[0])), ago=24 * 60)
    assert scoring.session("s")["last_seen_at"] == rfc3339(begin)
    assert scoring.session("s")["status"] == "idle"
    scoring.put(assembled(said(2, SAID[2])), ago=23 * 60)
    scoring.put(assembled(said(3, SAID[3])), ago=24 * 60)
    assert scoring.session("s")["last_seen_at"] == rfc3339(begin + 60 * 10**9)


def test_scores_of_a_backlog_are_not_final_before_the_rest_of_it_had_its_turn(scoring: Scoring) -> None:
    scoring.clock.advance(2 * IDLE)
    scoring.put(assembled(said(1, SAID[0])), ago=2 * IDLE)
    assert scoring.core.sessions.over() == []
    scoring.clock.advance(IDLE)
    assert scoring.core.sessions.over() == ["s"]


def test_a_session_out_of_memory_goes_on_with_the_same_scores(scoring: Scoring) -> None:
    for number, text in enumerate(SAID * 2, 1):
        scoring.put(assembled(said(number, text)))
    for number, text in enumerate(SAID * 2, 101):
        scoring.core.sessions.forget_all()
        scoring.put(assembled(said(number, text, session="other")))
    ours, other = scoring.session("s"), scoring.session("other")
    assert outcome(ours, "agent_reliability") == outcome(other, "agent_reliability")
    assert len(ours["trace_ids"]) == len(other["trace_ids"]) == 8


def test_coverage_does_not_expect_what_cannot_exist(scoring: Scoring) -> None:
    scoring.put(assembled(said(1, "b")))
    # A first answer cannot repeat another, and there are no tools: confidence and coherence are missing.
    assert outcome(scoring.session("s"), "agent_reliability")["coverage"] == 0 / 2
    scoring.put(assembled(said(2, "c")), assembled(said(3, None)))
    # The third trace should say whether it repeats what was said, but its answer was not recorded.
    assert outcome(scoring.session("s"), "agent_reliability")["coverage"] == pytest.approx(1 / (2 + 3 + 3))


def test_embedded_coherence_lowers_a_session_only_where_it_has_a_weight(tmp_path: Path) -> None:
    default = Scoring(tmp_path / "default")
    weighted = Scoring(tmp_path / "weighted", evaluators={"coherence": {"weight": 1.0}})
    for each in (default, weighted):
        each.put(assembled(turn(1, "What is the weather?", "Bananas are yellow.", session="s")))
    assert outcome(default.session("s"), "agent_reliability")["status"] == "no_judge"
    coherence = default.session("s")["signals"][trace_id(1).hex()]["coherence"]
    assert outcome(weighted.session("s"), "agent_reliability")["score"] == pytest.approx(coherence)
    default.close()
    weighted.close()


def test_the_signal_of_an_evaluator_that_is_off_is_missing(tmp_path: Path) -> None:
    off = Scoring(tmp_path, evaluators={"loop_detection": {"enabled": False}, "coherence": {"weight": 1.0}})
    off.put(assembled(said(1, "b")))
    assert "loop_detection" not in {each["name"] for each in off.trace(trace_id(1).hex())["outcomes"]}
    found = outcome(off.session("s"), "agent_reliability")
    assert found["coverage"] == pytest.approx(1 / 3)
    assert "loop_detection is off" in found["reason"]
    off.close()


def test_telemetry_of_no_agent_has_a_status_and_is_nobodys_session(scoring: Scoring) -> None:
    scoring.put(assembled(span(1, 1)))
    document = scoring.trace(trace_id(1).hex())
    assert document["status"] == "unscored"
    assert {each["status"] for each in document["outcomes"]} == {"not_applicable"}
    assert scoring.session(trace_id(1).hex()) is None


def test_two_revisions_in_one_batch_leave_no_trace_in_the_session_of_the_first(scoring: Scoring) -> None:
    moved = [said(1, "b", session=None), span(1, 2, parent=1, agenteval__session__id="s")]
    scoring.put(assembled(moved[0]), assembled(*moved, revision=2))
    assert scoring.session(trace_id(1).hex()) is None
    assert scoring.session("s")["trace_ids"] == [trace_id(1).hex()]
    assert [level.active for level in scoring.core.live.session_levels() if level.evaluator is None] == [1]


def test_a_trace_that_leaves_gives_those_behind_it_their_score_without_it(scoring: Scoring) -> None:
    for number, text in enumerate([SAID[0], SAID[2], SAID[0]], 1):
        scoring.put(assembled(said(number, text)))
    assert outcome(scoring.trace(trace_id(3).hex()), "loop_detection")["score"] < 0.5
    gone = span(1, 2, parent=1, agenteval__session__id="other")
    scoring.put(assembled(said(1, SAID[0]), gone, revision=2))
    assert outcome(scoring.trace(trace_id(3).hex()), "loop_detection")["score"] > 0.5
    assert outcome(scoring.trace(trace_id(2).hex()), "loop_detection")["status"] == "not_applicable"


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 1, 3)])
def test_the_score_of_a_session_is_that_of_the_agent_that_came_first_in_time(
    scoring: Scoring, order: tuple[int, ...]
) -> None:
    for number in order:
        trace = said(number, SAID[number])
        [name] = [each for each in trace.attributes if each.key == "gen_ai.agent.name"]
        name.value.string_value = f"agent-{number}"
        scoring.put(assembled(trace))
    scoring.clock.advance(IDLE)
    scoring.stage.finalize(scoring.core.sessions.over())
    finals = [each.evaluation for each in scoring.emitted if each.final]
    assert {each.agent for each in finals if each.name == "agent_reliability"} == {"agent-1"}


def test_a_revision_that_starts_earlier_frees_those_that_it_stood_before(scoring: Scoring) -> None:
    # Five traces stay between its two places: the last one is then too far from the new place to be looked at for it.
    other = [(number, SAID[2 + number % 2]) for number in range(10, 15)]
    for number, text in [*other, (40, SAID[0]), (50, SAID[0])]:
        scoring.put(assembled(said(number, text)))
    assert outcome(scoring.trace(trace_id(50).hex()), "loop_detection")["score"] == pytest.approx(0.0, abs=1e-6)
    early = marked(said(40, SAID[0]), 1)
    early.start_time_unix_nano = said(5, "").start_time_unix_nano
    scoring.put(assembled(early, revision=2))
    assert outcome(scoring.trace(trace_id(50).hex()), "loop_detection")["score"] > 0.01


def test_scores_are_final_once_whether_idle_ended_or_reopened(scoring: Scoring) -> None:
    def finals() -> int:
        return sum(each.final for each in scoring.emitted if each.evaluation.name == "agent_reliability")

    scoring.put(assembled(said(1, "b")), assembled(said(2, "c")))
    scoring.stage.finalize(scoring.core.sessions.over())
    assert finals() == 0
    scoring.clock.advance(IDLE)
    scoring.stage.finalize(scoring.core.sessions.over())
    assert finals() == 1
    scoring.put(assembled(said(3, "d")))
    scoring.store.end_session("s")
    scoring.stage.finalize(["s"])
    scoring.restart()
    scoring.stage.finalize(["s"])
    assert finals() == 1


def test_a_traces_outcome_is_first_once_over_revisions_and_restarts(scoring: Scoring) -> None:
    scoring.put(assembled(said(1, "b")), assembled(said(2, "c")))
    scoring.put(assembled(said(1, "b"), span(1, 2), revision=2))
    scoring.restart()
    scoring.put(assembled(said(1, "b"), span(1, 2), span(1, 3), revision=3), assembled(said(3, "d")))
    firsts = [(e.evaluation.subject_id, e.evaluation.name) for e in scoring.emitted if e.first]
    assert len(firsts) == len(set(firsts))
    assert {subject for subject, _ in firsts} == {trace_id(number).hex() for number in (1, 2, 3)}


class Broken:
    """An evaluator with a defect, whose message quotes a megabyte."""

    name, version, method = "broken", "1", Coherence.method

    def evaluate(self, context: EvaluationContext) -> Outcome:
        raise ZeroDivisionError("defect " + "x" * 1_000_000)


def test_an_evaluator_that_raises_fails_alone(tmp_path: Path) -> None:
    scoring = Scoring(tmp_path, plugged=[EntryPoint("broken", f"{__name__}:Broken", plugins.GROUP)])
    scoring.put(assembled(said(1, "b")))
    document = scoring.trace(trace_id(1).hex())
    assert document["status"] == "scored"
    assert outcome(document, "broken")["status"] == "failed"
    assert outcome(document, "broken")["reason"].startswith("the evaluator failed: defect xxx")
    assert len(outcome(document, "broken")["reason"]) < 1000
    scoring.close()


def test_what_no_dialect_can_read_is_counted_and_named(scoring: Scoring) -> None:
    unknown = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "hi"}]}, 7, ["x"]])
    known = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "hi"}]}])
    messages: dict[str, Any] = {"gen_ai.input.messages": known, "gen_ai.output.messages": unknown}
    scoring.put(assembled(span(1, 1, **dict[str, Any]({"gen_ai.operation.name": "invoke_agent", **messages}))))
    assert scoring.telemetry.counts["values.unread message"] == 2
    only_unknown: dict[str, Any] = {"gen_ai.input.messages": known, "gen_ai.output.messages": "[7]"}
    scoring.put(assembled(span(2, 1, **dict[str, Any]({"gen_ai.operation.name": "invoke_agent", **only_unknown}))))
    coherence = outcome(scoring.trace(trace_id(2).hex()), "coherence")
    assert (coherence["status"], coherence["reason"][:35]) == ("no_content", "the answer could not be read: 1 rec")


def test_a_trace_that_cannot_be_read_fails_alone_and_has_a_status(scoring: Scoring) -> None:
    unreadable = assembled(said(2, "c"), resource=b"\xff no resource")
    scoring.put(assembled(said(1, "b")), unreadable, assembled(said(3, "d")))
    assert scoring.trace(trace_id(2).hex())["status"] == "failed"
    assert scoring.trace(trace_id(2).hex())["span_count"] == 1
    assert scoring.session("s")["trace_ids"] == [trace_id(1).hex(), trace_id(3).hex()]
    assert len(scoring.scored) == 3


def test_live_sessions_count_by_adding_and_subtracting() -> None:
    clock, live = ManualClock(), LiveSessions(idle=10)
    live.touch("a", agent="x", service=None, scores={"r": True}, now=clock.monotonic())
    live.touch("b", agent="x", service=None, scores={"r": False}, now=clock.monotonic())
    live.touch("a", agent="y", service=None, scores={}, now=clock.monotonic() + 5)
    counts = {(each.agent, each.evaluator): (each.active, each.low) for each in live.session_levels()}
    assert counts == {("x", None): (1, 0), ("x", "r"): (1, 0), ("y", None): (1, 0)}
    assert live.idle(9.9) == []
    assert live.idle(10) == ["b"]
    assert live.idle(14.9) == []
    assert live.idle(15) == ["a"]
    assert {(each.active, each.low) for each in live.session_levels()} == {(0, 0)}


def test_names_that_never_come_again_are_not_kept_for_ever() -> None:
    live = LiveSessions(idle=10)
    for number in range(10_000):
        live.touch(str(number), agent=f"agent {number}", service=None, scores={}, now=0)
        live.forget(str(number))
    assert len(list(live.session_levels())) < 2_000


def test_a_session_is_blind_until_something_of_it_could_be_looked_at(scoring: Scoring) -> None:
    scoring.put(assembled(span(1, 1, gen_ai__operation__name="invoke_agent", gen_ai__conversation__id="s")))
    assert scoring.session("s")["blind"]
    scoring.put(assembled(said(2, SAID[0])))
    scoring.restart()
    scoring.put(assembled(span(3, 1, gen_ai__operation__name="invoke_agent", gen_ai__conversation__id="s")))
    assert not scoring.session("s")["blind"]
