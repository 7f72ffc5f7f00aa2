"""Conversations as steps for the loop detectors. Each step takes a second."""

from collections.abc import Iterator
from typing import Any

from benchmarks.workload.conversation import Conversation, Turn
from otel_agenteval.detectors.steps import Step, StepKind

SECOND = 1_000_000_000


def steps(conversation: Conversation) -> list[list[Step]]:
    """Return the steps of each turn."""
    count = 0
    found = []
    for turn in conversation.turns:
        found.append(list(_steps(turn, count)))
        count += len(found[-1])
    return found


def _steps(turn: Turn, count: int) -> Iterator[Step]:
    for said in turn.steps:
        yield Step(kind=StepKind.MODEL, name="model", result=said.text, **_place(count))
        count += 1
        for call in said.calls:
            yield Step(
                kind=StepKind.TOOL,
                name=call.name,
                arguments=call.arguments,
                result=call.result,
                error=call.result if call.failed else None,
                **_place(count),
            )
            count += 1


def _place(number: int) -> dict[str, Any]:
    return {"span_id": f"{number:016x}", "started_at": number * SECOND, "ended_at": (number + 1) * SECOND}
