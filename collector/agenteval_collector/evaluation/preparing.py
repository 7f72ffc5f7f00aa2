"""The part of the evaluation that needs a trace alone: reading, embedding, observing, scores that rest on nothing else.

It knows no session and no store. So a worker process can do it before the trace's turn comes (`reading_ahead.py`). The
evaluation takes what is prepared, and computes with the same functions what is not.
"""

import logging
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from agenteval_collector.evaluation.doubtful_step import doubtful_step
from agenteval_collector.evaluation.embedding import EmbeddedEmbedder
from agenteval_collector.evaluation.evaluators.ports import EvaluationContext, TraceEvaluator
from agenteval_collector.evaluation.findings.trace import Observed, observed_in
from agenteval_collector.evaluation.reading import DecodedTraces, TraceReader
from agenteval_collector.evaluation.run_trace import Checks, Detector, check
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.trace_view import DoubtfulStep
from agenteval_collector.runtime.logs import LogFormat, LogLevel, write_logs
from otel_agenteval.conventions.input_cache import InputCache
from otel_agenteval.conventions.run_attributes import EXPECTED_TOOLS
from otel_agenteval.internal.text import cut
from otel_agenteval.metrics.loops import LoopText
from otel_agenteval.model import Trace
from otel_agenteval.outcome import MAX_REASON, Failure, Outcome

logger = logging.getLogger(__name__)


class Appraisal(NamedTuple):
    """What a trace shows and how it scores, as far as no session is needed.

    `answers` are those of its turns, ready for comparison. `outcomes` are by evaluator. `observed` is what it shows as
    the first trace of a session. `checks` are None for a trace of no run.
    """

    answers: Sequence[LoopText | None]
    outcomes: Mapping[str, Outcome]
    observed: Sequence[Observed]
    doubtful: DoubtfulStep | None
    checks: Checks | None


class Prepared(NamedTuple):
    """A trace as read. If it could not be, it is bare, and `unreadable` says why. `appraisal` is None if not made."""

    trace: Trace
    unreadable: Failure | None = None
    appraisal: Appraisal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What a worker process needs to prepare traces. It can be pickled, and holds no secrets.

    `evaluators` look at nothing but the trace; those `with_truth` only at traces that have ground truth. Decoded traces
    and messages are kept within `kept_bytes` and `input_bytes`. `logs` are the level and the form of log messages.
    """

    reader: TraceReader
    evaluators: Sequence[TraceEvaluator]
    with_truth: Sequence[TraceEvaluator]
    safety: Sequence[Detector]
    kept_bytes: int
    input_bytes: int
    logs: tuple[LogLevel, LogFormat]

    def begin(self) -> Callable[[bytes], bytes]:
        """Load the embedder, and return the function that prepares pickled traces.

        It returns a pickled list: of each trace the pickled result, or None.
        """
        write_logs(*self.logs)
        reader = replace(self.reader, kept=DecodedTraces(self.kept_bytes), input_cache=InputCache(self.input_bytes))
        embedder = EmbeddedEmbedder()
        embedder.embed("Words load the tokeniser.")
        return partial(_prepare_all, self, reader, embedder)

    def prepare(self, assembled: AssembledTrace, reader: TraceReader, embedder: EmbeddedEmbedder) -> Prepared:
        """Prepare a trace. Never raises."""
        trace, unreadable, _ = read(reader, assembled)
        if unreadable is not None:
            return Prepared(trace, unreadable)
        context = EvaluationContext(trace, (), embedder.embed)
        evaluators = (*self.evaluators, *(self.with_truth if has_truth(trace) else ()))
        try:
            appraisal = Appraisal(
                answers=context.answers,
                outcomes={evaluator.name: outcome_of(evaluator, context) for evaluator in evaluators},
                observed=observed_in(trace, is_first=True),
                doubtful=doubtful_step(trace),
                checks=None if trace.run is None else check(trace, self.safety),
            )
        except Exception:  # The evaluation meets it again, and knows what to do about it.
            logger.debug("trace %s is read, and no more", assembled.trace_id, exc_info=True)
            return Prepared(trace)
        return Prepared(trace, appraisal=appraisal)


def _prepare_all(preparation: Preparation, reader: TraceReader, embedder: EmbeddedEmbedder, body: bytes) -> bytes:
    traces: Sequence[AssembledTrace] = pickle.loads(body)
    return pickle.dumps([_pickled(preparation.prepare(trace, reader, embedder)) for trace in traces])


def _pickled(prepared: Prepared) -> bytes | None:
    """Return the pickle of a prepared trace. Return None if it is nested too deep for one."""
    try:
        return pickle.dumps(prepared, pickle.HIGHEST_PROTOCOL)
    except RecursionError:
        return None


def read(reader: TraceReader, assembled: AssembledTrace) -> Prepared:
    """Return the trace as read, without a failure. If the readers fail, return a bare trace and the failure."""
    try:
        return Prepared(reader.read(assembled))
    except Exception as error:
        logger.exception("trace %s could not be read", assembled.trace_id)
        return Prepared(unread(assembled), failure_of(error, "the trace could not be read"))


def unread(assembled: AssembledTrace) -> Trace:
    """Return a trace that says nothing but how many spans it has."""
    return Trace(trace_id=assembled.trace_id, span_count=len(assembled.spans))


def has_truth(trace: Trace) -> bool:
    """Return whether a trace has ground truth, even if that could not be read."""
    has_any = trace.expected_tools is not None or trace.expected_answer is not None
    return has_any or EXPECTED_TOOLS in trace.unread


def outcome_of(evaluator: TraceEvaluator, context: EvaluationContext) -> Outcome:
    """Return the outcome of an evaluator; its failure if it raises."""
    try:
        return evaluator.evaluate(context)
    except Exception as error:  # A defect of one evaluator must not stop the others.
        logger.exception("%s failed on trace %s", evaluator.name, context.trace.trace_id)
        return failure_of(error, "the evaluator failed")


def failure_of(error: Exception, what: str) -> Failure:
    """Return the error as an outcome. Its text is cut, because errors quote input of any size."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error's __str__ may raise anything
        text = "its error has no text"
    return Failure(error_type=type(error).__qualname__, reason=cut(f"{what}: {text}", MAX_REASON))
