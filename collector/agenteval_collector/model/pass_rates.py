"""Rates at which traces pass, as a judge and people say, and scores that have labels beside them."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from otel_agenteval.metrics import PassRate
from otel_agenteval.outcome import SubjectKind


class Rated(NamedTuple):
    """One judged evaluator on one version of an agent: it has a rate of passing. None: not recorded."""

    agent: str | None
    version: str | None
    name: str


@dataclass(frozen=True, slots=True)
class JudgedScore:
    """A trace (or a session) that the judge passed or failed, drawn by its session at random.

    `label` is what people said of one that was drawn to be labelled; None where nobody was asked yet. `model` is the
    judge's.
    """

    subject_id: str
    session_id: str
    passed: bool
    label: bool | None = None
    subject: SubjectKind = SubjectKind.TRACE
    model: str | None = None


@dataclass(frozen=True, slots=True)
class RatedChange:
    """Something that has a rate; `revision` is another one whenever its rate may be."""

    rated: Rated
    revision: Hashable


@dataclass(frozen=True, slots=True)
class VersionRate:
    """The rate at which an agent's version passes an evaluator.

    `models` are those of the judge, newest first; `unscored` counts what was drawn at random and judged in vain.
    """

    rated: Rated
    rate: PassRate
    models: tuple[str, ...]
    unscored: int
