"""A problem: the key that its findings and judged failures share, its state, and how it is shown."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.problem_shape import MAX_SHAPE
from otel_agenteval.detectors.rules import LoopKind
from otel_agenteval.finding import FindingKind, Severity
from otel_agenteval.internal.text import cut
from otel_agenteval.model import Json

HOURS: Final = 24
"""Hours of a problem's trend."""
MOST_EXAMPLES: Final = 5
"""The most traces that are named as examples. They are the newest."""
_DAY: Final = 24 * 3600 * 1_000_000_000

NEW_FOR: Final = _DAY
"""Nanoseconds for which a problem counts as new after it began, or as regressed after it came back."""
QUIET_FOR: Final = 7 * _DAY
"""Nanoseconds without an occurrence after which a problem counts as resolved."""
SHAPE: Final = "shape"
"""The name under which a finding, or an outcome that fails, has the shape of its error or of its reason."""
OTHER: Final = "<other>"
"""The shape of further errors, if a tool or an agent has too many shapes for each to be a problem."""

_EXACT: Final = re.compile(r"= ([0-9a-f]{16}) (.*)")
"""The shape of a problem that is one text of a problem that was split. No other shape has a number so long."""

_HEADINGS: Final[Mapping[str, str]] = {kind: kind.heading for kind in (*FindingKind, *LoopKind)}


_BY_ERROR: Final[Mapping[str, str]] = {
    FindingKind.TOOL_FAILED: "Tool",
    FindingKind.MODEL_FAILED: "Model call",
}
"""Kinds whose problems are named by where the error is, and the error."""


class ProblemKey(NamedTuple):
    """Tells a problem from others.

    It is a problem of the agent with the name `agent` in `service`. `kind` is the kind of its findings, or the name of
    the evaluator that its traces fail. `shape` is the shape of the error, empty if there is none.
    """

    agent: str | None
    service: str | None
    kind: str
    tool: str | None
    shape: str

    @property
    def problem_id(self) -> str:
        """The id: 16 hexadecimal digits, the same wherever and whenever the problem occurs."""
        # The lengths keep two different keys from giving the same text.
        text = "".join("-" if field is None else f"{len(field)}:{field}" for field in self)
        # Recorded names may hold lone surrogates, which cannot be encoded otherwise.
        return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()

    @property
    def title(self) -> str:
        """A sentence for people, on one line."""
        if exact := _EXACT.fullmatch(self.shape):
            return exact[2]  # A sentence that names what it is about.
        error = "other errors" if self.shape == OTHER else self.shape
        if self.kind in _BY_ERROR and self.shape:
            return f"{self.tool or _BY_ERROR[self.kind]}: {error}"
        what = _HEADINGS.get(self.kind) or f"Fails {self.kind.replace('_', ' ')}"
        named = f"{what}: {self.tool}" if self.tool is not None else what
        return f"{named}: {error}" if self.shape else named

    @property
    def split_from(self) -> str | None:
        """The problem that was split, if this one is one text of it."""
        exact = _EXACT.fullmatch(self.shape)
        return None if exact is None else exact[1]

    def exact(self, text: str) -> "ProblemKey":
        """Return the problem of one text, after this problem was split."""
        return self._replace(shape=f"= {self.problem_id} {cut(' '.join(text.split()), MAX_SHAPE)}")

    @property
    def overflow(self) -> "ProblemKey":
        """The problem for all errors of this agent, kind and tool that have no problem of their own."""
        return self._replace(shape=OTHER)


ALL_OTHERS: Final = "other"
"""The kind of the one problem for all failures that find no place of their own."""
LAST_RESORT: Final = ProblemKey(None, None, ALL_OTHERS, None, OTHER)


def problem_of_finding(
    whose: AgentKey, kind: str, severity: str, tool: str | None, metadata: Mapping[str, Json]
) -> ProblemKey | None:
    """Return the problem of a finding. Return None for a finding of severity `info`, which is no problem."""
    if severity == Severity.INFO:
        return None
    shape = metadata.get(SHAPE)
    return ProblemKey(*whose, kind, tool, shape if isinstance(shape, str) else "")


def problem_of_failure(whose: AgentKey, name: str, metadata: Mapping[str, Json]) -> ProblemKey:
    """Return the problem of a judge's score below its threshold. Its reason has the shape of those that mean the same
    (`evaluation/judged_reasons.py`)."""
    shape = metadata.get(SHAPE)
    return ProblemKey(*whose, name, None, shape if isinstance(shape, str) else "")


class ProblemCause(NamedTuple):
    """The step at which a problem began, in the newest of its traces with the agent and tool that it has most often.

    `traces` counts these traces. `turn` counts from 0 within the trace. `told_by` is the kind of finding, or the
    evaluator whose judge says so. None: not known.
    """

    trace_id: str | None
    span_id: str | None
    turn: int | None
    agent: str | None
    tool: str | None
    what: str
    told_by: str
    session_id: str
    traces: int


class ProblemState(StrEnum):
    """The state of a problem."""

    NEW = "new"
    """The problem occurred for the first time less than `NEW_FOR` ago."""
    ONGOING = "ongoing"
    """The problem first occurred, or came back, at least `NEW_FOR` ago."""
    REGRESSED = "regressed"
    """The problem was resolved, and came back less than `NEW_FOR` ago."""
    MUTED = "muted"
    """Somebody does not want to hear of the problem for a time."""
    RESOLVED = "resolved"
    """Somebody resolved the problem and it has not occurred since, or it has not occurred for `QUIET_FOR`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A failure that recurs.

    Times are in nanoseconds since the Unix epoch. `traces` and `sessions` count the traces and sessions in which it
    occurred. `usd` and `seconds` are what these traces took, as far as that is known. `versions` counts the traces by
    the agent's version. `first_version` is the version of the earliest trace that is kept. Both leave out traces
    without a version. `trend` counts traces by hour. It has `HOURS` entries, and the last one is the present hour.
    `examples` are trace ids, the newest first. `followed` counts traces by the kinds of findings that followed from it.
    `merged` are the ids of problems that somebody merged into it.
    """

    key: ProblemKey
    severity: Severity
    state: ProblemState
    first_seen: int
    last_seen: int
    traces: int
    sessions: int
    usd: float
    seconds: float
    versions: Mapping[str, int]
    first_version: str | None
    trend: Sequence[int]
    examples: Sequence[str]
    cause: ProblemCause | None
    followed: Mapping[str, int]
    merged: Sequence[str]
    resolved_at: int | None
    resolved_by: str | None
    muted_until: int | None
    muted_by: str | None


class ProblemFilter(NamedTuple):
    """The filter of a listing. None means any. `version` selects problems that occurred in that version, `environment`
    and `since` (ns) those that occurred there and from then on."""

    agent: str | None = None
    service: str | None = None
    state: ProblemState | None = None
    severity: Severity | None = None
    version: str | None = None
    environment: str | None = None
    since: int | None = None


EVERY_PROBLEM: Final = ProblemFilter()
"""The filter that every problem passes."""


class ProblemCount(NamedTuple):
    """The number of problems with this state and severity, of one agent."""

    state: ProblemState
    severity: Severity
    whose: AgentKey
    problems: int
