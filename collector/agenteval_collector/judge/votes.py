"""Independent votes on a trace, and the one outcome of each evaluator that they come to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import TypeAlias

from agenteval_collector.judge.ports import Reading, Reply
from otel_agenteval.model import Json
from otel_agenteval.outcome import Outcome, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A judged outcome, and the model that gave it; None where none was asked or none answered."""

    outcome: Outcome
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """A score that one vote gives, which `reading` finds in `reply`, a reply to a question of this `version`."""

    reading: Reading
    reply: Reply
    version: str
    model: str
    temperature: float | None

    @property
    def value(self) -> float:
        return self.reading.value(self.reply)


Vote: TypeAlias = dict[str, Ballot | Judged]
"""The scores of one vote on a trace, by evaluator; a Judged where there is none."""


def merged(cast: Sequence[Ballot | Judged]) -> Judged:
    """Return the outcome of one evaluator's votes, at least one.

    Votes that have failed are left out where others have not. Where most say that it does not apply, it does not.
    """
    ballots = _ballots(cast)
    without = [each for each in cast if isinstance(each, Judged)]
    void = [each for each in without if each.outcome.status is Status.NOT_APPLICABLE]
    if len(void) > len(ballots) or not ballots:
        return (void or without)[0]
    values = [ballot.value for ballot in ballots]
    middle = median(values)
    nearest = min(ballots, key=lambda ballot: abs(ballot.value - middle))
    score = nearest.reading.conclude([ballot.reply for ballot in ballots])
    told: dict[str, Json] = {"prompt_version": nearest.version, "temperature": nearest.temperature}
    if len(ballots) > 1:
        told |= {"votes": len(ballots), "spread": max(values) - min(values)}
    return Judged(outcome=replace(score, metadata={**score.metadata, **told}), model=nearest.model)


def margin(cast: Sequence[Ballot | Judged]) -> float:
    """Return how far the votes of one evaluator come from its threshold; infinite where none gives a score."""
    ballots = _ballots(cast)
    if not ballots:
        return inf
    return abs(median(ballot.value for ballot in ballots) - ballots[0].reading.threshold)


def _ballots(cast: Sequence[Ballot | Judged]) -> list[Ballot]:
    return [each for each in cast if isinstance(each, Ballot)]
