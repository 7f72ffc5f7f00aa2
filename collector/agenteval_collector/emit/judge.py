"""Instruments for the judge's work: durations, costs, and traces that wait.

Names are those that evaluators in the field use (`gen_ai.evaluation.client.*`). Bounds and attributes follow the GenAI
semantic conventions for model clients.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from agenteval_collector.emit.meter import OTHER, SECONDS, Meter
from agenteval_collector.judge.ports import Usage
from agenteval_collector.judge.queue.stage import JudgeStage
from agenteval_collector.model.drift import Drift
from agenteval_collector.model.judge_jobs import BudgetLevel, JudgeExchange
from otel_agenteval import semconv

TOKEN_BOUNDS: Final = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)

_OPERATION: Final = "chat"
_PROVIDER: Final = "openai"
"""The protocol that is spoken: the conventions want this name whichever vendor's endpoint answers."""
_RESULTS: Final = {known: {semconv.AGENTEVAL_RESULT: name} for known, name in ((True, "hit"), (False, "miss"))}
_INPUT: Final = "input"
_OUTPUT: Final = "output"


class JudgeInstruments:
    """The judge's `JudgeTelemetry`.

    `models` are those that the settings name; any other model is shown as `_other`. Names of questions come from code
    and settings. So spans cannot add values.
    """

    def __init__(self, meter: Meter, models: Collection[str]) -> None:
        self._meter = meter
        self._models = frozenset(models)
        self._durations = meter.histogram(
            "gen_ai.evaluation.client.operation.duration",
            "s",
            "Time for a reply of the judge; where none came, for all attempts together.",
            SECONDS,
        )
        self._requests = meter.counter(
            "agenteval.judge.requests",
            "{request}",
            "HTTP requests to the judge that came to their end, each attempt by itself.",
        )
        self._tokens = meter.histogram(
            "gen_ai.evaluation.client.usage.tokens",
            "{token}",
            "Tokens that one question to the judge took.",
            TOKEN_BOUNDS,
        )
        self._cost = meter.counter(
            "gen_ai.evaluation.client.usage.cost", "{USD}", "What the judge's replies cost, by judge.prices."
        )
        self._enqueue_errors = meter.counter(
            "gen_ai.evaluation.client.enqueue.errors",
            "{error}",
            "Traces that were not judged because too many waited already.",
        )
        self._usages = meter.counter(
            "agenteval.judge.usages",
            "{reply}",
            "Replies of the judge, by whether they say what they used. Else the budget counts an estimate.",
        )
        self._lookups = meter.counter(
            "agenteval.judge.cache.lookups",
            "{lookup}",
            "Questions to the judge, by whether their answer was known already.",
        )
        # Prometheus sees no increase if a series appears with its first event.
        self._enqueue_errors.add(0)
        for result in _RESULTS.values():
            self._lookups.add(0, result)

    def asked(self, exchange: JudgeExchange, error_type: str | None) -> None:
        attributes = self._client(exchange.model) | {semconv.AGENTEVAL_JUDGE_QUESTION: exchange.question}
        failed = {} if error_type is None else {semconv.ERROR_TYPE: error_type}
        if exchange.seconds is not None:
            self._durations.record(exchange.seconds, {**attributes, **failed})
        for token_type, tokens in ((_INPUT, exchange.input_tokens), (_OUTPUT, exchange.output_tokens)):
            if tokens is not None:
                self._tokens.record(tokens, {**attributes, semconv.GEN_AI_TOKEN_TYPE: token_type})
        if exchange.usd is not None:
            self._cost.add(exchange.usd, attributes)

    def requested(self, model: str, error_type: str | None) -> None:
        failed = {} if error_type is None else {semconv.ERROR_TYPE: error_type}
        self._requests.add(1, self._client(model) | failed)

    def answered(self, model: str, usage: Usage) -> None:
        self._usages.add(1, self._client(model) | {semconv.AGENTEVAL_RESULT: usage})

    def looked_up(self, hit: bool) -> None:
        self._lookups.add(1, _RESULTS[hit])

    def no_room(self) -> None:
        self._enqueue_errors.add(1)

    def _client(self, model: str) -> dict[str, str]:
        return {
            semconv.GEN_AI_OPERATION_NAME: _OPERATION,
            semconv.GEN_AI_PROVIDER_NAME: _PROVIDER,
            semconv.GEN_AI_REQUEST_MODEL: model if model in self._models else OTHER,
        }

    def observe_drift(self, read: Callable[[], Sequence[Drift]]) -> None:
        """Show for each evaluator whether the judge has drifted. Call it once."""
        self._meter.observable(
            "agenteval.judge.drift",
            "",
            "1 where the judge says something else than before of the same traces, else 0.",
            lambda: [(float(drift.drifted), {semconv.GEN_AI_EVALUATION_NAME: drift.name}) for drift in read()],
        )

    def observe_budget(self, read: Callable[[], Sequence[BudgetLevel]]) -> None:
        """Show each bound of the budget, and how much of it is used up. Call it once."""
        self._meter.observable(
            "agenteval.judge.budget.used",
            "",
            "What the judge has used up in the present hour or day.",
            lambda: [(usage.used, _bound(usage)) for usage in read()],
        )
        self._meter.observable(
            "agenteval.judge.budget.limit",
            "",
            "What the judge may use up in an hour or a day.",
            lambda: [(usage.limit, _bound(usage)) for usage in read()],
        )

    def observe_stage(self, stage: JudgeStage) -> None:
        """Show how many traces wait for the judge, and whether requests to it are paused. Call it once."""
        self._meter.observable(
            "agenteval.judge.paused",
            "",
            "1 while the judge does not answer and requests are held back, else 0.",
            lambda: [(float(stage.paused), {})],
        )
        self._meter.observable(
            "gen_ai.evaluation.client.queue.size",
            "{trace}",
            "Traces that wait for the judge.",
            lambda: [(stage.waiting, {})],
        )


def _bound(level: BudgetLevel) -> dict[str, str]:
    return {semconv.AGENTEVAL_JUDGE_BUDGET: level.name}
