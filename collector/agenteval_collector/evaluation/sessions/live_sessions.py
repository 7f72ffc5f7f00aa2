"""The active sessions: counts of those that score low, and the sessions that become idle or end.

Spans may still be on the way when a session is reported ended.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from agenteval_collector.model.sessions import SessionLevel
from otel_agenteval.internal.lru import LruMap

MAX_LIVE = 200_000
"""The most active sessions. Above that the session that was quiet for longest counts as idle at once."""

SPARE_COUNTS = 1_000
"""Counts of zero that are kept. More are dropped, because agents' names come from outside and may never return."""

Key = tuple[str | None, str | None, str | None]


@dataclass(slots=True)
class _Live:
    agent: str | None
    service: str | None
    scores: dict[str, bool]
    idle_at: float


class LiveSessions:
    """Counts active sessions.

    The counts are kept up to date by adding and subtracting. So a scrape takes as long for ten sessions as for a
    million.
    """

    def __init__(self, idle: float) -> None:
        """Start without sessions. A session becomes idle after `idle` seconds without a trace."""
        self._idle = idle
        # The session that was quiet for longest comes first. A plain dict gets slow at its front when many have left.
        self._sessions: OrderedDict[str, _Live] = OrderedDict()
        self._counts: dict[Key, tuple[int, int]] = {}
        self._counts_bound = SPARE_COUNTS
        # A heap with one deadline for each session. It is not moved when a trace comes, but checked when it is due.
        self._deadlines: list[tuple[float, str]] = []

    def touch(
        self, session_id: str, *, agent: str | None, service: str | None, scores: dict[str, bool], now: float
    ) -> None:
        """Note that the session goes on. It is quiet since the monotonic time `now`, or since a later one known before.

        `scores` says for each evaluator whether the session scores low.
        """
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._count(session, -1)
        idle_at = now + self._idle
        live = _Live(agent, service, scores, idle_at if session is None else max(idle_at, session.idle_at))
        self._sessions[session_id] = live
        self._count(live, +1)
        if session is None:
            heapq.heappush(self._deadlines, (live.idle_at, session_id))

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._sessions

    def forget(self, session_id: str) -> None:
        """Remove a session that is over, or that has no traces after all."""
        live = self._sessions.pop(session_id, None)
        if live is not None:
            self._count(live, -1)

    def keep_only(self, is_kept: Callable[[str], bool]) -> None:
        """Remove all sessions but those for which `is_kept` returns true."""
        for session_id in [session for session in self._sessions if not is_kept(session)]:
            self.forget(session_id)

    def idle(self, now: float) -> list[str]:
        """Remove and return the sessions that are idle at `now`."""
        idle: list[str] = []
        while len(self._sessions) > MAX_LIVE:
            session_id = next(iter(self._sessions))
            self.forget(session_id)
            idle.append(session_id)
        while self._deadlines and self._deadlines[0][0] <= now:
            _, session_id = heapq.heappop(self._deadlines)
            live = self._sessions.get(session_id)
            if live is None:
                continue  # The session was forgotten meanwhile, but its deadline was left in the heap.
            if live.idle_at > now:
                heapq.heappush(self._deadlines, (live.idle_at, session_id))
            else:
                self.forget(session_id)
                idle.append(session_id)
        return idle

    def session_levels(self) -> Iterable[SessionLevel]:
        """Return the counts. Safe from any thread."""
        # A copy in one step, as the evaluation changes the counts meanwhile.
        return [
            SessionLevel(agent=agent, service=service, evaluator=evaluator, active=active, low=low)
            for (agent, service, evaluator), (active, low) in list(self._counts.items())
        ]

    def _count(self, live: _Live, sign: int) -> None:
        self._add((live.agent, live.service, None), sign, 0)
        for evaluator, low in live.scores.items():
            self._add((live.agent, live.service, evaluator), sign, sign * low)

    def _add(self, key: Key, active: int, low: int) -> None:
        before = self._counts.get(key, (0, 0))
        # A count of zero stays: a gauge that falls to zero has to be reported as zero, not left out.
        self._counts[key] = (before[0] + active, before[1] + low)
        if len(self._counts) > self._counts_bound:
            self._counts = {key: count for key, count in self._counts.items() if count[0]}
            self._counts_bound = 2 * len(self._counts) + SPARE_COUNTS


MAX_ENDINGS: Final = 10_000
"""The most sessions that wait for their end. Above that the session that was reported first is over at once."""


class Endings:
    """Sessions that were reported ended. Each ends `hold` seconds after the report. Not thread-safe.

    Traces that come meanwhile are from before the report.
    """

    def __init__(self, hold: float) -> None:
        self._hold = hold
        self._over_at: dict[str, float] = {}  # In order of time, as all wait equally long.
        # Until when a trace of a sender ends a session, by both; in order of time.
        self._awaited: LruMap[tuple[str, str], float] = LruMap(MAX_ENDINGS)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._over_at

    def note_end(self, session_id: str, now: float) -> None:
        """Note that the session was reported ended at `now` (monotonic)."""
        self._over_at.pop(session_id, None)
        self._over_at[session_id] = now + self._hold

    def await_trace(self, session_id: str, sender: str, now: float) -> None:
        """Note that a trace of this sender which comes within `hold` ends the session."""
        self._awaited.put((session_id, sender), now + self._hold)

    def is_awaited(self, session_id: str, senders: Iterable[str], now: float) -> bool:
        """Return whether a trace of one of these senders ends the session now. Asked once, it is forgotten."""
        until = [self._awaited.pop((session_id, sender)) or 0.0 for sender in senders]
        return max(until, default=0.0) > now

    def forget(self, session_id: str) -> None:
        """Forget that the session was reported ended."""
        self._over_at.pop(session_id, None)

    def over(self, now: float) -> list[str]:
        """Remove and return the sessions that have ended by `now` (monotonic)."""
        session_ids: list[str] = []
        for session_id, over_at in self._over_at.items():
            if over_at > now and len(self._over_at) - len(session_ids) <= MAX_ENDINGS:
                break
            session_ids.append(session_id)
        for session_id in session_ids:
            del self._over_at[session_id]
        return session_ids
