from collections.abc import Iterable, Mapping
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest
from agenteval_collector.emit.feed import MAX_MISSED, MAX_VERDICTS, Feed, FeedItem, Lost, Subscription
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.model.news import News
from agenteval_collector.runtime.errors import Unavailable
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.finding import Finding, Mode
from otel_agenteval.outcome import Evaluation, Failure, Method, Score, SubjectKind
from tests.support.clock import ManualClock
from tests.support.evaluations import committed, evaluation
from tests.support.findings import finding, loop_found
from tests.support.rendering import rendered


class Processes:
    """The processes in sessions; `asked` are the sessions that somebody asked for."""

    def __init__(self, by_session: Mapping[str, set[str]], by_trace: Mapping[str, set[str]] | None = None) -> None:
        self._by_session = by_session
        self._by_trace = by_trace or {}
        self.asked: list[str] = []

    def processes_in(self, session_id: str) -> frozenset[str]:
        self.asked.append(session_id)
        return frozenset(self._by_session.get(session_id, ()))

    def processes_of(self, trace_id: str) -> frozenset[str]:
        return frozenset(self._by_trace.get(trace_id, ()))


NOBODY = Processes({})


@pytest.fixture
def telemetry() -> TelemetryOutput:
    return TelemetryOutput(version="1", instance_id="i", is_on_duty=lambda: True)


@pytest.fixture
def feed(telemetry: TelemetryOutput) -> Feed:
    return Feed(telemetry.own_work, NOBODY, ManualClock())


def read_all(subscription: Subscription) -> list[FeedItem]:
    items = []
    while (item := subscription.get(timeout=0)) is not None:
        items.append(item)
    return items


def test_every_watcher_gets_every_evaluation_from_when_it_came(feed: Feed) -> None:
    early = feed.subscribe()
    feed.take_news(News(evaluations=[committed(revision=1)]))
    late = feed.subscribe()
    feed.take_news(News(evaluations=[committed(revision=2), committed(revision=3)]))
    assert read_all(early) == [evaluation(revision=n) for n in (1, 2, 3)]
    assert read_all(late) == [evaluation(revision=n) for n in (2, 3)]


def test_a_watcher_gets_only_what_it_asked_for(feed: Feed) -> None:
    one_session = feed.subscribe("s-2")
    two_names = feed.subscribe(names=["coherence", "loop_detection"])
    both = feed.subscribe("s-2", ["coherence"])
    feed.take_news(
        News(
            evaluations=[
                committed(session_id=session, name=name)
                for session in ("s-1", "s-2")
                for name in ("coherence", "agent_reliability")
            ]
        )
    )

    def seen(subscription: Subscription) -> list[tuple[str, str]]:
        return [(item.session_id, item.name) for item in read_all(subscription) if isinstance(item, Evaluation)]

    assert seen(one_session) == [("s-2", "coherence"), ("s-2", "agent_reliability")]
    assert seen(two_names) == [("s-1", "coherence"), ("s-2", "coherence")]
    assert seen(both) == [("s-2", "coherence")]


@given(capacity=st.integers(1, 5), batches=st.lists(st.integers(0, 8), max_size=6))
def test_a_slow_watcher_keeps_the_newest_and_is_told_how_many_it_lost(capacity: int, batches: list[int]) -> None:
    telemetry = TelemetryOutput(version="1", instance_id="i", is_on_duty=lambda: True)
    feed = Feed(telemetry.own_work, NOBODY, ManualClock(), capacity=capacity)
    slow = feed.subscribe()
    sent = 0
    for size in batches:
        feed.take_news(News(evaluations=[committed(revision=sent + n) for n in range(size)]))
        sent += size
    lost = max(0, sent - capacity)
    expected: list[FeedItem] = [Lost(lost)] if lost else []
    assert read_all(slow) == expected + [evaluation(revision=n) for n in range(lost, sent)]
    total = f'agenteval_collector_queue_dropped_total{{agenteval_queue="watch"}} {float(lost)}'
    assert (total in rendered(telemetry)) == (lost > 0)


def test_a_waiting_watcher_is_woken_by_the_next_evaluation(feed: Feed) -> None:
    subscription = feed.subscribe()
    seen: list[FeedItem | None] = []
    watcher = Thread(target=lambda: seen.append(subscription.get(timeout=30)))
    watcher.start()
    feed.take_news(News(evaluations=[committed()]))
    watcher.join(10)
    assert seen == [evaluation()]


def test_closing_the_feed_wakes_a_waiting_watcher(feed: Feed) -> None:
    subscription = feed.subscribe()
    seen: list[FeedItem | None] = []
    watcher = Thread(target=lambda: seen.append(subscription.get(timeout=30)))
    watcher.start()
    feed.close()
    watcher.join(10)
    assert seen == [None]
    assert subscription.closed


def test_what_came_before_closing_can_still_be_read(feed: Feed) -> None:
    subscription = feed.subscribe()
    feed.take_news(News(evaluations=[committed()]))
    feed.close()
    feed.take_news(News(evaluations=[committed(revision=2)]))
    assert read_all(subscription) == [evaluation()]


def test_nothing_within_the_timeout_is_none(feed: Feed) -> None:
    subscription = feed.subscribe()
    assert subscription.get(timeout=0.01) is None
    assert not subscription.closed


def test_a_closed_feed_takes_no_watchers(feed: Feed) -> None:
    feed.close()
    feed.close()
    with pytest.raises(Unavailable, match="stopping"):
        feed.subscribe()


def test_findings_reach_those_who_asked_for_them(telemetry: TelemetryOutput) -> None:
    feed = Feed(telemetry.own_work, Processes({"s-1": {"p"}}), ManualClock())
    everything, other_session = feed.subscribe(), feed.subscribe("s-2")
    coherence, loops, cut = (feed.subscribe(names=[name]) for name in ("coherence", "loop_detection", "answer_cut"))
    own, other = feed.subscribe(process_id="p"), feed.subscribe(process_id="q")
    loop, told = loop_found(), finding(kind="answer_cut", mode=Mode.OBSERVE)
    feed.take_news(News(to_tell=[loop, told]))
    feed.take_news(News(evaluations=[committed()]))
    assert read_all(everything) == [loop, told, evaluation()]
    assert read_all(own) == [loop, told]
    assert read_all(other_session) == read_all(other) == []
    assert (read_all(coherence), read_all(loops), read_all(cut)) == ([evaluation()], [loop], [told])


def test_a_process_hears_what_is_wrong_with_the_sessions_that_it_takes_part_in(telemetry: TelemetryOutput) -> None:
    processes = {"s-1": {"p", "q"}, "s-2": {"q"}}
    feed = Feed(telemetry.own_work, Processes(processes), ManualClock())
    own = feed.subscribe(process_id="p")
    here, elsewhere = loop_found(), loop_found(session_id="s-2")
    feed.take_news(News(to_tell=[here, elsewhere]))
    assert read_all(own) == [here]


@pytest.mark.parametrize(
    ("changes", "is_verdict"),
    [
        pytest.param({}, True, id="judged and below its threshold"),
        pytest.param({"session_id": "s-2"}, False, id="of a session of others"),
        pytest.param({"method": Method.EMBEDDING}, False, id="not by the judge"),
        pytest.param({"subject": SubjectKind.SESSION}, False, id="of a whole session"),
        pytest.param({"outcome": Score(value=0.5, reason="done")}, False, id="at its threshold"),
        pytest.param({"threshold": None}, False, id="without a threshold"),
        pytest.param({"outcome": Failure(error_type="timeout", reason="no answer")}, False, id="no score"),
    ],
)
def test_a_process_hears_of_judged_scores_below_their_threshold(
    telemetry: TelemetryOutput, changes: dict[str, Any], is_verdict: bool
) -> None:
    feed = Feed(telemetry.own_work, Processes({"s-1": {"p"}}), ManualClock())
    own = feed.subscribe(process_id="p")
    low: dict[str, Any] = {"method": Method.LLM, "outcome": Score(value=0.2, reason="half of it"), "threshold": 0.5}
    said = committed(**{"session_id": "s-1", **low, **changes})
    feed.take_news(News(evaluations=[said]))
    assert read_all(own) == ([said.evaluation] if is_verdict else [])


def test_who_takes_part_is_asked_once_for_a_session_and_only_for_those_who_asked_by_process(
    telemetry: TelemetryOutput,
) -> None:
    participants = Processes({})
    asked = participants.asked
    feed = Feed(telemetry.own_work, participants, ManualClock())
    feed.subscribe()
    feed.take_news(News(to_tell=[loop_found()]))
    assert asked == []
    for process_id in ("q", "r"):
        feed.subscribe(process_id=process_id)
    feed.take_news(News(to_tell=[loop_found(kind=kind) for kind in ("cycle", "no_progress")]))
    assert asked == ["s-1"]


def test_findings_do_not_wait_for_outcomes_nor_give_way_to_them(telemetry: TelemetryOutput) -> None:
    feed = Feed(telemetry.own_work, NOBODY, ManualClock(), capacity=3)
    watcher = feed.subscribe()
    feed.take_news(News(evaluations=[committed(revision=1)]))
    first, second = loop_found(), loop_found(kind="cycle")
    feed.take_news(News(to_tell=[first, second]))
    feed.take_news(News(evaluations=[committed(revision=2), committed(revision=3)]))
    assert read_all(watcher) == [Lost(2), first, second, evaluation(revision=3)]
    feed.take_news(News(to_tell=[loop_found(span_id=f"{number:016x}") for number in range(4)]))
    assert [type(item) for item in read_all(watcher)] == [Lost, Finding, Finding, Finding]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def timed(telemetry: TelemetryOutput, clock: ManualClock) -> Feed:
    return Feed(telemetry.own_work, Processes({"s-1": {"p"}}), clock)


def loops(numbers: Iterable[int], session_id: str = "s-1") -> list[Finding]:
    return [loop_found(span_id=f"{n:016x}", session_id=session_id) for n in numbers]


def tell(feed: Feed, *found: Finding) -> None:
    feed.take_news(News(to_tell=found))


def test_who_was_away_is_told_of_the_verdicts_since_then_before_what_comes(timed: Feed, clock: ManualClock) -> None:
    long_ago, first, second, third = loops(range(4))
    low = committed(method=Method.LLM, outcome=Score(value=0.2, reason="half of it"), threshold=0.5)
    tell(timed, long_ago)
    clock.advance(60)
    tell(timed, first, *loops([9], "s-2"))
    timed.take_news(News(evaluations=[low, committed(name="no verdict")]))
    clock.advance(20)
    tell(timed, second)
    back, new = timed.subscribe(process_id="p", missed_seconds=30.0), timed.subscribe(process_id="p")
    tell(timed, third)
    assert read_all(back) == [first, second, third, low.evaluation]
    assert read_all(new) == [third]


def test_what_an_earlier_run_found_was_told_when_it_was_found(timed: Feed, clock: ManualClock) -> None:
    found = [
        replace(each, found_at=clock.now() - ago * 1_000_000_000)
        for ago, each in zip((50, 20), loops(range(2)), strict=True)
    ]
    timed.remember(found)
    assert read_all(timed.subscribe(process_id="p", missed_seconds=30.0)) == found[1:]


def test_verdicts_that_were_missed_are_bounded(timed: Feed, clock: ManualClock, telemetry: TelemetryOutput) -> None:
    own = loops(range(MAX_MISSED + 1))
    tell(timed, *own)
    assert read_all(timed.subscribe(missed_seconds=1.0)) == own[1:]
    tell(timed, *loops(range(1000, 1000 + MAX_VERDICTS - 1), "s-2"))
    assert read_all(timed.subscribe(process_id="p", missed_seconds=1.0)) == own[-1:]
    small = Feed(telemetry.own_work, NOBODY, clock, capacity=2)
    tell(small, *own)
    assert read_all(small.subscribe(missed_seconds=1.0)) == own[-2:]


def test_nothing_is_missed_or_told_twice_while_a_watcher_comes(timed: Feed) -> None:
    found = loops(range(200))
    telling = Thread(target=lambda: [tell(timed, each) for each in found])
    telling.start()
    watcher = timed.subscribe(process_id="p", missed_seconds=3600.0)
    telling.join()
    assert read_all(watcher) == found
