"""What is kept of a canary: all that the judge is shown of its trace, redacted, and no more than is promised."""

import json
import zlib
from pathlib import Path

import pytest
from agenteval_collector.judge.frozen import MAX_BYTES, freeze, thaw
from agenteval_collector.judge.panel import Materials

from otel_agenteval.model import Tool, Trace
from otel_agenteval.redaction import Redactor
from tests.support.judging import model_call, panel, tool_call, trace, turn, unredacted
from tests.support.recordings import name_of, recorded_traces, recordings

RECORDINGS = recordings("corpus", "recorded", "conversations")
TOKENS = 8_000


def thawed(subject: Trace) -> Trace:
    frozen = freeze(subject, TOKENS, Redactor().redact)
    assert frozen is not None
    return thaw(frozen)


def shown(subject: Trace) -> str:
    """All that the judge is shown of a trace."""
    materials = Materials(panel(trace_tokens=TOKENS, redactor=lambda: Redactor().redact), subject)
    parts = materials.earlier, materials.transcript, dict(materials.tool_use.data), materials.planned
    return json.dumps(parts, sort_keys=True)


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_the_judge_is_shown_the_same_as_before(path: Path) -> None:
    for subject in recorded_traces(path).values():
        if subject.turns:
            assert shown(thawed(subject)) == shown(subject.with_earlier_calls())


def test_the_turns_before_it_are_kept_in_place_of_the_messages_that_repeat_them() -> None:
    before = turn("Find a flight", "Found AB12", tool_calls=(tool_call(result={"id": "AB12"}),))
    subject = trace(turn("Book it", "Booked"), earlier=(before,), history=("Find a flight", "Found AB12"))
    kept = thawed(subject)
    assert (shown(kept), kept.history) == (shown(subject), ())


def test_what_the_judge_may_not_see_is_not_kept() -> None:
    subject = trace(
        turn(
            "I am ann@example.org",
            "Mail sent to ann@example.org",
            tool_calls=(tool_call("mail", arguments={"to": "ann@example.org", "password": "hunter2secret"}),),
            reasoning=("ann@example.org it is",),
        ),
        system_instructions="Write to ann@example.org",
        tools=(Tool(name="mail", description="asks ann@example.org"),),
    )
    frozen = freeze(subject, TOKENS, Redactor().redact)
    assert frozen is not None
    text = zlib.decompress(frozen).decode()
    assert "[EMAIL_1]" in text
    assert "ann@" not in text
    assert "hunter2secret" not in text


def test_a_value_has_as_many_tokens_as_the_judge_gets_to_read() -> None:
    kept = thawed(trace(turn("x" * 10_000_000, "Yes")))
    assert "characters left out" in (kept.input or "")
    assert len(kept.input or "") < 10 * TOKENS


def test_what_does_not_fit_is_cut_further_and_else_not_kept() -> None:
    noise = [zlib.compress(str(n).encode() * 7).hex() * 40 for n in range(400)]
    calls = tuple(tool_call(at=n, result=text) for n, text in enumerate(noise[:120]))
    kept = freeze(trace(turn(tool_calls=calls)), TOKENS, unredacted)
    assert kept is not None
    assert len(kept) <= MAX_BYTES
    many = tuple(model_call(f"{n * 7919 % 100_003:x}" * 9, n) for n in range(40_000))
    assert freeze(trace(turn(model_calls=many)), TOKENS, unredacted) is None
