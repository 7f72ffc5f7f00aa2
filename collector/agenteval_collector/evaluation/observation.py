"""Observation of complete traces: makes their findings, loops included, and says which content could be seen."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from agenteval_collector.evaluation.ports import Efforts, FindingsIn, LoopFinder, SeenIn
from agenteval_collector.model.assembled_trace import AssembledTrace, Death
from agenteval_collector.model.sessions import SessionState
from agenteval_collector.model.turn_summary import TurnSummary
from agenteval_collector.runtime.clock import Clock
from otel_agenteval.finding import Finding, FindingKind, Severity
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Evaluation

logger = logging.getLogger(__name__)

MAX_SAID = 16 * 1024
"""Characters of a trace's text that can be searched. The rest is cut."""


@dataclass(frozen=True, slots=True)
class TraceObservation:
    """Makes the findings of complete traces, one trace after the other. `ruled` applies the settings to findings."""

    loops: LoopFinder
    findings_in: FindingsIn
    seen_in: SeenIn
    efforts: Efforts
    ruled: Callable[[Iterable[Finding]], list[Finding]]
    clock: Clock

    def observe(
        self,
        trace: Trace,
        assembled: AssembledTrace,
        *,
        session_id: str,
        is_first: bool,
        turns: Mapping[str, int],
    ) -> list[Finding]:
        """Return the findings of a trace.

        `is_first` is true if no earlier trace of its session is known. `turns` is the result of `turn_of`.
        """
        now = self.clock.now()
        found = [*self.loops.in_trace(trace, session_id, assembled)]
        if assembled.death is not None:
            found.append(_death_of(trace, assembled.death, session_id, now))
        try:
            found += self.findings_in(trace, session_id=session_id, is_first=is_first, found_at=now)
        except Exception:  # A defect of our detectors must not cost the trace its scores.
            logger.exception("what is to be observed in trace %s could not be found", trace.trace_id)
        return self.ruled(_in_turn(each, turns) for each in found)

    def in_answers(
        self, compared: Evaluation, previous: Sequence[TurnSummary], said: Sequence[TurnSummary]
    ) -> list[Finding]:
        """Return the finding that a trace repeats an answer, if there is one.

        `compared` is the trace's outcome of loop_detection. `said` are its turns, `previous` the turns before these.
        """
        return self.ruled(self.loops.in_answers(compared, previous, said))

    def unusual_effort(self, trace: Trace, session: SessionState) -> list[Finding]:
        """Return the finding that `session` takes more effort than usual now that `trace` has come, if it does."""
        found = self.efforts.unusual(
            trace, session.effort, agent=session.agent, session_id=session.session_id, found_at=self.clock.now()
        )
        return self.ruled(found)


def turn_of(trace: Trace) -> dict[str, int]:
    """Return the number of the turn of each span that is a turn, a tool call or a model call."""
    turns: dict[str, int] = {}
    for number, turn in enumerate(trace.turns):
        turns[turn.span_id] = number
        for span_id in (*(call.span_id for call in turn.tool_calls), *(call.span_id for call in turn.model_calls)):
            if span_id is not None:
                turns.setdefault(span_id, number)
    return turns


def searchable(trace: Trace) -> str:
    """Return the inputs and outputs of a trace in lower case for searching, cut after `MAX_SAID` characters."""
    texts = (text[:MAX_SAID] for turn in trace.turns for text in (turn.input, turn.output) if text)
    return "\n".join(texts)[:MAX_SAID].casefold()


def _in_turn(finding: Finding, turns: Mapping[str, int]) -> Finding:
    turn = turns.get(finding.span_id or "")
    return finding if turn is None or finding.turn is not None else replace(finding, turn=turn)


def _death_of(trace: Trace, death: Death, session_id: str, found_at: int) -> Finding:
    return Finding(
        kind=FindingKind.AGENT_DIED,
        severity=Severity.ERROR,
        reason=death.reason,
        trace_id=trace.trace_id,
        session_id=session_id,
        agent=trace.agent or death.agent,
        service=trace.service or death.service,
        service_version=trace.service_version,
        environment=trace.environment,
        metadata={"open_spans": [span.name for span in death.open_spans[:10]]},
        found_at=found_at,
    )
