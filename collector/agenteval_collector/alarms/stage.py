"""The stage that decides on alarms, on its own thread."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from agenteval_collector.alarms.incidents import Hit, Incidents
from agenteval_collector.alarms.rates import DAY, FALSE_ALARMS, HOUR, NEW_NORMAL, RateWatch
from agenteval_collector.alarms.watch import AgentWatch, SeenSession, day_of
from agenteval_collector.config.objectives import ObjectiveConfig
from agenteval_collector.figures.regressions import Regressions
from agenteval_collector.model.alarms import AlarmKey, AlarmKind, AlarmState, DeployedAgent, TraceFacts, TraceProblem
from agenteval_collector.model.problem import NEW_FOR, QUIET_FOR
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Poller
from agenteval_collector.runtime.errors import Outdated
from agenteval_collector.runtime.times import rfc3339
from agenteval_collector.stores.alarms import AlarmStore, Learnt, Occurrence
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import Severity
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.metrics.regression import LEVEL

EVERY: Final = 3.0
"""Seconds between two looks."""
BEHIND: Final = 2_000_000_000
"""Nanoseconds that a look stays behind the present: what was scored later may not be in the store yet."""
MOST_TRACES: Final = 2_000
"""Traces of one look. The next look goes on at once if there are more."""
MOST_NEW: Final = 200
"""New problems of one look. Those that occur again are seen by their traces, too."""
MOST_SESSIONS: Final = 50_000
"""Sessions of which is known what hit them today. Of others a second hit counts, too."""
MOST_HITS: Final = 5_000
"""Rates of which the last hits are known."""
LAST_HITS: Final = 8
"""Hits of a rate that say what it is about."""
NEWEST_HITS: Final = 4
"""Hits that say which version brought an alarm."""
SAVED_EVERY: Final = 60.0
"""Seconds between two writes of what was learnt, if no alarm changes. What a crash loses is read again."""
SLOWLY_EVERY: Final = 30.0
"""Seconds between two looks at new problems and at versions."""
LATE: Final = 15 * 60 * 1_000_000_000
"""Nanoseconds by which a problem may be stored later than it occurred."""
QUIET: Final = HOUR
"""Nanoseconds without an occurrence after which the alarm of a loop or a problem ends. It doubles with each alarm of
the same that follows within a day, up to a day."""


class AlarmStage(Poller):
    """Looks at the traces that were scored since the last look, and raises and ends alarms.

    Only the process that `is_on_duty` does this. What it knows is in the store, so another process can go on.
    """

    def __init__(
        self,
        store: AlarmStore,
        clock: Clock,
        *,
        objectives: Mapping[str, ObjectiveConfig],
        regressions: Regressions,
        is_on_duty: Callable[[], bool],
    ) -> None:
        super().__init__("alarms", EVERY)
        self._store = store
        self._clock = clock
        self._objectives = objectives
        self._regressions = regressions
        self._is_on_duty = is_on_duty
        self._known: Alarms | None = None

    def step(self) -> None:
        if not self._is_on_duty():
            self._known = None
            return
        if self._known is None:
            self._known = self.insist(self._load)
        try:
            while not self.stopping and self._look(self._known):
                pass
        except Outdated:
            # It is taken up again from the store, which has nothing of what was deleted. The traces since then count
            # again.
            self._known = None

    def _load(self) -> "Alarms":
        """Take up what the last process left. Before the first look of all, nothing that was scored counts."""
        erased, progress = self._store.erased(), self._store.progress()
        incidents = Incidents(self._store.firing(), self._objectives)
        known = Alarms(incidents, self._objectives, self._clock.now() if progress is None else progress)
        known.erased = erased
        known.restore(self._store.learnt(), self._store.seen_regressions())
        return known

    def _look(self, known: "Alarms") -> bool:
        """Look once. Return whether there is more to look at."""
        now = self._clock.now()
        until = now - BEHIND
        # After the clock was set back, what is scored from now on counts.
        after = known.looked_until if known.looked_until <= now else until
        traces: Sequence[TraceFacts] = ()
        if until > after:
            traces = self.insist(self._store.scored, after, until, MOST_TRACES)
            is_full = len(traces) == MOST_TRACES
            if is_full:
                # Those of the last moment may go on in the next look, unless all are of one moment.
                until = traces[-1].scored_at
                before = [trace for trace in traces if trace.scored_at < until]
                traces, until = (before, until - 1) if before else (traces, until)
            occurrences = [*self.insist(self._store.loops, after, until, MOST_TRACES)]
        else:
            is_full, occurrences = False, []
        if is_slow := self._clock.monotonic() >= known.next_slow_look:
            known.next_slow_look = self._clock.monotonic() + SLOWLY_EVERY
            occurrences += self.insist(self._store.new_problems, now - LATE, MOST_NEW)
        known.take(traces, occurrences)
        known.looked_until = max(after, until)
        marks = self.insist(self._store.marks, known.problem_ids)
        known.decide(now, marks)
        if is_slow:
            known.compare_versions(now, self._regression_pairs())
        self._save(known)
        return is_full

    def _regression_pairs(self) -> set[tuple[str, str]]:
        """Return the agents and versions that are worse than the version before them."""
        figures = self.insist(self._regressions.figures)
        return {(figure.agent, figure.version) for figure in figures if figure.evidence >= 1 / LEVEL}

    def _save(self, known: "Alarms") -> None:
        changed = known.incidents.take_changed()
        if not changed and self._clock.monotonic() < known.next_save:
            return
        known.next_save = self._clock.monotonic() + SAVED_EVERY
        self.insist(self._store.write, changed, known.take_learnt(), known.looked_until, known.erased)
        self.insist(self._store.trim)


class Alarms:
    """All that the stage knows. It belongs to the stage's thread, reads no store and no clock."""

    def __init__(self, incidents: Incidents, objectives: Mapping[str, ObjectiveConfig], looked_until: int) -> None:
        self.incidents = incidents
        self.looked_until = looked_until
        """The time (ns) until which scored traces were looked at."""
        self.next_save = self.next_slow_look = float("-inf")
        self.erased = ""
        """The mark of what deletions had removed when this was loaded. Another mark means: load again."""
        self._objectives = objectives
        self._watches: dict[DeployedAgent, AgentWatch] = {}
        self._touched: set[DeployedAgent] = set()
        self._sessions: LruMap[str, SeenSession] = LruMap(MOST_SESSIONS)
        self._hits: LruMap[AlarmKey, deque[Hit]] = LruMap(MOST_HITS)
        self._last: dict[AlarmKey, int] = {}
        """The last occurrence of each problem and loop whose alarm fires."""
        self._quiet: LruMap[AlarmKey, tuple[int, int]] = LruMap(MOST_HITS)
        """How long a problem or loop must be quiet, and when its last alarm ended."""
        self._seen_regressions: set[tuple[str | None, str]] = set()

    def restore(self, learnt: Sequence[Learnt], regressions: set[tuple[str | None, str]]) -> None:
        """Take up what the last process knew."""
        for row in learnt:
            self._add(row.watched, AgentWatch.restored(json.loads(row.learnt)))
        self._seen_regressions = regressions
        self._last = {key: max(alarm.since, self.looked_until) for key, alarm in self.incidents.firing.items()}

    def take_learnt(self) -> list[Learnt]:
        """Return what was learnt since the last call."""
        touched, self._touched = self._touched, set()
        return [
            Learnt(watched, json.dumps(watch.as_json()), watch.seen_at)
            for watched in touched
            if (watch := self._watches.get(watched)) is not None
        ]

    @property
    def problem_ids(self) -> set[str]:
        """The problems that alarms are about which fire."""
        return {alarm.problem_id for alarm in self.incidents.firing.values() if alarm.problem_id is not None}

    def take(self, traces: Sequence[TraceFacts], occurrences: Sequence[Occurrence]) -> None:
        """Count these traces, and the occurrences of problems that are no part of them.

        Loops come first: what fails in the trace of a loop is part of it.
        """
        self._occurred(found for found in occurrences if found.problem.kind in LOOP_KINDS)
        for trace in traces:
            watch = self._watch(trace.watched, trace.scored_at)
            watch.silence.arrive(trace.session_id not in self._sessions)
            self.incidents.end(AlarmKey(trace.watched, AlarmKind.SILENT), trace.scored_at)
            titles = {problem.problem_id: problem.title for problem in trace.problems}
            hit = Hit(trace.trace_id, titles, trace.version)
            for kind, what in watch.take(trace, self._session(trace.session_id, day_of(trace.scored_at))):
                key = AlarmKey(trace.watched, kind, what)
                self._hits.get_or_make(key, lambda: deque(maxlen=LAST_HITS)).append(hit)
                self.incidents.go_on(key, hit)
            for problem in trace.problems:
                self.incidents.name_problem(trace.watched, trace.trace_id, problem)
                self._occur(trace.watched, problem, hit, trace.scored_at)
        self._occurred(found for found in occurrences if found.problem.kind not in LOOP_KINDS)

    def _occurred(self, occurrences: Iterable[Occurrence]) -> None:
        for found in occurrences:
            hit = Hit(found.trace_id, {found.problem.problem_id: found.problem.title} if found.is_known else {})
            self._watch(found.watched, found.found_at)
            self._occur(found.watched, found.problem, hit, found.found_at)

    def _occur(self, watched: DeployedAgent, problem: TraceProblem, hit: Hit, at: int) -> None:
        """Raise the alarm of a loop, or of a problem that is new or came back, or let it go on."""
        if problem.is_muted or problem.severity != Severity.ERROR:
            return
        kind = AlarmKind.LOOP if problem.kind in LOOP_KINDS else AlarmKind.PROBLEM
        key = AlarmKey(watched, kind, problem.problem_id)
        watch = self._watches[watched]
        before = watch.problems.get(problem.problem_id)
        watch.know(problem.problem_id, at)
        if key in self.incidents.firing:
            self._last[key] = max(at, self._last.get(key, 0))
            self.incidents.go_on(key, hit)
        elif kind is AlarmKind.LOOP or _is_news(watch, problem, before, at):
            since = max(problem.first_seen, problem.regressed_at or 0) if kind is AlarmKind.PROBLEM else at
            again = "came back" if problem.regressed_at is not None else "is new"
            evidence = "The agent is still looping." if kind is AlarmKind.LOOP else f"It {again}."
            if self.incidents.begin(key, since, problem.title, evidence, [hit]):
                self._last[key] = at
            else:
                # It was a consequence, or there was no room: its next occurrence is looked at like the first.
                del watch.problems[problem.problem_id]

    def decide(self, now: int, marks: Mapping[str, tuple[bool, bool]]) -> None:
        """Raise and end alarms as of `now` (ns). `marks` says of problems whether they are muted, and resolved."""
        for key, alarm in list(self.incidents.firing.items()):
            is_muted, is_resolved = marks.get(alarm.problem_id or "", (False, False))
            if is_muted:
                self._end(key, now, AlarmState.MUTED)
            elif key.kind in (AlarmKind.LOOP, AlarmKind.PROBLEM) and (is_resolved or self._is_quiet(key, now)):
                if is_resolved:
                    self._take_for_mended(key.watched)
                self._end(key, now)
        for watched, watch in self._watches.items():
            watch.look(now)
            for (kind, what), rate in watch.rates.items():
                self._decide_rate(AlarmKey(watched, kind, what), watch, rate, now)
            self._decide_silence(AlarmKey(watched, AlarmKind.SILENT), watch, now)

    def _decide_rate(self, key: AlarmKey, watch: AgentWatch, rate: RateWatch, now: int) -> None:
        if rate.alarm_limit is None:
            # The tools share the false alarms of one rate.
            sharing = len(watch.tools) if key.kind is AlarmKind.TOOL_FAILING else 1
            threshold = sharing / FALSE_ALARMS
            limit = rate.limit(now, watch.allowed(key.kind))
            if limit is None or rate.evidence < threshold:
                return
            rate.begin_alarm(now, limit)
        elif rate.is_over(now):
            rate.end_alarm()
            self._end(key, now)
            return
        # An alarm that another one explains may have to be raised later, when the other one has ended.
        if key not in self.incidents.firing and rate.is_high:
            hits = [*(self._hits.get(key) or ())]
            self.incidents.begin(key, rate.alarm_since, key.what, _evidence(key.kind, watch, rate, hits), hits)
            self._touched.add(key.watched)

    def _decide_silence(self, key: AlarmKey, watch: AgentWatch, now: int) -> None:
        silence = watch.silence
        if key in self.incidents.firing or silence.missed <= silence.bar:
            return
        silence.is_alarm = True
        evidence = (
            f"No trace since {rfc3339(watch.seen_at)}. In its weeks before, at least {silence.missed:.0f} sessions "
            "came in these hours."
        )
        self.incidents.begin(key, now, "", evidence, ())
        self._touched.add(key.watched)

    def compare_versions(self, now: int, worse: set[tuple[str, str]]) -> None:
        """Raise an alarm for each version that is worse than the one before it, once, until that is over."""
        for agent, version in worse - self._seen_regressions:
            key = AlarmKey(DeployedAgent(None, None, agent), AlarmKind.REGRESSION, version)
            evidence = "`agenteval reliability` and the page of the agent compare both versions."
            if self.incidents.begin(key, now, version, evidence, ()):
                self._seen_regressions.add((agent, version))
        for key, alarm in list(self.incidents.firing.items()):
            is_worse = (key.watched.agent, key.what) in worse
            if key.kind is AlarmKind.REGRESSION and (not is_worse or now - alarm.since >= NEW_NORMAL):
                self._end(key, now)

    def _end(self, key: AlarmKey, now: int, state: AlarmState = AlarmState.ENDED) -> None:
        self.incidents.end(key, now, state)
        self._last.pop(key, None)
        quiet, _ = self._quiet.get(key) or (QUIET, 0)
        self._quiet.put(key, (quiet, now))
        watch = self._watches.get(key.watched)
        rate = None if watch is None else watch.rates.get((key.kind, key.what))
        if rate is not None:
            rate.end_alarm()
        self._touched.add(key.watched)

    def _take_for_mended(self, watched: DeployedAgent) -> None:
        """Begin anew with the rates that have risen for what an alarm tells, and that somebody has mended with it."""
        watch = self._watches.get(watched)
        for (kind, what), rate in () if watch is None else watch.rates.items():
            key = AlarmKey(watched, kind, what)
            if key not in self.incidents.firing and self.incidents.is_consequence(key, [*(self._hits.get(key) or ())]):
                rate.end_alarm()

    def _is_quiet(self, key: AlarmKey, now: int) -> bool:
        """Return whether the alarm of a loop or a problem is over."""
        alarm = self.incidents.firing[key]
        quiet, ended = self._quiet.get(key) or (QUIET, 0)
        if ended and alarm.since > ended and alarm.since - ended < DAY:
            quiet = min(2 * quiet, DAY)
            self._quiet.put(key, (quiet, 0))
        is_old = key.kind is AlarmKind.PROBLEM and now - alarm.since >= NEW_FOR
        return is_old or now - self._last.get(key, alarm.since) >= quiet

    def _watch(self, watched: DeployedAgent, at: int) -> AgentWatch:
        self._touched.add(watched)
        return self._watches.get(watched) or self._add(watched, AgentWatch.begin(at))

    def _add(self, watched: DeployedAgent, watch: AgentWatch) -> AgentWatch:
        watch.set_objective(self._objectives.get(watched.agent or ""))
        self._watches[watched] = watch
        return watch

    def _session(self, session_id: str, day: int) -> SeenSession:
        session = self._sessions.get(session_id) or SeenSession(day)
        if session.day != day:
            session = SeenSession(day, usd=session.usd)
        self._sessions.put(session_id, session)
        return session


def _is_news(watch: AgentWatch, problem: TraceProblem, before: int | None, at: int) -> bool:
    """Return whether a problem is new to the agent in its environment, or came back. `before` is its last occurrence
    there."""
    if before is not None:
        came_back = problem.regressed_at is not None and problem.regressed_at > before
        return came_back or at - before > QUIET_FOR
    newest = max(problem.first_seen, problem.regressed_at or 0)
    # At the first look of all, only what began lately is new; later, whatever was not there before.
    return at - newest < NEW_FOR or at - watch.since > DAY


def _evidence(kind: AlarmKind, watch: AgentWatch, rate: RateWatch, hits: Sequence[Hit]) -> str:
    """Return what a rate shows, and the version that is new if all hits are of it."""
    what = {
        AlarmKind.SLOW: f" took more than {watch.slow_from or 0:.3g} s",
        AlarmKind.SPEND: f" were of a session that cost more than ${watch.dear_from or 0:.3g}",
    }.get(kind, " failed")
    allowed = watch.allowed(kind)
    past = f"usually {rate.usual:.1%} do" if allowed is None else f"{allowed:.1%} may"
    shown = f"{rate.recent:.0%} of the last traces{what}; {past}."
    # Only the newest hits: an alarm takes few, and those before it are of the past.
    versions = {hit.version for hit in hits[-NEWEST_HITS:]}
    newest = next(reversed(watch.versions), None)
    if len(watch.versions) > 1 and versions == {newest} and newest is not None:
        shown += f" All in version {newest}, which came {rfc3339(watch.versions[newest])}."
    return shown
