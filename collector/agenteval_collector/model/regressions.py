"""Versions of agents, and the evidence that one is worse than the version before."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from agenteval_collector.model.agents import AgentKey


class SeenVersion(NamedTuple):
    """A version of an agent, and when its first trace began (ns since the Unix epoch)."""

    agent: str
    service: str | None
    version: str
    first_at: int

    @property
    def key(self) -> AgentKey:
        """The agent."""
        return AgentKey(self.agent, self.service)


class JudgedBy(NamedTuple):
    """A judged evaluator: its name, its version, and the model that it asked."""

    name: str
    version: str
    model: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionTrials:
    """The finished sessions of a version.

    `sessions` is their number, `shares` the share of passing traces by evaluator and session. `found` counts, by kind,
    the sessions with a finding of severity error or warning.
    """

    sessions: int
    shares: Mapping[JudgedBy, Mapping[str, float]]
    found: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """The evidence that a version of an agent is worse than the one before, by one evaluator or one kind of finding.

    Where nothing got worse, at most 5 % of the versions have any evidence of 20 or more.
    """

    agent: str
    service: str | None
    version: str
    evaluator: str | None = None
    kind: str | None = None
    evidence: float
