"""Between the objects of the pipeline and the rows of the tables."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from agenteval_collector.model.commit import TraceRecord
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.sessions import SessionRecord
from agenteval_collector.stores.trace_json import view_json
from otel_agenteval.outcome import Evaluation, Failure, Method, Outcome, Score, Status, Subject, Unscored
from otel_agenteval.text import storable


def trace_row(trace: TraceRecord) -> dict[str, Any]:
    return {
        "trace_id": trace.trace_id,
        "session_id": trace.session_id,
        "started_at": trace.started_at,
        "continues_turn": trace.continues_turn,
        "turn_goes_on": trace.turn_goes_on,
        "revision": trace.revision,
        "revised": "{}",
        "offsets": json.dumps(list(trace.offsets)),
        "task_id": trace.run.task_id if trace.run else None,
        "run_id": trace.run.run_id if trace.run else None,
        "condition": trace.run.condition if trace.run else None,
        "died": trace.died,
        "processes": json.dumps(list(trace.processes)),
        "said": storable(trace.text),
        "effort": json.dumps(asdict(trace.effort)),
        "scored_at": trace.scored_at,
    }


def view_row(trace: TraceRecord) -> dict[str, Any]:
    return {"trace_id": trace.trace_id, "view": view_json(trace.view)}


def outcome_row(evaluation: Evaluation) -> dict[str, Any]:
    outcome = evaluation.outcome
    return {
        "subject": evaluation.subject,
        "subject_id": evaluation.subject_id,
        "name": evaluation.name,
        "method": evaluation.method,
        "version": evaluation.version,
        "revision": evaluation.revision,
        "session_id": evaluation.session_id,
        "trace_id": evaluation.trace_id,
        "span_id": evaluation.span_id,
        "agent": evaluation.agent,
        "service": evaluation.service,
        "service_version": evaluation.service_version,
        "status": outcome.status,
        "score": outcome.value if isinstance(outcome, Score) else None,
        "threshold": evaluation.threshold,
        "success": evaluation.success,
        "reason": storable(outcome.reason),
        "error_type": outcome.error_type if isinstance(outcome, Failure) else None,
        "coverage": outcome.coverage,
        "metadata": json.dumps(dict(outcome.metadata)),
        "model": evaluation.model,
        "evaluated_at": evaluation.evaluated_at,
        "counted": counts_at_once(evaluation),
    }


def counts_at_once(evaluation: Evaluation) -> bool:
    """Return whether instruments count it with its commit; pending outcomes, and those of sessions, count later."""
    return evaluation.subject is not Subject.SESSION and evaluation.outcome.status is not Status.PENDING


def evaluation_of(row: Mapping[Any, Any]) -> Evaluation:
    """The evaluation that a row of `outcomes` was made from."""
    return Evaluation(
        name=row["name"],
        version=row["version"],
        method=Method(row["method"]),
        subject=Subject(row["subject"]),
        subject_id=row["subject_id"],
        revision=row["revision"],
        outcome=_outcome(row),
        threshold=row["threshold"],
        session_id=row["session_id"],
        trace_id=row["trace_id"],
        span_id=row["span_id"],
        agent=row["agent"],
        service=row["service"],
        service_version=row["service_version"],
        model=row["model"],
        evaluated_at=row["evaluated_at"],
    )


def _outcome(row: Mapping[Any, Any]) -> Outcome:
    about = {"reason": row["reason"], "coverage": row["coverage"], "metadata": json.loads(row["metadata"])}
    match Status(row["status"]):
        case Status.SCORED:
            return Score(value=row["score"], **about)
        case Status.FAILED:
            return Failure(error_type=row["error_type"], **about)
        case status:
            return Unscored(status=status, **about)


UNUSUAL: Final = 1
"""The bit of `sessions.attention` that says that a trace of the session has a finding of unusual effort."""


def effort_from(column: str) -> Effort:
    """The effort that a column `effort` was made from."""
    return Effort(**json.loads(column))


def session_row(session: SessionRecord, found: Mapping[str, int]) -> dict[str, Any]:
    """Make the row of a session; `found` are the columns that say what was found in it."""
    return {
        **found,
        "session_id": session.session_id,
        "user_id": session.user_id,
        "agent": session.agent,
        "services": json.dumps(list(session.services)),
        "versions": json.dumps(list(session.versions)),
        "started_at": session.started_at,
        "last_seen_at": session.last_seen_at,
        "trace_count": session.trace_count,
        "effort": json.dumps(asdict(session.effort)),
        "blind": session.is_blind,
        "finalized_at": session.finalized_at,
        "ended_at": session.ended_at,
    }


def session_record(row: Mapping[Any, Any]) -> SessionRecord:
    """The session that a row of `sessions` was made from."""
    return SessionRecord(
        session_id=row["session_id"],
        user_id=row["user_id"],
        agent=row["agent"],
        services=json.loads(row["services"]),
        versions=json.loads(row["versions"]),
        started_at=row["started_at"],
        last_seen_at=row["last_seen_at"],
        trace_count=row["trace_count"],
        effort=effort_from(row["effort"]),
        is_unusual=bool(row["attention"] & UNUSUAL),
        is_blind=row["blind"],
        finalized_at=row["finalized_at"],
        ended_at=row["ended_at"],
    )
