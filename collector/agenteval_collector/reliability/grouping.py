"""Grouping of traces and run reports of one task, run and condition into runs.

Ids of runs repeat: the same suite is run again by the next version, or by another agent. Such traces are another run.
A trace that names no agent joins the run that there is; a report belongs to the run that it names, and what it does not
name is decided by time. Both look at when things happened, never at when they arrived: the order makes no difference.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agenteval_collector.model.reports import RunReport
from agenteval_collector.model.runs import RunTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """The traces of one run by start, with its agent and version."""

    agent: str | None
    service_version: str | None
    began: int
    """The start of the agent's first trace."""
    traces: tuple[RunTrace, ...]

    @property
    def versions(self) -> frozenset[str | None]:
        """The service.version of the agent, and of every service that took part."""
        return frozenset((self.service_version, *(version for trace in self.traces for version in trace.versions)))


def grouped(traces: Iterable[RunTrace]) -> list[RunGroup]:
    """Return the runs that traces of one task, run and condition make, in order of their beginning."""
    ordered = sorted(traces, key=lambda trace: (trace.started_at, trace.trace_id))
    named = [trace for trace in ordered if trace.agent is not None]
    owned: dict[tuple[str | None, str | None], list[RunTrace]] = {}
    for trace in named or ordered:
        owned.setdefault((trace.agent, trace.service_version), []).append(trace)
    runs = [
        RunGroup(agent=agent, service_version=version, began=own[0].started_at, traces=tuple(own))
        for (agent, version), own in owned.items()
    ]
    joined: dict[tuple[str | None, str | None], list[RunTrace]] = {}
    for trace in (each for each in ordered if each.agent is None and named):
        same = [run for run in runs if run.service_version == trace.service_version]
        run = _at(same or runs, trace.started_at)
        joined.setdefault((run.agent, run.service_version), []).append(trace)
    return [_with(run, joined.get((run.agent, run.service_version), ())) for run in runs]


def reported_run(runs: Sequence[RunGroup], report: RunReport) -> RunGroup | None:
    """Return the one of `runs`, in order of their beginning, that the report is about. None where it names another."""
    meant = [
        run
        for run in runs
        if report.agent in (None, run.agent)
        and (report.service_version is None or report.service_version in run.versions)
    ]
    return _at(meant, report.reported_at or 0) if meant else None


def _at(runs: Sequence[RunGroup], moment: int) -> RunGroup:
    """Return the run that had begun last by then. Where none had begun, return the first to begin."""
    return runs[max(0, bisect_right(runs, moment, key=lambda run: run.began) - 1)]


def _with(run: RunGroup, traces: Sequence[RunTrace]) -> RunGroup:
    if not traces:
        return run
    together = sorted((*run.traces, *traces), key=lambda trace: (trace.started_at, trace.trace_id))
    return replace(run, traces=tuple(together))
