"""Rates of passing: the share of traces, or sessions, that the judge passes."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from otel_agenteval.metrics.pass_rate import JudgedRate, PassRate
from otel_agenteval.outcome import SubjectKind


class Rated(NamedTuple):
    """One judged evaluator on one version of an agent: the subject of a rate of passing. None: not recorded."""

    agent: str | None
    service: str | None
    version: str | None
    name: str


@dataclass(frozen=True, slots=True)
class JudgedScore:
    """The verdict of the judge on a trace or a session of the random part.

    If it was drawn to be labelled, `label` is the verdict of people, or None while there is none. `model` is the
    judge's.
    """

    subject_id: str
    session_id: str
    passed: bool
    label: bool | None = None
    subject: SubjectKind = SubjectKind.TRACE
    model: str | None = None


class Asked(NamedTuple):
    """A trace or a session that the judge was or could be asked about.

    `passed` is its verdict if it was drawn at random, else None. `is_judged`: the judge was asked, however it was
    drawn. `texts` are the ids of the traces with its question and its answer.
    """

    subject_id: str
    session_id: str
    passed: bool | None
    is_judged: bool
    texts: tuple[str, str]


@dataclass(frozen=True, slots=True)
class RatedChange:
    """Something that has a rate of passing. When the rate may have changed, `revision` has changed."""

    rated: Rated
    revision: Hashable


@dataclass(frozen=True, slots=True)
class VersionRate:
    """The rate at which an agent's version passes an evaluator.

    `models` are those of the judge, newest first. `unscored` counts the drawn traces and sessions without a score.
    `by_judge` is None where nothing is guessed.
    """

    rated: Rated
    rate: PassRate
    models: tuple[str, ...]
    unscored: int
    by_judge: "JudgeRate | None" = None


@dataclass(frozen=True, slots=True)
class JudgeRate:
    """The rate at which the judge would pass all traces, or sessions, of which it `judged` some and `guessed` are left.

    `auroc` is how well the guesses tell what the judge passes from what it fails, cross-validated. `uncertain` are the
    ids of the traces, or sessions, without a verdict of which the guess is nearest to a coin's, the nearest first. They
    are empty where guesses do not help. The judge was asked about `beside` of those that are guessed, too: they were
    not drawn at random.
    """

    rate: JudgedRate
    judged: int
    guessed: int
    auroc: float
    uncertain: tuple[str, ...] = ()
    beside: int = 0
