"""Say in words what could be seen of a trace: "no finding" is only said of what was looked at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from agenteval_collector.api.documents import FactName, TraceDocument
from otel_agenteval.finding import Visibility

_RECORD_CONTENT = "docs/content.md has the switch that records content, for each instrumentation."
_CONTENT: tuple[FactName, ...] = ("answers", "arguments", "results")


@dataclass(frozen=True, slots=True)
class Note:
    """One sentence about a trace; `advice` says what to do about it where something can be done."""

    text: str
    advice: str | None = None


class Fact(NamedTuple):
    """A sort of fact that findings rest on: `name` in words, `seen` how much of it was there, `found_by_it` what needs
    it."""

    name: str
    seen: str
    is_missing: bool
    found_by_it: str


_FACTS: Mapping[FactName, tuple[str, str]] = {
    "answers": ("answers", "empty answers, tool calls written as text"),
    "arguments": ("arguments of tool calls", "arguments that do not fit, repeated calls"),
    "results": ("results of tool calls", "failures told in a result, repeated results"),
    "finish_reasons": ("reasons why the model stopped", "answers that were cut"),
    "history": ("earlier turns", "values that nobody said"),
}
_SEEN = {Visibility.ALL: "seen", Visibility.SOME: "seen in part", Visibility.NONE: "not recorded"}
_HISTORY = {None: "nothing came before", Visibility.NONE: "the model's input does not show them"}


def facts_of(trace: TraceDocument) -> list[Fact]:
    """Return each sort of fact with how much of it could be seen; empty while the trace is not complete."""
    if not trace["complete"]:
        return []
    return [
        Fact(name, _seen(key, visible), visible in (Visibility.NONE, Visibility.SOME), found_by_it)
        for key, (name, found_by_it) in _FACTS.items()
        for visible in [trace["seen"][key]]
    ]


def _seen(key: FactName, visible: str | None) -> str:
    if key == "history" and visible in _HISTORY:
        return _HISTORY[Visibility(visible) if visible else None]
    return "none in it" if visible is None else _SEEN[Visibility(visible)]


def about_visibility(trace: TraceDocument) -> Note:
    """Say whether anything was found, and what could not be looked for."""
    nothing = "" if trace["findings"] else "No finding. "
    facts = facts_of(trace)
    if not facts:
        return Note(f"{'No finding so far. ' if nothing else ''}Only loops are looked for until it is complete.")
    missing = [f"{fact.name} ({fact.seen})" for fact in facts if fact.is_missing]
    if not missing:
        there = ", ".join(name for key, (name, _) in _FACTS.items() if trace["seen"][key] is not None)
        return Note(f"{nothing}Recorded, and looked at: {there}.")
    content = any(trace["seen"][key] in (Visibility.NONE, Visibility.SOME) for key in _CONTENT)
    return Note(f"{nothing}Not looked for: {', '.join(missing)}.", _RECORD_CONTENT if content else None)
