"""Make `gen_ai.evaluation.result` events from news, on the evaluated span.

Names follow the GenAI semantic conventions (open-telemetry/semantic-conventions-genai). Names that those do not define
begin with `agenteval.`. So does the evaluated service, because the resource of the event is this collector.
"""

import json
import uuid
from collections.abc import Mapping
from typing import Final

from agenteval_collector.emit.attributes import clean, present, tenant_attributes
from agenteval_collector.emit.instruments import score_label
from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.model.news import Event, News
from otel_agenteval import semconv
from otel_agenteval.detectors.rules import LOOP_EVALUATOR, LOOP_KINDS
from otel_agenteval.finding import Finding, Severity
from otel_agenteval.internal.text import storable
from otel_agenteval.outcome import Evaluation, Failure, Score, Status

_EXPLANATION_LENGTH: Final = 1024
_NAME_LENGTH: Final = 256
_EVENTS: Final = uuid.UUID("7a3f4dc6-2f0e-4f0a-9c43-5d6b8e2c1a90")
"""The name space of event ids (UUID version 5)."""


_UNTOLD: Final = frozenset({Status.PENDING, Status.NO_JUDGE})
"""Statuses that make no event, because the judge has not looked at the trace yet, or never will."""


def events_of(news: News, tenant: str = DEFAULT_TENANT) -> list[Event]:
    """Make an event for every revision of every outcome, and one for each finding that was told live or is an error.

    Events carry the tenant's name, so that no two tenants share an event id. A final session score makes none: it was
    told when it was computed.
    """
    whose = tenant_attributes(tenant)
    findings = [
        _of_finding(finding, whose)
        for finding in news.counted
        if finding.mode is not None or finding.severity is Severity.ERROR
    ]
    changed = [item.evaluation for item in news.evaluations if not item.final]
    evaluations = [_of_evaluation(item, whose) for item in changed if item.outcome.status not in _UNTOLD]
    return findings + evaluations


def _of_evaluation(evaluation: Evaluation, whose: Mapping[str, str]) -> Event:
    return _event(evaluation, evaluation.subject_id, evaluation.evaluated_at, {**_attributes(evaluation), **whose})


def _of_finding(finding: Finding, whose: Mapping[str, str]) -> Event:
    return _event(finding, finding.trace_id, finding.found_at, {**_finding_attributes(finding), **whose})


def _event(about: Evaluation | Finding, subject_id: str, at: int, attributes: dict[str, str | float | int]) -> Event:
    """Make an event. Its id is a hash of everything but the time, so that a replay makes the same event again."""
    trace_id, span_id = about.trace_id or "", about.span_id or ""
    identity = json.dumps([subject_id, trace_id, span_id, attributes], sort_keys=True)
    event_id = str(uuid.uuid5(_EVENTS, identity))
    return Event(
        event_id=event_id,
        session_id=storable(about.session_id),
        trace_id=trace_id,
        span_id=span_id,
        at=at,
        attributes={**attributes, semconv.AGENTEVAL_EVENT_ID: event_id},
    )


def _attributes(evaluation: Evaluation) -> dict[str, str | float | int]:
    outcome = evaluation.outcome
    attributes: dict[str, str | float | int | None] = {
        semconv.GEN_AI_EVALUATION_NAME: evaluation.name,
        semconv.GEN_AI_EVALUATION_SCORE_VALUE: outcome.value if isinstance(outcome, Score) else None,
        semconv.GEN_AI_EVALUATION_SCORE_LABEL: score_label(evaluation),
        semconv.GEN_AI_EVALUATION_EXPLANATION: clean(outcome.reason, _EXPLANATION_LENGTH),
        semconv.ERROR_TYPE: clean(outcome.error_type, _NAME_LENGTH) if isinstance(outcome, Failure) else None,
        semconv.GEN_AI_CONVERSATION_ID: clean(evaluation.session_id, _NAME_LENGTH),
        semconv.GEN_AI_AGENT_NAME: _name(evaluation.agent),
        semconv.AGENTEVAL_SUBJECT: evaluation.subject.value,
        semconv.AGENTEVAL_METHOD: evaluation.method.value,
        semconv.AGENTEVAL_STATUS: outcome.status.value,
        semconv.AGENTEVAL_PART: None if evaluation.part is None else evaluation.part.value,
        semconv.AGENTEVAL_COVERAGE: outcome.coverage,
        semconv.AGENTEVAL_THRESHOLD: evaluation.threshold,
        semconv.AGENTEVAL_REVISION: evaluation.revision,
        semconv.AGENTEVAL_EVALUATOR_VERSION: evaluation.version,
        semconv.AGENTEVAL_EVALUATOR_MODEL: _name(evaluation.model),
        semconv.AGENTEVAL_SERVICE_NAME: _name(evaluation.service),
        semconv.AGENTEVAL_SERVICE_VERSION: _name(evaluation.service_version),
        semconv.AGENTEVAL_DEPLOYMENT_ENVIRONMENT: _name(evaluation.environment),
    }
    return present(attributes)


def _finding_attributes(finding: Finding) -> dict[str, str | float | int]:
    is_loop = finding.kind in LOOP_KINDS
    # A trace without a session has its own id as the session's. Its session may become known later.
    session_id = None if finding.session_id == finding.trace_id else finding.session_id
    return present(
        {
            semconv.GEN_AI_EVALUATION_NAME: LOOP_EVALUATOR if is_loop else finding.kind,
            semconv.GEN_AI_EVALUATION_SCORE_LABEL: "fail",
            semconv.GEN_AI_EVALUATION_EXPLANATION: clean(finding.reason, _EXPLANATION_LENGTH),
            semconv.GEN_AI_CONVERSATION_ID: _name(session_id),
            semconv.GEN_AI_AGENT_NAME: _name(finding.agent),
            semconv.AGENTEVAL_FINDING_KIND: finding.kind,
            semconv.AGENTEVAL_FINDING_SEVERITY: finding.severity.value,
            semconv.AGENTEVAL_LOOP_KIND: finding.kind if is_loop else None,
            semconv.AGENTEVAL_LOOP_MODE: finding.mode.value if is_loop and finding.mode is not None else None,
            semconv.AGENTEVAL_SERVICE_NAME: _name(finding.service),
            semconv.AGENTEVAL_SERVICE_VERSION: _name(finding.service_version),
            semconv.AGENTEVAL_DEPLOYMENT_ENVIRONMENT: _name(finding.environment),
        }
    )


def _name(text: str | None) -> str | None:
    return None if text is None else clean(text, _NAME_LENGTH)
