"""Recordings of real instrumentations are read to the truth that was recorded beside them.

`Facts` lists what is known of a turn and what was read of it; a turn passes when nothing is missing and nothing
invented. Where a fact was not recorded at all, the reader may say nothing or the piece that was recorded.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from otel_agenteval.conventions import read_trace
from otel_agenteval.model import ToolCall, Trace, Turn
from tests.support.recordings import DATA, recorded_logs, recorded_spans

FOLDERS = (DATA / "corpus", DATA / "recorded")
SHARED = Path(os.environ.get("AGENTEVAL_SHARED", Path(__file__).parents[3] / "shared")) / "corpus"

# Other instrumentations that speak the current GenAI conventions, as far as they do.
COMPATIBLE = ("google-adk", "mlflow-semconv", "pydantic-ai", "strands--multiturn-semconv")


@dataclass(frozen=True)
class Fact:
    """A fact of a turn: `expected` is the truth, `found` what was read."""

    name: str
    expected: object
    found: object
    recorded: bool = True

    @property
    def holds(self) -> bool:
        if self.recorded:
            return _plain(self.expected) == _plain(self.found)
        return self.found in (None, "", []) or str(_plain(self.found)).rstrip(".… ") in str(_plain(self.expected))

    @property
    def is_missing(self) -> bool:
        return not self.holds and self.found in (None, "", [], ())


def recordings(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.expected.json"))


BUNDLED = [path for folder in FOLDERS for path in recordings(folder)]


def read(path: Path) -> tuple[dict[str, Any], dict[str, Trace]]:
    """The truth of a recording and what was read of it, by trace id."""
    expected = json.loads(path.read_text())
    spans = recorded_spans(path.with_name(expected["files"]["traces"]))
    logs = recorded_logs(path.with_name(expected["files"]["logs"] or "none"))
    return expected, {key: read_trace(key, spans[key], logs.get(key, ())) for key in spans}


def facts(expected: dict[str, Any], traces: dict[str, Trace]) -> Iterator[Fact]:
    shared = Counter(key for turn in expected["turns"] for key in turn["trace_ids"])
    used: Counter[str] = Counter()
    for truth in expected["turns"]:
        name = f"turn {truth['turn']}"
        found = [traces[key] for key in truth["trace_ids"]]
        turns: list[Turn] = []
        for key in truth["trace_ids"]:
            if shared[key] > 1:
                turns += traces[key].turns[used[key] : used[key] + 1]
                used[key] += 1
            else:
                turns += traces[key].turns
                yield Fact(f"{name} is one", 1, len(traces[key].turns))
        yield from turn_facts(name, truth, found, turns)
        if expected["session"]["id_in_spans"]:
            yield Fact(f"{name} session", expected["session"]["id"], found[0].session_id)
        if expected["variant"] == "truncated":
            yield Fact(f"{name} partial", True, found[0].partial)


def turn_facts(name: str, truth: dict[str, Any], traces: list[Trace], turns: list[Turn]) -> Iterator[Fact]:
    observed = truth["observed"]
    output_recorded = bool(observed["final_output_recorded"] and truth["final_output"])
    first, last = (turns[0], turns[-1]) if turns else (None, None)
    asked = observed["user_input_recorded"]
    yield Fact(f"{name} input", truth["user_input"], first and first.input, asked)
    yield Fact(f"{name} output", truth["final_output"], last and last.output, output_recorded)
    yield Fact(f"{name} failed", bool(truth["model_error"]), last is not None and last.error is not None)
    yield Fact(f"{name} model calls", truth["model_calls"], sum(len(turn.model_calls) for turn in turns))
    calls = [call for turn in turns for call in turn.tool_calls]
    yield from tool_facts(name, truth, calls, in_one_trace=len(traces) == 1)


def tool_facts(name: str, truth: dict[str, Any], calls: list[ToolCall], *, in_one_trace: bool) -> Iterator[Fact]:
    observed = truth["observed"]
    expected = [
        (call, with_arguments, with_result)
        for call, with_arguments, with_result in zip(
            truth["tools_called"],
            observed["tool_arguments_recorded"],
            observed["tool_results_recorded"],
            strict=True,
        )
        if not call.get("framework_tool")
    ]
    names = [call["name"] for call, _, _ in expected]
    yield Fact(f"{name} tool names", sorted(names), sorted(call.name for call in calls))
    for call, with_arguments, with_result in expected:
        same = [each for each in calls if each.name == call["name"]]
        if with_arguments:
            known = [each.arguments for each in same if each.arguments is not None]
            right = call["arguments"] if _values(call["arguments"]) in map(_values, known) else known
            yield Fact(f"{name} {call['name']} arguments", call["arguments"], right)
        if with_result and call["result"] and in_one_trace:
            results = [each.result for each in same if each.result is not None]
            within = any(_letters(call["result"]) in _letters(result) for result in results)
            yield Fact(f"{name} {call['name']} result", call["result"], call["result"] if within else results)
    errors = [call.error for call in calls if call.error]
    yield Fact(f"{name} tool errors", bool(truth["tool_errors"]), bool(errors))


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


def name_of(path: Path) -> str:
    return path.name.removesuffix(".expected.json")


@pytest.mark.parametrize("path", BUNDLED, ids=name_of)
def test_every_recorded_fact_is_read_and_nothing_is_invented(path: Path) -> None:
    expected, traces = read(path)
    assert [fact for fact in facts(expected, traces) if not fact.holds] == []


@pytest.mark.parametrize("path", BUNDLED, ids=name_of)
def test_agents_tools_and_instructions_are_those_of_the_application(path: Path) -> None:
    expected, traces = read(path)
    offered = {tool["name"] for tool in expected["available_tools"]} - {"final_answer"}
    recording = path.with_name(expected["files"]["traces"]).read_bytes()
    are_defined = all(name.encode() in recording for name in offered)
    for trace in traces.values():
        assert set(trace.agents) <= set(expected["agents"])
        assert {tool.name for tool in trace.available_tools} <= offered
        assert trace.dialects
        assert trace.unread == {}
    if are_defined and expected["variant"] != "truncated":
        assert {tool.name for trace in traces.values() for tool in trace.available_tools} == offered


@pytest.mark.parametrize("instrumentation", COMPATIBLE)
def test_current_conventions_are_never_read_wrongly_in_other_instrumentations(instrumentation: str) -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the complete corpus is not at {SHARED}; set AGENTEVAL_SHARED to the folder that has it")
    for path in SHARED.glob(f"{instrumentation}*.expected.json"):
        expected, traces = read(path)
        assert [fact for fact in facts(expected, traces) if not fact.holds and not fact.is_missing] == [], path.name
