"""The rows of alarms: what is read of scored traces, and that all that is kept comes back, in each database."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.model.alarms import (
    EVERY_ALARM,
    AgentAlarm,
    AlarmFilter,
    AlarmKey,
    AlarmKind,
    AlarmSeverity,
    AlarmState,
    DeployedAgent,
)
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.stores import alarms as limits
from agenteval_collector.stores.alarms import Learnt
from agenteval_collector.stores.store import Store

from tests.integration.test_statement_plans import commit
from tests.integration.test_store import hex_id
from tests.support.clock import ManualClock
from tests.support.databases import database_in

pytestmark = pytest.mark.databases

NOW = 1_700_000_000_000_000_000
SHOP = DeployedAgent("prod", "shop", "planner")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(database_in(tmp_path), ManualClock(NOW), events_of=no_events)
    yield made
    made.shutdown()


def alarm(number: int, state: AlarmState = AlarmState.FIRING, **changes: Any) -> AgentAlarm:
    fields: dict[str, Any] = {
        "alarm_id": f"{number:016x}",
        "key": AlarmKey(SHOP, AlarmKind.TOOL_FAILING, f"tool-{number}"),
        "severity": AlarmSeverity.WARNING,
        "owner": None,
        "state": state,
        "since": NOW + number,
        "until": None if state is AlarmState.FIRING else NOW + number + 1,
        "title": "planner: tool find fails more often than usual",
        "evidence": "31% of the last traces failed; usually 0.8% do.",
        "problem_id": "f" * 16,
        "examples": [hex_id(3), hex_id(1), hex_id(2)],
    }
    return AgentAlarm(**{**fields, **changes})


def listed(store: Store, wanted: AlarmFilter = EVERY_ALARM, **page: Any) -> list[AgentAlarm]:
    with store.snapshot() as snapshot:
        return list(snapshot.alarms(wanted, **{"limit": 50, "cursor": None, **page}).items)


def test_what_is_kept_comes_back_the_newest_first(store: Store) -> None:
    kept = [
        alarm(1),
        alarm(2, AlarmState.ENDED),
        alarm(3, key=AlarmKey(DeployedAgent(None, None, None), AlarmKind.SILENT)),
    ]
    learnt = [Learnt(SHOP, "{}", NOW), Learnt(DeployedAgent(None, None, None), '{"a": 1}', NOW + 1)]
    store.alarms.write(kept, learnt, NOW, store.alarms.erased())
    assert listed(store) == kept[::-1]
    assert store.alarms.firing() == [kept[2], kept[0]]
    assert {*store.alarms.learnt()} == {*learnt}
    assert store.alarms.progress() == NOW
    assert listed(store, AlarmFilter(state=AlarmState.ENDED)) == [kept[1]]
    assert listed(store, AlarmFilter(agent="planner", environment="prod")) == [kept[1], kept[0]]
    with store.snapshot() as snapshot:
        first = snapshot.alarms(EVERY_ALARM, limit=2, cursor=None)
        assert [*snapshot.alarms(EVERY_ALARM, limit=2, cursor=first.next_cursor).items] == [kept[0]]
        with pytest.raises(InvalidRequest):
            snapshot.alarms(EVERY_ALARM, limit=2, cursor="odd")


def test_a_later_write_of_an_alarm_replaces_it_and_leaves_what_was_sent(store: Store) -> None:
    store.alarms.write([alarm(1)], [], NOW, store.alarms.erased())
    assert store.alarms.unannounced(NOW) == [(alarm(1), "")]
    store.alarms.announce([alarm(1)], NOW)
    store.alarms.write([alarm(1, examples=[hex_id(9)])], [], NOW + 1, store.alarms.erased())
    assert store.alarms.unannounced(NOW) == []
    assert store.alarms.digested_at() == NOW
    [again] = listed(store)
    assert again.examples == [hex_id(9)]
    ended = alarm(1, AlarmState.ENDED)
    store.alarms.write([ended], [], NOW + 2, store.alarms.erased())
    assert store.alarms.unannounced(NOW) == [(ended, "firing")]


def test_the_scored_traces_have_their_session_and_their_problems(store: Store) -> None:
    store.commit(commit(1, 2, 3))
    [first, *_] = found = store.alarms.scored(0, 2**62, 10)
    assert [trace.trace_id for trace in found] == [hex_id(1), hex_id(2), hex_id(3)]
    assert (first.watched.agent, first.session_id, first.seconds) == ("planner", "s", 1.0)
    [problem] = first.problems
    assert (problem.kind, problem.severity, problem.is_muted) == ("tool_failed", "error", False)
    store.problems.mute(problem.problem_id, NOW + 10, by=None)
    assert store.alarms.scored(0, 2**62, 1)[0].problems[0].is_muted
    assert store.alarms.marks([problem.problem_id, "0" * 16]) == {problem.problem_id: (True, False)}
    store.problems.resolve(problem.problem_id, by=None)
    assert store.alarms.marks([problem.problem_id]) == {problem.problem_id: (False, True)}
    assert [occurrence.trace_id for occurrence in store.alarms.new_problems(0, 10)] == [hex_id(3)]


def test_old_alarms_and_agents_are_forgotten_but_none_that_fires(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_ALARMS", 2)
    monkeypatch.setattr(limits, "MOST_WATCHES", 1)
    kept = [alarm(1), *(alarm(number, AlarmState.ENDED) for number in range(2, 6))]
    learnt = [Learnt(SHOP._replace(agent=f"a-{number}"), "{}", NOW + number) for number in range(3)]
    store.alarms.write(kept, learnt, NOW, store.alarms.erased())
    store.alarms.trim()
    assert [one.alarm_id for one in listed(store)] == [kept[4].alarm_id, kept[3].alarm_id, kept[0].alarm_id]
    assert store.alarms.learnt() == [learnt[2]]


def test_a_worse_version_that_was_told_is_known(store: Store) -> None:
    store.alarms.write([alarm(1, key=AlarmKey(SHOP, AlarmKind.REGRESSION, "2"))], [], NOW, store.alarms.erased())
    assert store.alarms.seen_regressions() == {("planner", "2")}
