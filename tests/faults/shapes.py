"""Traces of hostile shapes: far larger than is kept, each in requests that are refused by no bound."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from agenteval_collector.runtime.memory import MIB
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.otlp import span

Shape: TypeAlias = Callable[[int], Iterator[Sequence[Span]]]
"""The requests of a trace of this number, each as its spans. Its root is span 1."""
SENT = 32
"""MiB of most traces: twice the largest that is kept."""
LARGEST = 120
"""MiB of the largest."""
_WORDS = [f"word{number}" for number in range(2000)]
_RANDOM = random.Random(1)


def text(size: int) -> str:
    return " ".join(_RANDOM.choices(_WORDS, k=size // 8))


def messages(size: int) -> str:
    said = [{"role": "user", "parts": [{"type": "text", "content": text(500)}]} for _ in range(size // 600)]
    return json.dumps(said)


def tool(trace: int, number: int, result: str) -> Span:
    operation: dict[str, Any] = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "f"}
    return span(trace, number, parent=1, **operation, gen_ai__tool__call__result=result)


def chat(trace: int, number: int, **said: Any) -> Span:
    return span(trace, number, parent=1, gen_ai__operation__name="chat", **said)


def large_results(trace: int) -> Iterator[Sequence[Span]]:
    for number in range(SENT):
        yield [tool(trace, 2 + number, text(MIB))]


def the_largest(trace: int) -> Iterator[Sequence[Span]]:
    for number in range(LARGEST):
        yield [tool(trace, 2 + number, text(MIB))]


def large_messages(trace: int) -> Iterator[Sequence[Span]]:
    for number in range(SENT):
        said, answered = messages(MIB // 2), messages(MIB // 2)
        yield [chat(trace, 2 + number, gen_ai__input__messages=said, gen_ai__output__messages=answered)]


def the_same_history(trace: int) -> Iterator[Sequence[Span]]:
    history = messages(MIB // 10)
    for first in range(2, 2 + 10 * SENT, 10):
        yield [chat(trace, first + number, gen_ai__input__messages=history) for number in range(10)]


def growing_histories(trace: int) -> Iterator[Sequence[Span]]:
    said: list[Any] = []
    for number in range(400):
        said.append({"role": "user", "parts": [{"type": "text", "content": text(400)}]})
        yield [chat(trace, 2 + number, gen_ai__input__messages=json.dumps(said))]


def small_spans(trace: int) -> Iterator[Sequence[Span]]:
    for first in range(2, 2 + 1250 * SENT, 2500):
        yield [tool(trace, first + number, text(200)) for number in range(2500)]


def two_hundred_thousand_spans(trace: int) -> Iterator[Sequence[Span]]:
    for first in range(2, 200_002, 5000):
        yield [span(trace, first + number, parent=1) for number in range(5000)]


def small_attributes(trace: int) -> Iterator[Sequence[Span]]:
    for number in range(SENT):
        item = span(trace, 2 + number, parent=1)
        item.attributes.extend(KeyValue(key=f"k{key}", value=AnyValue(int_value=key)) for key in range(50_000))
        yield [item]


def huge_events(trace: int) -> Iterator[Sequence[Span]]:
    for number in range(SENT):
        item = span(trace, 2 + number, parent=1)
        for _ in range(100):
            content = KeyValue(key="content", value=AnyValue(string_value=text(10_000)))
            item.events.add(name="gen_ai.user.message", attributes=[content])
        yield [item]


def many_events(trace: int) -> Iterator[Sequence[Span]]:
    for number in range(SENT):
        item = span(trace, 2 + number, parent=1)
        item.events.extend(Span.Event(name="e", time_unix_nano=each) for each in range(50_000))
        yield [item]


def deep_json(trace: int) -> Iterator[Sequence[Span]]:
    for number in range(SENT):
        yield [tool(trace, 2 + number, "[" * 400 + json.dumps(["a"] * (MIB // 6)) + "]" * 400)]


def deep_values(trace: int) -> Iterator[Sequence[Span]]:
    for number in range(SENT):
        item = span(trace, 2 + number, parent=1)
        for key in range(2000):
            value = AnyValue(string_value=text(100))
            for _ in range(25):
                value = AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="k", value=value)]))
            item.attributes.append(KeyValue(key=f"k{key}", value=value))
        yield [item]


SHAPES: Sequence[Shape] = (
    *(large_results, the_largest, large_messages, the_same_history, growing_histories, small_spans),
    *(two_hundred_thousand_spans, small_attributes, huge_events, many_events, deep_json, deep_values),
)
