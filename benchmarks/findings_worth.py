"""Measures what findings tell of recorded conversations: how often each kind occurs, and how often those with it fail.

    python -m benchmarks.findings_worth FILE           # a tau-bench result file, which is no part of the repository
    python -m benchmarks.findings_worth FILE --show 5  # and the first reasons of every kind

Intervals are Wilson's, of 95 %. They take conversations for independent, which trials of the same task are not quite.
Unusual effort is looked for in the order of the file: a conversation is compared with those before it, so the first
ones, with too few before them, are left out of its line.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import NormalDist

from agenteval_collector.findings import Effort, EffortHistory, effort_of, findings_in, unusual_effort
from agenteval_collector.findings.effort import MIN_SESSIONS
from agenteval_collector.findings.trace import OBSERVED

from benchmarks.workload import taubench
from benchmarks.workload.conversation import Conversation
from benchmarks.workload.otlp import spans
from benchmarks.workload.plan import AGENT
from benchmarks.workload.replay import SCOPE
from otel_agenteval.conventions import SpanRecord, read_trace, span_record
from otel_agenteval.finding import Finding, FindingKind, Severity
from otel_agenteval.model import Trace

_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Share:
    """How many of how many, with its 95 % interval by Wilson; the interval is all there can be where there are none."""

    count: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        if self.of == 0:
            return 0.0, 1.0
        share, weight = self.count / self.of, _Z**2 / self.of
        middle = share + weight / 2
        spread = _Z * sqrt(share * (1 - share) / self.of + weight / (4 * self.of))
        return max(0.0, (middle - spread) / (1 + weight)), min(1.0, (middle + spread) / (1 + weight))

    def __str__(self) -> str:
        if self.of == 0:
            return "–"
        low, high = self.interval
        return f"{self.count / self.of:.0%} ({low:.0%} to {high:.0%}) of {self.of}"


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found in one conversation; `is_compared`: there were enough before it to call its effort unusual."""

    conversation: Conversation
    findings: Sequence[Finding]
    is_compared: bool

    def has(self, kind: str) -> bool:
        return any(finding.kind == kind for finding in self.findings)


def traces(conversation: Conversation) -> Iterator[Trace]:
    """The conversation as the collector reads it, turn by turn, without turns to which the agent did nothing."""
    acted = replace(conversation, turns=tuple(turn for turn in conversation.turns if turn.steps))
    by_trace: defaultdict[str, list[SpanRecord]] = defaultdict(list)
    for span in spans([acted], started_at=1, marker=True):
        by_trace[span.trace_id.hex()].append(span_record(span, {}, SCOPE))
    for trace_id, recorded in by_trace.items():
        yield read_trace(trace_id, recorded)


def look(conversations: Sequence[Conversation]) -> Iterator[Looked]:
    """What is found in each of the conversations, one after the other."""
    history = EffortHistory()
    for number, conversation in enumerate(conversations):
        found: list[Finding] = []
        # The times of replayed spans are made up.
        effort, is_usual = Effort(seconds=None), True
        for index, trace in enumerate(traces(conversation)):
            session = conversation.session_id
            found += findings_in(trace, session_id=session, is_first=index == 0, found_at=0)
            effort += effort_of(trace)
            unusual = history.unusual(AGENT, effort) if is_usual else []
            if unusual:
                is_usual = False
                found.append(unusual_effort(trace, unusual, session_id=session, found_at=0))
        history.add(AGENT, effort)
        yield Looked(conversation, found, number >= MIN_SESSIONS)


def table(looked: Sequence[Looked]) -> Iterator[str]:
    """A line for each kind of finding, then one for any finding of severity error."""
    yield "| finding | severity | conversations | failed with it | failed without it |"
    yield "|---|---|---|---|---|"
    kinds = [(kind, severity) for kind, severity, _ in OBSERVED] + [(FindingKind.UNUSUAL_EFFORT, Severity.INFO)]
    for kind, severity in kinds:
        among = [each for each in looked if each.is_compared or kind is not FindingKind.UNUSUAL_EFFORT]
        yield _line(f"`{kind}`", severity, [(each.has(kind), each.conversation.success) for each in among])
    flagged = [(any(f.severity is Severity.ERROR for f in each.findings), each.conversation.success) for each in looked]
    yield _line("any of severity error", "", flagged)
    yield _line("any", "", [(bool(each.findings), each.conversation.success) for each in looked])


def _line(name: str, severity: str, outcomes: Sequence[tuple[bool, bool]]) -> str:
    having, lacking = ([success for has, success in outcomes if has is wanted] for wanted in (True, False))
    failed = [Share(sum(not success for success in group), len(group)) for group in (having, lacking)]
    return f"| {name} | {severity} | {len(having)} of {len(outcomes)} | {failed[0]} | {failed[1]} |"


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a tau-bench result file")
    parser.add_argument("--show", type=int, default=0, help="reasons of every kind that are shown")
    given = parser.parse_args()
    looked = list(look(taubench.read(given.file)))
    print("\n".join(table(looked)))
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for each in looked:
        for finding in each.findings:
            reasons[finding.kind].append(f"{finding.session_id} turn {finding.turn}: {finding.reason}")
    for kind, texts in reasons.items():
        if given.show:
            print("", f"{kind} ({len(texts)})", *texts[: given.show], sep="\n")


if __name__ == "__main__":
    main()
