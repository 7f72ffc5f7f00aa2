"""Sessions of public agents with what came of them, as conversations.

A file is gzipped JSON: `{agent, sessions: [{id, task, success, turns: [{user, steps, out}]}]}`. A step is
`["m", text, [[call id, tool, arguments]]]`, a model call, or `["t", call id, tool, arguments, result, error]`.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.workload.conversation import Call, Conversation, Step, Turn


def read(path: Path) -> list[Conversation]:
    """Return the sessions of a file."""
    with gzip.open(path) as file:
        recorded = json.load(file)
    return [
        Conversation(
            session_id=f"{recorded['agent']}-{number}",
            task_id=str(session["task"])[:200],
            run_id=str(number),
            success=bool(session["success"]),
            turns=tuple(
                Turn(question=str(turn["user"]), steps=tuple(_steps(turn["steps"]))) for turn in session["turns"]
            ),
        )
        for number, session in enumerate(recorded["sessions"])
    ]


def _turn(recorded: dict[str, Any]) -> Turn:
    return Turn(question=str(recorded["user"]), steps=tuple(_steps(recorded["steps"])))


def _steps(recorded: Sequence[Sequence[Any]]) -> Iterator[Step]:
    results = {step[1]: step for step in recorded if step[0] == "t"}
    for step in recorded:
        if step[0] == "m":
            yield Step(text=step[1], calls=tuple(_call(call, results.get(call[0])) for call in step[2]))


def _call(call: Sequence[Any], result: Sequence[Any] | None) -> Call:
    """Return the call with its result. A failed one begins with the word by which a conversation knows failures."""
    text = "" if result is None else _text(result[4])
    if result is not None and result[5]:
        text = f"Error: {_text(result[5])}"
    return Call(call_id=str(call[0]), name=str(call[1]), arguments=_text(call[2]), result=text)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
