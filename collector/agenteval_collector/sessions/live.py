"""The sessions that are active now: how many of them are low, and which have become idle."""

import heapq
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

MAX_LIVE = 200_000
"""Above it the session that was quiet for longest counts as idle at once."""

SPARE_COUNTS = 1_000
"""Counts of zero that are kept at least; agents' names come from outside and may never come again."""

Key = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLevel:
    """How many sessions of one agent in one service are active, and how many of them score low by `evaluator`.

    `evaluator` None stands for all active sessions, scored or not.
    """

    agent: str | None
    service: str | None
    evaluator: str | None
    active: int
    low: int


@dataclass(slots=True)
class _Live:
    agent: str | None
    service: str | None
    scores: dict[str, bool]
    idle_at: float


class LiveSessions:
    """Counts kept by adding and subtracting, so that a scrape costs the same for ten sessions and for a million."""

    def __init__(self, idle: float) -> None:
        """`idle`: seconds without a trace after which a session is idle."""
        self._idle = idle
        # The one that was quiet for longest comes first; unlike a dict as fast there when many have left.
        self._sessions: OrderedDict[str, _Live] = OrderedDict()
        self._counts: dict[Key, tuple[int, int]] = {}
        self._counts_bound = SPARE_COUNTS
        self._deadlines: list[tuple[float, str]] = []

    def seen(
        self, session_id: str, *, agent: str | None, service: str | None, scores: dict[str, bool], now: float
    ) -> None:
        """The session goes on, quiet since `now` (monotonic) at the earliest; `scores` says by evaluator whether it is
        low."""
        known = self._sessions.pop(session_id, None)
        if known is not None:
            self._count(known, -1)
        idle_at = now + self._idle
        live = _Live(agent, service, scores, idle_at if known is None else max(idle_at, known.idle_at))
        self._sessions[session_id] = live
        self._count(live, +1)
        if known is None:
            heapq.heappush(self._deadlines, (live.idle_at, session_id))

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._sessions

    def forget(self, session_id: str) -> None:
        """The session is over, or is none."""
        live = self._sessions.pop(session_id, None)
        if live is not None:
            self._count(live, -1)

    def idle(self, now: float) -> list[str]:
        """The sessions that are idle at `now`; they are forgotten by that."""
        idle: list[str] = []
        while len(self._sessions) > MAX_LIVE:
            session_id = next(iter(self._sessions))
            self.forget(session_id)
            idle.append(session_id)
        while self._deadlines and self._deadlines[0][0] <= now:
            _, session_id = heapq.heappop(self._deadlines)
            live = self._sessions.get(session_id)
            if live is None:
                continue  # Forgotten meanwhile; this deadline was left behind.
            if live.idle_at > now:
                heapq.heappush(self._deadlines, (live.idle_at, session_id))
            else:
                self.forget(session_id)
                idle.append(session_id)
        return idle

    def session_levels(self) -> Iterable[SessionLevel]:
        """The counts as they are now; safe from any thread."""
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
        # A count of zero stays: a gauge that falls to zero must say so once more than one that vanishes.
        self._counts[key] = (before[0] + active, before[1] + low)
        if len(self._counts) > self._counts_bound:
            self._counts = {key: count for key, count in self._counts.items() if count[0]}
            self._counts_bound = 2 * len(self._counts) + SPARE_COUNTS
