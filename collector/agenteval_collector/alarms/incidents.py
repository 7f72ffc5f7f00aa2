"""The alarms that fire: one for each incident, from its begin to its end."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agenteval_collector.config.objectives import ObjectiveConfig
from agenteval_collector.model.alarms import AgentAlarm, AlarmKey, AlarmKind, AlarmState, DeployedAgent, TraceProblem

MOST_FIRING: Final = 200
"""The most alarms that fire at once. What goes beyond is counted, and raised once there is room."""
MOST_FIRING_OF_AGENT: Final = 10
"""The most alarms of one agent that fire at once."""
MOST_EXAMPLES: Final = 5
"""The most traces that an alarm names: its first one, and the newest."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A trace that speaks for an alarm: its id, its problems by id with their titles, and the agent's version."""

    trace_id: str
    problems: Mapping[str, str]
    version: str | None = None


class Incidents:
    """The alarms that fire, and those that changed since they were taken. It belongs to one thread.

    Two alarms of an agent are one incident if more than half of what speaks for the second has a problem that the first
    is about, or loops as the first one tells. Then the second is not raised.
    """

    def __init__(self, firing: Iterable[AgentAlarm], objectives: Mapping[str, ObjectiveConfig]) -> None:
        self.firing = {alarm.key: alarm for alarm in firing}
        self._objectives = objectives
        self._about: dict[AlarmKey, set[str]] = {
            key: {alarm.problem_id} if alarm.problem_id else set() for key, alarm in self.firing.items()
        }
        self._nameless = {key for key, alarm in self.firing.items() if _is_nameless(alarm)}
        """Loops whose problem is not known yet. Only these are looked through when a trace has a problem."""
        self._changed: dict[str, AgentAlarm] = {}
        self.refused = 0
        """Counts the alarms for which there was no room."""

    def begin(self, key: AlarmKey, since: int, what: str, evidence: str, hits: Sequence[Hit]) -> bool:
        """Raise an alarm, unless it is a consequence of one that fires. `what` stands in its title, `hits` are the
        newest last. Return whether it fires now."""
        if key in self.firing:
            return True
        if self.is_consequence(key, hits):
            return False
        of_agent = sum(one.watched == key.watched for one in self.firing)
        if len(self.firing) >= MOST_FIRING or of_agent >= MOST_FIRING_OF_AGENT:
            self.refused += 1
            return False
        main = _main_problem(hits)
        objective = self._objectives.get(key.watched.agent or "")
        alarm = AgentAlarm(
            alarm_id=key.alarm_id(since),
            key=key,
            severity=key.kind.severity,
            owner=None if objective is None else objective.owner,
            state=AlarmState.FIRING,
            since=since,
            until=None,
            title=key.kind.heading.format(agent=key.watched.name, what=what),
            # The title of an alarm about a problem says it already.
            evidence=evidence if main is None or main[0] == key.what else f"{evidence} Mostly: {main[1]}.",
            problem_id=None if main is None else main[0],
            examples=_examples([], hits),
        )
        self.firing[key] = self._changed[alarm.alarm_id] = alarm
        if _is_nameless(alarm):
            self._nameless.add(key)
        self._about[key] = {problem_id for hit in hits for problem_id in hit.problems}
        return True

    def is_consequence(self, key: AlarmKey, hits: Sequence[Hit]) -> bool:
        """Return whether an alarm of the agent that fires explains more than half of these traces."""
        explained: set[str] = set()
        looping: set[str] = set()
        for other, about in self._about.items():
            if other.watched == key.watched and other != key:
                explained |= about
                if other.kind is AlarmKind.LOOP:
                    looping.update(self.firing[other].examples)
        return 2 * sum(hit.trace_id in looping or not explained.isdisjoint(hit.problems) for hit in hits) > len(hits)

    def go_on(self, key: AlarmKey, hit: Hit) -> None:
        """Note one more trace of an alarm that fires."""
        if (alarm := self.firing.get(key)) is not None:
            self.firing[key] = replace(alarm, examples=_examples(alarm.examples, [hit]))

    def name_problem(self, watched: DeployedAgent, trace_id: str, problem: TraceProblem) -> None:
        """Let the alarm of a loop in this trace say what its problem is: a loop is told before that is known."""
        for key in [key for key in self._nameless if key.watched == watched]:
            alarm = self.firing[key]
            if trace_id in alarm.examples:
                more = "" if key.what == problem.problem_id else f" Mostly: {problem.title}."
                known = replace(alarm, problem_id=problem.problem_id, evidence=alarm.evidence + more)
                self.firing[key] = self._changed[alarm.alarm_id] = known
                self._about[key].add(problem.problem_id)
                self._nameless.discard(key)

    def end(self, key: AlarmKey, at: int, state: AlarmState = AlarmState.ENDED) -> None:
        """End an alarm."""
        if (alarm := self.firing.pop(key, None)) is not None:
            self._about.pop(key)
            self._nameless.discard(key)
            self._changed[alarm.alarm_id] = replace(alarm, state=state, until=at)

    def take_changed(self) -> list[AgentAlarm]:
        """Return the alarms that changed since the last call."""
        changed, self._changed = [*self._changed.values()], {}
        return changed

    def put_back(self, alarms: Iterable[AgentAlarm]) -> None:
        """Take back changes that could not be kept."""
        self._changed = {alarm.alarm_id: alarm for alarm in alarms} | self._changed


def _is_nameless(alarm: AgentAlarm) -> bool:
    return alarm.key.kind is AlarmKind.LOOP and alarm.problem_id is None


def _main_problem(hits: Sequence[Hit]) -> tuple[str, str] | None:
    """Return the id and the title of the problem of at least half of the traces; None without one."""
    counts = Counter(item for hit in hits for item in hit.problems.items())
    most = counts.most_common(1)
    return most[0][0] if most and 2 * most[0][1] >= len(hits) else None


def _examples(before: Sequence[str], hits: Sequence[Hit]) -> list[str]:
    named = list(dict.fromkeys((*before, *(hit.trace_id for hit in hits))))
    return named if len(named) <= MOST_EXAMPLES else [named[0], *named[1 - MOST_EXAMPLES :]]
