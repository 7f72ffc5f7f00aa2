"""The engine from end to end: stage, panel, asking, ledger on SQLite, client and HTTP, against a judge at its worst."""

import asyncio
import json
import random
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from agenteval_collector.app.judge import NoRechecks
from agenteval_collector.config.judge import BudgetConfig
from agenteval_collector.config.values import PriceConfig
from agenteval_collector.judge.asking import REASKS, Asking
from agenteval_collector.judge.budget import Ledger, PriceList
from agenteval_collector.judge.client.openai_judge import RETRIES, OpenAIJudge
from agenteval_collector.judge.judgements import Judgements
from agenteval_collector.judge.panel import JUDGED
from agenteval_collector.judge.ports import Usage
from agenteval_collector.judge.queue.stage import JudgeStage
from agenteval_collector.model.judge_jobs import JudgeExchange, Judgement, Spend
from agenteval_collector.model.news import no_events
from agenteval_collector.stores.store import Store

from otel_agenteval.model import Tool, Trace
from otel_agenteval.outcome import Failure, Score, Status, Unscored
from tests.support.clock import ManualClock
from tests.support.judge.behaviours import NAMED, OK, SOON, Behaviour, Content
from tests.support.judge.completions import Received
from tests.support.judge.filling import fill
from tests.support.judge.judge_server import JudgeServer
from tests.support.judge_stage import Answers, job
from tests.support.judging import panel, tool_call, trace, turn

SCORE = 0.75
QUESTIONS = 5
BAD: list[Behaviour] = [
    *(Behaviour(status=status, headers=SOON) for status in (408, 429, 500, 503)),
    *(NAMED[name] for name in ("hanging", "reset", "cut", "truncated", "prose", "fenced", "wrong_counts")),
    *(NAMED[name] for name in ("out_of_range", "nan", "infinity", "missing", "no_choices", "no_usage")),
]


def worked(number: int) -> Trace:
    """A trace about which every question can be asked."""
    step = turn(
        f"Find flight {number}", "Found one", tool_calls=(tool_call(arguments={"number": number}),), plan=("Search.",)
    )
    return trace(step, tools=(Tool(name="search"),))


class Engine:
    """All of it for traces by number; time is put forward where anything would wait."""

    def __init__(
        self,
        url: str,
        folder: Path,
        budget: BudgetConfig | None = None,
        *,
        timeout: float = 30.0,
        retries: int = RETRIES,
    ) -> None:
        self.clock = ManualClock()
        self.store = Store(folder / "agenteval.db", self.clock, events_of=no_events)
        self.delivered: list[Judgement] = []
        self.spent = Spend()
        prices = PriceList({"m": PriceConfig(input=1.0, output=1.0)})
        judge = OpenAIJudge(
            base_url=url,
            api_key=None,
            timeout=timeout,
            concurrency=4,
            clock=self.clock,
            requested=self.requested,
            retries=retries,
        )
        asking = Asking(
            judge=judge,
            ledger=Ledger(budget or BudgetConfig(), prices, self.store.ledger, self.clock, ["m"]),
            clock=self.clock,
            endpoint="http://judge",
            nonce=lambda: secrets.token_hex(16),
            mark=secrets.token_hex(8),
            temperature=lambda vote: 0.0,
            telemetry=self,
            answers=Answers(),
        )
        self.stage = JudgeStage(
            Judgements(lambda job: worked(int(job.trace_id)), panel().judge, asking.about, self.clock),
            judge,
            self,
            self.clock,
            self,
            capacity=1000,
            parallel=8,
            wait=self.wait,
            rechecks=NoRechecks(),
        )

    def take_judgement(self, judgement: Judgement) -> None:
        self.delivered.append(judgement)

    def judge(self, traces: int, names: Iterable[str] = JUDGED) -> dict[str, Judgement]:
        """The judgements of that many traces, by trace."""
        for number in range(traces):
            self.stage.take_job(job(str(number), names=tuple(names)))
        self.stage.drain(lambda left: None)
        self.stage.shutdown()
        self.spent = self.store.ledger.spent_since(0)
        self.store.shutdown()
        found = {judgement.job.trace_id: judgement for judgement in self.delivered}
        assert len(found) == len(self.delivered) == traces
        return found

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        if seconds is None:
            await asyncio.wait_for(event.wait(), 60)
        else:
            self.clock.advance(seconds)
            await asyncio.sleep(0)

    def asked(self, exchange: JudgeExchange, error_type: str | None) -> None: ...

    def requested(self, model: str, error_type: str | None) -> None: ...

    def answered(self, model: str, usage: Usage) -> None: ...

    def looked_up(self, known: bool) -> None: ...

    def no_room(self) -> None: ...


def scored(judgements: dict[str, Judgement]) -> list[float]:
    outcomes = [each.outcome for judgement in judgements.values() for each in judgement.evaluations]
    return [outcome.value for outcome in outcomes if isinstance(outcome, Score)]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_whatever_the_judge_does_every_outcome_is_final_and_no_request_is_missing_in_the_ledger(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    script = [chance.choice(BAD) if chance.random() < 0.5 else OK for _ in range(100)]
    with JudgeServer(script, score=SCORE) as server:
        engine = Engine(server.url, tmp_path, timeout=0.5)
        judgements = engine.judge(traces=12)
        requests = len(server.requests)
    for judgement in judgements.values():
        assert {each.name for each in judgement.evaluations} == set(JUDGED)
        assert not [each for each in judgement.evaluations if each.outcome.status is Status.PENDING]
    # Of a malformed reply comes no score: all are what the server says when it behaves.
    found = scored(judgements)
    assert found
    assert set(found) <= {SCORE, 1.0}
    # A request that is given up on its way, because another one about its trace failed, is counted all the same.
    assert requests <= engine.spent.requests <= 12 * QUESTIONS * (1 + REASKS) * (1 + RETRIES)


def thinking(received: Received) -> str:
    """A small model that thinks without an end, and says something behind its answer."""
    answer = json.dumps(fill(received.schema or {}, SCORE))
    return f"<think>The schema begins with {{. Let me see.\n\nHere it is:\n```json\n{answer}\n```\nI hope this helps!"


ONLY_WORDS = Behaviour(refuses=frozenset({"json_schema", "json_object"}))
AS_A_DEFECT = Behaviour(status=500, error_code="response_format_not_implemented", headers=SOON)


@pytest.mark.parametrize(
    ("script", "most"),
    [
        pytest.param([], 3, id="it takes words alone"),
        pytest.param([AS_A_DEFECT, AS_A_DEFECT], 3, id="it fails by the format"),
        pytest.param([ONLY_WORDS, ONLY_WORDS, NAMED["truncated"], NAMED["truncated"]], 5, id="it answers badly twice"),
    ],
)
def test_a_small_model_without_formats_answers_in_five_requests(
    tmp_path: Path, script: list[Behaviour], most: int
) -> None:
    with JudgeServer(script, then=ONLY_WORDS, score=SCORE, responder=thinking) as server:
        engine = Engine(server.url, tmp_path)
        assert scored(engine.judge(1, ["confidence"])) == [SCORE]
        assert len(server.requests) == most


def test_a_question_without_an_answer_ends_after_five_requests(tmp_path: Path) -> None:
    hopeless = Behaviour(refuses=frozenset({"json_schema", "json_object", "temperature"}), content=Content.PROSE)
    with JudgeServer(then=hopeless) as server:
        [judgement] = Engine(server.url, tmp_path).judge(1, ["confidence"]).values()
        assert len(server.requests) == 5
    [evaluation] = judgement.evaluations
    assert isinstance(evaluation.outcome, Failure)
    assert evaluation.outcome.error_type == "malformed"


def test_the_form_that_a_small_model_takes_is_remembered(tmp_path: Path) -> None:
    with JudgeServer(then=ONLY_WORDS, score=SCORE, responder=thinking) as server:
        assert len(scored(Engine(server.url, tmp_path).judge(traces=4))) == 4 * len(JUDGED)
        refused = [request for request in server.requests if "response_format" in request.body]
    # The questions that are under way at once each learn the form.
    assert len(refused) <= 2 * 2 * QUESTIONS


def test_every_question_is_asked_once(tmp_path: Path) -> None:
    with JudgeServer(score=SCORE) as server:
        engine = Engine(server.url, tmp_path)
        assert len(scored(engine.judge(traces=5))) == 5 * len(JUDGED)
        # This server extracts the same task and plan from every trace: an answer about these may be known already.
        asked = len(server.requests)
        assert QUESTIONS + 4 * (QUESTIONS - 2) <= asked <= 5 * QUESTIONS
    assert engine.spent.requests == asked
    assert [len(judgement.exchanges) for judgement in engine.delivered] == [QUESTIONS] * 5
    known = [exchange for judgement in engine.delivered for exchange in judgement.exchanges]
    assert engine.spent.input_tokens == sum(exchange.input_tokens or 0 for exchange in known)
    assert engine.spent.usd == pytest.approx(sum(exchange.usd or 0 for exchange in known))


@pytest.mark.parametrize(("limit", "judged"), [(0, False), (QUESTIONS - 1, False), (17, True)])
def test_a_budget_of_requests_is_not_exceeded_by_one(tmp_path: Path, limit: int, judged: bool) -> None:
    with JudgeServer([NAMED["failing"]] * RETRIES, score=SCORE) as server:
        engine = Engine(server.url, tmp_path, BudgetConfig(requests_per_day=limit))
        judgements = engine.judge(traces=10)
        assert bool(server.requests) == judged
        assert len(server.requests) == engine.spent.requests <= limit
    outcomes = [each.outcome for judgement in judgements.values() for each in judgement.evaluations]
    over = [outcome for outcome in outcomes if isinstance(outcome, Unscored)]
    assert {outcome.status for outcome in over} == {Status.OVER_BUDGET}
    assert bool(scored(judgements)) == judged
    assert not [outcome for outcome in outcomes if isinstance(outcome, Failure)]


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(Behaviour(tokens=(0, 0)), id="usage 0"),
        pytest.param(Behaviour(tokens=(9_000_000, 9_000_000)), id="9 million"),
        pytest.param(Behaviour(tokens=(-900, -20)), id="negative"),
        pytest.param(NAMED["no_usage"], id="missing"),
    ],
)
def test_a_budget_of_tokens_binds_whatever_the_endpoint_reports(tmp_path: Path, behaviour: Behaviour) -> None:
    limit = 30_000
    with JudgeServer(then=behaviour, score=SCORE) as server:
        engine = Engine(server.url, tmp_path, BudgetConfig(tokens_per_day=limit))
        judgements = engine.judge(traces=20)
        requests = len(server.requests)
    spent = engine.spent.input_tokens + engine.spent.output_tokens
    # Neither is the day over with the first request, nor is it without an end.
    assert limit / 2 < spent <= limit
    assert QUESTIONS < requests == engine.spent.requests < 20 * QUESTIONS
    assert scored(judgements)
    exchanges = [exchange for judgement in engine.delivered for exchange in judgement.exchanges if not exchange.cached]
    assert {(each.input_tokens, each.output_tokens, each.usd) for each in exchanges} == {(None, None, None)}


def test_where_nobody_listens_a_drain_ends(tmp_path: Path) -> None:
    with JudgeServer() as server:
        url = server.url
    judgements = Engine(url, tmp_path, retries=0).judge(traces=30)
    outcomes = [each.outcome for judgement in judgements.values() for each in judgement.evaluations]
    assert all(isinstance(outcome, Failure) for outcome in outcomes)
    assert all("judge was away" in outcome.reason for outcome in outcomes)


RESERVE_AND_DIE = """
import asyncio, os, signal, sys
from pathlib import Path
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.config.judge import BudgetConfig
from agenteval_collector.judge.ports import JudgeRequest, Message
from agenteval_collector.judge.budget import Ledger, PriceList
from agenteval_collector.model.news import no_events
from agenteval_collector.stores.store import Store

store = Store(Path(sys.argv[1]), SystemClock(), events_of=no_events)
request = JudgeRequest(name="q", model="m", messages=[Message("user", "x")], schema={}, temperature=0.0)

async def reserve():
    async with Ledger(BudgetConfig(), PriceList({}), store.ledger, SystemClock(), ["m"]).room(1) as reserve:
        await reserve(request)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(reserve())
"""


def test_what_was_reserved_outlives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "agenteval.db"
    died = subprocess.run([sys.executable, "-c", RESERVE_AND_DIE, str(path)], check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    store = Store(path, ManualClock(), events_of=no_events)
    spent = store.ledger.spent_since(0)
    store.shutdown()
    assert spent.requests == 1
    assert spent.input_tokens > 0
