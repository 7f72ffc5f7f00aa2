"""One trace while it is open: the detectors of its agents, and the loops that they found."""

from typing import Final, NamedTuple

from agenteval_collector.findings.loops.agents import Agents
from agenteval_collector.runtime.lru import Recent
from otel_agenteval.detectors import Detectors, RuleBook, Step
from otel_agenteval.finding import Finding

MAX_AGENTS: Final = 64
"""Agents of a trace that are looked at. The one that did nothing for longest is forgotten."""
MAX_ORIGINS: Final = 64
"""Processes and resources of a trace that are told apart."""
MAX_LOOPS: Final = 256
"""Loops of a trace while it is open. More are left to the complete trace."""


class _Watched(NamedTuple):
    """The detectors of one agent, and the resource that its steps come from."""

    detectors: Detectors
    resource: bytes


class LiveTrace:
    """A trace as far as its spans have arrived. Each agent is looked at on its own."""

    def __init__(self, trace_id: str, rules: RuleBook) -> None:
        self.session_id: str | None = None
        self.agents = Agents()
        self.processes: set[str] = set()
        self.in_doubt = False
        """True where steps may be missing between those that have arrived. The complete trace has them in order."""
        self.trace_id = trace_id
        self._rules = rules
        self._watched: Recent[str | bytes, _Watched] = Recent(MAX_AGENTS)
        self._newest: dict[bytes, int] = {}
        self._found: dict[str, list[Finding]] = {}

    def met(self, process: str) -> None:
        """Note that the process has a span in the trace."""
        if len(self.processes) < MAX_ORIGINS:
            self.processes.add(process)

    def observe(self, step: Step, parent_id: bytes, resource: bytes) -> list[Finding]:
        """Return the loops that a step completes. None of them once the trace is in doubt, by this step or before.

        An exporter sends spans in the order of their ends. Spans from another exporter may come earlier or later.
        """
        ended_at = step.ended_at or 0
        # Without names, what one agent does is what stands below one span: agents side by side have spans each.
        watched = self._of(step.agent if step.agent is not None else parent_id, resource)
        is_late = ended_at < self._newest.get(resource, 0)
        if is_late or watched.resource != resource or len(self._newest) > MAX_ORIGINS:
            self.in_doubt = True
            return []
        self._newest[resource] = ended_at
        return watched.detectors.observe(step)

    def with_earlier(self, loop: Finding) -> list[Finding]:
        """Return all loops of this kind that the arrived steps have shown, this one last."""
        of_kind = self._found.setdefault(loop.kind, [])
        of_kind.append(loop)
        self.in_doubt = self.in_doubt or sum(map(len, self._found.values())) >= MAX_LOOPS
        return of_kind

    def _of(self, agent: str | bytes, resource: bytes) -> _Watched:
        watched = self._watched.get(agent)
        if watched is None:
            detectors = Detectors(self.trace_id, self.trace_id, self._rules)
            watched = _Watched(detectors, resource)
            self._watched.put(agent, watched)
        return watched
