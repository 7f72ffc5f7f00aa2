"""What raises and ends an alarm: an agent's past, objectives, one alarm an incident, silence, and the bounds."""

import json
import random
from collections.abc import Iterable, Sequence

import pytest
from agenteval_collector.alarms.incidents import MOST_FIRING_OF_AGENT, Incidents
from agenteval_collector.alarms.rates import DAY, HOUR
from agenteval_collector.alarms.stage import Alarms
from agenteval_collector.alarms.watch import MOST_TOOLS, AgentWatch
from agenteval_collector.config.objectives import ObjectiveConfig
from agenteval_collector.model.alarms import AgentAlarm, AlarmKind, AlarmState, DeployedAgent, TraceFacts, TraceProblem
from agenteval_collector.runtime.times import rfc3339
from agenteval_collector.stores.alarms import Learnt, Occurrence

START = 20_000 * DAY
MINUTE = HOUR // 60
SHOP = DeployedAgent("prod", "shop", "planner")
OLD = TraceProblem("0" * 16, "turn_failed", None, "error", "Turn fails: boom", START - 60 * DAY, None, is_muted=False)
TOOL = OLD._replace(problem_id="1" * 16, kind="tool_failed", tool="find", severity="warning", title="find: timeout")
LOOP = OLD._replace(problem_id="2" * 16, kind="cycle", title="Goes round in a circle of calls")


def alarms(**objectives: ObjectiveConfig) -> Alarms:
    return Alarms(Incidents([], objectives), objectives, START)


def facts(number: int, at: int, *problems: TraceProblem, **changes: object) -> TraceFacts:
    fields: dict[str, object] = {
        "watched": SHOP,
        "trace_id": f"{number:032x}",
        "session_id": f"s-{number}",
        "version": "1",
        "scored_at": at,
        "seconds": 4.0,
        "usd": 0.02,
        "problems": problems,
    }
    return TraceFacts(**{**fields, **changes})  # type: ignore[arg-type]


class Told:
    """Alarms that are fed, and what they told: those that began, and those that ended."""

    def __init__(self, known: Alarms) -> None:
        self.known = known
        self.now = START
        self.number = 0
        self.said: list[AgentAlarm] = []
        self.marks: dict[str, tuple[bool, bool]] = {}

    def work(
        self,
        sessions: int,
        every: int = MINUTE,
        *,
        problems: Sequence[TraceProblem] = (),
        share: float = 1.0,
        looks: bool = True,
        **changes: object,
    ) -> "Told":
        """Have so many sessions of one trace; a share of them has the problems."""
        chance = random.Random(13)
        for _ in range(sessions):
            self.number += 1
            self.now += every
            found = problems if chance.random() < share else ()
            self.known.take([facts(self.number, self.now, *found, **changes)], ())
            if looks:
                self.look()
        return self

    def look(self) -> None:
        self.known.decide(self.now, self.marks)
        self.said += self.known.incidents.take_changed()

    def idle(self, length: int, every: int = MINUTE) -> "Told":
        for _ in range(length // every):
            self.now += every
            self.look()
        return self

    @property
    def began(self) -> list[AlarmKind]:
        ids = dict.fromkeys(alarm.alarm_id for alarm in self.said)
        return [next(each for each in self.said if each.alarm_id == alarm_id).key.kind for alarm_id in ids]

    @property
    def firing(self) -> list[AlarmKind]:
        return [key.kind for key in self.known.incidents.firing]


def with_a_past(known: Alarms | None = None) -> Told:
    """Two days of an agent that fails in one of a hundred sessions."""
    told = Told(known or alarms())
    told.work(960, 3 * MINUTE, problems=[OLD, TOOL], share=0.01)
    assert told.began == []
    return told


def test_a_tool_that_fails_in_a_third_of_the_traces_is_one_alarm_that_ends() -> None:
    told = with_a_past().work(60, problems=[TOOL], share=0.33)
    assert told.began == [AlarmKind.TOOL_FAILING]
    [alarm] = told.said
    assert alarm.title == "planner: tool find fails more often than usual"
    assert alarm.evidence.endswith("of the last traces failed; usually 1.0% do. Mostly: find: timeout.")
    assert (alarm.problem_id, alarm.severity, alarm.until) == (TOOL.problem_id, "warning", None)
    assert 1 <= len(alarm.examples) <= 5
    told.work(120)
    assert [each.state for each in told.said] == [AlarmState.FIRING, AlarmState.ENDED]
    told.work(2_000)
    assert told.firing == []
    assert len(told.said) == 2


def test_an_alarm_names_the_version_that_brought_it() -> None:
    told = with_a_past()
    came = rfc3339(told.now + MINUTE)
    told.work(40, problems=[OLD], version="2")
    assert f" All in version 2, which came {came}." in told.said[0].evidence


@pytest.mark.parametrize(
    ("changes", "kind"),
    [({"seconds": 40.0}, AlarmKind.SLOW), ({"usd": 0.2}, AlarmKind.SPEND), ({"problems": [OLD]}, AlarmKind.FAILING)],
)
def test_ten_times_slower_or_dearer_or_failing_is_told_within_a_dozen_sessions(
    changes: dict[str, object], kind: AlarmKind
) -> None:
    told = with_a_past()
    problems = changes.pop("problems", ())
    told.work(12, problems=problems, **changes)  # type: ignore[arg-type]
    assert told.began == [kind]


def test_a_session_that_keeps_failing_is_no_incident() -> None:
    told = with_a_past()
    told.work(200, problems=[OLD, TOOL], session_id="s-stuck")
    assert told.began == []


def test_what_is_usual_for_an_agent_is_no_alarm() -> None:
    told = Told(alarms()).work(2_000, 3 * MINUTE, problems=[OLD], share=0.15)
    assert told.began == []


def test_nothing_is_compared_on_the_first_day() -> None:
    told = Told(alarms()).work(300, problems=[OLD], share=0.01)
    assert told.work(60, problems=[OLD]).began == []


def test_an_objective_takes_the_place_of_the_past_at_once() -> None:
    told = Told(alarms(planner=ObjectiveConfig(failing=0.05, cost=0.1, owner="team-shop")))
    told.work(12, problems=[OLD])
    assert told.began == [AlarmKind.FAILING]
    assert told.said[0].owner == "team-shop"
    assert (
        told.said[0].evidence.startswith("63% of the last traces failed; 5.0% may.") or "may" in told.said[0].evidence
    )
    told = Told(alarms(planner=ObjectiveConfig(failing=0.4, cost=0.1)))
    assert told.work(60, problems=[OLD], share=0.3, usd=0.09).began == []
    assert told.work(12, usd=0.11).began == [AlarmKind.SPEND]


def test_consequences_of_an_alarm_are_not_told_until_it_has_ended() -> None:
    """A tool fails, so turns fail and take long."""
    told = with_a_past().work(60, problems=[TOOL, OLD], share=0.5, seconds=4.0)
    assert len(told.began) == 1
    told.work(60, problems=[TOOL, OLD], seconds=40.0)
    assert len(told.began) == 1
    # What has another cause is told.
    other = OLD._replace(problem_id="9" * 16, title="No answer", first_seen=told.now)
    told.work(2, problems=[other])
    assert told.began[1:] == [AlarmKind.PROBLEM]


def test_what_followed_from_a_problem_is_mended_with_it() -> None:
    """The failing turns are above the objective as well: nobody is told of these once the problem is resolved."""
    told = Told(alarms(planner=ObjectiveConfig(failing=0.05)))
    new = OLD._replace(first_seen=START)
    told.work(12, problems=[new])
    assert told.began == [AlarmKind.PROBLEM]
    told.marks = {new.problem_id: (False, True)}
    told.idle(10 * MINUTE)
    assert (told.began, told.firing) == ([AlarmKind.PROBLEM], [])
    # What comes afterwards counts anew.
    told.work(12, problems=[OLD._replace(problem_id="9" * 16)])
    assert told.began == [AlarmKind.PROBLEM, AlarmKind.FAILING]


def test_a_muted_problem_speaks_for_no_alarm() -> None:
    told = with_a_past().work(200, problems=[OLD._replace(is_muted=True)], share=0.5, seconds=40.0)
    # The traces without the problem are slow themselves.
    assert told.began == [AlarmKind.SLOW]
    told = with_a_past().work(200, problems=[OLD._replace(is_muted=True)], seconds=40.0, usd=2.0)
    assert told.began == []


def test_muting_the_problem_of_an_alarm_mutes_the_alarm() -> None:
    told = with_a_past().work(30, problems=[TOOL])
    told.marks = {TOOL.problem_id: (True, False)}
    told.look()
    assert told.said[-1].state is AlarmState.MUTED
    assert told.work(100, problems=[TOOL._replace(is_muted=True)]).firing == []


def test_staging_and_production_have_alarms_of_their_own() -> None:
    new = OLD._replace(first_seen=START)
    told = Told(alarms()).work(1, problems=[new]).work(1, problems=[new])
    told.work(1, problems=[new], watched=SHOP._replace(environment="staging"))
    assert [alarm.key.watched.environment for alarm in told.said] == ["prod", "staging"]


def test_a_known_problem_in_an_environment_that_is_watched_for_days_is_news_there() -> None:
    told = Told(alarms()).work(2_000)
    assert told.work(1, problems=[OLD]).began == [AlarmKind.PROBLEM]
    # At the first look of all it is not.
    assert Told(alarms()).work(1, problems=[OLD]).began == []


def test_a_problem_is_told_again_only_if_it_comes_back() -> None:
    new = OLD._replace(first_seen=START)
    told = Told(alarms()).work(1, problems=[new]).idle(2 * HOUR)
    assert [alarm.state for alarm in told.said] == ["firing", "ended"]
    told.work(3, problems=[new])
    assert len(told.said) == 2
    told.work(1, problems=[new._replace(regressed_at=told.now + MINUTE)])
    assert told.said[-1].evidence == "It came back."
    told.marks = {new.problem_id: (False, True)}
    told.look()
    assert told.firing == []


def test_loops_that_come_again_and_again_are_one_alarm_for_longer_and_longer() -> None:
    told = Told(alarms())
    for _ in range(40):
        told.work(1, problems=[LOOP]).idle(90 * MINUTE, 5 * MINUTE)
    assert 2 <= told.began.count(AlarmKind.LOOP) <= 3


def test_a_loop_is_told_before_its_trace_is_complete() -> None:
    told = Told(alarms())
    told.known.take((), [Occurrence(SHOP, "a" * 32, "s", START, LOOP)])
    told.look()
    assert told.began == [AlarmKind.LOOP]
    assert told.said[0].title == "planner: Goes round in a circle of calls"


def test_what_fails_in_the_trace_of_a_loop_is_part_of_the_loop() -> None:
    """A tool is called again and again and fails each time: the storm and the new problem are one incident."""
    told = Told(alarms())
    new = OLD._replace(first_seen=START)
    looping = facts(1, START + MINUTE, new)
    told.known.take((), [Occurrence(SHOP, looping.trace_id, "s", START, LOOP, is_known=False)])
    told.look()
    assert (told.began, told.said[-1].problem_id) == ([AlarmKind.LOOP], None)
    told.known.take([looping], ())
    told.look()
    assert told.began == [AlarmKind.LOOP]
    assert told.said[-1].problem_id == new.problem_id
    assert told.said[-1].evidence == f"The agent is still looping. Mostly: {new.title}."
    # Another problem elsewhere is no part of it.
    other = new._replace(problem_id="9" * 16, title="No answer")
    told.known.take([facts(2, START + 2 * MINUTE, other)], ())
    told.look()
    assert told.began == [AlarmKind.LOOP, AlarmKind.PROBLEM]


def weeks_of(told: Told, weeks: int, per_hour: int, *, days: int = 5) -> None:
    """Work from 8 to 18 o'clock on the first days of a week."""
    chance = random.Random(5)
    for hour in range(weeks * 7 * 24):
        is_work = 8 <= hour % 24 < 18 and hour // 24 % 7 < days
        for _ in range(15):
            told.now += 4 * MINUTE
            if is_work and chance.random() < per_hour / 15:
                told.number += 1
                told.known.take([facts(told.number, told.now)], ())
            told.look()


def test_a_silent_agent_is_told_and_nights_and_weekends_are_no_silence() -> None:
    told = Told(alarms())
    weeks_of(told, 4, per_hour=10)
    assert told.began == []
    told.idle(10 * HOUR)
    assert told.began == [AlarmKind.SILENT]
    # Two hours after it should have begun to work, at most: ten sessions an hour are few.
    assert told.said[0].since <= told.now
    told.work(1)
    assert told.firing == []


def test_hours_in_which_the_collector_was_away_are_no_silence() -> None:
    told = Told(alarms())
    weeks_of(told, 3, per_hour=10)
    # Two working days later it is there again.
    told.now += 2 * DAY + 10 * HOUR
    told.look()
    told.idle(5 * MINUTE)
    assert told.began == []


def restored(known: Alarms, **objectives: ObjectiveConfig) -> Alarms:
    """What the next process knows."""
    again = Alarms(Incidents(known.incidents.firing.values(), objectives), objectives, known.looked_until)
    again.restore([Learnt(row.watched, row.learnt, row.seen_at) for row in known.take_learnt()], set())
    return again


def test_what_was_learnt_and_what_fires_outlive_a_restart() -> None:
    told = with_a_past().work(10, problems=[TOOL], share=0.5)
    before = told.known._watches[SHOP]
    assert AgentWatch.restored(json.loads(json.dumps(before.as_json()))) == before
    told.known = restored(told.known)
    told.work(40, problems=[TOOL], share=0.5)
    assert told.began == [AlarmKind.TOOL_FAILING]
    told.known = restored(told.known)
    told.work(40, problems=[TOOL], share=0.5)
    assert told.firing == [AlarmKind.TOOL_FAILING]
    assert len(told.began) == 1


def test_a_worse_version_is_told_once() -> None:
    told = Told(alarms())
    for worse in ({("planner", "2")}, {("planner", "2")}, set(), {("planner", "2")}):
        told.known.compare_versions(told.now, worse)
        told.look()
    assert [alarm.state for alarm in told.said] == ["firing", "ended"]
    assert told.said[0].title == "planner: version 2 is worse than the one before it"


def test_a_flood_of_problems_and_of_tools_is_bounded() -> None:
    def problems() -> Iterable[TraceProblem]:
        for number in range(100):
            yield OLD._replace(problem_id=f"{number:016x}", first_seen=START)
            yield TOOL._replace(problem_id=f"f{number:015x}", tool=f"tool-{number}")

    told = Told(alarms())
    for problem in problems():
        told.work(1, MINUTE // 60, problems=[problem])
    assert len(told.firing) == MOST_FIRING_OF_AGENT
    assert told.known.incidents.refused == 100 - MOST_FIRING_OF_AGENT
    tools = [what for kind, what in told.known._watches[SHOP].rates if kind is AlarmKind.TOOL_FAILING]
    assert len(tools) == MOST_TOOLS


def test_after_a_week_what_an_alarm_tells_of_is_the_past() -> None:
    told = with_a_past().work(12, seconds=40.0)
    assert told.firing == [AlarmKind.SLOW]
    told.work(8 * 24 * 6, 10 * MINUTE, seconds=40.0)
    assert told.began == [AlarmKind.SLOW]
    assert told.firing == []


def test_a_tool_that_few_traces_call_is_told_by_those_that_call_it() -> None:
    """One trace in ten calls it; 30 % of its calls fail, which is 3 % of the traces."""
    told = Told(alarms())
    for _ in range(2_000):
        told.work(9, 2 * MINUTE, looks=False, tools=frozenset({"other"}))
        told.work(1, 2 * MINUTE, looks=False, tools=frozenset({"find"}))
    told.look()
    for number in range(60):
        told.work(9, MINUTE, tools=frozenset({"other"}))
        told.work(1, MINUTE, problems=[TOOL] if number % 10 in (0, 4, 7) else [], share=1.0, tools=frozenset({"find"}))
        if told.began:
            break
    assert told.began == [AlarmKind.TOOL_FAILING]


def test_a_new_tool_that_always_fails_is_told_and_one_that_rarely_fails_is_not() -> None:
    for share, began in ((1.0, [AlarmKind.TOOL_FAILING]), (0.03, [])):
        told = Told(alarms())
        told.work(1_500, 2 * MINUTE, tools=frozenset({"other"}))
        told.work(200, MINUTE, problems=[TOOL], share=share, tools=frozenset({"find"}))
        assert told.began == began
