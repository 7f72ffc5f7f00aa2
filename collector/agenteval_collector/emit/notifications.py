"""Notifications: alarms that begin and end, and a daily digest of problems, sent to where people are."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from agenteval_collector.config.notify import NotifyConfig
from agenteval_collector.emit.ports import Courier
from agenteval_collector.model.alarms import AgentAlarm, AlarmSeverity, AlarmState
from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.problem import EVERY_PROBLEM, Problem, ProblemState
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.component import Poller
from agenteval_collector.stores.store import Store
from otel_agenteval.internal.text import cut

EVERY: Final = 10.0
"""Seconds between two looks. What begins or ends between them is one message."""
DAY: Final = 24 * 3600 * 1_000_000_000
"""Nanoseconds. What began or ended longer ago is not sent any more."""
MOST_WAITING: Final = 100
"""Messages that wait for a place that does not answer. Beyond that the oldest is dropped and counted."""
MOST_LISTED: Final = 20
"""Alarms of one message that are told in full."""
MOST_IN_DIGEST: Final = 5
"""Problems of each part of a digest."""
MOST_PROBLEMS: Final = 500
"""Problems that a digest looks at, the open and worst ones first."""
MOST_CHARACTERS: Final = 400
"""The most characters of a text from telemetry."""
FIRST_WAIT, LONGEST_WAIT = 10.0, 600.0
"""Seconds until a message is tried again: they double with each try."""
_NAME: Final = "notifications"
_HARMLESS: Final = str.maketrans({"<": "‹", ">": "›", "@": "＠", "`": "'", "*": "∗", "\n": " ", "\r": " "})
"""What chats take for markup or for a call to everybody. Titles and evidence hold words from telemetry."""
_LINK: Final = re.compile(r"(://|\bwww\.)", re.IGNORECASE)
"""What chats and mail programs make a link of. The only links in a message are ours."""
_RANKS: Final = [*AlarmSeverity]


@dataclass(slots=True)
class _NotifiedPlace:
    """Messages that wait for one place, the oldest first, and when the next may be tried (monotonic seconds)."""

    courier: Courier
    waiting: deque[tuple[str, str]] = field(default_factory=deque)
    wait: float = FIRST_WAIT
    next_try: float = 0.0


class Notifier(Poller):
    """Sends the alarms that began or ended since the last look as one message, to each place once.

    What was sent is in the store, so a restart repeats nothing, and only the process that `is_on_duty` sends. An alarm
    that was muted is not told of any more.
    """

    def __init__(
        self,
        store: Store,
        couriers: Iterable[Courier],
        clock: Clock,
        telemetry: Telemetry,
        *,
        config: NotifyConfig,
        tenant: str,
        is_on_duty: Callable[[], bool],
    ) -> None:
        """`tenant` stands in the titles; empty for the default one."""
        super().__init__(_NAME, EVERY)
        self._store = store
        self._destinations = [_NotifiedPlace(courier) for courier in couriers]
        self._clock = clock
        self._telemetry = telemetry
        self._config = config
        self._of_tenant = f" (tenant {tenant})" if tenant else ""
        self._is_on_duty = is_on_duty

    @property
    def waiting(self) -> int:
        """The number of messages that wait for a place that does not answer."""
        return sum(len(destination.waiting) for destination in self._destinations)

    def step(self) -> None:
        if not self._is_on_duty():
            return
        now = self._clock.now()
        changed = self.insist(self._store.alarms.unannounced, now - DAY)
        told = [alarm for alarm, notice in changed if self._is_told(alarm, notice)]
        if told:
            self._put(alarms_title(told), alarms_text(told, self._config.page))
        digest = self._is_digest_due(now)
        if digest and (text := digest_text(self._problems(now), now, self._config.page)) is not None:
            self._put("Problems of the last day", text)
        for destination in self._destinations:
            self._deliver(destination)
        # After the first try: a crash before this repeats a message, and loses none.
        self.insist(self._store.alarms.announce, [alarm for alarm, _ in changed], now if digest else None)

    def _is_told(self, alarm: AgentAlarm, notice: str) -> bool:
        is_grave = _RANKS.index(alarm.severity) <= _RANKS.index(AlarmSeverity(self._config.severity))
        is_news = alarm.state is not AlarmState.MUTED and notice != alarm.state
        # An alarm that ended before it could be told is told as ended.
        return is_grave and is_news

    def _is_digest_due(self, now: int) -> bool:
        """Return whether the hour of the digest has come since the last digest. Before the first one, wait for it."""
        if self._config.digest is None:
            return False
        last = self.insist(self._store.alarms.digested_at)
        if last is None:
            self.insist(self._store.alarms.announce, [], now)
            return False
        due = (now // DAY) * DAY + self._config.digest * DAY // 24
        return last < due <= now

    def _problems(self, now: int) -> Sequence[Problem]:
        with self._store.snapshot() as snapshot:
            return snapshot.problems(EVERY_PROBLEM, now=now, limit=MOST_PROBLEMS, cursor=None).items

    def _put(self, title: str, text: str) -> None:
        for destination in self._destinations:
            if len(destination.waiting) >= MOST_WAITING:
                destination.waiting.popleft()
                self._telemetry.count(Counted.DROPPED, which=_NAME)
            destination.waiting.append((title + self._of_tenant, text))

    def _deliver(self, destination: _NotifiedPlace) -> None:
        """Send what waits, until the place refuses or does not answer."""
        while destination.waiting and not self.stopping and self._clock.monotonic() >= destination.next_try:
            if not destination.courier.send(*destination.waiting[0]):
                self._telemetry.count(Counted.NOT_SENT)
                destination.next_try = self._clock.monotonic() + destination.wait
                destination.wait = min(2 * destination.wait, LONGEST_WAIT)
                return
            destination.waiting.popleft()
            destination.wait = FIRST_WAIT


def alarms_title(alarms: Sequence[AgentAlarm]) -> str:
    """Return the title of a message about these alarms."""
    if len(alarms) == 1:
        return f"{alarms[0].state.capitalize()}: {_harmless(alarms[0].title)}"
    firing = sum(alarm.state is AlarmState.FIRING for alarm in alarms)
    parts = [f"{firing} firing"] if firing else []
    parts += [f"{len(alarms) - firing} ended"] if firing < len(alarms) else []
    return f"{len(alarms)} alarms: {', '.join(parts)}"


def alarms_text(alarms: Sequence[AgentAlarm], page: str | None) -> str:
    """Return what a message says of these alarms."""
    texts = ["\n".join(_lines_of(alarm, page)) for alarm in alarms[:MOST_LISTED]]
    if more := len(alarms) - len(texts):
        texts.append(f"And {more} more: agenteval alarms")
    return "\n\n".join(texts)


def _lines_of(alarm: AgentAlarm, page: str | None) -> Iterable[str]:
    yield f"{alarm.state.capitalize()} [{alarm.severity}] {_harmless(alarm.title)}"
    yield _harmless(alarm.evidence)
    watched = alarm.key.watched
    where = {"Service": watched.service, "Environment": watched.environment, "Owner": alarm.owner}
    named = [f"{name}: {_harmless(value)}" for name, value in where.items() if value]
    until = f" until {_minute(alarm.until)}" if alarm.until else ""
    yield ". ".join([*named, f"Since {_minute(alarm.since)}{until}"])
    # The first example and the newest one.
    for name, trace_id in zip(
        ("First", "Last"), dict.fromkeys([*alarm.examples[:1], *alarm.examples[-1:]]), strict=False
    ):
        yield f"{name} trace: {f'{page}/traces/{trace_id}' if page else f'agenteval why {trace_id}'}"
    if page and alarm.problem_id:
        yield f"Problem: {page}/problems/{alarm.problem_id}"
    if page:
        yield f"Alarm: {page}/alarms#{alarm.alarm_id}"


def _minute(time: int) -> str:
    """Write a time (ns) for people, in UTC to the minute."""
    return datetime.fromtimestamp(time // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def digest_text(problems: Sequence[Problem], now: int, page: str | None) -> str | None:
    """Return what a digest says: the problems that are new, came back, were worst and were fixed within a day, with
    what they have cost. Muted ones are left out. None if there is nothing to say."""
    known = [problem for problem in problems if problem.state is not ProblemState.MUTED]
    is_open = [problem for problem in known if problem.state is not ProblemState.RESOLVED]
    parts = {
        "New": [problem for problem in is_open if problem.first_seen >= now - DAY],
        "Came back": [problem for problem in is_open if problem.state is ProblemState.REGRESSED],
        "Most traces": sorted(
            (problem for problem in is_open if sum(problem.trend)), key=lambda problem: -sum(problem.trend)
        ),
        "Fixed": [problem for problem in known if (problem.resolved_at or 0) >= now - DAY],
    }
    texts = [
        "\n".join([f"{name} ({len(found)})", *(_digest_line(problem, page) for problem in found[:MOST_IN_DIGEST])])
        for name, found in parts.items()
        if found
    ]
    return "\n\n".join(texts) or None


def _digest_line(problem: Problem, page: str | None) -> str:
    cost = f", ${problem.usd:.2f} in all" if problem.usd else ""
    link = f" {page}/problems/{problem.key.problem_id}" if page else ""
    agent = f"{_harmless(problem.key.agent)}: " if problem.key.agent else ""
    return f"- {agent}{_harmless(problem.key.title)}: {sum(problem.trend)} traces in a day{cost}{link}"


def _harmless(text: str) -> str:
    """Return a text from telemetry on one line, without what chats take for markup, and links written as people write
    those that nobody should follow: `https[:]//`."""
    plain = _LINK.sub(lambda link: link[0].replace(":", "[:]").replace(".", "[.]"), text.translate(_HARMLESS))
    return cut("".join(one for one in plain if one.isprintable()), MOST_CHARACTERS)
