"""Findings: facts that are observed in an agent's telemetry, loops included.

Unlike an evaluator's judgement, a finding can be checked by anybody on the span that it names. Its `kind` is a stable
name, its `reason` a sentence of evidence. Findings do not enter any score.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.model import Json


class Severity(StrEnum):
    """The severity of a finding. An error flags its trace."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Mode(StrEnum):
    """The reach of a finding while its agent runs. A finding without a mode is only recorded."""

    OFF = "off"
    """Findings of the kind are not looked for."""
    OBSERVE = "observe"
    """The finding is stored, counted, and told to the agent's process."""
    ALARM = "alarm"
    """The finding also stops an agent under guard."""


def severity_of(mode: Mode) -> Severity:
    """Return the severity of a loop in this mode, unless the settings give it another."""
    return Severity.ERROR if mode is Mode.ALARM else Severity.WARNING


class FindingKind(StrEnum):
    """The kinds of findings other than loops of a trace, which are in `detectors.LoopKind`.

    Each is one row: its name, its severity unless an observation says otherwise, and the heading of its problem. Users
    read its name with spaces, unless it has `words` of its own.
    """

    severity: Severity
    heading: str
    words: str

    def __new__(cls, name: str, severity: Severity, heading: str, words: str | None = None) -> "FindingKind":
        member = str.__new__(cls, name)
        member._value_, member.severity, member.heading = name, severity, heading
        member.words = words or name.replace("_", " ")
        return member

    TURN_FAILED = "turn_failed", Severity.ERROR, "Turn ends in an error"
    NO_ANSWER = "no_answer", Severity.ERROR, "Answers with an empty text"
    AGENT_DIED = "agent_died", Severity.ERROR, "Agent dies in the middle of its work"
    UNFINISHED = "unfinished", Severity.WARNING, "Run never ends"
    TOOL_CALL_AS_TEXT = (
        *("tool_call_as_text", Severity.ERROR),
        *("Writes a tool call as text instead of making it", "tool call written as text"),
    )
    MODEL_FAILED = "model_failed", Severity.WARNING, "Call of the model fails"
    TOOL_FAILED = "tool_failed", Severity.WARNING, "Tool fails"
    NONZERO_EXIT = "nonzero_exit", Severity.INFO, "Command ends with an exit code other than 0"
    STEP_FAILED = "step_failed", Severity.INFO, "Step fails within a turn that goes on"
    UNKNOWN_TOOL = "unknown_tool", Severity.WARNING, "Calls a tool that was not offered"
    INVALID_ARGUMENTS = "invalid_arguments", Severity.WARNING, "Calls a tool with arguments that do not fit"
    ANSWER_CUT = "answer_cut", Severity.WARNING, "Answer breaks off"
    VALUE_NOT_SAID = (
        *("value_not_said", Severity.INFO),
        *("Calls a tool with a value that nobody said", "value that nobody said"),
    )
    REPEATED_CALL = "repeated_call", Severity.INFO, "Makes the same call again and again"
    REPEATED_EFFECT = "repeated_effect", Severity.WARNING, "Does the same thing twice"
    UNUSUAL_EFFORT = "unusual_effort", Severity.INFO, "Takes more effort than usual"
    REPEATED_ANSWER = "repeated_answer", Severity.ERROR, "Restates an earlier answer to other questions"


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An observation.

    `turn` counts from 0; None if the finding is about the whole trace, or the turn is not known yet. `span_id` is the
    span that shows it, None if there is none. `mode` is None if the finding is only recorded. `metadata` holds the
    evidence. `found_at` is in nanoseconds since the Unix epoch.
    """

    kind: str
    severity: Severity
    reason: str
    trace_id: str
    session_id: str
    span_id: str | None = None
    turn: int | None = None
    agent: str | None = None
    tool: str | None = None
    service: str | None = None
    service_version: str | None = None
    environment: str | None = None
    mode: Mode | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    found_at: int = 0

    @property
    def is_alarm(self) -> bool:
        """True if the finding may stop the agent."""
        return self.mode is Mode.ALARM


class Visibility(StrEnum):
    """The share of one sort of content that a trace has."""

    ALL = "all"
    SOME = "some"
    NONE = "none"


@checked_dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The visibility of each sort of content in a trace.

    None means that there is nothing to see, such as arguments without a call. `history` is what was said before the
    trace in its session.
    """

    answers: Visibility | None = None
    arguments: Visibility | None = None
    results: Visibility | None = None
    finish_reasons: Visibility | None = None
    history: Visibility | None = None

    @property
    def is_blind(self) -> bool:
        """True if the trace itself has no content to look at."""
        facts = (self.answers, self.arguments, self.results, self.finish_reasons)
        return all(fact in (None, Visibility.NONE) for fact in facts)
