"""Draw the trace, or the session, that a person should label next: at random, apart from what the judge passes and
what it fails.

The order is that of a hash of its id, so the labelled ones of a verdict are a random sample of it, and the same one is
drawn until it has a label. Which verdict comes next is random, too: a person must not be able to guess it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256

from agenteval_collector.model.quality import JudgedScore
from otel_agenteval.outcome import Subject


@dataclass(frozen=True, slots=True)
class Draw:
    """A trace to be labelled, or a session as a whole, which then has no `trace_id`. `probability` is the chance of
    those with its verdict to be labelled, once it is."""

    subject: Subject
    trace_id: str | None
    session_id: str
    probability: float
    judged: int
    labelled: int


def draw(scores: Sequence[JudgedScore], *, skip: Collection[str] = ()) -> Draw | None:
    """Return the next one but those in `skip`, ids which keep their place; None where no more is left."""
    waiting = [each for each in scores if each.label is None and each.subject_id not in skip]
    if (score := _first(waiting)) is None:
        return None
    alike = [each for each in scores if each.passed is score.passed]
    labelled = sum(each.label is not None for each in alike)
    return Draw(
        subject=score.subject,
        trace_id=score.subject_id if score.subject is Subject.TRACE else None,
        session_id=score.session_id,
        probability=(labelled + 1) / len(alike),
        judged=len(scores),
        labelled=sum(each.label is not None for each in scores),
    )


def _first(waiting: Sequence[JudgedScore]) -> JudgedScore | None:
    """Return the first of one of the two verdicts, of either as often, as long as there are both."""
    heads = [
        min(alike, key=lambda each: _place(each.subject_id))
        for verdict in (True, False)
        if (alike := [each for each in waiting if each.passed is verdict])
    ]
    if not heads:
        return None
    return heads[_place("".join(each.subject_id for each in heads))[0] % len(heads)]


def _place(text: str) -> bytes:
    return sha256(text.encode()).digest()
