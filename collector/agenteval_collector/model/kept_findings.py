"""The findings that are kept of a trace, after something more is known of it. Pure functions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, TypeAlias

from agenteval_collector.model.commit import CROSS_TRACE_KINDS, RevisedTurn, ScoredTrace
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import Finding, FindingKind, Severity

SEVERITIES: Final = (Severity.INFO, Severity.WARNING, Severity.ERROR)
"""From the least to the worst."""

Key: TypeAlias = tuple[str, str, int]
"""The kind, the span, and the number among findings of the same kind on the same span."""


@dataclass(frozen=True, slots=True)
class KeptFinding:
    """A finding, and whether it was counted."""

    finding: Finding
    counted: bool = True


KeptFindings: TypeAlias = Mapping[Key, KeptFinding]


def worst(severities: Iterable[str]) -> Severity | None:
    """Return the worst of these severities; None if there are none."""
    return max((Severity(severity) for severity in severities), key=SEVERITIES.index, default=None)


def with_live(findings_before: KeptFindings, findings: Iterable[Finding], recounted: Iterable[Finding]) -> KeptFindings:
    """Return what is kept of a trace that goes on, after these findings were made in it. What is known stays as it is.

    `recounted` has all loops of their kinds found so far by counting the trace's steps, perhaps not from its beginning.
    """
    live = dict(findings_before)
    for finding in (*_unknown(recounted, findings_before), *findings):
        # The number is 0: while the trace runs, a span shows one finding of a kind, however often it is found.
        live.setdefault(_first_key(finding), KeptFinding(finding, finding.agent is not None))
    return live


def with_complete(findings_before: KeptFindings, trace: ScoredTrace) -> KeptFindings:
    """Return what is kept of a complete trace: the old findings that stay, with the trace's names, and those of this
    revision."""
    named = {key: _named(value.finding, trace) for key, value in findings_before.items() if _stays(value.finding)}
    findings_now = _found(findings_before, named, trace.session_id, trace.findings)
    return named | {key: value for key, value in findings_now.items() if key not in named}


def with_compared(findings_before: KeptFindings, findings: Iterable[Finding]) -> KeptFindings:
    """Return what is kept of a complete trace after it was compared with a trace of its session that came late.

    `findings` are those of this comparison. One that is known already may now rest on the late trace, so it gets the
    new evidence.
    """
    compared = dict(findings_before)
    for finding in findings:
        kept_finding = compared.get(_first_key(finding), KeptFinding(finding))
        evidence = replace(
            kept_finding.finding,
            severity=finding.severity,
            mode=finding.mode,
            reason=finding.reason,
            metadata=finding.metadata,
            turn=finding.turn,
        )
        compared[_first_key(finding)] = replace(kept_finding, finding=evidence)
    return compared


def with_revised_turn(findings_before: KeptFindings, turn: RevisedTurn) -> KeptFindings:
    """Return what is kept of a complete trace after other calls of earlier traces came to its turn. The findings that
    rest on these calls are made anew."""
    others = {
        key: value
        for key, value in findings_before.items()
        if key[0] not in CROSS_TRACE_KINDS or key[1] != turn.span_id
    }
    return {**others, **_found(findings_before, (), turn.session_id, turn.findings)}


def _found(
    findings_before: KeptFindings, named: Collection[Key], session_id: str, findings: Sequence[Finding]
) -> dict[Key, KeptFinding]:
    """Return what was found in a complete trace, without loops that are among `named`. `findings_before` has what the
    trace had."""
    loops = [finding for finding in findings if finding.kind in LOOP_KINDS]
    others = [finding for finding in findings if finding.kind not in LOOP_KINDS]
    findings_now: dict[Key, KeptFinding] = {}
    for key, finding in (*_numbered(_unknown(loops, named)), *_numbered(others)):
        found_at = findings_before[key].finding.found_at if key in findings_before else finding.found_at
        findings_now[key] = KeptFinding(replace(finding, found_at=found_at, session_id=session_id))
    return findings_now


def _unknown(loops: Iterable[Finding], keys: Collection[Key]) -> list[Finding]:
    """Return the loops that are not among `keys`. A known loop whose span does not show it now was counted differently,
    so it stands for one of the new loops of its kind."""
    unknown: list[Finding] = []
    for kind, group in groupby(sorted(loops, key=lambda loop: loop.kind), key=lambda loop: loop.kind):
        by_span = {finding.span_id or "": finding for finding in group}
        span_ids = {span_id for of_kind, span_id, _ in keys if of_kind == kind}
        fresh = [value for span_id, value in by_span.items() if span_id not in span_ids]
        unknown += fresh[len(span_ids - by_span.keys()) :]
    return unknown


def _numbered(findings: Sequence[Finding]) -> list[tuple[Key, Finding]]:
    counts: dict[tuple[str, str], int] = {}
    numbered = []
    for finding in findings:
        kind, span_id, _ = _first_key(finding)
        nth = counts[kind, span_id] = counts.get((kind, span_id), -1) + 1
        numbered.append(((kind, span_id, nth), finding))
    return numbered


def _first_key(finding: Finding) -> Key:
    return finding.kind, finding.span_id or "", 0


def _stays(finding: Finding) -> bool:
    """Return whether a new revision leaves the finding alone: it was told live, or the trace alone does not show it.

    Whether a model call failed, the complete trace says: the next attempt may be within the same call.
    """
    if finding.kind == FindingKind.MODEL_FAILED:
        return False
    return finding.mode is not None or finding.kind == FindingKind.UNUSUAL_EFFORT


def _named(finding: Finding, trace: ScoredTrace) -> KeptFinding:
    """Return a finding with the names that the complete trace gives it. It counts from now on, even without an
    agent."""
    return KeptFinding(
        replace(
            finding,
            session_id=trace.session_id,
            agent=finding.agent or trace.agent,
            service=finding.service or trace.service,
            service_version=finding.service_version or trace.service_version,
            environment=finding.environment or trace.environment,
            turn=trace.turn_of.get(finding.span_id or "") if finding.turn is None else finding.turn,
        )
    )
