"""Convert objects of the pipeline to rows of the tables, and back. Plain fields keep their names, others are JSON."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import ColumnElement, Table

from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.commit import ScoredTrace
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.evaluations import evaluation_from
from agenteval_collector.model.kept_findings import KeptFinding
from agenteval_collector.model.runs import RunKey
from agenteval_collector.model.sessions import SessionState
from agenteval_collector.model.usage import usage_from
from agenteval_collector.stores.schema import findings, outcomes, sessions, traces
from otel_agenteval.finding import Finding, Mode, Severity
from otel_agenteval.internal.text import storable
from otel_agenteval.outcome import Evaluation, Failure, Outcome, Score, Status, SubjectKind, Unscored


class FieldMap:
    """The fields of a dataclass that a table has as columns of the same names and values, except those in `but`.

    The properties `also` are treated like fields.
    """

    def __init__(self, kind: type[Any], table: Table, but: Collection[str] = (), also: Collection[str] = ()) -> None:
        names = [*(field.name for field in fields(kind)), *also]
        self.names = [name for name in names if name in table.c and name not in but]
        self._values = attrgetter(*self.names)

    def columns_of(self, record: object) -> dict[str, Any]:
        """Return these columns for the row of an object."""
        return dict(zip(self.names, self._values(record), strict=True))

    def fields_in(self, row: Mapping[Any, Any]) -> dict[str, Any]:
        """Return these fields of the object that a row was made from."""
        return {name: row[name] for name in self.names}


def whose(row: Mapping[Any, Any]) -> AgentKey:
    """Return the agent that a row is about."""
    return AgentKey(row["agent"], row["service"])


def has(column: ColumnElement[str], value: str | None) -> ColumnElement[bool]:
    """Make the condition that a column has this value; for None, that it has none. An index leads there in every
    database, unlike for IS NOT DISTINCT FROM."""
    return column.is_(None) if value is None else column == value


def _plain(value: Any) -> Any:
    if names := _field_names(value.__class__):
        return {name: getattr(value, name) for name in names}
    return dict(value) if isinstance(value, Mapping) else list(value)


@cache
def _field_names(kind: type[Any]) -> Sequence[str]:
    return [field.name for field in fields(kind)] if is_dataclass(kind) else ()


# Made once, because each call of `json.dumps` would make a new encoder. Nothing is copied before, as what tools return
# may be large.
to_json = json.JSONEncoder(default=_plain).encode
"""Return a value as JSON, with dataclasses as objects of their fields."""


_OF_VIEW: Final = ("trace_id", "session_id", "started_at", "revision", "continues_turn", "turn_goes_on", "died")
_TRACE: Final = FieldMap(ScoredTrace, traces, but=("offsets", "processes", "effort"), also=_OF_VIEW)
_FINDING: Final = FieldMap(Finding, findings, but=("severity", "mode", "span_id", "metadata"))
_EVALUATION: Final = FieldMap(Evaluation, outcomes)
_SESSION: Final = FieldMap(SessionState, sessions, but=("service", "services", "versions", "effort"))
KEY_OF_FINDING: Final = ("trace_id", "kind", "span_id", "nth")
KEY_OF_OUTCOME: Final = ("subject", "subject_id", "name", "method", "version")
JUDGED_FAILED: Final = 2
"""The bit of `sessions.attention` that says that the judge failed a trace of the session."""
UNUSUAL: Final = 1
"""The bit of `sessions.attention` that says that a trace of the session has a finding of unusual effort."""


def finding_row(kept_finding: KeptFinding, nth: int) -> dict[str, Any]:
    """Return the row of a finding that is the `nth` of its kind on its span."""
    finding = kept_finding.finding
    return {
        **_FINDING.columns_of(finding),
        "span_id": finding.span_id or "",
        "nth": nth,
        "severity": finding.severity.value,
        "mode": finding.mode.value if finding.mode is not None else None,
        "reason": storable(finding.reason),
        "metadata": to_json(finding.metadata),
        "counted": kept_finding.counted,
    }


def finding_of(row: Mapping[Any, Any]) -> Finding:
    """Return the finding that a row was made from."""
    return Finding(
        **_FINDING.fields_in(row),
        severity=Severity(row["severity"]),
        mode=Mode(row["mode"]) if row["mode"] is not None else None,
        span_id=row["span_id"] or None,
        metadata=json.loads(row["metadata"]),
    )


def trace_row(trace: ScoredTrace) -> dict[str, Any]:
    return {
        **_TRACE.columns_of(trace),
        "revised": "{}",
        "offsets": to_json(trace.offsets),
        **(RunKey.of(trace.run)._asdict() if trace.run else dict.fromkeys(RunKey._fields)),
        "processes": to_json(trace.processes),
        "said": storable(trace.text),
        "effort": to_json(trace.effort),
        "has_content": True,
    }


def outcome_row(evaluation: Evaluation, *, was_counted: bool = False) -> dict[str, Any]:
    """Return the row of an outcome. `was_counted`: instruments have counted it while it had no row."""
    outcome = evaluation.outcome
    return _EVALUATION.columns_of(evaluation) | {
        # Plain texts: the driver looks for an adapter for anything else.
        "subject": str(evaluation.subject),
        "method": str(evaluation.method),
        "status": str(outcome.status),
        "score": outcome.value if isinstance(outcome, Score) else None,
        "success": evaluation.success,
        "reason": storable(outcome.reason),
        "error_type": outcome.error_type if isinstance(outcome, Failure) else None,
        "coverage": outcome.coverage,
        "metadata": to_json(outcome.metadata) if outcome.metadata else "{}",
        "counted": was_counted or counts_at_once(evaluation),
    }


def counts_at_once(evaluation: Evaluation) -> bool:
    """Return whether instruments count an outcome with its commit. Pending outcomes, and those of sessions, count
    later."""
    return evaluation.subject is not SubjectKind.SESSION and evaluation.outcome.status is not Status.PENDING


def evaluation_of(row: Mapping[Any, Any]) -> Evaluation:
    """Return the evaluation that a row of `outcomes` was made from."""
    return evaluation_from(_EVALUATION.fields_in(row), _outcome(row))


def _outcome(row: Mapping[Any, Any]) -> Outcome:
    about = {"reason": row["reason"], "coverage": row["coverage"], "metadata": json.loads(row["metadata"])}
    match Status(row["status"]):
        case Status.SCORED:
            return Score(value=row["score"], **about)
        case Status.FAILED:
            return Failure(error_type=row["error_type"], **about)
        case status:
            return Unscored(status=status, **about)


def effort_from(column: str) -> Effort:
    """Return the effort from the text of a column `effort`."""
    stored = json.loads(column)
    # Efforts that were stored before texts were counted say nothing of them.
    return Effort(**{"asked": None, "answered": None} | stored | {"usage": usage_from(stored.get("usage"))})


def session_row(session: SessionState, finding_counts: Mapping[str, int]) -> dict[str, Any]:
    """Make the row of a session. `finding_counts` has the columns that say what was found in it."""
    encoded = {name: to_json(getattr(session, name)) for name in ("services", "versions", "effort")}
    return {**finding_counts, **_SESSION.columns_of(session), "service": session.service or "", **encoded}


def session_state(row: Mapping[Any, Any]) -> SessionState:
    """Return the session that a row of `sessions` was made from."""
    return SessionState(
        **_SESSION.fields_in(row),
        service=row["service"] or None,
        services=json.loads(row["services"]),
        versions=json.loads(row["versions"]),
        effort=effort_from(row["effort"]),
        is_unusual=bool(row["attention"] & UNUSUAL),
    )
