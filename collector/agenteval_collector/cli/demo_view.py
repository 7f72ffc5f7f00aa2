"""The view of the sample agents in `agenteval demo`."""

from rich.console import Group
from rich.text import Text

from agenteval_collector.api.documents import FindingDocument, TraceDocument
from agenteval_collector.api.queries import Queries
from agenteval_collector.cli.tables import finding_table, session_table, trace_table
from agenteval_collector.demo.scripts import SCRIPTS
from agenteval_collector.model.session_filter import Order, SessionFilter
from agenteval_collector.runtime.clock import SystemClock


def demo_view(queries: Queries, width: int) -> Group:
    """Return the findings, the worst session first; below them the scores of each trace."""
    names = {script.session for script in SCRIPTS}
    listed = queries.sessions(SessionFilter(order=Order.ATTENTION)).items
    sessions = [session for session in listed if session["session_id"] in names]
    traces = sorted(sample_traces(queries), key=lambda trace: trace["started_at"] or "")
    found = {session["session_id"]: list[FindingDocument]() for session in sessions}
    for trace in traces:
        found.setdefault(trace["session_id"], []).extend(trace["findings"])
    tables = session_table(sessions, now=SystemClock().now(), width=width), finding_table(found), trace_table(traces)
    return Group(tables[0], Text(), tables[1], Text(), tables[2])


def sample_traces(queries: Queries) -> list[TraceDocument]:
    """Return the traces of the sample agents that are evaluated, by session and time."""
    found: list[TraceDocument] = []
    for script in SCRIPTS:
        session = queries.session(script.session)
        ids = session["trace_ids"] if session else []
        found += [trace for trace in map(queries.trace, ids) if trace is not None]
    return found
