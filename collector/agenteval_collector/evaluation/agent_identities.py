"""Name the agents, and their versions, of traces that name none.

An agent that names itself nowhere is called as its service. A run without a root may be of an agent that does: it is
its siblings', if the last traces of its service agree on one. Where nobody says a version, it is the fingerprint of the
agent's instructions and tools (`prompt-1a2b3c4d`), unless these differ from one trace to the next.
"""

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import Final

from agenteval_collector.evaluation.unfinished import is_unfinished
from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.assembled_trace import AssembledTrace
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import Trace

MOST_SERVICES: Final = 1000
"""Services whose agents are remembered, the last ones."""
MOST_SIBLINGS: Final = 8
"""Traces of a service that must agree on the agent, the last ones."""
MOST_AGENTS: Final = 1000
"""Agents whose fingerprints are remembered, the last ones."""
MOST_TRACES: Final = 200
"""Traces of an agent whose fingerprints are remembered, the last ones."""
MOST_FINGERPRINTS: Final = 10
"""Different fingerprints among these. With more, the instructions are written anew each time and are no version."""
OF_PROMPT: Final = "prompt-"
"""What a version begins with that is a fingerprint."""


def spoken_version(trace: Trace) -> str | None:
    """Return the version that a trace names itself."""
    version = trace.service_version
    return None if version is not None and version.startswith(OF_PROMPT) else version


@dataclass(slots=True)
class _Fingerprints:
    """The fingerprints of an agent's last traces, as far as they have any."""

    last: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_TRACES))
    counts: Counter[str] = field(default_factory=Counter)

    def note(self, fingerprint: str) -> bool:
        """Note the fingerprint of a trace. Return whether it may be a version."""
        if len(self.last) == MOST_TRACES:
            self.counts[self.last[0]] -= 1
            self.counts += Counter()  # Forgets those that none of the traces has.
        self.last.append(fingerprint)
        self.counts[fingerprint] += 1
        return len(self.counts) <= MOST_FINGERPRINTS


class AgentIdentities:
    """The agents of the last traces of each service, and what they were made of. Owned by one thread."""

    def __init__(self) -> None:
        self._agents: LruMap[str, deque[str]] = LruMap(MOST_SERVICES)
        self._fingerprints: LruMap[AgentKey, _Fingerprints] = LruMap(MOST_AGENTS)

    def named(self, trace: Trace, assembled: AssembledTrace) -> Trace:
        """Return the trace with the name and the version of its agent, if it has turns and names none itself. Remember
        what others name."""
        if not trace.has_turns:
            return trace
        return self._with_version(self._with_agent(trace, assembled))

    def with_sibling(self, trace: Trace) -> Trace:
        """Return a trace of tool calls alone with the agent that the last traces of its service agree on."""
        siblings = set(self._agents.get(trace.service or "") or ())
        return replace(trace, agents=(*siblings,)) if len(siblings) == 1 else trace

    def _with_agent(self, trace: Trace, assembled: AssembledTrace) -> Trace:
        if trace.service is None:
            return trace
        if trace.agent is not None:
            self._agents.get_or_make(trace.service, _no_agents).append(trace.agent)
            return trace
        siblings = set(self._agents.get(trace.service) or ()) if is_unfinished(trace, assembled) else set()
        return replace(trace, agents=(siblings.pop() if len(siblings) == 1 else trace.service,))

    def _with_version(self, trace: Trace) -> Trace:
        if trace.service_version is not None or trace.fingerprint is None or trace.agent is None:
            return trace
        known = self._fingerprints.get_or_make(AgentKey(trace.agent, trace.service), _Fingerprints)
        is_version = known.note(trace.fingerprint)
        return replace(trace, service_version=f"{OF_PROMPT}{trace.fingerprint}") if is_version else trace


def _no_agents() -> deque[str]:
    return deque(maxlen=MOST_SIBLINGS)
