from threading import Thread

import pytest
from agenteval_collector.emit.feed import Feed, FeedItem, Lost, Subscription
from agenteval_collector.emit.telemetry import TelemetryOutput
from agenteval_collector.errors import Overloaded, Unavailable
from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.outcome import Evaluation
from tests.support.evaluations import committed, evaluation
from tests.support.verdicts import found_verdict


@pytest.fixture
def telemetry() -> TelemetryOutput:
    return TelemetryOutput(version="1", instance_id="i")


@pytest.fixture
def feed(telemetry: TelemetryOutput) -> Feed:
    return Feed(telemetry.collector)


def read_all(subscription: Subscription) -> list[FeedItem]:
    items = []
    while (item := subscription.get(timeout=0)) is not None:
        items.append(item)
    return items


def test_every_watcher_gets_every_evaluation_from_when_it_came(feed: Feed) -> None:
    early = feed.subscribe()
    feed.accept([committed(revision=1)])
    late = feed.subscribe()
    feed.accept([committed(revision=2), committed(revision=3)])
    assert read_all(early) == [evaluation(revision=n) for n in (1, 2, 3)]
    assert read_all(late) == [evaluation(revision=n) for n in (2, 3)]


def test_a_watcher_gets_only_what_it_asked_for(feed: Feed) -> None:
    one_session = feed.subscribe("s-2")
    two_names = feed.subscribe(names=["coherence", "loop_detection"])
    both = feed.subscribe("s-2", ["coherence"])
    feed.accept(
        [
            committed(session_id=session, name=name)
            for session in ("s-1", "s-2")
            for name in ("coherence", "agent_reliability")
        ]
    )

    def seen(subscription: Subscription) -> list[tuple[str, str]]:
        return [(item.session_id, item.name) for item in read_all(subscription) if isinstance(item, Evaluation)]

    assert seen(one_session) == [("s-2", "coherence"), ("s-2", "agent_reliability")]
    assert seen(two_names) == [("s-1", "coherence"), ("s-2", "coherence")]
    assert seen(both) == [("s-2", "coherence")]


@given(capacity=st.integers(1, 5), batches=st.lists(st.integers(0, 8), max_size=6))
def test_a_slow_watcher_keeps_the_newest_and_is_told_how_many_it_lost(capacity: int, batches: list[int]) -> None:
    telemetry = TelemetryOutput(version="1", instance_id="i")
    feed = Feed(telemetry.collector, capacity=capacity)
    slow = feed.subscribe()
    sent = 0
    for size in batches:
        feed.accept([committed(revision=sent + n) for n in range(size)])
        sent += size
    lost = max(0, sent - capacity)
    expected: list[FeedItem] = [Lost(lost)] if lost else []
    assert read_all(slow) == expected + [evaluation(revision=n) for n in range(lost, sent)]
    total = f'agenteval_collector_queue_dropped_total{{agenteval_queue="watch"}} {float(lost)}'
    assert (total in telemetry.render()[0].decode()) == (lost > 0)


def test_a_waiting_watcher_is_woken_by_the_next_evaluation(feed: Feed) -> None:
    subscription = feed.subscribe()
    seen: list[FeedItem | None] = []
    watcher = Thread(target=lambda: seen.append(subscription.get(timeout=30)))
    watcher.start()
    feed.accept([committed()])
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
    feed.accept([committed()])
    feed.close()
    feed.accept([committed(revision=2)])
    assert read_all(subscription) == [evaluation()]


def test_nothing_within_the_timeout_is_none(feed: Feed) -> None:
    subscription = feed.subscribe()
    assert subscription.get(timeout=0.01) is None
    assert not subscription.closed


def test_watchers_are_bounded_and_leaving_makes_room(telemetry: TelemetryOutput) -> None:
    feed = Feed(telemetry.collector, watchers=1)
    with feed.subscribe(), pytest.raises(Overloaded, match="1 watchers are connected already"):
        feed.subscribe()
    feed.subscribe().close()


def test_a_closed_feed_takes_no_watchers(feed: Feed) -> None:
    feed.close()
    feed.close()
    with pytest.raises(Unavailable, match="stopping"):
        feed.subscribe()


@pytest.mark.parametrize("bounds", [{"capacity": 0}, {"watchers": 0}])
def test_a_feed_without_room_is_refused(telemetry: TelemetryOutput, bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        Feed(telemetry.collector, **bounds)


def test_verdicts_reach_those_who_asked_for_them(feed: Feed) -> None:
    everything, other_session = feed.subscribe(), feed.subscribe("s-2")
    coherence, own, other = (
        feed.subscribe(names=["coherence"]),
        feed.subscribe(process_id="p"),
        feed.subscribe(process_id="q"),
    )
    found = found_verdict(processes=frozenset({"p"}))
    feed.tell([found])
    feed.accept([committed()])
    assert read_all(everything) == [found, evaluation()]
    assert read_all(own) == [found]
    assert read_all(other_session) == read_all(other) == []
    assert read_all(coherence) == [evaluation()]
