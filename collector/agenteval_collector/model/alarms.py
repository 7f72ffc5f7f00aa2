"""Alarms: what goes wrong with an agent now, compared with its own past or with an objective."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple


class AlarmSeverity(StrEnum):
    """How urgent an alarm is, in the words of Prometheus' rules."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class AlarmKind(StrEnum):
    """The kinds of alarms, a row each: its name, how urgent it is, and its title.

    The order is that of causes: of two alarms of one incident, the first is told.
    """

    severity: AlarmSeverity
    heading: str

    def __new__(cls, name: str, severity: AlarmSeverity, heading: str) -> "AlarmKind":
        member = str.__new__(cls, name)
        member._value_, member.severity, member.heading = name, severity, heading
        return member

    LOOP = "loop", AlarmSeverity.WARNING, "{agent}: {what}"
    PROBLEM = "problem", AlarmSeverity.INFO, "{agent}: {what}"
    REGRESSION = "regression", AlarmSeverity.WARNING, "{agent}: version {what} is worse than the one before it"
    TOOL_FAILING = "tool_failing", AlarmSeverity.WARNING, "{agent}: tool {what} fails more often than usual"
    FAILING = "failing", AlarmSeverity.CRITICAL, "{agent} fails more often than usual"
    SLOW = "slow", AlarmSeverity.WARNING, "{agent} is slower than usual"
    SPEND = "spend", AlarmSeverity.WARNING, "{agent} costs more than usual"
    SILENT = "silent", AlarmSeverity.CRITICAL, "{agent} is silent"


ALARM_KINDS: Final[Mapping[str, AlarmKind]] = {str(kind): kind for kind in AlarmKind}
"""The kinds by their names."""


class AlarmState(StrEnum):
    """The state of an alarm."""

    FIRING = "firing"
    ENDED = "ended"
    MUTED = "muted"
    """Somebody muted its problem while it fired."""


class DeployedAgent(NamedTuple):
    """Whose traces are compared with each other; None: not named."""

    environment: str | None
    service: str | None
    agent: str | None

    @property
    def name(self) -> str:
        """The agent's name for people."""
        return self.agent or (f"An agent of {self.service}" if self.service else "An agent without a name")


class AlarmKey(NamedTuple):
    """Tells an alarm from others that fire at the same time. `what` is a tool, a problem's id or a version; empty if
    there is one alarm of the kind."""

    watched: DeployedAgent
    kind: AlarmKind
    what: str = ""

    def alarm_id(self, since: int) -> str:
        """Return the id of the alarm that began at that time (ns): 16 hexadecimal digits."""
        text = repr((*self.watched, str(self.kind), self.what, since))
        return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAlarm:
    """An alarm. Times are in nanoseconds since the Unix epoch; `until` is None while it fires. `examples` are trace
    ids, the first one and then the newest. `problem_id` is the problem that explains most of it."""

    alarm_id: str
    key: AlarmKey
    severity: AlarmSeverity
    owner: str | None
    state: AlarmState
    since: int
    until: int | None
    title: str
    evidence: str
    problem_id: str | None
    examples: Sequence[str]


class AlarmFilter(NamedTuple):
    """The filter of a listing. None means any. `since` (ns) selects alarms that fired from then on."""

    state: AlarmState | None = None
    agent: str | None = None
    environment: str | None = None
    since: int | None = None


EVERY_ALARM: Final = AlarmFilter()
"""The filter that every alarm passes."""
FIRING: Final = AlarmFilter(state=AlarmState.FIRING)
"""The filter for alarms that fire."""


class TraceProblem(NamedTuple):
    """A problem that a trace is an occurrence of. `is_muted` as of now."""

    problem_id: str
    kind: str
    tool: str | None
    severity: str
    title: str
    first_seen: int
    regressed_at: int | None
    is_muted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFacts:
    """What alarms need of a trace that was scored. `usd` is what its session has cost so far, `tools` are those that it
    called; None: not known."""

    watched: DeployedAgent
    trace_id: str
    session_id: str
    version: str | None
    scored_at: int
    seconds: float | None
    usd: float | None
    problems: Sequence[TraceProblem]
    tools: frozenset[str] | None = None
