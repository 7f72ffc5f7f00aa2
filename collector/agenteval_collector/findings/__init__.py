"""What can be observed in a complete trace without a judge.

In: a `Trace` as the readers made it. Out: its `Finding`s, and what could be seen of it. Pure: no clock, no store.
"""

from agenteval_collector.findings.trace import findings_in, seen_in

__all__ = ["findings_in", "seen_in"]
