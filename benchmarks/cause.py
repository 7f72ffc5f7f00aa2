"""Measure how often the first decisive step is right, on conversations of agents whose mistake people have marked.

    python -m benchmarks.cause FOLDER          # of JSON files of Who&When, which are no part of the repository

In: the logs of Zhang et al., "Which Agent Causes Task Failures and When?" (arXiv:2505.00212), each with the agent and
the step of the decisive mistake. Each log is one trace: a root that fronts for the agents, a run of an agent for each
entry, and a call of a tool for each entry of a terminal. The run is reported as failed, nothing else is told.
Out: how often `cause` names the agent, a step within `NEAR` of the marked one, and both, beside three baselines: the
first failed call, the last entry, and an entry drawn at random (its expectation). Where nothing is named, it counts as
wrong; the lines below are of the logs for which something is named.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agenteval_collector.cli.offline_replay import replay
from agenteval_collector.cli.recordings import Recorded
from agenteval_collector.config.settings import Settings
from agenteval_collector.model.logged_requests import Signal
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from otel_agenteval import semconv
from otel_agenteval.detectors.call_outcomes import outcome_of
from otel_agenteval.model import CallOutcome

NEAR: Final = 3
"""Steps from the marked one within which a step counts as found."""
FRONT: Final = "group_chat"
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Log:
    """A conversation: names and texts, of which the first is the task. People marked `agent` and `step`."""

    name: str
    entries: Sequence[tuple[str, str]]
    agent: str
    step: int

    def is_tool(self, step: int) -> bool:
        """Return whether the entry is of a terminal, which runs code and thinks nothing."""
        return "terminal" in self.entries[step][0].lower()


def read_log(path: Path) -> Log:
    """Read a log. Where its entries have no names, their roles are names, with what they are about in brackets."""
    log = json.loads(path.read_text())
    entries = [(_name(entry), entry["content"]) for entry in log["history"]]
    return Log(path.stem, entries, log["mistake_agent"], int(log["mistake_step"]))


def _name(entry: dict[str, Any]) -> str:
    name: str = entry.get("name") or entry["role"]
    return name.partition(" (")[0]


def request(log: Log, number: int, *, front: str) -> bytes:
    """Return the log as one trace. The id of a span is its step, counted from 1; that of the root is beyond all."""
    spans = [*_spans(log, number, front)]
    scope = ScopeSpans(scope=InstrumentationScope(name="benchmarks.cause"), spans=spans)
    resource = Resource(attributes=_attributes({"service.name": "who-and-when"}))
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=resource, scope_spans=[scope])]
    ).SerializeToString()


def _spans(log: Log, number: int, front: str) -> Iterator[Span]:
    root, runs = len(log.entries) + 1, 2 * len(log.entries) + 2
    task, said = log.entries[0][1], [("user", log.entries[0][1])]
    for step, (name, text) in enumerate(log.entries[1:], 1):
        is_tool = log.is_tool(step)
        by = next((log.entries[before][0] for before in range(step, 0, -1) if not log.is_tool(before)), front)
        run = runs + step
        yield _span(number, run, root, step, "invoke_agent", by, {semconv.GEN_AI_AGENT_NAME: by})
        if is_tool:
            call = {
                "tool.name": name,
                "tool.call.arguments": json.dumps({"code": said[-1][1]}),
                "tool.call.result": text,
            }
            yield _span(number, step + 1, run, step, "execute_tool", name, {f"gen_ai.{key}": call[key] for key in call})
        else:
            messages = {"input.messages": said, "output.messages": [("assistant", text)]}
            about = {f"gen_ai.{key}": _messages(messages[key]) for key in messages}
            yield _span(number, step + 1, run, step, "chat", "model", {"gen_ai.request.model": "model", **about})
        said.append(("user", f"{name}: {text}"))
    answer = {"gen_ai.input.messages": _messages([("user", task)])}
    answer["gen_ai.output.messages"] = _messages([("assistant", log.entries[-1][1])])
    failed = {"agenteval.task.id": log.name, "agenteval.run.id": "1", "agenteval.run.success": "false"}
    about = {semconv.GEN_AI_AGENT_NAME: front, semconv.GEN_AI_CONVERSATION_ID: log.name, **answer, **failed}
    yield _span(number, root, 0, 0, "invoke_agent", front, about, ended=len(log.entries) + 1)


def _span(
    trace: int, number: int, parent: int, at: int, operation: str, name: str, about: dict[str, str], ended: int = 0
) -> Span:
    started = (trace * 10_000 + at + 1) * _SECOND
    return Span(
        trace_id=trace.to_bytes(16),
        span_id=number.to_bytes(8),
        parent_span_id=parent.to_bytes(8) if parent else b"",
        name=f"{operation} {name}",
        start_time_unix_nano=started,
        end_time_unix_nano=started + (ended or 1) * _SECOND - _SECOND // 2,
        attributes=_attributes({"gen_ai.operation.name": operation, **about}),
    )


def _messages(said: Sequence[tuple[str, str]]) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in said])


def _attributes(attributes: dict[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in attributes.items()]


Named = Sequence[int]
"""The steps that are named with equal chance; none where nothing is named."""


def baselines(log: Log) -> dict[str, Named]:
    """Return what one would name without a look at what was said."""
    steps = range(1, len(log.entries))
    failed = (
        step
        for step in steps
        if log.is_tool(step) and outcome_of("terminal", None, log.entries[step][1]).outcome is CallOutcome.FAILED
    )
    return {"first error": [*failed][:1], "last agent": [steps[-1]], "random": [*steps]}


def table(logs: Sequence[Log], found: dict[str, dict[str, Any] | None]) -> Iterator[str]:
    """Yield the lines of the table: the baselines, `cause`, and `cause` by what tells it."""
    yield f"{'':24}{'logs':>6}{'agent':>8}{f'within {NEAR}':>10}{'both':>8}"
    for name in ("first error", "last agent", "random"):
        yield _line(name, logs, [[(_by(log, step), step) for step in baselines(log)[name]] for log in logs])
    causes = [found[log.name] for log in logs]
    yield _line("cause", logs, [_step(cause) for cause in causes])
    for told_by in sorted({cause["told_by"] for cause in causes if cause}):
        chosen = [
            (log, cause) for log, cause in zip(logs, causes, strict=True) if cause and cause["told_by"] == told_by
        ]
        yield _line(f"  {told_by}", [log for log, _ in chosen], [_step(cause) for _, cause in chosen])


def _by(log: Log, step: int) -> str:
    """Return the agent of a step: of a call of a tool, the one that made it."""
    return next((log.entries[before][0] for before in range(step, 0, -1) if not log.is_tool(before)), "")


def _step(cause: dict[str, Any] | None) -> list[tuple[str, int]]:
    if cause is None:
        return []
    return [(cause["agent"] or "", int(cause["span_id"], 16) - 1 if cause["span_id"] else -NEAR - 1)]


def _line(name: str, logs: Sequence[Log], named: Sequence[Sequence[tuple[str, int]]]) -> str:
    hits = [0.0, 0.0, 0.0]
    for log, steps in zip(logs, named, strict=True):
        for by, step in steps:
            is_agent, is_near = by == log.agent, abs(step - log.step) <= NEAR
            for column, hit in enumerate((is_agent, is_near, is_agent and is_near)):
                hits[column] += hit / len(steps)
    agent, near, both = (hit / len(logs) for hit in hits)
    return f"{name:24}{len(logs):6}{agent:8.2f}{near:10.2f}{both:8.2f}"


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of the JSON files of one half of Who&When")
    parser.add_argument("--front", default=FRONT, help="the name of the outermost agent")
    given = parser.parse_args()
    logs = [read_log(path) for path in sorted(given.folder.glob("*.json"))]
    recorded = [
        Recorded(Signal.TRACES, request(log, number, front=given.front), log.name) for number, log in enumerate(logs, 1)
    ]
    replayed = replay(recorded, Settings(), lambda _: None)
    found: dict[str, Any] = {session["session_id"]: session["cause"] for session in replayed["sessions"]}
    print("\n".join(table(logs, found)))


if __name__ == "__main__":
    main()
