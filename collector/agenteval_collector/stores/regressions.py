"""Read the sessions of each agent's versions that are over, with what was judged and found in them."""

from sqlalchemy import ColumnElement, FromClause, Integer, cast, func, select

from agenteval_collector.model.regressions import JudgedBy, SeenVersion, VersionTrials
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.rows import has
from agenteval_collector.stores.schema import findings, matching, outcomes, own, sessions, traces
from otel_agenteval.finding import Severity
from otel_agenteval.outcome import JudgedPart, Method


class VersionQueries:
    """Read the stored sessions of versions as they are at one moment. Raises Unavailable."""

    def __init__(self, connection: TenantConnection) -> None:
        self._connection = connection

    def versions(self) -> list[SeenVersion]:
        """Return the versions that traces name, by agent. The version with the oldest first trace comes first."""
        first_at = func.min(traces.c.started_at)
        query = (
            select(traces.c.agent, traces.c.service, traces.c.service_version, first_at)
            .where(own(traces), traces.c.agent.is_not(None), traces.c.service_version.is_not(None))
            .group_by(traces.c.agent, traces.c.service, traces.c.service_version)
            .order_by(traces.c.agent, traces.c.service.nulls_first(), first_at, traces.c.service_version)
        )
        return [SeenVersion(*row) for row in self._connection.execute(query)]

    def trials(self, version: SeenVersion, *, until: int | None, most: int) -> VersionTrials:
        """Return the last `most` sessions of a version that began before `until` (ns).

        Without `until`, return its first `most` sessions.
        """
        chosen = self._sessions(version, until, most)
        return VersionTrials(
            sessions=len(chosen), shares=self._shares(version, chosen), found=self._found(version, chosen)
        )

    def _sessions(self, version: SeenVersion, until: int | None, most: int) -> list[str]:
        began = func.min(traces.c.started_at)
        query = (
            select(traces.c.session_id)
            .join(sessions, matching(sessions, traces, "session_id"))
            .where(*_is_of(traces, version), sessions.c.finalized_at.is_not(None))
            .group_by(traces.c.session_id)
            .order_by(began if until is None else began.desc(), traces.c.session_id)
            .limit(most)
        )
        if until is not None:
            query = query.having(began < until)
        return list(self._connection.execute(query).scalars())

    def _shares(self, version: SeenVersion, chosen: list[str]) -> dict[JudgedBy, dict[str, float]]:
        """Return the share of passing traces by evaluator and session, among the traces that were drawn at random."""
        evaluator = (outcomes.c.name, outcomes.c.version, outcomes.c.model)
        query = (
            select(*evaluator, outcomes.c.session_id, func.avg(cast(outcomes.c.success, Integer)))
            .where(
                *_is_of(outcomes, version),
                among(outcomes.c.session_id, "ids"),
                outcomes.c.method == Method.LLM,
                outcomes.c.part == JudgedPart.RANDOM,
                outcomes.c.success.is_not(None),
            )
            .group_by(*evaluator, outcomes.c.session_id)
        )
        rates: dict[JudgedBy, dict[str, float]] = {}
        for *judged_by, session_id, share in self._connection.execute(query, ids(chosen)):
            rates.setdefault(JudgedBy(*judged_by), {})[session_id] = share
        return rates

    def _found(self, version: SeenVersion, chosen: list[str]) -> dict[str, int]:
        """Return, by kind, the number of sessions with a finding of severity error or warning in a trace of the
        version."""
        query = (
            select(findings.c.kind, func.count(findings.c.session_id.distinct()).label("count_"))
            .join(traces, matching(traces, findings, "trace_id"))
            .where(
                *_is_of(traces, version),
                own(findings),
                among(findings.c.session_id, "ids"),
                findings.c.severity.in_((Severity.ERROR, Severity.WARNING)),
            )
            .group_by(findings.c.kind)
        )
        return {row.kind: row.count_ for row in self._connection.execute(query, ids(chosen))}


def _is_of(table: FromClause, version: SeenVersion) -> list[ColumnElement[bool]]:
    return [
        own(table),
        table.c.agent == version.agent,
        has(table.c.service, version.service),
        table.c.service_version == version.version,
    ]
