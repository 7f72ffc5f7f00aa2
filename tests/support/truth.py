"""What is known of a recording, held against what was read of it: one `Fact` for each thing that can be right.

Where a fact was not recorded at all, the reader may say nothing or the piece that was recorded.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from otel_agenteval.conventions.spans import LogRecord, SpanRecord
from otel_agenteval.model import ToolCall, Trace, Turn
from tests.support.recordings import DATA, recorded_logs, recorded_spans, recorded_traces

FOLDERS = (DATA / "corpus", DATA / "recorded")
FRAMEWORK_TOOLS = frozenset({"final_answer"})
KINDS = (
    "turns", "session", "user", "agents", "input", "output", "failure", "model calls", "tool names", "arguments",
    "results", "tool errors", "tools offered", "instructions", "plan", "reasoning", "partial",
)  # fmt: skip
"""The kinds of facts, in the order of the table."""


class Verdict(StrEnum):
    FOUND = "found"
    WRONG = "wrong"
    MISSED = "missed"
    NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Fact:
    """A fact of a turn, or of a recording: `expected` is the truth, `found` what was read."""

    kind: str
    expected: object
    found: object
    recorded: bool = True
    where: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.recorded and _plain(self.expected) == _plain(self.found):
            return Verdict.FOUND
        is_nothing = self.found in (None, "", [], ())
        if self.recorded:
            return Verdict.MISSED if is_nothing else Verdict.WRONG
        is_piece = str(_plain(self.found)).rstrip(".… ") in str(_plain(self.expected))
        return Verdict.NOT_RECORDED if is_nothing or is_piece else Verdict.WRONG

    @property
    def holds(self) -> bool:
        return self.verdict in (Verdict.FOUND, Verdict.NOT_RECORDED)


@dataclass(frozen=True)
class Recording:
    """Telemetry, read, and the truth beside it."""

    expected: Mapping[str, Any]
    traces: Mapping[str, Trace]
    said: Mapping[str, str]
    """The letters of all that was recorded, by trace."""

    @classmethod
    @cache
    def read(cls, path: Path) -> "Recording":
        """The recording whose truth stands at `path`."""
        expected = json.loads(path.read_text())
        spans = recorded_spans(path.with_name(expected["files"]["traces"]))
        logs = recorded_logs(path.with_name(expected["files"]["logs"] or "none"))
        traces = recorded_traces(path.with_name(expected["files"]["traces"]))
        return cls(expected, traces, {key: _said(spans[key], logs.get(key, ())) for key in spans})

    @property
    def instrumentation(self) -> str:
        return str(self.expected["instrumentation"])

    def facts(self) -> Iterator[Fact]:
        """All that is known, turn by turn."""
        expected = self.expected
        shared = Counter(key for truth in expected["turns"] for key in truth["trace_ids"])
        used: Counter[str] = Counter()
        for truth in expected["turns"]:
            turns: list[Turn] = []
            for key in truth["trace_ids"]:
                if shared[key] > 1:
                    turns += self.traces[key].turns[used[key] : used[key] + 1]
                    used[key] += 1
                else:
                    turns += self.traces[key].turns
                    yield Fact("turns", 1, len(self.traces[key].turns), where=f"turn {truth['turn']}")
            traces = [self.traces[key] for key in truth["trace_ids"]]
            said = "".join(self.said[key] for key in truth["trace_ids"])
            for fact in (*_about_trace(expected, traces[0], said), *_about_turn(truth, turns, said, len(traces) == 1)):
                yield Fact(fact.kind, fact.expected, fact.found, fact.recorded, f"turn {truth['turn']} {fact.where}")
        yield self._tools_offered()

    def _tools_offered(self) -> Fact:
        offered = {tool["name"]: tool["parameters"] for tool in self.expected["available_tools"]}
        names = sorted(offered.keys() - FRAMEWORK_TOOLS)
        found = sorted({tool.name for trace in self.traces.values() for tool in trace.available_tools})
        said = "".join(self.said.values())
        is_cut = self.expected["variant"] == "truncated"
        are_defined = not is_cut and all(_letters(name) in said for name in names)
        is_part = set(found) <= set(names)
        return Fact("tools offered", names, [] if not are_defined and is_part else found, are_defined)


def truths(*folders: Path) -> list[Path]:
    """The truths of the recordings in folders, or of all that are bundled."""
    return [path for folder in folders or FOLDERS for path in sorted(folder.glob("*.expected.json"))]


def _about_trace(expected: Mapping[str, Any], trace: Trace, said: str) -> Iterator[Fact]:
    session = expected["session"]
    if session["id_in_spans"]:
        yield Fact("session", session["id"], trace.session_id)
    yield _if_said("user", session["user_id"], trace.user_id, said)
    agents = expected["agents"]
    foreign = [name for name in trace.agents if name not in agents]
    if foreign or agents:
        yield Fact("agents", [], foreign)
    if expected["variant"] == "truncated":
        yield Fact("partial", True, trace.partial)
    elif len(agents) < 2:  # of several agents the truth is not told apart
        instructions = expected["system_instructions"]
        # Frameworks add words of their own, or put theirs in the place of the application's.
        is_said = _letters(instructions) in said
        within = _letters(instructions) in _letters(trace.system_instructions or "")
        yield Fact("instructions", instructions, instructions if within else None, is_said)


def _about_turn(truth: Mapping[str, Any], turns: Sequence[Turn], said: str, in_one_trace: bool) -> Iterator[Fact]:
    observed = truth["observed"]
    first, last = (turns[0], turns[-1]) if turns else (None, None)
    answered = truth["final_output"] is None or observed["final_output_recorded"]
    yield Fact("input", truth["user_input"], first and first.input, observed["user_input_recorded"])
    yield Fact("output", truth["final_output"], last and last.output, answered)
    yield Fact("failure", bool(truth["model_error"]), last is not None and last.error is not None)
    yield Fact("model calls", truth["model_calls"], sum(len(turn.model_calls) for turn in turns))
    yield from _about_tools(truth, [call for turn in turns for call in turn.tool_calls], in_one_trace)
    plans, thoughts = truth["plan_texts"], truth["reasoning_texts"]
    are_recorded = [_letters(text) in said for text in plans]
    yield from _texts("plan", plans, are_recorded, [text for turn in turns for text in turn.plan])
    found = [text for turn in turns for text in turn.reasoning]
    yield from _texts("reasoning", thoughts, observed["reasoning_recorded"], found)


def _about_tools(truth: Mapping[str, Any], calls: Sequence[ToolCall], in_one_trace: bool) -> Iterator[Fact]:
    observed = truth["observed"]
    expected = [
        (call, with_arguments, with_result)
        for call, with_arguments, with_result in zip(
            truth["tools_called"], observed["tool_arguments_recorded"], observed["tool_results_recorded"], strict=True
        )
        if not call.get("framework_tool")
    ]
    yield Fact("tool names", sorted(call["name"] for call, _, _ in expected), sorted(call.name for call in calls))
    for call, with_arguments, with_result in expected:
        same = [each for each in calls if each.name == call["name"]]
        known = [each.arguments for each in same if each.arguments is not None]
        right = call["arguments"] if _values(call["arguments"]) in map(_values, known) else known
        yield Fact("arguments", call["arguments"], right, with_arguments, call["name"])
        # Where every model call is a trace of its own, a result stands in the trace of the next one.
        if call["result"] and in_one_trace:
            results = [each.result for each in same if each.result is not None]
            within = any(_letters(call["result"]) in _letters(result) for result in results)
            yield Fact("results", call["result"], call["result"] if within else results, with_result, call["name"])
    if expected or calls:
        yield Fact("tool errors", bool(truth["tool_errors"]), any(call.error for call in calls))


def _texts(kind: str, truths: Sequence[str], recorded: Sequence[bool], found: Sequence[str]) -> Iterator[Fact]:
    """A fact for each text that was said, and for each that was read and nobody said."""
    for text, is_recorded in zip(truths, recorded, strict=True):
        yield Fact(kind, text, text if any(text in each for each in found) else None, is_recorded)
    for each in found:
        if not any(text in each for text in truths):
            yield Fact(kind, None, each)


def _if_said(kind: str, text: str | None, found: str | None, said: str) -> Fact:
    return Fact(kind, text, found, text is not None and _letters(text) in said)


def _said(spans: Collection[SpanRecord], logs: Collection[LogRecord]) -> str:
    """The letters of all names, values and messages, however often they were encoded."""
    values: list[object] = [*(log.body for log in logs), *(dict(log.attributes) for log in logs)]
    for span in spans:
        values += [span.name, dict(span.attributes), span.status_message]
        values += [dict(event.attributes) for event in span.events]
    return _letters(re.sub(r"\\+[nrtu\"]", "", json.dumps(values, ensure_ascii=False)))


def _plain(value: object) -> object:
    return " ".join(value.split()) if isinstance(value, str) else value


def _letters(value: object) -> str:
    return re.sub(r"[\W_]+", "", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _values(value: Any) -> Any:
    """Decoded arguments, "2" and 2 alike."""
    if isinstance(value, str):
        try:
            return _values(json.loads(value))
        except ValueError:
            return _plain(value)
    if isinstance(value, dict):
        return {key: _values(item) for key, item in sorted(value.items())}
    return [_values(item) for item in value] if isinstance(value, list) else value
