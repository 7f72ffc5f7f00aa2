"""Where content was not recorded, the outcome says what to set in the instrumentation that recorded the trace."""

import numpy as np
import pytest
from agenteval_collector.evaluation.evaluators import EvaluationContext
from agenteval_collector.evaluation.evaluators.coherence import Coherence
from agenteval_collector.evaluation.evaluators.loop_detection import LoopDetection
from agenteval_collector.evaluation.evaluators.ports import unanswered

from otel_agenteval.conventions.registry import DIALECTS, content_switch
from otel_agenteval.conventions.spans import SpanRecord
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Status
from tests.support.spans import answer, chat, told
from tests.support.truth import FOLDERS, Recording


def test_every_dialect_has_a_switch_of_its_own() -> None:
    switches = [dialect.content_switch for dialect in DIALECTS]
    assert all(switches)
    assert len(set(switches)) == len(switches)


@pytest.mark.parametrize(
    ("dialects", "part"),
    [
        pytest.param(("otel_genai",), "CAPTURE_MESSAGE_CONTENT=SPAN_ONLY", id="the conventions alone"),
        pytest.param(("otel_genai", "pydantic_ai"), "include_content", id="a library that speaks them"),
        pytest.param(("crewai", "openinference"), "OPENINFERENCE_HIDE_INPUTS", id="a framework recorded by another"),
        pytest.param(("vercel_ai",), "recordInputs", id="a vendor's"),
    ],
)
def test_the_instrumentations_own_switch_stands_before_the_conventions(dialects: tuple[str, ...], part: str) -> None:
    switch = content_switch(dialects)
    assert switch is not None
    assert part in switch


def test_without_a_dialect_there_is_no_switch() -> None:
    assert content_switch(()) is None


def silent(name: str) -> Trace:
    """The first trace of a recording without content."""
    [path] = [path for folder in FOLDERS for path in folder.glob(f"{name}.expected.json")]
    recording = Recording.read(path)
    return recording.traces[recording.expected["turns"][0]["trace_ids"][0]]


@pytest.mark.parametrize("evaluator", [Coherence(), LoopDetection()], ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("recording", "part"),
    [
        pytest.param("vercel-ai--multiturn-nocontent", "recordInputs", id="Vercel's AI SDK"),
        pytest.param("google-adk--multiturn-nocontent", "CAPTURE_MESSAGE_CONTENT", id="Google ADK"),
    ],
)
def test_a_real_trace_without_content_is_not_scored_and_says_why(
    evaluator: Coherence | LoopDetection, recording: str, part: str
) -> None:
    context = EvaluationContext(silent(recording), (), lambda _text: np.ones(2, dtype=np.float32))
    outcome = evaluator.evaluate(context)
    assert outcome.status is Status.NO_CONTENT
    assert "was not recorded" in outcome.reason
    assert part in outcome.reason


def test_a_question_that_an_earlier_trace_holds_was_not_left_out_by_a_switch() -> None:
    sent, received = [told("none", "call_1")], [answer("There is none.")]
    context = EvaluationContext(read_trace("t", [chat("m", sent, received)]), (), lambda _text: np.ones(2, dtype="f4"))
    outcome = Coherence().evaluate(context)
    assert (outcome.status, outcome.reason) == (
        Status.NOT_APPLICABLE,
        "the question was asked in an earlier trace, and only results of tools were sent to the model here",
    )


def test_messages_that_were_uploaded_are_said_to_be_there() -> None:
    address = "s3://prompts/2026/11/27/output.json"
    uploaded = {"gen_ai.operation.name": "chat", "gen_ai.output.messages_ref": address}
    trace = read_trace("t", [SpanRecord(span_id="m", name="chat m", attributes=uploaded)])
    outcome = unanswered(trace)
    assert outcome.status is Status.NO_CONTENT
    assert outcome.reason == f"the answer was not recorded; the messages were uploaded to {address}"
