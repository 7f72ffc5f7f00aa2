"""Read the run that a trace belongs to, and its outcome, from any of the trace's spans and log records.

`otel_agenteval.run()` writes task and run on every span. A `RunNaming` lists attributes of the application.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from otel_agenteval import semconv
from otel_agenteval.conventions.decoding import decode_structure, known_text
from otel_agenteval.conventions.identity import Carriers, first_id
from otel_agenteval.model import MAX_EXPECTED_ANSWER, ExpectedTool, Json, RunIdentity, RunOutcome

EXPECTED_TOOLS = "expected_tools"
"""The name in `Trace.unread` of expected tools that could not be read."""

MAX_EXPECTED_TOOLS = 1000
"""Expected calls of one trace. A longer list is not read."""

_TRUE, _FALSE = ("true", "1", "yes", "pass", "passed"), ("false", "0", "no", "fail", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNaming:
    """Attributes of the application that name a run and its outcome. The first counts that a span, log record or
    resource has. Ours come before them."""

    task: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    success: tuple[str, ...] = ()
    confidence: tuple[str, ...] = ()


STAMPED = RunNaming()
"""Names no attributes beside ours."""


def run_identity(carriers: Carriers, naming: RunNaming, session: str) -> RunIdentity | None:
    """Return the run; None if no task is named. If only a task is named, the session is the run."""
    task = _first_name(carriers, (semconv.AGENTEVAL_TASK_ID, *naming.task))
    if task is None:
        return None
    run = _first_name(carriers, (semconv.AGENTEVAL_RUN_ID, *naming.run)) or session
    condition = first_id(carriers, (semconv.AGENTEVAL_CONDITION,))
    if condition is None:
        return RunIdentity(task_id=task, run_id=run)
    return RunIdentity(task_id=task, run_id=run, condition=condition)


def run_outcome(carriers: Carriers, naming: RunNaming, unread: Counter[str]) -> RunOutcome:
    """Return the outcome of the run. A success that is neither true nor false, or a confidence outside [0, 1], is
    counted in `unread`."""
    success = _first_value(carriers, (semconv.AGENTEVAL_RUN_SUCCESS, *naming.success))
    confidence = _first_value(carriers, (semconv.AGENTEVAL_RUN_CONFIDENCE, *naming.confidence))
    outcome = RunOutcome(success=_truth(success), confidence=_share(confidence))
    if success is not None and outcome.success is None:
        unread["run_success"] += 1
    if confidence is not None and outcome.confidence is None:
        unread["run_confidence"] += 1
    return outcome


def expected_tools(carriers: Carriers, unread: Counter[str]) -> tuple[ExpectedTool, ...] | None:
    """Return the calls that a good answer makes, from a JSON list of names or of `{"name": ..., "arguments": {...}}`.

    None if there is no such list; one that cannot be read is counted in `unread`.
    """
    value = _first_value(carriers, (semconv.AGENTEVAL_EXPECTED_TOOLS,))
    if value is None:
        return None
    tools = decode_structure(value)
    expected = read_expected(tools) if isinstance(tools, list) and len(tools) <= MAX_EXPECTED_TOOLS else None
    if expected is None:
        unread[EXPECTED_TOOLS] += 1
    return expected


def expected_answer(carriers: Carriers) -> str | None:
    """Return the text that a good answer is or contains; None if there is none with a word in it."""
    value = known_text(_first_value(carriers, (semconv.AGENTEVAL_EXPECTED_ANSWER,)))
    return readable_answer(value)


def readable_answer(value: str | None) -> str | None:
    """Return the first `MAX_EXPECTED_ANSWER` characters of an expected answer; None if they have no letter or digit."""
    answer = (value or "")[:MAX_EXPECTED_ANSWER]
    return answer if any(map(str.isalnum, answer)) else None


def read_expected(tools: Sequence[Json]) -> tuple[ExpectedTool, ...] | None:
    """Return the tools of a decoded list; None if an element is neither a name nor an object with one."""
    expected = []
    for tool in tools:
        match tool:
            case str() if tool:
                expected.append(ExpectedTool(name=tool))
            case {"name": str(name), **rest} if name and isinstance(rest.get("arguments"), dict | None):
                arguments = rest.get("arguments")
                expected.append(ExpectedTool(name=name, arguments=arguments if isinstance(arguments, dict) else None))
            case _:
                return None
    return tuple(expected)


def _first_name(carriers: Carriers, keys: Sequence[str]) -> str | None:
    """Return the id under the first of `keys` that is there. A float or a bool becomes its text in JSON."""
    for key in keys:
        for carrier in carriers:
            value = carrier.get(key)
            if isinstance(value, bool | float):
                return json.dumps(value)
            if (identifier := first_id((carrier,), (key,))) is not None:
                return identifier
    return None


def _first_value(carriers: Carriers, keys: Sequence[str]) -> Json:
    return next((c[key] for key in keys for c in carriers if c.get(key) is not None), None)


def _truth(value: Json) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return bool(value) if value in (0, 1) else None
    text = (known_text(value) or "").strip().lower()
    return True if text in _TRUE else False if text in _FALSE else None


def _share(value: Json) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        return None
    return number if number is not None and 0.0 <= number <= 1.0 else None
