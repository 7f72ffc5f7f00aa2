"""The problem that a finding or a judged failure belongs to."""

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from otel_agenteval.detectors import Kind
from otel_agenteval.finding import FindingKind, Severity
from otel_agenteval.model import Json

OTHER: Final = "<other>"
"""The shape of all further errors, where one tool or one agent has too many for each to be a problem."""

_WHAT: Final[Mapping[str, str]] = {
    FindingKind.TURN_FAILED: "Turn ends in an error",
    FindingKind.NO_ANSWER: "Answers with an empty text",
    FindingKind.AGENT_DIED: "Agent dies in the middle of its work",
    FindingKind.TOOL_CALL_AS_TEXT: "Writes a tool call as text instead of making it",
    FindingKind.MODEL_FAILED: "Call of the model fails",
    FindingKind.TOOL_FAILED: "Tool fails",
    FindingKind.UNKNOWN_TOOL: "Calls a tool that was not offered",
    FindingKind.INVALID_ARGUMENTS: "Calls a tool with arguments that do not fit",
    FindingKind.ANSWER_CUT: "Answer breaks off",
    FindingKind.REPEATED_ANSWER: "Restates an earlier answer to other questions",
    Kind.IDENTICAL_CALL: "Makes the same call over and over",
    Kind.CYCLE: "Goes round in a circle of calls",
    Kind.NO_PROGRESS: "Gets the same result over and over",
    Kind.ERROR_STORM: "Fails in the same way over and over",
    Kind.REPEATED_OUTPUT: "Says the same over and over",
    Kind.HUNG_SPAN: "Call hangs",
    Kind.BUDGET: "Uses more than its budget",
}


class ProblemKey(NamedTuple):
    """Tells a problem from others. `kind` is that of its findings, or the name of the evaluator that fails its traces;
    `shape` that of the error, empty where there is none."""

    agent: str | None
    kind: str
    tool: str | None
    shape: str

    @property
    def problem_id(self) -> str:
        """The id: 16 hexadecimal digits, the same wherever and whenever the problem occurs."""
        # With lengths: no two keys may run into the same text.
        parts = "".join("-" if each is None else f"{len(each)}:{each}" for each in self)
        return hashlib.blake2b(parts.encode(errors="replace"), digest_size=8).hexdigest()

    @property
    def title(self) -> str:
        """A sentence for people, on one line."""
        what = _WHAT.get(self.kind) or f"Fails {self.kind.replace('_', ' ')}"
        named = f"{what}: {self.tool}" if self.tool is not None else what
        if not self.shape:
            return named
        error = "other errors" if self.shape == OTHER else self.shape
        return f"{named}: {error}"

    @property
    def overflow(self) -> "ProblemKey":
        """The problem for all errors of this agent, kind and tool that are none of their own."""
        return self._replace(shape=OTHER)


ALL_OTHERS: Final = "other"
"""The kind of the one problem for everything that finds no place of its own."""
LAST_RESORT: Final = ProblemKey(None, ALL_OTHERS, None, OTHER)


def problem_of_finding(
    agent: str | None, kind: str, severity: str, tool: str | None, metadata: Mapping[str, Json]
) -> ProblemKey | None:
    """Return the problem of a finding; None where it is none, because its severity is `info`."""
    if severity == Severity.INFO:
        return None
    shape = metadata.get("shape")
    return ProblemKey(agent, kind, tool, shape if isinstance(shape, str) else "")


def problem_of_failure(agent: str | None, name: str) -> ProblemKey:
    """Return the problem of a judge's score below its threshold: one for each evaluator, as its reasons are worded
    anew each time."""
    return ProblemKey(agent, name, None, "")
