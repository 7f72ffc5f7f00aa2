"""Versions of agents, and the evidence that one is worse than the version before it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class SeenVersion(NamedTuple):
    """A version of an agent, and when its first trace began (ns since the Unix epoch)."""

    agent: str
    version: str
    first_at: int


class JudgedBy(NamedTuple):
    """An evaluator as it was when it judged."""

    name: str
    version: str
    model: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionTrials:
    """The sessions of a version that are over: their number, the share of passing traces by evaluator and session, and
    by kind how many have a finding of severity error or warning."""

    sessions: int
    shares: Mapping[JudgedBy, Mapping[str, float]]
    found: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """The evidence that an agent's version is worse than the one before it: by an evaluator, or else by a kind of
    finding. Any of a version's reaches 20 in 5 % of the versions at most where nothing got worse."""

    agent: str
    version: str
    evaluator: str | None = None
    kind: str | None = None
    evidence: float
