"""What rows of the store say of others must be so: counts, sums, what they refer to, after whatever happened."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from agenteval_collector.model.effort import NO_EFFORT, Effort
from agenteval_collector.stores.rows import effort_from

Look: TypeAlias = Callable[[str], list[tuple[Any, ...]]]

RULES = {
    "the traces of a session": """
        SELECT session_id FROM sessions s WHERE trace_count
        != (SELECT count(*) FROM traces t WHERE t.session_id = s.session_id)""",
    "the errors of a session": """
        SELECT session_id FROM sessions s WHERE errors
        != (SELECT count(*) FROM findings f WHERE f.session_id = s.session_id AND f.severity = 'error')""",
    "traces without their session": """
        SELECT trace_id FROM traces WHERE session_id NOT IN (SELECT session_id FROM sessions)""",
    "traces by agent and hour": """
        SELECT 1 WHERE (SELECT coalesce(sum(traces), 0) FROM agent_hours WHERE name = '')
        != (SELECT count(*) FROM traces)""",
    "traces with an error by agent and hour": """
        SELECT 1 WHERE (SELECT coalesce(sum(hits), 0) FROM agent_hours WHERE name = '')
        != (SELECT count(DISTINCT trace_id) FROM findings WHERE severity = 'error')""",
    "durations by agent and hour": """
        SELECT 1 WHERE (SELECT coalesce(sum(traces), 0) FROM agent_times) != (SELECT count(*) FROM traces)""",
    "the traces of a problem": """
        SELECT problem_id FROM problems p WHERE traces
        != (SELECT count(*) FROM problem_traces t WHERE t.problem_id = p.problem_id)""",
    "the problem of tools that fail": """
        SELECT 1 WHERE (SELECT coalesce(sum(traces), 0) FROM problems WHERE kind = 'tool_failed')
        != (SELECT count(DISTINCT trace_id) FROM findings WHERE kind = 'tool_failed')""",
    "findings that are there twice": """
        SELECT trace_id FROM findings WHERE kind = 'tool_failed' GROUP BY trace_id HAVING count(*) > 1""",
}


def wrong_sums(look: Look) -> Iterator[str]:
    """Yield a sentence for each rule that does not hold, by the rows that a query finds."""
    for rule, query in RULES.items():
        if rows := look(query):
            yield f"{rule}: {len(rows)} are wrong, such as {rows[0][0]}"


def wrong_efforts(look: Look) -> Iterator[str]:
    """Yield a sentence for each session whose steps are not those of its traces."""
    of_traces: defaultdict[str, Effort] = defaultdict(lambda: NO_EFFORT)
    for session_id, effort in look("SELECT session_id, effort FROM traces"):
        of_traces[session_id] += effort_from(effort)
    for session_id, effort in look("SELECT session_id, effort FROM sessions"):
        if (steps := effort_from(effort).steps) != of_traces[session_id].steps:
            yield f"the session {session_id} has {steps} steps, and its traces have {of_traces[session_id].steps}"
