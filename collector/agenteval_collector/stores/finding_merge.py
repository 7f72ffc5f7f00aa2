"""The rows of a trace's findings by their keys, after something more is known of the trace. Pure functions."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias

from agenteval_collector.model.commit import CROSS_TRACE_KINDS, RevisedTurn, TraceRecord
from agenteval_collector.stores.rows import FieldMap, to_json
from agenteval_collector.stores.schema import findings
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import Finding, FindingKind, Mode, Severity
from otel_agenteval.internal.text import storable

Key: TypeAlias = tuple[str, str, int]
"""The kind, the span, and the number among findings of the same kind on the same span."""
Row: TypeAlias = Mapping[Any, Any]
Rows: TypeAlias = Mapping[Key, Row]

SEVERITIES: Final = (Severity.INFO, Severity.WARNING, Severity.ERROR)
"""From the least to the worst."""

_EVIDENCE: Final = ("severity", "mode", "reason", "metadata", "turn")
_NAMES: Final = ("agent", "service", "service_version", "environment")
_FIELDS: Final = FieldMap(Finding, findings, but=("severity", "mode", "span_id", "metadata"))


def worst(severities: Iterable[str]) -> Severity | None:
    """Return the worst of these severities; None where there are none."""
    return max((Severity(each) for each in severities), key=SEVERITIES.index, default=None)


def with_live(rows: Rows, found: Iterable[Finding], recounted: Iterable[Finding]) -> Rows:
    """Return the rows of a trace that goes on, after these findings were made in it. Rows that are known stay as they
    are.

    `recounted` has all loops of their kinds found so far by counting the trace's steps, perhaps not from its beginning.
    """
    live = dict(rows)
    for finding in (*_unknown(recounted, rows), *found):
        # The number is 0: while the trace runs, a span shows one finding of a kind, however often it is found.
        live.setdefault((finding.kind, finding.span_id or "", 0), _row(finding, 0, finding.agent is not None))
    return live


def with_complete(rows: Rows, record: TraceRecord) -> Rows:
    """Return the rows of a complete trace: the old rows that stay, with the trace's names, and the findings of this
    revision."""
    told = {key: _named(row, record) for key, row in rows.items() if _stays(row)}
    found = _found(rows, told, record.session_id, record.findings)
    return told | {key: row for key, row in found.items() if key not in told}


def with_compared(rows: Rows, found: Iterable[Finding]) -> Rows:
    """Return the rows of a complete trace after it was compared with a trace of its session that came late. `found` has
    the findings of this comparison. A finding that is known already may now rest on the late trace, so it gets the new
    evidence."""
    compared = dict(rows)
    for finding in found:
        row = _row(finding, 0, True)
        known = compared.setdefault((finding.kind, finding.span_id or "", 0), row)
        compared[finding.kind, finding.span_id or "", 0] = {**known, **{name: row[name] for name in _EVIDENCE}}
    return compared


def with_revised_turn(rows: Rows, turn: RevisedTurn) -> Rows:
    """Return the rows of a complete trace after other calls of earlier traces came to its turn. The findings that rest
    on these calls are made anew."""
    others = {key: row for key, row in rows.items() if key[0] not in CROSS_TRACE_KINDS or key[1] != turn.span_id}
    return {**others, **_found(rows, (), turn.session_id, turn.findings)}


def finding_of(row: Row) -> Finding:
    """Return the finding that a row was made from."""
    return Finding(
        **_FIELDS.fields_in(row),
        severity=Severity(row["severity"]),
        mode=Mode(row["mode"]) if row["mode"] is not None else None,
        span_id=row["span_id"] or None,
        metadata=json.loads(row["metadata"]),
    )


def _found(rows: Rows, told: Collection[Key], session_id: str, findings: Sequence[Finding]) -> dict[Key, Row]:
    """Return the rows of what was found in a complete trace, without loops that were `told` before. `rows` are those
    that the trace had."""
    loops = [each for each in findings if each.kind in LOOP_KINDS]
    others = [each for each in findings if each.kind not in LOOP_KINDS]
    found: dict[Key, Row] = {}
    for key, finding in (*_numbered(_unknown(loops, told)), *_numbered(others)):
        row = _row(finding, key[2], True)
        before = rows.get(key, row)
        found[key] = {**row, "found_at": before["found_at"], "session_id": session_id}
    return found


def _unknown(loops: Iterable[Finding], rows: Collection[Key]) -> list[Finding]:
    """Return the loops that are not among `rows`. A known loop whose span does not show it now was counted differently,
    so it stands for one of the new loops of its kind."""
    unknown: list[Finding] = []
    for kind, group in groupby(sorted(loops, key=lambda each: each.kind), key=lambda each: each.kind):
        found = {each.span_id or "": each for each in group}
        known = {span_id for of_kind, span_id, _ in rows if of_kind == kind}
        fresh = [each for span_id, each in found.items() if span_id not in known]
        unknown += fresh[len(known - found.keys()) :]
    return unknown


def _numbered(findings: Sequence[Finding]) -> list[tuple[Key, Finding]]:
    counts: dict[tuple[str, str], int] = {}
    numbered = []
    for finding in findings:
        place = (finding.kind, finding.span_id or "")
        nth = counts[place] = counts.get(place, -1) + 1
        numbered.append(((*place, nth), finding))
    return numbered


def _stays(row: Row) -> bool:
    """Return whether a new revision leaves the row alone: the finding was told live, or the trace alone does not show
    it."""
    return row["mode"] is not None or row["kind"] == FindingKind.UNUSUAL_EFFORT


def _named(row: Row, record: TraceRecord) -> Row:
    """Return a row with the names that the complete trace gives it. It counts from now on, even without an agent."""
    return {
        **row,
        "session_id": record.session_id,
        **{name: row[name] or getattr(record, name) for name in _NAMES},
        "turn": record.turn_of.get(row["span_id"]) if row["turn"] is None else row["turn"],
        "counted": True,
    }


def _row(finding: Finding, nth: int, counted: bool) -> Row:
    return {
        **_FIELDS.columns_of(finding),
        "span_id": finding.span_id or "",
        "nth": nth,
        "severity": finding.severity.value,
        "mode": finding.mode.value if finding.mode is not None else None,
        "reason": storable(finding.reason),
        "metadata": to_json(finding.metadata),
        "counted": counted,
    }
