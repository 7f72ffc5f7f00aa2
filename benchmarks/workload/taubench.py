"""Conversations recorded by tau-bench (https://github.com/sierra-research/tau-bench, MIT licence)."""

import json
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from benchmarks.workload.conversation import Call, Conversation, Step, Turn


def read(path: Path) -> list[Conversation]:
    """Return the conversations of a tau-bench result file: a JSON list of `{task_id, trial, reward, traj}`.

    A task's trials are its runs, and a reward of 1 is success. Messages before the user's first one are left out.
    """
    return [
        Conversation(
            session_id=f"tau-{recorded['task_id']}-{recorded['trial']}",
            task_id=str(recorded["task_id"]),
            run_id=str(recorded["trial"]),
            success=recorded["reward"] == 1,
            turns=tuple(_turns(recorded["traj"])),
        )
        for recorded in json.loads(path.read_text(encoding="utf-8"))
    ]


def _turns(messages: Sequence[dict[str, Any]]) -> Iterator[Turn]:
    starts = [index for index, message in enumerate(messages) if message["role"] == "user"]
    for start, end in zip(starts, [*starts[1:], len(messages)], strict=True):
        reply = messages[start + 1 : end]
        steps = tuple(
            _step(message, reply[index + 1 :]) for index, message in enumerate(reply) if message["role"] == "assistant"
        )
        yield Turn(question=messages[start]["content"], steps=steps)


def _step(message: dict[str, Any], after: Sequence[dict[str, Any]]) -> Step:
    # The model gives the same id to several calls of a conversation. So only the messages right behind a call count.
    results = {each["tool_call_id"]: each["content"] for each in takewhile(lambda each: each["role"] == "tool", after)}
    return Step(
        text=message.get("content"),
        calls=tuple(
            Call(
                call_id=call["id"],
                name=call["function"]["name"],
                arguments=call["function"]["arguments"],
                result=results[call["id"]],
            )
            for call in message.get("tool_calls") or ()
        ),
    )
