"""The result of a check, as an object, as text and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from otel_agenteval.internal.text import visible

_WIDEST: Final = len("warning")


class State(StrEnum):
    """The state that a check has found."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its name and state, what it found, and advice if something is to be done."""

    name: str
    state: State
    found: str
    advice: str | None = None


def ok(name: str, fact: str, advice: str | None = None) -> Check:
    return Check(name, State.OK, fact, advice)


def warning(name: str, fact: str, advice: str) -> Check:
    return Check(name, State.WARNING, fact, advice)


def error(name: str, fact: str, advice: str) -> Check:
    return Check(name, State.ERROR, fact, advice)


def as_text(checks: Sequence[Check]) -> str:
    """Return the checks as lines for a terminal.

    Control characters are made visible, so that a text that others have sent cannot move the cursor.
    """
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.state:<{_WIDEST}}  {check.name:<{width}}  {visible(check.found)}")
        if check.advice:
            lines.append(f"{'':<{_WIDEST}}  {'':<{width}}  -> {visible(check.advice)}")
    return "\n".join(lines) + "\n"


def as_json(checks: Sequence[Check]) -> str:
    """Return the checks as JSON in ASCII: `{"checks": [{name, state, found, advice}]}`."""
    return json.dumps({"checks": [asdict(check) for check in checks]}) + "\n"
