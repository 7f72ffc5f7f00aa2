"""Turns that failed, and turns that were answered with nothing."""

from collections.abc import Iterator

from agenteval_collector.findings.observing import Observed, Subject, quote
from agenteval_collector.problems import shape_of
from otel_agenteval.model import Json


def failed(subject: Subject) -> Iterator[Observed]:
    """Find turns that failed: their own span, or the one around it, ended in an error, or they have no answer because a
    call failed.

    A turn did not fail if an attempt in it failed and a later one succeeded, or if whoever waited for it gave up.
    """
    for index, turn in subject.turns():
        if turn.error is not None and not turn.is_cancelled:
            but = ", though something was answered" if turn.output else ""
            reason = f"the turn ended in an error{but}: {quote(turn.error)}"
            metadata: dict[str, Json] = {"answered": bool(turn.output), "shape": shape_of(turn.error)}
            yield Observed(reason=reason, turn=index, span_id=turn.span_id, metadata=metadata)


def unanswered(subject: Subject) -> Iterator[Observed]:
    """Find turns with a recorded answer that is empty.

    Nothing is said where no answer was recorded, where the turn ended in a tool call or a hand-off, and where it
    failed: that is a finding of its own.
    """
    for index, turn in subject.turns():
        if turn.output is not None and not turn.output.strip() and turn.error is None:
            reason = "the turn was answered with an empty text"
            yield Observed(reason=reason, turn=index, span_id=turn.span_id)
