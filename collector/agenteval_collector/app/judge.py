"""The judge with all that stands around it, as the settings want it; the same live and in a replay.

referrals (what is left to the judge) -> stage (queue and thread) -> panel (which questions)
-> asking (cache and budget) -> judge (the client)
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from agenteval_collector.config.evaluators import JudgedConfig
from agenteval_collector.config.judge import NO_JUDGE, JudgeConfig, RubricConfig
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.evaluation.ports import EarlierTraces
from agenteval_collector.evaluation.reading import TraceReader
from agenteval_collector.evaluation.referrals import JudgedEvaluator, Referrals, SessionSample
from agenteval_collector.judge.asking import Asking
from agenteval_collector.judge.budget import Ledger, PriceList
from agenteval_collector.judge.canaries import Canaries
from agenteval_collector.judge.frozen import freeze, thaw
from agenteval_collector.judge.judgements import Judgements, Load
from agenteval_collector.judge.panel import JUDGED, Panel
from agenteval_collector.judge.ports import OPENAI, JudgementTaker, JudgeTelemetry, Rechecks, Usage
from agenteval_collector.judge.questions.safety import SAFETY, safety_version
from agenteval_collector.judge.questions.scores import GOAL_VERSION, rubric_version
from agenteval_collector.judge.queue.stage import JudgeStage
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.counters import Telemetry
from agenteval_collector.model.judge_jobs import GOAL_SUCCESS, JudgeExchange, JudgeJob
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.runtime.work import SCORING, WorkAccount
from agenteval_collector.serve.api.ports import JudgeCheck
from agenteval_collector.stores.judge_exchanges import JudgeAnswerStore
from agenteval_collector.stores.judge_ledger import JudgeLedgerStore
from agenteval_collector.stores.session_turns import joined_turns
from agenteval_collector.stores.store import Store
from otel_agenteval.finding import Finding
from otel_agenteval.model import CertainFact, Json, Trace
from otel_agenteval.outcome import SubjectKind
from otel_agenteval.redaction import Redactor
from otel_agenteval.redaction.redactor import RedactionBudget

if TYPE_CHECKING:
    from agenteval_collector.judge.client.openai_judge import OpenAIJudge

logger = logging.getLogger(__name__)

CHECK_TIMEOUT = 3.0
"""Seconds that a check of the judge's endpoint waits: less than the web port waits for a write."""
TRACES_PER_REQUEST = 2
"""Traces under way for each request that may be sent at once. While one trace waits between two questions, another one
uses its place."""

SESSION_TRACES = 16
"""The newest traces of a session that are read with all their steps, where their spans are kept.

Of the others the judge is shown what the store has: questions, calls of tools, answers.
"""


class NoJudgeStage:
    """The stage if no judge is configured. It has no room for jobs, because no outcome is left to it."""

    trouble = fault = NO_JUDGE
    room = 0
    waiting = 0

    def shutdown(self, timeout: float = 0.0) -> None: ...
    def take_job(self, job: JudgeJob) -> None: ...
    def forget(self, subject_ids: Container[str]) -> None: ...
    def drain(self, progress: Callable[[int], None]) -> None: ...


class NoRechecks:
    """The rechecks if there are none."""

    def due(self) -> Sequence[JudgeJob]:
        return ()


class NoJudgeTelemetry:
    """The counters of judging if nobody reads them."""

    def asked(self, exchange: JudgeExchange, error_type: str | None) -> None: ...
    def requested(self, model: str, error_type: str | None) -> None: ...
    def answered(self, model: str, usage: Usage) -> None: ...
    def looked_up(self, known: bool) -> None: ...
    def no_room(self) -> None: ...


def make_judging(settings: Settings, store: Store, telemetry: Telemetry) -> Referrals:
    """Make the part that decides which outcomes are left to the judge. Without a judge, it leaves none."""
    evaluators, config = judged_evaluators(settings), settings.judge
    if not config.on:
        return Referrals(evaluators, None)
    sample = SessionSample(config.sample, config.escalate, store.parts, telemetry)
    return Referrals(evaluators, sample, _goal(settings))


def make_ledger(settings: Settings, store: JudgeLedgerStore, clock: Clock) -> Ledger:
    """Make the ledger of what the judge uses up, which is kept in `store`."""
    config = settings.judge
    return Ledger(config.budget, PriceList(config.prices), store, clock, judge_models(settings))


def make_judge_stage(
    settings: Settings,
    ledger: Ledger,
    clock: Clock,
    telemetry: JudgeTelemetry,
    load: Load,
    taker: JudgementTaker,
    *,
    capacity: int,
    rechecks: Rechecks,
    answers: JudgeAnswerStore,
) -> JudgeStage:
    """Make the stage that asks the judge. Raises ConfigError for an unusable `judge.base_url`.

    `load` reads a trace again, and `taker` gets the judgement on it. At most `capacity` traces may wait. A question
    whose answer is in `answers` is not asked again, except for the `rechecks`.
    """
    config = settings.judge
    models = judge_models(settings)
    judge = _judge(config, clock, telemetry, config.timeout)
    asking = Asking(
        judge=judge,
        ledger=ledger,
        clock=clock,
        endpoint=config.base_url or OPENAI,
        nonce=partial(secrets.token_hex, 16),
        mark=secrets.token_hex(8),
        temperature=config.temperature_of,
        telemetry=telemetry,
        answers=answers,
    )
    logger.info("%s", _describe(settings, sorted(models), ledger.prices))
    return JudgeStage(
        Judgements(load, _panel(settings).judge, asking.about, clock),
        judge,
        taker,
        clock,
        telemetry,
        capacity=capacity,
        parallel=TRACES_PER_REQUEST * config.concurrency,
        rechecks=rechecks,
    )


def make_canaries(
    settings: Settings,
    store: Store,
    load: Load,
    taker: JudgementTaker,
    clock: Clock,
    asks_again: Callable[[], bool],
) -> Canaries:
    """Make the canaries. The judge is asked about them again while `asks_again` returns True in this process.

    Judgements on other traces go on to `taker`. `load` reads a trace from its spans, to be frozen.
    """
    config, evaluators = settings.judge, judged_evaluators(settings)

    def freeze_trace(job: JudgeJob) -> bytes | None:
        trace = load(job)
        return None if trace is None else freeze(trace, config.trace_tokens, judge_redaction(settings))

    return Canaries(store.canaries, evaluators, taker, freeze_trace, clock, asks_again, wanted=config.canaries)


def canary_loader(store: Store, load: Load) -> Load:
    """Make a reader that takes canaries as they were frozen, and all other traces by `load`."""

    def load_or_thaw(job: JudgeJob) -> Trace | None:
        if not job.recheck:
            return load(job)
        frozen = store.canaries.frozen(job.trace_id)
        return None if frozen is None else thaw(frozen)

    return load_or_thaw


def _panel(settings: Settings) -> Panel:
    config = settings.judge
    return Panel(
        model=config.model,
        evaluators={evaluator.name: evaluator for evaluator in _all_judged(settings)},
        trace_tokens=config.trace_tokens,
        votes=config.votes,
        band=config.band,
        rubrics=config.rubrics,
        constraints=settings.reliability.safety.constraints,
        redactor=partial(judge_redaction, settings),
    )


def judge_check(config: JudgeConfig, clock: Clock) -> JudgeCheck:
    """Make the check of the judge's endpoint."""
    return _EndpointCheck(config, clock) if config.on else _NoJudgeCheck()


@dataclass(frozen=True, slots=True)
class _EndpointCheck:
    """Asks the endpoint of the settings."""

    config: JudgeConfig
    clock: Clock

    def require(self) -> None: ...

    def trouble(self) -> str | None:
        return asyncio.run(self._ask())

    async def _ask(self) -> str | None:
        judge = _judge(self.config, self.clock, NoJudgeTelemetry(), CHECK_TIMEOUT)
        try:
            return await judge.trouble(self.config.model)
        finally:
            await judge.close()


class _NoJudgeCheck:
    """The check if no judge is configured: it raises."""

    def require(self) -> NoReturn:
        raise InvalidRequest(NO_JUDGE)

    trouble = require


def _judge(config: JudgeConfig, clock: Clock, telemetry: JudgeTelemetry, timeout: float) -> "OpenAIJudge":
    # Only here, because importing the openai client takes seconds: who has no judge does without.
    from agenteval_collector.judge.client.openai_judge import OpenAIJudge  # noqa: PLC0415

    for library in ("httpx", "httpx2", "openai"):  # They tell of every request.
        logging.getLogger(library).setLevel(logging.WARNING)
    try:
        return OpenAIJudge(
            base_url=config.base_url,
            api_key=config.api_key.get_secret_value() if config.api_key else None,
            timeout=timeout,
            concurrency=config.concurrency,
            clock=clock,
            requested=telemetry.requested,
        )
    except ValueError as error:
        raise ConfigError(f"judge.base_url: {error}") from error


def judge_models(settings: Settings) -> set[str]:
    """List all models that may be asked."""
    return {settings.judge.model, *(evaluator.model for evaluator in _all_judged(settings))}


def trace_loader(traces: EarlierTraces, store: Store, reader: TraceReader, work: WorkAccount | None = None) -> Load:
    """Make a reader of traces and sessions that were evaluated before, with what was found in them.

    A trace comes with the turns before it in its session. Memory for reading is reserved from `work`.
    """
    reserve = WorkAccount.reserve_nothing if work is None else work.reserve

    def read(assembled: AssembledTrace) -> Trace:
        with reserve(SCORING * assembled.size):
            return reader.read(assembled)

    def load(job: JudgeJob) -> Trace | None:
        if job.subject is SubjectKind.SESSION:
            return load_session(job.session_id)
        assembled = traces.trace(job.trace_id)
        if assembled is None or assembled.revision != job.revision:
            return None  # A newer one stands, and what comes of this one will be dropped.
        trace = read(assembled)
        earlier = store.turns.before(job.session_id, trace.started_at, trace.trace_id)
        found = store.findings.certain(trace_id=job.trace_id)
        return replace(trace, earlier=earlier, observations=tuple(map(_observation, found)))

    def load_session(session_id: str) -> Trace:
        views = store.turns.of_session(session_id)
        assembled = (traces.trace(view.trace_id) for view in views[-SESSION_TRACES:])
        traces_read = {trace.trace_id: read(trace) for trace in assembled if trace is not None}
        turns, first = joined_turns(traces_read.get(view.trace_id, view) for view in views)
        newest = [*traces_read.values()][::-1]
        found = store.findings.certain(session_id=session_id)
        return Trace(
            trace_id=session_id,
            session_id=session_id,
            turns=tuple(turns),
            agents=tuple(dict.fromkeys(agent for view in views for agent in view.agents)),
            system_instructions=next(filter(None, (trace.system_instructions for trace in newest)), None),
            available_tools=tuple({tool.name: tool for trace in newest for tool in trace.available_tools}.values()),
            observations=tuple(_observation(finding, first.get(finding.trace_id)) for finding in found),
        )

    return load


def _observation(finding: Finding, first: int | None = 0) -> CertainFact:
    """Return what the judge is told of a finding. `first` is the place of its trace's first turn, None if unknown."""
    turn = None if finding.turn is None or first is None else first + finding.turn
    return CertainFact(kind=finding.kind, reason=finding.reason, turn=turn, span_id=finding.span_id)


def judged_evaluators(settings: Settings) -> Sequence[JudgedEvaluator]:
    """List the judged evaluators of traces that are on, and the rubrics."""
    configured = settings.evaluators
    builtin: dict[str, JudgedConfig] = {name: getattr(configured, name) for name in JUDGED}
    evaluators = [
        _judged_by(settings, name, JUDGED[name], config) for name, config in builtin.items() if config.enabled
    ]
    if configured.safety.enabled:
        version = safety_version(settings.reliability.safety.constraints)
        evaluators.append(_judged_by(settings, SAFETY, version, configured.safety, of_runs=True))
    rubrics = settings.judge.rubrics
    return [*evaluators, *(_judged_by(settings, rubric.name, rubric_version(rubric), rubric) for rubric in rubrics)]


def _goal(settings: Settings) -> JudgedEvaluator | None:
    """Return the judged evaluator of sessions; None if it is off."""
    config = settings.evaluators.goal_success
    return _judged_by(settings, GOAL_SUCCESS, GOAL_VERSION, config) if config.enabled else None


def _judged_by(
    settings: Settings, name: str, version: str, config: JudgedConfig | RubricConfig, *, of_runs: bool = False
) -> JudgedEvaluator:
    model = config.model or settings.judge.model
    return JudgedEvaluator(name=name, version=version, model=model, threshold=config.threshold, of_runs=of_runs)


def _all_judged(settings: Settings) -> Sequence[JudgedEvaluator]:
    """List the judged evaluators of traces and sessions that are on."""
    return [*judged_evaluators(settings), *filter(None, [_goal(settings)])]


def _describe(settings: Settings, models: Sequence[str], prices: PriceList) -> str:
    config = settings.judge
    bounds = config.budget.model_dump(exclude_none=True)
    budget = ", ".join(f"{name.replace('_', ' ')} {bound:g}" for name, bound in bounds.items()) or "none"
    unknown = prices.unknown(models)
    return (
        f"judge: {', '.join(models)} at {urlsplit(config.base_url or OPENAI).hostname}, "
        f"redaction {'on' if config.redact else 'off'}, budget {budget}, "
        f"{'no price known for ' + ', '.join(unknown) if unknown else 'all prices known'}"
    )


def judge_redaction(settings: Settings) -> Callable[[Json], Json]:
    """Make a redaction for one trace, in which equal values have equal numbers."""
    if not settings.judge.redact:
        return _as_it_is
    return Redactor(own=settings.redaction.own, budget=RedactionBudget()).redact


def _as_it_is(value: Json) -> Json:
    return value
