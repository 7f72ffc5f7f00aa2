"""Verdicts in the agent's process, and its reports of what is open there."""

import dataclasses
import threading
from queue import Queue

import pytest

from otel_agenteval.detectors.steps import StepKind, StepStarted
from otel_agenteval.finding import Finding, Mode
from otel_agenteval.loops.verdicts import MAX_ALARMS, REMEMBER, Verdicts
from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.sending.announcements import ALIVE, LINGER, MAX_LOOPS, MAX_STARTS, MAX_TOLD, Announcements
from otel_agenteval.verdict import Verdict, verdict_of
from tests.support.findings import finding, loop_found


class Seconds:
    """A clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


VERDICT = Verdict(
    name="loop_detection",
    kind="cycle",
    mode=Mode.ALARM,
    session_id="s",
    trace_id="f" * 32,
    span_id="a" * 16,
    reason="round and round",
)


def test_alarm_is_remembered_by_session_and_by_trace_for_a_while() -> None:
    clock = Seconds()
    verdicts = Verdicts(None, clock)
    verdicts.publish(VERDICT)
    for session_id, trace_id in (("s", None), (None, VERDICT.trace_id), ("s", VERDICT.trace_id)):
        found = verdicts.alarm(session_id, trace_id)
        assert found is not None
        assert found.verdict is VERDICT
    assert verdicts.alarm("other", "0" * 32) is None
    clock.now += REMEMBER + 1
    assert verdicts.alarm("s", VERDICT.trace_id) is None


def test_newest_alarm_counts_and_observed_loops_are_no_alarm() -> None:
    clock = Seconds()
    verdicts = Verdicts(None, clock)
    verdicts.publish(VERDICT)
    clock.now += 1
    newer = dataclasses.replace(VERDICT, kind="budget")
    verdicts.publish(newer)
    verdicts.publish(dataclasses.replace(VERDICT, kind="no_progress", mode=Mode.OBSERVE))
    alarm = verdicts.alarm("s", None)
    assert alarm is not None
    assert alarm.verdict is newer
    assert verdicts.found == 3


def test_the_same_loop_is_known_again() -> None:
    verdicts = Verdicts(None, Seconds())
    for _ in range(3):
        verdicts.publish(dataclasses.replace(VERDICT, reason="told elsewhere"))
    assert verdicts.found == 1


def test_findings_of_other_kinds_on_one_span_are_told_apart_by_their_reasons() -> None:
    verdicts = Verdicts(None, Seconds())
    for reason in ("one value", "another", "one value"):
        verdicts.publish(verdict_of(finding(kind="value_not_said", mode=Mode.OBSERVE, reason=reason)))
    assert verdicts.found == 2


@pytest.mark.parametrize(
    ("found", "name"),
    [
        pytest.param(loop_found(kind="repeated_answer"), "loop_detection", id="a loop is told by its evaluator"),
        pytest.param(finding(kind="answer_cut", mode=Mode.OBSERVE), "answer_cut", id="any other by its kind"),
    ],
)
def test_a_finding_is_given_to_the_agent_as_a_verdict(found: Finding, name: str) -> None:
    verdict = verdict_of(found)
    assert (verdict.name, verdict.kind, verdict.mode) == (name, found.kind, found.mode)
    assert (verdict.session_id, verdict.trace_id, verdict.span_id) == (found.session_id, found.trace_id, found.span_id)
    assert verdict.metadata == {"agent": "planner", **found.metadata}


def test_where_no_thread_can_be_started_a_verdict_waits_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    heard: Queue[Verdict] = Queue()
    verdicts = Verdicts(heard.put, Seconds())
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        verdicts.publish(VERDICT)
    other = dataclasses.replace(VERDICT, kind="no_progress")
    verdicts.publish(other)
    assert [heard.get(timeout=30) for _ in range(2)] == [VERDICT, other]
    verdicts.stop()


@pytest.mark.timeout(30)
def test_a_signal_handler_may_stop_them_while_a_verdict_is_taken() -> None:
    class Interrupted(Seconds):
        def __call__(self) -> float:
            verdicts.stop()
            return self.now

    verdicts = Verdicts(None, Interrupted())
    verdicts.publish(VERDICT)
    assert verdicts.found == 1


def test_memory_is_bounded() -> None:
    verdicts = Verdicts(None, Seconds())
    for n in range(2 * MAX_ALARMS):
        verdicts.publish(dataclasses.replace(VERDICT, session_id=f"s{n}", trace_id=f"{n:032x}"))
    newest = 2 * MAX_ALARMS - 1
    assert verdicts.alarm(f"s{newest}", None) is not None
    assert sum(verdicts.alarm(f"s{n}", f"{n:032x}") is not None for n in range(newest + 1)) == MAX_ALARMS // 2


LOOP = loop_found(kind="cycle", session_id="s")
HUNG = dataclasses.replace(LOOP, kind="hung_span", agent="guide", metadata={"tool": "search", "silent_seconds": 600.0})
NOW = 10**18


def start(n: int) -> StepStarted:
    return StepStarted(kind=StepKind.TOOL, name="t", span_id=f"{n:016x}", at=n)


def announcements(clock: Seconds, live: bool = True) -> tuple[Announcements, list[None]]:
    woken: list[None] = []
    return Announcements("p", live, lambda: woken.append(None), clock, lambda: NOW), woken


def test_starts_are_gathered_and_those_that_ended_meanwhile_are_left_out() -> None:
    clock = Seconds()
    announced, woken = announcements(clock)
    for n in range(3):
        announced.started(start(n), "t", None, "svc")
    announced.ended(start(1).span_id)
    assert announced.take() is None
    assert len(woken) == 1
    clock.now += LINGER
    request = announced.take()
    assert request is not None
    assert (request.process_id, request.service) == ("p", "svc")
    assert [each.span_id for each in request.starts] == [start(0).span_id, start(2).span_id]


def ids(request: pb.ReportStartsRequest | None) -> list[str]:
    assert request is not None
    return [each.span_id for each in request.starts]


def test_process_tells_of_what_is_open_again_and_again_and_lives_by_that() -> None:
    clock = Seconds()
    announced, _ = announcements(clock)
    announced.started(start(1), "t", None, "svc")
    clock.now += LINGER
    assert ids(announced.take()) == [start(1).span_id]
    assert 0 < announced.seconds_left() <= ALIVE
    announced.ended("of a span that was over before it was announced")
    announced.started(start(2), "t", None, "svc")
    clock.now += LINGER
    assert ids(announced.take()) == [start(2).span_id], "news alone"
    clock.now += ALIVE
    assert ids(announced.take()) == [start(1).span_id, start(2).span_id]
    announced.ended(start(1).span_id)
    announced.ended(start(2).span_id)
    announced.started(start(3), "t", None, "svc")
    announced.ended(start(3).span_id)
    clock.now += LINGER
    assert announced.take() is None
    clock.now += ALIVE
    last = announced.take()
    assert ids(last) == []
    assert last is not None
    assert last.all_open, "and so nothing is"
    clock.now += 10 * ALIVE
    assert announced.take() is None


def test_what_has_ended_and_is_on_its_way_is_not_told_as_over() -> None:
    clock = Seconds()
    announced, _ = announcements(clock)
    announced.started(start(1), "t", None, "svc")
    clock.now += LINGER
    announced.take()
    announced.ended(start(1).span_id)
    told = []
    for delivered in (False, False, True, True):
        clock.now += ALIVE
        request = announced.take(delivered=delivered)
        told.append(None if request is None else request.all_open)
    assert told == [False, False, True, None]


def test_who_has_nothing_open_leaves_a_collector_that_is_away_alone() -> None:
    clock = Seconds()
    announced, _ = announcements(clock)
    announced.started(start(1), "t", None, "svc")
    clock.now += LINGER
    attempts = 0
    while (request := announced.take()) is not None:
        attempts += 1
        announced.ended(start(1).span_id)
        announced.put_off(request, 3.0)
        clock.now += 3.0
    assert attempts == 2


def test_a_collector_that_holds_spans_for_open_is_told_of_their_end_when_it_is_back() -> None:
    clock = Seconds()
    announced, _ = announcements(clock)
    announced.started(start(1), "t", None, "svc")
    clock.now += LINGER
    request = announced.take()
    assert request is not None
    announced.taken(request)
    announced.ended(start(1).span_id)
    clock.now += ALIVE
    for _ in range(3):
        request = announced.take()
        assert request is not None
        assert request.all_open
        assert not request.starts
        announced.put_off(request, 3.0)
        clock.now += 3.0
    request = announced.take()
    assert request is not None
    announced.taken(request)
    clock.now += 10 * ALIVE
    assert announced.take() is None


def test_no_more_than_the_oldest_are_told_again() -> None:
    clock = Seconds()
    announced, _ = announcements(clock)
    for n in range(MAX_TOLD + 5):
        announced.started(start(n), "t", None, "svc")
    clock.now += LINGER
    assert len(ids(announced.take())) == MAX_TOLD + 5
    clock.now += ALIVE
    request = announced.take()
    assert ids(request) == [start(n).span_id for n in range(MAX_TOLD)]
    assert request is not None
    assert not request.all_open


def test_a_collector_that_was_away_is_told_of_all_loops_and_of_what_is_open_by_then() -> None:
    clock = Seconds()
    announced, _ = announcements(clock)
    announced.started(start(1), "t", None, "svc")
    announced.started(start(2), "t", None, "svc")
    announced.hung(LOOP)
    clock.now += LINGER
    request = announced.take()
    assert request is not None
    announced.put_off(request, 3.0)
    announced.ended(start(1).span_id)
    announced.hung(dataclasses.replace(LOOP, kind="hung_span"))
    assert announced.seconds_left() == 3.0
    clock.now += 3.0
    again = announced.take()
    assert again is not None
    assert start(1).span_id not in ids(again)
    assert start(2).span_id in ids(again)
    assert [each.kind for each in again.findings] == ["cycle", "hung_span"]
    assert announced.dropped == 0


def test_what_waits_is_bounded() -> None:
    clock = Seconds()
    announced, _ = announcements(clock)
    for n in range(MAX_STARTS + 5):
        announced.started(start(n), "t", None, "svc")
    for _ in range(MAX_LOOPS + 5):
        announced.hung(LOOP)
    clock.now += LINGER
    request = announced.take()
    assert request is not None
    assert (len(request.starts), len(request.findings)) == (MAX_STARTS, MAX_LOOPS)
    assert announced.dropped == 10
    newest = dataclasses.replace(LOOP, reason="the newest")
    announced.hung(newest)
    announced.put_off(request, 3.0)
    clock.now += 3.0
    again = announced.take()
    assert again is not None
    assert (len(again.findings), again.findings[-1].reason) == (MAX_LOOPS, newest.reason)
    assert announced.dropped == 11


def test_nothing_is_announced_unasked_but_hangs() -> None:
    clock = Seconds()
    announced, woken = announcements(clock, live=False)
    announced.started(start(1), "t", None, "svc")
    clock.now += ALIVE
    assert announced.take() is None
    assert not woken
    announced.hung(HUNG)
    clock.now += LINGER
    request = announced.take()
    assert request is not None
    assert request.service == "svc", "whose the hang is"
    [hanging] = request.starts
    assert (hanging.trace_id, hanging.span_id, hanging.session_id) == (HUNG.trace_id, HUNG.span_id, "s")
    assert (hanging.name, hanging.kind, hanging.agent) == ("search", "tool", "guide")
    assert hanging.started_at_unix_nano == NOW - 600 * 10**9
    clock.now += ALIVE
    assert ids(announced.take()) == [HUNG.span_id], "it is open until it ends"
    assert HUNG.span_id is not None
    announced.ended(HUNG.span_id)
    clock.now += ALIVE
    last = announced.take()
    assert ids(last) == []
    assert last is not None
    assert last.all_open
    clock.now += ALIVE
    assert announced.take() is None


def test_text_that_is_no_unicode_is_announced_as_far_as_it_is() -> None:
    clock = Seconds()
    announced, _ = announcements(clock)
    announced.started(
        StepStarted(kind=StepKind.TOOL, name="t\udc80", span_id="1" * 16, agent="a\udc80", at=1),
        "t",
        "s\udc80",
        "caf\udce9",
    )
    announced.hung(
        dataclasses.replace(
            HUNG, session_id="s\udc80", agent="a\udc80", tool="t\udc80", reason="r\udc80", metadata={"tool": "t\udc80"}
        )
    )
    clock.now += LINGER
    request = announced.take()
    assert request is not None
    assert request.service == "caf?"
    assert [(each.name, each.session_id, each.agent) for each in request.starts] == [("t?", "s?", "a?")] * 2
    [loop] = request.findings
    assert (loop.session_id, loop.agent, loop.tool, loop.reason) == ("s?", "a?", "t?", "r?")
    assert announced.seconds_left() > 0
