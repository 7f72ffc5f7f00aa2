"""Decide how long an open trace is waited for, and for which parts of it. Pure: times are given."""

import math
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from agenteval_collector.assembly.open_trace import OpenTrace
from agenteval_collector.assembly.senders import Senders, Usual, named
from agenteval_collector.config.settings import AssemblyConfig
from agenteval_collector.model.assembled_trace import ClosedBy, Closing
from agenteval_collector.model.senders import Awaited, Habit

_EXPECTED_MORE = (ClosedBy.SHORT, ClosedBy.SILENCE, ClosedBy.MAX_AGE, ClosedBy.MEMORY)
"""Reasons that close a trace although more of it was expected. It is partial then."""
_LOCAL = (Awaited.PARENT, Awaited.PARENT_OF_FAILED)
"""Spans of the sender's own process. A remote parent may be a span that nobody sends to us."""
MAX_DESCRIBED = 5
"""Habits that a closing describes at most."""


class Wait(NamedTuple):
    """The `seconds` without anything new after which a trace is complete; infinite: it waits until `max_age`. `by` is
    the reason that closes it then."""

    seconds: float
    by: ClosedBy


class CompletionPolicy:
    """Decides when open traces are complete, by the habits of their senders."""

    def __init__(self, senders: Senders, waits: AssemblyConfig) -> None:
        self._senders = senders
        # Nothing is complete before it has settled, so no other wait is shorter.
        least = {name: max(waits.settle, getattr(waits, name)) for name in ("settle_logs", "silence")}
        self._waits = waits = waits.model_copy(update=least)
        self._nothing_missing = Wait(waits.settle, ClosedBy.ROOT)
        reasons = {
            ClosedBy.COUNT: "every process has delivered the spans that it counted",
            ClosedBy.ROOT: "its root and the parents of all its spans had come, but for those that never do",
            ClosedBy.SHORT: f"nothing more came for {waits.settle_logs:g} s, but spans are missing that were counted",
            ClosedBy.LOGS: f"log records with its content did not come within {waits.settle_logs:g} s",
            ClosedBy.SILENCE: f"nothing more came for {waits.silence:g} s, though a parent of its spans was missing",
            ClosedBy.MAX_AGE: f"it was {waits.max_age:g} s old, though more of it was expected",
            ClosedBy.MEMORY: "memory was needed for newer traces (assembly.max_open_bytes, server.memory_limit)",
            ClosedBy.DEATH: "its agent died",
            ClosedBy.RETRY: "it was set aside, and somebody wanted it to be tried again",
            ClosedBy.END: "no more telemetry was to come",
        }
        # Made once: most traces miss nothing.
        self._closings = {
            by: Closing(by=by, reason=reason, partial=by in _EXPECTED_MORE) for by, reason in reasons.items()
        }

    def wait_for(self, trace: OpenTrace) -> Wait:
        """Return the longest wait among those for the missing parts of the trace. One that is full waits no longer
        than for silence: what is missing may be among what was left out."""
        wait = self._longest_wait(trace)
        is_longer = trace.full and wait.seconds > self._waits.silence
        return Wait(self._waits.silence, ClosedBy.SILENCE) if is_longer else wait

    def _longest_wait(self, trace: OpenTrace) -> Wait:
        if trace.running or not trace.spans:
            # Log records without spans are no trace yet.
            return Wait(math.inf, ClosedBy.MAX_AGE)
        waits = [Wait(self._waits.settle_logs, ClosedBy.SHORT)] if trace.missing else []
        waits += (_wait(habit, self._senders.usual(habit), self._waits) for habit in trace.awaiting.missing())
        # Of equal ones the first, so that the reason is what is missing.
        return max([*waits, self._nothing_missing], key=attrgetter("seconds"))

    def settles(self, trace: OpenTrace) -> bool:
        """Return whether the trace waits for the settling time alone: no process counts its spans, and nothing of it is
        missing."""
        return bool(trace.spans) and not trace.counted and not trace.running and self._has_all_awaited(trace)

    def at_once(self, trace: OpenTrace) -> bool:
        """Return whether all counted spans are there, and nothing else is waited for.

        False while the revision before is being scored: the spans of a burst become one revision then.
        """
        if not trace.delivered or trace.scored < trace.revision - 1:
            return False
        return self._has_all_awaited(trace)

    def _has_all_awaited(self, trace: OpenTrace) -> bool:
        return all(_needless(habit, self._senders.usual(habit)) for habit in trace.awaiting.missing())

    def closing(self, trace: OpenTrace, by: ClosedBy) -> Closing:
        """Return why the trace is complete, with what is known of its senders."""
        closing, awaiting = self._closings[by], trace.awaiting
        missing = awaiting.missing()
        came = [habit for habit in awaiting.came if self._is_learned_remote(habit) and habit not in missing]
        if not missing and not came:
            return closing
        usual = {habit: self._senders.usual(habit) for habit in missing}
        # The longest wait comes first.
        likely = sorted(
            sorted(missing), key=lambda habit: _wait(habit, usual[habit], self._waits).seconds, reverse=True
        )
        # At the end of telemetry no wait has run out, so the missing parents say whether the trace is whole.
        lacking = by is ClosedBy.END and any(
            habit.what in _LOCAL and not _needless(habit, usual[habit]) for habit in missing
        )
        return replace(
            closing,
            partial=closing.partial or lacking,
            senders=[self._senders.describe(habit) for habit in [*likely, *sorted(came)][:MAX_DESCRIBED]],
        )

    def waits_for(self, trace: OpenTrace) -> list[str]:
        """Return what an open trace waits for, as phrases without a full stop, the longest wait first.

        Empty if nothing is missing. Safe from any thread.
        """
        if not trace.spans:
            return ["spans: only log records of it have come"]
        notes = []
        if trace.running:
            notes.append(f"the end of a span that is open, {self._until(math.inf)}")
        if trace.missing:
            notes.append(f"{trace.missing} more of the spans that were counted, {self._until(self._waits.settle_logs)}")
        waits = [(_wait(habit, self._senders.usual(habit), self._waits), habit) for habit in trace.awaiting.missing()]
        for wait, habit in sorted(waits, reverse=True)[:MAX_DESCRIBED]:
            if wait.seconds:
                sentence = self._senders.describe(habit, is_named=True)
                notes.append(f"{named(habit)}, {self._until(wait.seconds)}; {sentence}")
        return notes

    def _until(self, seconds: float) -> str:
        if seconds < self._waits.max_age:
            return f"until nothing has come for {seconds:g} s"
        return f"until it is {self._waits.max_age:g} s old"

    def _is_learned_remote(self, habit: Habit) -> bool:
        """Return whether the habit is about a remote parent, and it is known whether that comes."""
        return habit.what is Awaited.REMOTE_PARENT and self._senders.usual(habit) is not Usual.UNKNOWN


def _wait(habit: Habit, usual: Usual, waits: AssemblyConfig) -> Wait:
    if _needless(habit, usual):
        return Wait(0.0, ClosedBy.ROOT)
    if habit.what is Awaited.LOGS:
        return Wait(waits.settle_logs, ClosedBy.LOGS)
    if usual is Usual.COMES and habit.what is not Awaited.PARENT_OF_FAILED:
        return Wait(math.inf, ClosedBy.MAX_AGE)
    return Wait(waits.silence, ClosedBy.SILENCE)


def _needless(habit: Habit, usual: Usual) -> bool:
    """Return whether nothing has to be waited for: it never comes, or it is a remote parent that was never seen to
    come. Anything else that is unknown is waited for."""
    return usual is Usual.NEVER or (usual is Usual.UNKNOWN and habit.what is Awaited.REMOTE_PARENT)
