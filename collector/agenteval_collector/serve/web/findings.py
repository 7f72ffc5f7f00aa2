"""Findings in the order of the pages: the worst first, each kind together, and each at the place it happened."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agenteval_collector.serve.api.explanation import severity_rank, worst_first
from agenteval_collector.serve.api.trace_documents import FindingDocument, FoundDocument, SessionFields, TraceDocument
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import FindingKind

_WORDS = {str(kind): kind.words for kind in FindingKind}

KINDS = tuple(dict.fromkeys([*map(str, FindingKind), *sorted(LOOP_KINDS)]))
"""Every kind of finding that the project itself makes."""


class FindingGroup(NamedTuple):
    """The findings of one kind and one severity, in the order they were given in."""

    kind: str
    severity: str
    findings: Sequence[FindingDocument]


def grouped(findings: Iterable[FindingDocument]) -> list[FindingGroup]:
    """Group the findings by kind and severity. The worst come first; among equally bad ones, the most frequent."""
    groups: dict[tuple[str, str], list[FindingDocument]] = {}
    for finding in findings:
        groups.setdefault((finding["kind"], finding["severity"]), []).append(finding)
    finding_groups = [FindingGroup(kind, severity, items) for (kind, severity), items in groups.items()]
    return sorted(finding_groups, key=lambda group: (severity_rank(group.severity), -len(group.findings)))


def worst_kinds(findings: FoundDocument) -> list[str]:
    """Return the kinds of the worst findings of a session or trace, as far as their findings are shown."""
    return list(
        dict.fromkeys(finding["kind"] for finding in findings["findings"] if finding["severity"] == findings["worst"])
    )


def unshown(findings: FoundDocument) -> int:
    """Return the number of findings of a trace or a session that are kept but not shown."""
    counts = findings["findings_count"]
    return counts["error"] + counts["warning"] + counts["info"] - len(findings["findings"])


def counted(count: int, severity: str) -> str:
    """Write a count with its severity: `1 error`, `3 warnings`. The severity `info` has no plural."""
    return f"{count} {severity}{'s' if count != 1 and severity != 'info' else ''}"


def judged_low(session: SessionFields) -> int | None:
    """Return how many of the judge's scores lie below their threshold.

    Return None if there are none and the session has no score, as it has without enough judgements.
    """
    is_scored = any(outcome["score"] is not None for outcome in session["outcomes"])
    return session["judged_failures"] if session["judged_failures"] or is_scored else None


def kind_words(kind: str) -> str:
    """Write a kind as people say it: `tool_failed` as `tool failed`."""
    return _WORDS.get(kind, kind.replace("_", " "))


class PlacedFindings(NamedTuple):
    """The findings of one trace by the place where they are shown."""

    whole: Sequence[FindingDocument]
    """Findings that belong to no shown turn."""
    turns: Sequence[Sequence[FindingDocument]]
    """Findings of each turn that belong to none of its calls."""
    calls: Sequence[Sequence[Sequence[FindingDocument]]]
    """Findings of each call of each turn."""


def placed(trace: TraceDocument) -> PlacedFindings:
    """Place each finding at the call whose span it names, else at its turn, else at the whole trace."""
    whole: list[FindingDocument] = []
    turns: list[list[FindingDocument]] = [[] for _ in trace["turns"]]
    calls: list[list[list[FindingDocument]]] = [[[] for _ in turn["tools_called"]] for turn in trace["turns"]]
    place_of = {
        call["span_id"]: calls[number][position]
        for number, turn in enumerate(trace["turns"])
        for position, call in enumerate(turn["tools_called"])
        if call["span_id"] is not None
    }
    for finding in worst_first(trace["findings"]):
        turn = finding["turn"]
        if (index := place_of.get(finding["span_id"] or "")) is not None:
            index.append(finding)
        elif turn is not None and 0 <= turn < len(turns):
            turns[turn].append(finding)
        else:
            whole.append(finding)
    return PlacedFindings(whole, turns, calls)
