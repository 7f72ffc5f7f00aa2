"""Traces of runs in a line each."""

import json
from typing import Any

from agenteval_collector.model.assembled_trace import AssembledTrace
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from tests.support.otlp import START, span, turn
from tests.support.scoring import assembled

SECOND = 1_000_000_000


def run_trace(
    number: int,
    *,
    task: str | None = "refund",
    run: str | None = "1",
    version: str = "1",
    session: str | None = None,
    tools: tuple[str, ...] = (),
    asked: str = "May I have my money back?",
    answered: str | None = "Yes, you may.",
    revision: int = 1,
    **attributes: Any,
) -> AssembledTrace:
    """A trace of a run: an agent is asked, calls tools, and answers. `number` is its place in time."""
    root = turn(number, asked, answered, session=session or f"session of {task} {run}")
    spans = [root]
    for place, name in enumerate(tools, 2):
        called = span(number, place, parent=1)
        called.start_time_unix_nano = START + number * SECOND + place
        called.end_time_unix_nano = called.start_time_unix_nano + 1
        _set(called.attributes, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name})
        spans.append(called)
    named = {"agenteval.task.id": task, "agenteval.run.id": run}
    _set(root.attributes, {**named, **{key.replace("__", "."): value for key, value in attributes.items()}})
    resource = Resource()
    _set(resource.attributes, {"service.name": "shop", "service.version": version})
    return assembled(*spans, revision=revision, resource=resource.SerializeToString())


def _set(attributes: Any, values: dict[str, Any]) -> None:
    for key, value in values.items():
        if value is None:
            continue
        match value:
            case bool():
                held = AnyValue(bool_value=value)
            case float():
                held = AnyValue(double_value=value)
            case str():
                held = AnyValue(string_value=value)
            case _:
                held = AnyValue(string_value=json.dumps(value))
        attributes.append(KeyValue(key=key, value=held))
