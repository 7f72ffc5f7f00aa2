"""Changes of a trace that must not change what a fair judge says of it."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from agenteval_collector.judge.recorded_values import mapped
from agenteval_collector.model.bias import Change
from otel_agenteval.model import Json, Trace

PADDING: Final = """

I hope that this is helpful to you! It has been a pleasure to be of assistance, and I would like to thank you very \
much for your patience, for your trust, and for taking the time to reach out. Please know that you are always welcome \
here, and that your satisfaction matters a great deal. Should there be anything else at all, however small it may \
seem, please do not hesitate to let me know at any time, and I will be more than happy to help. Once again, thank you \
so much, and have a truly wonderful day!"""
"""Polite text that adds nothing to an answer but length."""


def unchanged(trace: Trace) -> Trace:
    """Return the trace itself."""
    return trace


def padded(trace: Trace) -> Trace:
    """Return the trace with its final answer padded; itself where it has none."""
    answer = trace.output
    if not answer:
        return trace
    last = trace.turns[-1]
    calls = (replace(call, output=answer + PADDING) if call.output == answer else call for call in last.model_calls)
    return replace(trace, turns=(*trace.turns[:-1], replace(last, output=answer + PADDING, model_calls=tuple(calls))))


def swapped(trace: Trace) -> Trace:
    """Return the trace with everything in reverse that has no order: the tools on offer, and the keys of objects."""
    keyed = mapped(trace, _reversed_keys)
    return replace(keyed, available_tools=keyed.available_tools[::-1])


def renamed(trace: Trace) -> Trace:
    """Return the trace with other names for its agents, models and tools, wherever they stand.

    A tool keeps the words of its name, which say what it does. A name that is one lower-case word may be a word of the
    language as well: it is left alone within texts.
    """
    turns = (*trace.earlier, *trace.turns)
    calls = [call for turn in turns for call in turn.model_calls]
    tools = {call.name for turn in turns for call in turn.tool_calls} | {tool.name for tool in trace.available_tools}
    agents = _numbered("agent", [*trace.agents, *(turn.agent for turn in turns), *(call.agent for call in calls)])
    models = _numbered("model", (call.model for call in calls))
    return mapped(trace, _Names({**agents, **models, **{name: f"use_{name}" for name in tools if name}}).changed)


CHANGES: Final[Mapping[Change, Callable[[Trace], Trace]]] = {
    Change.REPEAT: unchanged,
    Change.PADDED: padded,
    Change.SWAPPED: swapped,
    Change.RENAMED: renamed,
    Change.SECOND_MODEL: unchanged,
}
"""For each change, the function that makes it before the judge is asked again."""


class _Names:
    """Puts other names in the place of those that `others` has."""

    def __init__(self, others: Mapping[str, str]) -> None:
        self._others = others
        known = sorted((name for name in others if not name.islower() or not name.isalpha()), key=len, reverse=True)
        anyone = "|".join(map(re.escape, known))
        self._within = re.compile(rf"(?<![\w-])(?:{anyone})(?![\w-])") if known else None

    def changed(self, value: Json) -> Any:
        if isinstance(value, dict):
            return {key: self.changed(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.changed(item) for item in value]
        if not isinstance(value, str):
            return value
        if value in self._others:
            return self._others[value]
        return self._within.sub(lambda match: self._others[match[0]], value) if self._within else value


def _numbered(kind: str, names: Iterable[str | None]) -> dict[str, str]:
    return {name: f"{kind}-{number}" for number, name in enumerate(sorted({name for name in names if name}), 1)}


def _reversed_keys(value: Json) -> Any:
    if isinstance(value, dict):
        return {key: _reversed_keys(value[key]) for key in reversed(value)}
    return [_reversed_keys(item) for item in value] if isinstance(value, list) else value
