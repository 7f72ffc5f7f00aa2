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
    """Return the worst of these severities; None where there are none."""
    return max((Severity(each) for each in severities), key=SEVERITIES.index, default=None)


def with_live(kept: KeptFindings, found: Iterable[Finding], recounted: Iterable[Finding]) -> KeptFindings:
    """Return what is kept of a trace that goes on, after these findings were made in it. What is known stays as it is.

    `recounted` has all loops of their kinds found so far by counting the trace's steps, perhaps not from its beginning.
    """
    live = dict(kept)
    for finding in (*_unknown(recounted, kept), *found):
        # The number is 0: while the trace runs, a span shows one finding of a kind, however often it is found.
        live.setdefault(_first_key(finding), KeptFinding(finding, finding.agent is not None))
    return live


def with_complete(kept: KeptFindings, trace: ScoredTrace) -> KeptFindings:
    """Return what is kept of a complete trace: the old findings that stay, with the trace's names, and those of this
    revision."""
    told = {key: _named(each.finding, trace) for key, each in kept.items() if _stays(each.finding)}
    found = _found(kept, told, trace.session_id, trace.findings)
    return told | {key: each for key, each in found.items() if key not in told}


def with_compared(kept: KeptFindings, found: Iterable[Finding]) -> KeptFindings:
    """Return what is kept of a complete trace after it was compared with a trace of its session that came late. `found`
    has the findings of this comparison. A finding that is known already may now rest on the late trace, so it gets the
    new evidence."""
    compared = dict(kept)
    for finding in found:
        known = compared.get(_first_key(finding), KeptFinding(finding))
        evidence = replace(
            known.finding,
            severity=finding.severity,
            mode=finding.mode,
            reason=finding.reason,
            metadata=finding.metadata,
            turn=finding.turn,
        )
        compared[_first_key(finding)] = replace(known, finding=evidence)
    return compared


def with_revised_turn(kept: KeptFindings, turn: RevisedTurn) -> KeptFindings:
    """Return what is kept of a complete trace after other calls of earlier traces came to its turn. The findings that
    rest on these calls are made anew."""
    others = {key: each for key, each in kept.items() if key[0] not in CROSS_TRACE_KINDS or key[1] != turn.span_id}
    return {**others, **_found(kept, (), turn.session_id, turn.findings)}


def _found(
    kept: KeptFindings, told: Collection[Key], session_id: str, findings: Sequence[Finding]
) -> dict[Key, KeptFinding]:
    """Return what was found in a complete trace, without loops that were `told` before. `kept` has what the trace
    had."""
    loops = [each for each in findings if each.kind in LOOP_KINDS]
    others = [each for each in findings if each.kind not in LOOP_KINDS]
    found: dict[Key, KeptFinding] = {}
    for key, finding in (*_numbered(_unknown(loops, told)), *_numbered(others)):
        found_at = kept[key].finding.found_at if key in kept else finding.found_at
        found[key] = KeptFinding(replace(finding, found_at=found_at, session_id=session_id))
    return found


def _unknown(loops: Iterable[Finding], keys: Collection[Key]) -> list[Finding]:
    """Return the loops that are not among `keys`. A known loop whose span does not show it now was counted differently,
    so it stands for one of the new loops of its kind."""
    unknown: list[Finding] = []
    for kind, group in groupby(sorted(loops, key=lambda each: each.kind), key=lambda each: each.kind):
        found = {each.span_id or "": each for each in group}
        known = {span_id for of_kind, span_id, _ in keys if of_kind == kind}
        fresh = [each for span_id, each in found.items() if span_id not in known]
        unknown += fresh[len(known - found.keys()) :]
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
    """Return whether a new revision leaves the finding alone: it was told live, or the trace alone does not show it."""
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
