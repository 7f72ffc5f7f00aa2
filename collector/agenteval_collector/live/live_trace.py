"""Watch one trace while it is open: its agents, their detectors, and the loops that these found."""

from typing import Final, NamedTuple

from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import Step
from otel_agenteval.finding import Finding
from otel_agenteval.internal.lru import LruMap

MAX_NAMES: Final = 256
"""Spans of a trace whose agent is remembered for the steps below them.

Beyond that, the span that was not looked at for longest is forgotten.
"""

_SEVERAL: Final = ""
"""Stands for several agents, or for an agent that is not known."""


class Agents:
    """The agents of one trace, as far as the spans that have arrived name them.

    A step belongs to the agent that it names. Otherwise it belongs to the agent that the span above it names, or else
    the steps beside it. A step beside an agent's run may belong to that agent or to its caller. Then its agent is not
    known.
    """

    def __init__(self) -> None:
        self.name_steps = False
        """True if steps name their agents here. A step that names none may then be of any of them."""
        self._below: LruMap[bytes, str] = LruMap(MAX_NAMES)
        self._names: set[str] = set()

    def heard(self, name: str, span_id: bytes, parent_id: bytes, *, is_step: bool) -> None:
        """Note that a span names an agent. A step names its own; any other span names that of the steps below it."""
        self._names.add(name)
        if is_step:
            self.name_steps = True
            self._below.put(parent_id, name if self._below.get(parent_id) in (None, name) else _SEVERAL)
        else:
            self._below.put(span_id, name)
            if self._below.get(parent_id) is None:
                self._below.put(parent_id, _SEVERAL)
        if len(self._names) > 2:
            self._names.pop()

    def of_step(self, name: str | None, parent_id: bytes) -> str | None:
        """Return the agent of a step that names this agent or none. Return None if the agent is not known."""
        agent = name or self._below.get(parent_id) or None
        if agent is None and self.name_steps and len(self._names) == 1:
            return next(iter(self._names))
        return agent

    def may_be_of_several(self, parent_id: bytes) -> bool:
        """Return whether a step below that span that names no agent may belong to an agent with a name."""
        return self.name_steps or self._below.get(parent_id) == _SEVERAL


MAX_AGENTS: Final = 64
"""Agents of a trace that are looked at. The agent that did nothing for longest is forgotten."""
MAX_ORIGINS: Final = 64
"""Processes and resources of a trace that are told apart."""
MAX_FAILED: Final = 64
"""Failed model calls of a trace that are told while it is open. Further ones are left to the complete trace."""
MAX_LOOPS: Final = 256
"""Loops of a trace while it is open. Further loops are left to the complete trace."""


class _WatchedAgent(NamedTuple):
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
        """True if steps may be missing between those that have arrived. The complete trace has them in order."""
        self.trace_id = trace_id
        self._rules = rules
        self._watched: LruMap[str | bytes, _WatchedAgent] = LruMap(MAX_AGENTS)
        self._newest: dict[bytes, int] = {}
        self._found: dict[str, list[Finding]] = {}
        self._failed: set[bytes] = set()
        self._around_failed: set[bytes] = set()

    def met(self, process: str) -> None:
        """Note that the process has a span in the trace."""
        if len(self.processes) < MAX_ORIGINS:
            self.processes.add(process)

    def failed(self, span_id: bytes, parent_id: bytes) -> bool:
        """Note that the span of a model call failed. Return whether it is to be told."""
        is_told = span_id not in self._around_failed and span_id not in self._failed and len(self._failed) < MAX_FAILED
        if len(self._failed) < MAX_FAILED:
            self._failed.add(span_id)
            self._around_failed.add(parent_id)
        return is_told

    def observe(self, step: Step, parent_id: bytes, resource: bytes) -> list[Finding]:
        """Return the loops that a step completes. Return none once the trace is in doubt, by this step or before.

        An exporter sends spans in the order of their ends. Spans from another exporter may come earlier or later.
        """
        ended_at = step.ended_at or 0
        # If steps name no agent, the steps below one span count as one agent's: agents side by side have spans each.
        watched = self._watched.get_or_make(
            step.agent if step.agent is not None else parent_id,
            lambda: _WatchedAgent(Detectors(self.trace_id, self.trace_id, self._rules), resource),
        )
        is_late = ended_at < self._newest.get(resource, 0)
        if is_late or watched.resource != resource or len(self._newest) > MAX_ORIGINS:
            self.in_doubt = True
            return []
        self._newest[resource] = ended_at
        return watched.detectors.observe(step)

    def with_earlier(self, loop: Finding) -> list[Finding]:
        """Return all loops of this kind that the arrived steps have shown. The given one is last."""
        of_kind = self._found.setdefault(loop.kind, [])
        of_kind.append(loop)
        self.in_doubt = self.in_doubt or sum(map(len, self._found.values())) >= MAX_LOOPS
        return of_kind
