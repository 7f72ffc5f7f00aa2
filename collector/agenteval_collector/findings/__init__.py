"""Observe facts in complete traces, without a judge.

In: a `Trace` as the readers made it, or an agent's last efforts. Out: its `Finding`s, what could be seen of it, and
what of an effort is unusual. Pure, but for `loops`, which looks at traces while they run, on a thread of its own.
"""

from agenteval_collector.findings.effort import AgentEfforts, Unusual, effort_of, unusual_effort
from agenteval_collector.findings.trace import findings_in, seen_in
from agenteval_collector.model.effort import Effort

__all__ = ["AgentEfforts", "Effort", "Unusual", "effort_of", "findings_in", "seen_in", "unusual_effort"]
