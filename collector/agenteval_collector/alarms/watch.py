"""What is known of one agent: its rates, how long its turns take and what its sessions cost, and when it has work."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from agenteval_collector.alarms.rates import DAY, HALF_LIFE, HOUR, LEARNT_FROM, RateWatch
from agenteval_collector.alarms.silence import SilenceWatch
from agenteval_collector.config.objectives import ObjectiveConfig
from agenteval_collector.model.agents import quantile, step_of
from agenteval_collector.model.alarms import ALARM_KINDS, AlarmKind, TraceFacts
from otel_agenteval.finding import FindingKind, Severity

MOST_TOOLS: Final = 20
"""Tools of an agent whose failures are watched, those that failed first. They share the false alarms of one rate."""
MOST_CALLED: Final = 100
"""Tools of an agent whose calls are counted before one fails."""
LAST_VERSIONS: Final = 5
"""Versions of an agent that are remembered."""
MOST_PROBLEMS: Final = 500
"""Problems of an agent that are remembered as known."""
FAR: Final = 2.0
"""A trace is slow, and a session dear, from so many times what nine of ten took."""
NINE_OF_TEN: Final = 0.9
_FINER: Final = 1e4
"""What money is multiplied by on the scale of steps, which begins at a thousandth."""
BEYOND_OBJECTIVE: Final = 0.05
"""The share of traces that may be beyond an objective for latency or cost."""


_Counted = TypeVar("_Counted", int, str)


class Trial(NamedTuple):
    """One trial of a rate: whether it was hit. `what` is a tool, or empty."""

    kind: AlarmKind
    what: str
    is_hit: bool


@dataclass(slots=True)
class SeenSession:
    """What a session was already hit by on a day, so that it is not hit twice."""

    day: int
    hits: set[tuple[AlarmKind, str]] = field(default_factory=set)
    usd: int | None = None
    """The step of what it had cost."""


@dataclass(slots=True)
class AgentWatch:
    """What is known of an agent. Times are in nanoseconds since the Unix epoch.

    `seconds` counts traces, and `usd` sessions, by steps on a logarithmic scale. `slow_from` and `dear_from` follow
    from them. `called` counts the traces that called each tool which has not failed yet. `problems` has the time of
    the last occurrence of each known problem, `versions` that of the first trace of the last versions.
    """

    since: int
    hour: int
    silence: SilenceWatch
    objective: ObjectiveConfig | None = None
    seen_at: int = 0
    rates: dict[tuple[AlarmKind, str], RateWatch] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    usd: dict[int, float] = field(default_factory=dict)
    slow_from: float | None = None
    dear_from: float | None = None
    called: dict[str, float] = field(default_factory=dict)
    problems: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    @classmethod
    def begin(cls, now: int) -> "AgentWatch":
        """Begin to watch an agent of which nothing is known."""
        return cls(since=now, hour=now // HOUR, silence=SilenceWatch(now // HOUR, now))

    def allowed(self, kind: AlarmKind) -> float | None:
        """Return the rate that the objective allows; None without one."""
        objective = self.objective
        if objective is None:
            return None
        given = {AlarmKind.SLOW: objective.latency, AlarmKind.SPEND: objective.cost}
        if kind in given:
            return None if given[kind] is None else BEYOND_OBJECTIVE
        return objective.failing if kind is AlarmKind.FAILING else None

    @property
    def tools(self) -> list[str]:
        """The tools whose failures are watched."""
        return [tool for kind, tool in self.rates if kind is AlarmKind.TOOL_FAILING]

    def take(self, trace: TraceFacts, session: SeenSession) -> list[tuple[AlarmKind, str]]:
        """Count a trace, and return what it is the session's first hit of today."""
        self.seen_at = max(self.seen_at, trace.scored_at)
        if trace.version is not None and trace.version not in self.versions:
            self.versions[trace.version] = trace.scored_at
            for oldest in list(self.versions)[:-LAST_VERSIONS]:
                del self.versions[oldest]
        hits = []
        # A trace of a muted problem is no trial of anything.
        for trial in () if any(problem.is_muted for problem in trace.problems) else self._trials(trace):
            key = trial.kind, trial.what
            if key in session.hits:
                continue
            rate = self.rates.get(key) or self._begin_rate(key, trace.scored_at)
            rate.take(trial.is_hit, trace.scored_at, self.allowed(trial.kind))
            if trial.is_hit:
                session.hits.add(key)
                hits.append(key)
        self._measure(trace, session)
        self._count_calls(trace.tools or ())
        return hits

    def _count_calls(self, tools: Iterable[str]) -> None:
        """Count a trace for each tool that it called and that has not failed yet. Those called last are remembered."""
        for tool in tools:
            if (AlarmKind.TOOL_FAILING, tool) not in self.rates:
                self.called[tool] = self.called.pop(tool, 0.0) + 1.0
        for oldest in list(self.called)[: max(0, len(self.called) - MOST_CALLED)]:
            del self.called[oldest]

    def _trials(self, trace: TraceFacts) -> Iterator[Trial]:
        """Yield a row for each rate that this trace is a trial of."""
        yield Trial(AlarmKind.FAILING, "", any(problem.severity == Severity.ERROR for problem in trace.problems))
        failing = {problem.tool for problem in trace.problems if problem.kind == FindingKind.TOOL_FAILED}
        known = self.tools
        new = sorted(tool for tool in failing if tool and tool not in known)[: max(0, MOST_TOOLS - len(known))]
        for tool in (*known, *new):
            # A trace that did not call a tool says nothing of it.
            if trace.tools is None or tool in trace.tools or tool in failing:
                yield Trial(AlarmKind.TOOL_FAILING, tool, tool in failing)
        for kind, taken, bar in (
            (AlarmKind.SLOW, trace.seconds, self.slow_from),
            (AlarmKind.SPEND, trace.usd, self.dear_from),
        ):
            if taken is not None and bar is not None:
                yield Trial(kind, "", taken > bar)

    def _begin_rate(self, key: tuple[AlarmKind, str], at: int) -> RateWatch:
        """Begin a rate. A tool that fails for the first time has not failed in all traces before."""
        rate = self.rates[key] = RateWatch(since=at, last=at)
        past = self.rates.get((AlarmKind.FAILING, ""))
        if key[0] is AlarmKind.TOOL_FAILING and past is not None:
            rate.since, rate.last = past.since, past.last
            # Of a tool that is new, as much as is needed to compare it: it should not fail in most of its first calls.
            rate.trials = max(self.called.pop(key[1], 0.0), LEARNT_FROM) if self.called else past.trials
        return rate

    def _measure(self, trace: TraceFacts, session: SeenSession) -> None:
        """Count how long the trace took, and what its session has cost so far in place of what it had cost."""
        if trace.seconds is not None and not self._fires(AlarmKind.SLOW):
            step = step_of(trace.seconds)
            self.seconds[step] = self.seconds.get(step, 0.0) + 1.0
        if trace.usd is not None and not self._fires(AlarmKind.SPEND):
            step = step_of(trace.usd * _FINER)
            if session.usd is not None:
                self.usd[session.usd] = max(0.0, self.usd.get(session.usd, 0.0) - 1.0)
            self.usd[step] = self.usd.get(step, 0.0) + 1.0
            session.usd = step

    def _fires(self, kind: AlarmKind) -> bool:
        rate = self.rates.get((kind, ""))
        return rate is not None and rate.alarm_limit is not None

    def look(self, now: int) -> None:
        """Let the hours that are over be past."""
        self.silence.look(now)
        hours = now // HOUR - self.hour
        if hours <= 0:
            return
        self.hour += hours
        for rate in self.rates.values():
            rate.close_hour(hours)
        kept = 0.5 ** (hours / HALF_LIFE)
        self.called = _faded(self.called, kept)
        self.seconds, self.usd = _faded(self.seconds, kept), _faded(self.usd, kept)
        objective = self.objective or ObjectiveConfig()
        if not self._fires(AlarmKind.SLOW):
            self.slow_from = objective.latency or _far(self.seconds)
        if not self._fires(AlarmKind.SPEND):
            self.dear_from = objective.cost or _far(self.usd, _FINER)

    def set_objective(self, objective: ObjectiveConfig | None) -> None:
        """Compare with this from now on."""
        self.objective = objective
        if objective is not None:
            self.slow_from = objective.latency or self.slow_from
            self.dear_from = objective.cost or self.dear_from

    def know(self, problem_id: str, at: int) -> bool:
        """Note an occurrence of a problem. Return whether it was known before."""
        is_known = problem_id in self.problems
        self.problems[problem_id] = max(at, self.problems.pop(problem_id, 0))
        for oldest in list(self.problems)[: max(0, len(self.problems) - MOST_PROBLEMS)]:
            del self.problems[oldest]
        return is_known

    def as_json(self) -> dict[str, Any]:
        """Return all that is kept, as JSON."""
        plain = (*_KEPT, "seconds", "usd")
        rates = [[kind, what, rate.as_json()] for (kind, what), rate in self.rates.items()]
        return {**{name: getattr(self, name) for name in plain}, "rates": rates, "silence": self.silence.as_json()}

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> "AgentWatch":
        """Make a watch of what `as_json` gave."""
        rates = {(ALARM_KINDS[kind], what): RateWatch.restored(rate) for kind, what, rate in stored["rates"]}
        seconds, usd = ({int(step): n for step, n in stored[name].items()} for name in ("seconds", "usd"))
        return cls(
            **{name: stored[name] for name in _KEPT if name in stored},
            rates=rates,
            seconds=seconds,
            usd=usd,
            silence=SilenceWatch(**stored["silence"]),
        )


_KEPT: Final = ("since", "hour", "seen_at", "slow_from", "dear_from", "called", "problems", "versions")
"""What is JSON as it is."""


def day_of(time: int) -> int:
    """Return the day of a time, in days since the Unix epoch."""
    return time // DAY


def _faded(counts: Mapping[_Counted, float], kept: float) -> dict[_Counted, float]:
    return {step: count * kept for step, count in counts.items() if count * kept > 0.01}


def _far(counts: Mapping[int, float], finer: float = 1.0) -> float | None:
    """Return what is far more than usual; None where too little is known. Values were counted `finer` times larger."""
    if sum(counts.values()) < LEARNT_FROM:
        return None
    usual = quantile(counts, NINE_OF_TEN)
    return None if usual is None else FAR * usual / finer
