"""Instruments for the work of the agents themselves: tokens, money, durations, tool calls.

Their names differ from `gen_ai.client.*`, which an agent's own instrumentation may send to the same backend. A trace
counts once: when it is complete for the first time.
"""

from agenteval_collector.emit.attributes import BoundedIdentities, BoundedNames
from agenteval_collector.emit.meter import SECONDS, ExemplarSpan, Meter, exemplar_span
from agenteval_collector.model.agent_work import AgentWork
from agenteval_collector.model.news import News
from otel_agenteval import semconv


class AgentInstruments:
    """Counts and records what agents did in complete traces. Thread-safe."""

    def __init__(self, meter: Meter, identities: BoundedIdentities) -> None:
        self._identities = identities
        self._models = BoundedNames("models", 50)
        self._tools = BoundedNames("tools", 100)
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
        """Count and record the work of traces that became complete."""
        for work in news.work:
            whose = self._identities.identity(work.agent, work.service, work.version, work.environment).attributes
            example = exemplar_span(work.trace_id, work.span_id)
            self._take_models(work, whose, example)
            for loop in work.loops:
                self._loops.add(loop.usd, {**whose, semconv.AGENTEVAL_LOOP_KIND: loop.kind})
            self._take_tools(work, whose, example)
            for turn in work.turns:
                self._turns.record(turn.seconds, {**whose, **_status(turn.failed)}, example)

    def _take_models(self, work: AgentWork, whose: dict[str, str], example: ExemplarSpan | None) -> None:
        for each in work.models:
            model = self._models.attribute(semconv.GEN_AI_REQUEST_MODEL, each.model)
            attributes = {**whose, **model}
            for kind, tokens in (("input", each.input_tokens), ("output", each.output_tokens)):
                if tokens:
                    self._tokens.add(tokens, {**attributes, semconv.GEN_AI_TOKEN_TYPE: kind})
            if each.usd is not None:
                self._cost.add(each.usd, attributes)
            operation = {semconv.GEN_AI_OPERATION_NAME: "chat", **_status(each.failed)}
            self._operations.record(each.seconds, {**attributes, **operation}, example)

    def _take_tools(self, work: AgentWork, whose: dict[str, str], example: ExemplarSpan | None) -> None:
        for each in work.tools:
            tool = self._tools.attribute(semconv.GEN_AI_TOOL_NAME, each.tool)
            attributes = {**whose, **tool, **_status(each.failed)}
            self._calls.add(1, attributes)
            # A call that no span of its own records has no duration.
            if each.seconds is not None:
                operation = {semconv.GEN_AI_OPERATION_NAME: "execute_tool"}
                self._operations.record(each.seconds, {**attributes, **operation}, example)


def _status(failed: bool) -> dict[str, str]:
    return {semconv.AGENTEVAL_STATUS: "error" if failed else "ok"}
