"""When runs are read again, and when reports are computed again."""

from collections.abc import Sequence
from threading import Event

import pytest
from agenteval_collector.figures.counting import CountedRuns
from agenteval_collector.figures.version_reports import OLD_KEPT, SCRAPE_BUDGET, SHARE, ReliabilityReports
from agenteval_collector.model.runs import LIVE_VERSIONS, AgentVersion, StoredRun, UnmatchedReport
from agenteval_collector.runtime.errors import InvalidRequest, NotFound

from otel_agenteval.model import RunIdentity
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.unit.test_reliability_runs import trace


class Source(CountedRuns):
    """Runs by agent and version, without a store; reading those of one takes `seconds`."""

    def __init__(self, clock: ManualClock, *versions: tuple[str, ...]) -> None:
        self.clock = clock
        self.successes = {_in_office(*version): [True] for version in versions}
        self.seconds = 0.0
        self.changes = 0
        self.read: list[AgentVersion] = []
        self.may_read = Event()
        self.may_read.set()

    def revision(self) -> int:
        return self.changes

    def versions(self) -> list[AgentVersion]:
        return list(self.successes)

    def runs(self, version: AgentVersion) -> Sequence[StoredRun]:
        self.may_read.wait(60)
        self.clock.advance(self.seconds)
        self.read.append(version)
        return [
            StoredRun(
                run=RunIdentity(task_id="refund", run_id=str(number)),
                agent=version.agent,
                service=version.service,
                service_version=version.version,
                traces=[trace(number)],
                success=success,
                confidence=None,
                completed={},
                confidences={},
                judged={},
            )
            for number, success in enumerate(self.successes[version])
        ]

    def unmatched_reports(self) -> Sequence[UnmatchedReport]:
        return []

    def put(self, agent: str, version: str, success: bool) -> None:
        whose = _in_office(agent, version)
        self.successes[whose] = [*self.successes.get(whose, []), success]
        self.changes += 1


def _in_office(agent: str, version: str, service: str = "office") -> AgentVersion:
    return AgentVersion(agent, service, version)


def made(*versions: tuple[str, ...]) -> tuple[ReliabilityReports, Source]:
    clock = ManualClock()
    source = Source(clock, *versions)
    return ReliabilityReports(source, 1000, clock), source


def test_runs_are_read_again_only_when_something_changed() -> None:
    reports, source = made(("clerk", "1"))
    first = reports.page().items
    assert reports.page().items == first
    reports.figures()
    assert len(source.read) == 1
    source.put("clerk", "1", False)
    assert reports.page().items[0].report.pass_hat_k == {1: 0.5, 2: 0.0}
    assert len(source.read) == 2


def test_only_what_was_asked_for_is_read() -> None:
    reports, source = made(("clerk", "1"), ("clerk", "2"), ("cook", "1"))
    reports.page(agent="clerk", version="2")
    assert source.read == [("clerk", "office", "2")]


def test_the_runs_of_a_few_old_versions_are_kept() -> None:
    names = [str(number) for number in range(LIVE_VERSIONS + OLD_KEPT + 1)]
    reports, source = made(*(("clerk", name) for name in names))
    newest, old, last = names[0], names[LIVE_VERSIONS], names[-1]
    for version in (*names[:-1], newest, old, last, newest, old):
        reports.page(version=version)
    assert [version for _, _, version in source.read] == [*names, old]


def test_gauges_show_the_newest_versions_of_each_agent() -> None:
    reports, _ = made(*(("clerk", str(number)) for number in range(5)), ("cook", "1"))
    shown = [(each.agent, each.version) for each in reports.figures()]
    assert shown == [*(("clerk", str(number)) for number in range(LIVE_VERSIONS)), ("cook", "1")]


def test_a_scrape_reads_no_longer_than_it_may_and_goes_on_at_the_next_one() -> None:
    agents = [(f"agent {number}", "1") for number in range(6)]
    reports, source = made(*agents)
    source.seconds = SCRAPE_BUDGET / 2
    seen: list[int] = []

    def all_are_shown() -> bool:
        source.clock.advance(SCRAPE_BUDGET / SHARE)
        seen.append(len(reports.figures()))
        return seen[-1] == 6

    eventually(all_are_shown)
    assert seen[0] < 6
    assert len(source.read) == 6
    source.put("agent 5", "1", False)

    def the_new_run_is_shown() -> bool:
        source.clock.advance(SCRAPE_BUDGET / SHARE)
        return {each.agent: each.runs for each in reports.figures()}["agent 5"] == 2

    eventually(the_new_run_is_shown)


def test_looks_take_a_small_share_of_the_time() -> None:
    reports, source = made(("clerk", "1"))
    source.seconds = 2.0
    eventually(lambda: reports.figures() != [])
    source.put("clerk", "1", False)
    source.clock.advance(2.0 / SHARE - 2.1)
    assert [each.runs for each in reports.figures()] == [1]
    source.clock.advance(0.2)
    eventually(lambda: [each.runs for each in reports.figures()] == [2])
    assert len(source.read) == 2


def test_a_scrape_does_not_wait_for_runs_that_take_long_to_read() -> None:
    reports, source = made(("clerk", "1"))
    source.may_read.clear()
    assert reports.figures() == []
    source.may_read.set()
    eventually(lambda: [each.runs for each in reports.figures()] == [1])
    assert len(source.read) == 1


def test_an_agent_with_one_of_two_versions_is_not_compared() -> None:
    reports, _ = made(("clerk", "1"), ("clerk", "2"), ("other", "1"), ("third", "2"))
    assert reports.comparison("1", "2").agent == "clerk"
    reports, _ = made(("other", "1"), ("third", "2"))
    with pytest.raises(NotFound, match="no agent has runs of both '1' and '2'"):
        reports.comparison("1", "2")
    reports, _ = made(("clerk", "1"), ("clerk", "2"), ("other", "1"), ("other", "2"))
    with pytest.raises(
        InvalidRequest, match="several agents have these versions: 'clerk' in 'office', 'other' in 'office'; give"
    ):
        reports.comparison("1", "2")


def test_agents_of_one_name_in_two_services_are_two() -> None:
    reports, source = made(("clerk", "1"), ("clerk", "2"), ("clerk", "1", "bank"), ("clerk", "2", "bank"))
    assert [(each.service, each.version) for each in reports.figures()] == [
        *(("office", "1"), ("office", "2")), *(("bank", "1"), ("bank", "2")),
    ]  # fmt: skip
    source.read.clear()
    source.changes += 1
    assert [item.runs.whose.service for item in reports.page(service="bank").items] == ["bank", "bank"]
    assert {version.service for version in source.read} == {"bank"}
    assert reports.comparison("1", "2", service="bank").service == "bank"
    with pytest.raises(InvalidRequest, match="'clerk' in 'office', 'clerk' in 'bank'; give agent and service"):
        reports.comparison("1", "2", agent="clerk")
