"""Outcomes of judged evaluators that nobody is asked about: the collector has no judge, or the trace has nothing to
judge. They say little and are most of all outcomes, so those of a trace are one column beside its view, and no rows.

An outcome in a row takes the place of one by the same name in the column: the trace was given to the judge later.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from operator import attrgetter
from typing import Any, Final, TypeAlias

from sqlalchemy import ColumnElement, Row, select

from agenteval_collector.model.commit import ScoredTrace
from agenteval_collector.stores.access import TenantConnection
from agenteval_collector.stores.rows import to_json
from agenteval_collector.stores.schema import OF_TRACE, own, trace_views, traces
from otel_agenteval.outcome import Evaluation, Method, Status, SubjectKind, Unscored

FORGOTTEN: Final = "no longer kept (retention.content)"
"""The reason of an outcome or a finding whose own reason was forgotten."""
_UNASKED: Final = frozenset({Status.NO_JUDGE, Status.NOT_APPLICABLE, Status.NO_CONTENT})
_ABOUT: Final = ("span_id", "agent", "service", "service_version", "environment", "evaluated_at")
_about = attrgetter(*_ABOUT)
_Kept: TypeAlias = tuple[str, str, float | None, str, str]
"""Name, version, threshold, status and reason of an outcome."""
_ALIKE: Final = 1024
"""The most lists of outcomes whose text is remembered, those that were met last. Most traces have one of a few."""


def parted(
    evaluations: Iterable[Evaluation], complete: Sequence[ScoredTrace]
) -> tuple[list[Evaluation], dict[tuple[str, int], list[Evaluation]]]:
    """Return the evaluations that have rows, and those without, by trace and revision, of the `complete` traces."""
    revisions = {(trace.trace_id, trace.revision) for trace in complete}
    with_rows: list[Evaluation] = []
    unasked: dict[tuple[str, int], list[Evaluation]] = {}
    for evaluation in evaluations:
        of = evaluation.subject_id, evaluation.revision
        if evaluation.method is Method.LLM and _is_unasked(evaluation) and of in revisions:
            unasked.setdefault(of, []).append(evaluation)
        else:
            with_rows.append(evaluation)
    return with_rows, unasked


def _is_unasked(evaluation: Evaluation) -> bool:
    outcome = evaluation.outcome
    return (
        outcome.status in _UNASKED
        and evaluation.subject is SubjectKind.TRACE
        and evaluation.part is None
        and evaluation.model is None
        and outcome.coverage is None
        and not outcome.metadata
    )


def column_of(evaluations: Sequence[Evaluation]) -> str | None:
    """Return the column for the outcomes of one trace that nobody is asked about."""
    if not evaluations:
        return None
    kept = tuple((e.name, e.version, e.threshold, e.outcome.status.value, e.outcome.reason) for e in evaluations)
    return f"[{to_json(_about(evaluations[0]))}, {_text(kept)}]"


@lru_cache(_ALIKE)
def _text(kept: Sequence[_Kept]) -> str:
    return to_json(kept)


_COLUMN: Final = (
    select(traces.c.trace_id, traces.c.session_id, traces.c.revision, traces.c.has_content, trace_views.c.unasked)
    .join_from(traces, trace_views, OF_TRACE)
    .where(own(traces), trace_views.c.unasked.is_not(None))
    .order_by(traces.c.started_at.desc())
)


def read_unasked(
    connection: TenantConnection,
    of_trace: Iterable[ColumnElement[bool]],
    rows: Iterable[Evaluation],
    values: Mapping[str, Any],
    names: Collection[str] | None = None,
) -> Iterable[Evaluation]:
    """Return the outcomes of these traces that nobody is asked about, the newest trace first, without those that one of
    the `rows` takes the place of. `names` are those of the wanted outcomes; None: all."""
    in_rows = {(row.subject_id, row.name) for row in rows}
    found = connection.execute(_COLUMN.where(*of_trace), values)

    def wanted(trace: Row[Any], name: str) -> bool:
        return (names is None or name in names) and (trace.trace_id, name) not in in_rows

    of_traces = connection.readable(trace_views, found, partial(_evaluations_of, wanted), key=["trace_id"])
    return chain.from_iterable(of_traces)


def _evaluations_of(wanted: Callable[[Row[Any], str], bool], trace: Row[Any]) -> Sequence[Evaluation]:
    about, kept = json.loads(trace.unasked)
    return [
        Evaluation(
            name=name,
            version=version,
            method=Method.LLM,
            subject=SubjectKind.TRACE,
            subject_id=trace.trace_id,
            revision=trace.revision,
            outcome=Unscored(status=Status(status), reason=reason if trace.has_content else FORGOTTEN),
            threshold=threshold,
            session_id=trace.session_id,
            trace_id=trace.trace_id,
            **dict(zip(_ABOUT, about, strict=True)),
        )
        for name, version, threshold, status, reason in kept
        if wanted(trace, name)
    ]
