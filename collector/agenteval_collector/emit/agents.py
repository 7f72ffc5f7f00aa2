"""Instruments for the work of the agents themselves: tokens, money, durations, tool calls.

Their names differ from `gen_ai.client.*`, which an agent's own instrumentation may send to the same backend. What a
revision of a trace adds to those before it is counted once, for the agent that did it. What was counted never falls.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from agenteval_collector.emit.attributes import BoundedIdentities, BoundedNames
from agenteval_collector.emit.meter import SECONDS, Counter, ExemplarSpan, Histogram, Meter, exemplar_span
from agenteval_collector.model.agent_work import AgentWork
from agenteval_collector.model.news import News
from otel_agenteval import semconv
from otel_agenteval.internal.lru import LruMap

MOST_TRACES: Final = 20_000
"""Traces of which is remembered what was counted, the last ones."""


class AgentInstruments:
    """Counts and records what agents did in complete traces. Thread-safe."""

    def __init__(self, meter: Meter, identities: BoundedIdentities) -> None:
        self._identities = identities
        self._models = BoundedNames("models", 50)
        self._tools = BoundedNames("tools", 100)
        self._counted: LruMap[str, CountedWork] = LruMap(MOST_TRACES)
        self._tokens = meter.counter(
            "agenteval.agent.tokens", "{token}", "Tokens that agents used, as their spans say."
        )
        self._cost = meter.counter("agenteval.agent.cost", "{USD}", "What these cost, where the price is known.")
        self._loops = meter.counter(
            "agenteval.loops.cost", "{USD}", "What model calls cost that were repeated in a loop."
        )
        self._calls = meter.counter("agenteval.agent.tool.calls", "{call}", "Tool calls, by what came of them.")
        self._turns = meter.histogram("agenteval.agent.turn.duration", "s", "How long turns took.", SECONDS)
        self._operations = meter.histogram(
            "agenteval.agent.operation.duration", "s", "How long model calls and tool calls took.", SECONDS
        )

    def take_news(self, news: News) -> None:
        """Count and record the work in traces. Of a later revision only that is counted by which it exceeds all earlier
        ones."""
        for work in news.work:
            counted = self._counted.get(work.trace_id)
            # A later revision of a trace that this process does not remember was counted by the process before it.
            is_known = counted is not None or work.revision == 1
            if counted is None:
                counted = CountedWork()
                self._counted.put(work.trace_id, counted)
            example = exemplar_span(work.trace_id, work.span_id)
            for increment in counted.grow(self._increments(work)):
                if is_known:
                    increment.add(example)

    def _increments(self, work: AgentWork) -> Iterator["Increment"]:
        """Yield what all the work in a trace adds."""
        yield from self._of_models(work)
        yield from self._of_tools(work)
        whose = self._whose(work, work.agent)
        for loop in work.loops:
            yield Increment(self._loops, loop.usd, {**whose, semconv.AGENTEVAL_LOOP_KIND: loop.kind}, loop.kind)
        for turn in work.turns:
            yield Increment(self._turns, turn.seconds, {**whose, **_status(turn.failed)}, "turn", turn.span_id)

    def _whose(self, work: AgentWork, agent: str | None) -> dict[str, str]:
        return self._identities.identity(agent or work.agent, work.service, work.version, work.environment).attributes

    def _of_models(self, work: AgentWork) -> Iterator["Increment"]:
        for call in work.models:
            model = self._models.attribute(semconv.GEN_AI_REQUEST_MODEL, call.model)
            attributes = {**self._whose(work, call.agent), **model}
            for kind, tokens in call.tokens.items():
                yield Increment(self._tokens, tokens, {**attributes, semconv.GEN_AI_TOKEN_TYPE: kind}, kind)
            if call.usd is not None:
                yield Increment(self._cost, call.usd, attributes, "cost")
            operation = {semconv.GEN_AI_OPERATION_NAME: call.operation, **_status(call.failed)}
            yield Increment(self._operations, call.seconds, {**attributes, **operation}, call.operation, call.span_id)

    def _of_tools(self, work: AgentWork) -> Iterator["Increment"]:
        for call in work.tools:
            tool = self._tools.attribute(semconv.GEN_AI_TOOL_NAME, call.tool)
            attributes = {**self._whose(work, call.agent), **tool, **_status(call.failed)}
            yield Increment(self._calls, 1, attributes, "call")
            # A call that no span of its own records has no duration.
            if call.seconds is not None:
                operation = {semconv.GEN_AI_OPERATION_NAME: "execute_tool"}
                yield Increment(
                    self._operations, call.seconds, {**attributes, **operation}, "execute_tool", call.span_id
                )


class Increment(NamedTuple):
    """An amount to add to one series of an instrument.

    Amounts of one `kind` are counted together, whatever the other attributes of their series. `span_id` tells the
    values of a histogram apart.
    """

    instrument: Counter | Histogram
    amount: float
    attributes: Mapping[str, str]
    kind: str
    span_id: str = ""

    @property
    def size(self) -> float:
        """The amount; 1 for a histogram, which counts values."""
        return self.amount if isinstance(self.instrument, Counter) else 1

    def add(self, example: ExemplarSpan | None) -> None:
        """Add it to its instrument."""
        if isinstance(self.instrument, Counter):
            self.instrument.add(self.amount, self.attributes)
        else:
            self.instrument.record(self.amount, self.attributes, example)


class CountedWork:
    """Remembers what was counted of one trace: the sum of each series, and of each kind over all series.

    A later revision may say that a call is another agent's, or another span's, than an earlier one said. What was
    counted stays where it is: series grow towards what the newest revision says, as long as their sum does not exceed
    it.
    """

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        # By hash: of 20,000 traces the attributes themselves would take too much memory.
        self._sums: defaultdict[int, float] = defaultdict(float)

    def grow(self, increments: Iterable[Increment]) -> list[Increment]:
        """Count the increments of a revision. Return what was not counted before, of each increment."""
        sums = self._sums
        listed = [(increment, *_keys(increment)) for increment in increments]
        room: defaultdict[int, float] = defaultdict(float)
        for increment, _, kind in listed:
            room[kind] += increment.size
        for kind in room:
            room[kind] -= sums[kind]
        seen: defaultdict[int, float] = defaultdict(float)
        grown = []
        for increment, series, kind in listed:
            seen[series] += increment.size
            size = min(increment.size, seen[series] - sums[series], room[kind])
            if size > _ROUNDING:
                sums[series] += size
                sums[kind] += size
                room[kind] -= size
                grown.append(increment if size == increment.size else increment._replace(amount=size))
        return grown


_ROUNDING: Final = 1e-12
"""Differences up to this are those of sums of the same numbers in another order."""


def _keys(increment: Increment) -> tuple[int, int]:
    """Return the keys of the two sums that an increment counts in: that of its series (in a histogram, of its span),
    and that of its kind."""
    where = increment.span_id if isinstance(increment.instrument, Histogram) else tuple(increment.attributes.items())
    return hash((id(increment.instrument), increment.kind, where)), hash((id(increment.instrument), increment.kind))


def _status(failed: bool) -> dict[str, str]:
    return {semconv.AGENTEVAL_STATUS: "error" if failed else "ok"}
