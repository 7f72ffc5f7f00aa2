"""Observe facts in complete traces, without a judge.

In: a `Trace` as the readers made it, or an agent's last efforts. Out: its `Finding`s, what could be seen of it, and
what of an effort is unusual. Pure, but for `loops`, which looks at traces while they run, on a thread of its own.
"""

from agenteval_collector.findings.effort import AgentEfforts
from agenteval_collector.findings.trace import findings_in, seen_in

__all__ = ["AgentEfforts", "findings_in", "seen_in"]
