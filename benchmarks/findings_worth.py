"""Worth of findings in recorded conversations: how often each kind occurs, and how often conversations with it fail.

    python -m benchmarks.findings_worth FILE           # a tau-bench result file, which is no part of the repository
    python -m benchmarks.findings_worth FILE --show 5  # and the first reasons of every kind

Intervals are Wilson's, of 95 %. They take conversations for independent, which trials of the same task are not quite.
Unusual effort is looked for in the order of the file: each conversation is compared with those before it. So the line
of unusual effort leaves out the first conversations, which have too few before them.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agenteval_collector.cli.offline_replay import replay
from agenteval_collector.cli.recordings import Recorded
from agenteval_collector.config.settings import Settings
from agenteval_collector.evaluation.findings.effort import MIN_SESSIONS, AgentEfforts, effort_of
from agenteval_collector.evaluation.findings.trace import OBSERVED
from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.logged_requests import Signal

from benchmarks.workload import taubench
from benchmarks.workload.conversation import Conversation
from benchmarks.workload.otlp import requests, spans
from benchmarks.workload.plan import AGENT
from benchmarks.workload.replay import SCOPE
from otel_agenteval.conventions.spans import SpanRecord, span_record
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import FindingKind, Severity
from otel_agenteval.metrics.wilson import wilson
from otel_agenteval.model import Trace

WHOSE = AgentKey(AGENT, None)


@dataclass(frozen=True, slots=True)
class Looked:
    """The findings of one conversation by kind, each with its reasons.

    `is_compared` is True if enough conversations came before it to call its effort unusual.
    """

    conversation: Conversation
    reasons: Mapping[str, Sequence[str]]
    severities: frozenset[str]
    is_compared: bool


def traces(conversation: Conversation) -> Iterator[Trace]:
    """Yield the traces of the conversation as the collector reads them, turn by turn."""
    by_trace: defaultdict[str, list[SpanRecord]] = defaultdict(list)
    for span in spans([_acted(conversation)], started_at=1, marker=True):
        by_trace[span.trace_id.hex()].append(span_record(span, {}, SCOPE))
    for trace_id, recorded in by_trace.items():
        yield read_trace(trace_id, recorded)


def look(conversations: Sequence[Conversation]) -> Iterator[Looked]:
    """Look for findings in each of the conversations, one after the other."""
    recorded = [Recorded(Signal.TRACES, body, "") for body in requests(map(_acted, conversations), started_at=1)]
    found = {each["session_id"]: each["findings"] for each in replay(recorded, Settings(), lambda _: None)["sessions"]}
    history = AgentEfforts()
    for number, conversation in enumerate(conversations):
        reasons: defaultdict[str, list[str]] = defaultdict(list)
        for finding in found.get(conversation.session_id, ()):
            reasons[finding["kind"]].append(f"{conversation.session_id} turn {finding['turn']}: {finding['reason']}")
        effort, is_unusual = _effort(conversation, history)
        history.remember_efforts([(WHOSE, effort)])
        if is_unusual:
            reasons[FindingKind.UNUSUAL_EFFORT].append(conversation.session_id)
        severities = frozenset(finding["severity"] for finding in found.get(conversation.session_id, ()))
        yield Looked(conversation, reasons, severities, number >= MIN_SESSIONS)


def _acted(conversation: Conversation) -> Conversation:
    """Return the conversation without the turns in which the agent did nothing."""
    return replace(conversation, turns=tuple(turn for turn in conversation.turns if turn.steps))


def _effort(conversation: Conversation, history: AgentEfforts) -> tuple[Effort, bool]:
    """Add up the effort of the conversation, and say whether it was unusual at any time."""
    # Time is no part of the effort: the times of replayed spans are made up.
    effort, is_unusual = Effort(seconds=None), False
    for trace in traces(conversation):
        effort += effort_of(trace)
        is_unusual = is_unusual or bool(history.compare(WHOSE, effort))
    return effort, is_unusual


def table(looked: Sequence[Looked]) -> Iterator[str]:
    """Yield the lines of a table: one for each kind, one for any finding of severity error, one for any finding."""
    yield "| finding | conversations | failed with it | failed without it |"
    yield "|---|---|---|---|"
    for kind in (*(kind for kind, _ in OBSERVED), *sorted(LOOP_KINDS), FindingKind.UNUSUAL_EFFORT):
        among = [each for each in looked if each.is_compared or kind is not FindingKind.UNUSUAL_EFFORT]
        yield _line(f"`{kind}`", [(kind in each.reasons, each.conversation.success) for each in among])
    errors = [(Severity.ERROR in each.severities, each.conversation.success) for each in looked]
    yield _line("any of severity error", errors)
    yield _line("any", [(bool(each.reasons), each.conversation.success) for each in looked])


def _line(name: str, outcomes: Sequence[tuple[bool, bool]]) -> str:
    having, lacking = ([success for has, success in outcomes if has is wanted] for wanted in (True, False))
    failed = [_share(sum(not success for success in group), len(group)) for group in (having, lacking)]
    return f"| {name} | {len(having)} of {len(outcomes)} | {failed[0]} | {failed[1]} |"


def _share(count: int, of: int) -> str:
    if not of:
        return "–"
    low, high = wilson(count / of, of)
    return f"{count / of:.0%} ({low:.0%} to {high:.0%}) of {of}"


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a tau-bench result file")
    parser.add_argument("--show", type=int, default=0, help="reasons of every kind that are shown")
    given = parser.parse_args()
    looked = list(look(taubench.read(given.file)))
    print("\n".join(table(looked)))
    for kind in sorted({kind for each in looked for kind in each.reasons}) if given.show else ():
        texts = [text for each in looked for text in each.reasons.get(kind, ())]
        print("", f"{kind} ({len(texts)})", *texts[: given.show], sep="\n")


if __name__ == "__main__":
    main()
