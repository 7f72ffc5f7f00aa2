"""Evidence in words, short whatever the telemetry holds."""

from collections.abc import Mapping, Sequence

from agenteval_collector.evaluators.port import unanswered
from otel_agenteval.model import ToolCall, Trace
from otel_agenteval.outcome import Status, Unscored

MAX_QUOTE = 80
"""Characters of a name or a text that are quoted."""
MAX_NAMED = 3
"""Calls that a reason names."""


def quote(text: str) -> str:
    """The text on one line, cut to `MAX_QUOTE` characters."""
    line = " ".join(text[: 4 * MAX_QUOTE].split())
    return line if len(line) <= MAX_QUOTE else line[:MAX_QUOTE] + "..."


def not_applicable(reason: str) -> Unscored:
    return Unscored(status=Status.NOT_APPLICABLE, reason=reason)


def no_calls(trace: Trace) -> Unscored:
    """Why there are no calls to score."""
    if not trace.turns:
        return unanswered(trace)
    if trace.available_tools:
        return not_applicable("no tool was called; whether one should have been takes a judge")
    return not_applicable("no tools")


def named_calls(calls: Sequence[ToolCall], found: Mapping[int, str], clean: str, *, of: int | None = None) -> str:
    """Names the first of the calls that were `found`, by position; where there is none, says what was `clean`.

    `of` is the number of calls that were looked at, where it is not all of them.
    """
    looked_at = _count(len(calls) if of is None else of)
    if not found:
        return f"{looked_at}, {clean}"
    named = [f"call {index + 1}, {quote(calls[index].name)}, {found[index]}" for index in sorted(found)[:MAX_NAMED]]
    more = f"; and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return f"{len(found)} of {looked_at}: {'; '.join(named)}{more}"


def _count(calls: int) -> str:
    return f"{calls} call" if calls == 1 else f"{calls} calls"
