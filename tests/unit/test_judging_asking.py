import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from agenteval_collector.config.judge import BudgetConfig
from agenteval_collector.config.values import PriceConfig
from agenteval_collector.judge.asking import MAX_DATA, MAX_REPLY, Asking
from agenteval_collector.judge.budget import Ledger, PriceList
from agenteval_collector.judge.ports import (
    JudgeReply,
    JudgeRequest,
    JudgeUnavailable,
    NoAnswer,
    OverBudget,
    Question,
    Reading,
    Reply,
    Reserve,
    Usage,
)
from agenteval_collector.judge.prompt.replies import MARK, SCORE, TEXT, object_schema
from agenteval_collector.model.judge_jobs import Answer, JudgeExchange

from otel_agenteval.model import Json
from otel_agenteval.outcome import Score
from tests.support.clock import ManualClock
from tests.support.judge_stage import Answers, job
from tests.support.ledger import Table

MODEL = "m"
DOWN = JudgeUnavailable("timeout", "no reply in 30 s", retry_after=5.0)
REFUSED = NoAnswer("unauthorized", "check judge.api_key")
BROKE = OverBudget("judge.budget.requests_per_hour is 1")
BAD = "I would say 0.9"


def score(reply: Reply) -> float:
    return float(reply["score"])


def first(replies: Sequence[Reply]) -> Score:
    return Score(value=score(replies[0]), reason="")


FACTS = Question(
    name="extract",
    version="1",
    instructions="Find the task.",
    data={"trace": "hello"},
    schema=object_schema(task=TEXT),
)
SCORING = Question(
    name="completion",
    version="1",
    instructions="Score it.",
    data={"task": "t"},
    schema=object_schema(score=SCORE),
    readings={"task_completion": Reading(value=score, conclude=first)},
)

Step = float | str | Exception


@dataclass
class ScriptedJudge:
    """Replies to the n-th request with the n-th step: a score, a text, or an error. `usage` are the tokens it says."""

    steps: Sequence[Step]
    clock: ManualClock
    usage: tuple[int | None, int | None] = (1000, 100)
    requests: list[JudgeRequest] = field(default_factory=list)

    async def ask(self, request: JudgeRequest, reserve: Reserve) -> JudgeReply:
        step = self.steps[len(self.requests)]
        self.requests.append(request)
        self.clock.advance(1.0)
        await asyncio.sleep(0)  # Others may ask meanwhile.
        if isinstance(step, Exception):
            raise step
        return JudgeReply(
            text=step if isinstance(step, str) else json.dumps({MARK: canary(request), "score": step}),
            model="m-2026",
            temperature=None,
            input_tokens=self.usage[0],
            output_tokens=self.usage[1],
            seconds=1.0,
        )

    async def close(self) -> None: ...


def canary(request: JudgeRequest) -> str:
    properties: Any = request.schema["properties"]
    return str(properties[MARK]["enum"][0])


@dataclass
class Reported:
    """A JudgeTelemetry that remembers."""

    errors: list[str | None] = field(default_factory=list)
    lookups: list[bool] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)

    def asked(self, exchange: JudgeExchange, error_type: str | None) -> None:
        self.errors.append(error_type)

    def requested(self, model: str, error_type: str | None) -> None:
        raise AssertionError("the client tells of its own requests")

    def answered(self, model: str, usage: Usage) -> None:
        self.usages.append(usage)

    def looked_up(self, known: bool) -> None:
        self.lookups.append(known)

    def no_room(self) -> None:
        raise AssertionError("asking has no queue")


@dataclass
class Setting:
    judge: ScriptedJudge
    reported: Reported
    asking: Asking
    exchanges: list[JudgeExchange]

    async def ask(
        self,
        question: Question = SCORING,
        model: str = MODEL,
        exchanges: list[JudgeExchange] | None = None,
        vote: int = 0,
    ) -> Answer:
        ask = self.asking.about(job("t"), self.exchanges if exchanges is None else exchanges)
        async with ask.room(1):
            return await ask(question, model=model, vote=vote)

    def texts(self, exchange: int) -> str:
        """All that the judge got to read with that request."""
        return "\n".join(message.text for message in self.judge.requests[exchange].messages)


def run(scenario: Callable[[Setting], Coroutine[Any, Any, None]], *steps: Step) -> None:
    async def main() -> None:
        clock, reported = ManualClock(), Reported()
        judge = ScriptedJudge(steps, clock)
        nonces = (f"{number:016x}" for number in range(1000))
        prices = PriceList({MODEL: PriceConfig(input=1.0, output=10.0)})
        asking = Asking(
            judge=judge,
            ledger=Ledger(BudgetConfig(), prices, Table(), clock, [MODEL]),
            clock=clock,
            endpoint="http://judge",
            nonce=lambda: next(nonces),
            mark="c" * 16,
            temperature=lambda vote: 0.7 if vote else 0.3,
            telemetry=reported,
            answers=Answers(),
        )
        await scenario(Setting(judge, reported, asking, []))

    asyncio.run(main())


def test_an_answer_and_its_exchange() -> None:
    async def scenario(it: Setting) -> None:
        answer = await it.ask()
        assert answer == Answer(reply={"score": 0.7}, model="m-2026", temperature=None)
        [request] = it.judge.requests
        assert (request.name, request.model, request.temperature) == ("completion", MODEL, 0.3)
        assert it.exchanges == [
            JudgeExchange(
                question="completion",
                version="1",
                model=MODEL,
                asked_at=1_700_000_000_000_000_000,
                instructions="Score it.",
                data='{"task": "t"}',
                reply=json.dumps({MARK: "...", "score": 0.7}),
                problem=None,
                input_tokens=1000,
                output_tokens=100,
                usd=0.002,
                seconds=1.0,
            )
        ]
        assert it.reported.errors == [None]

    run(scenario, 0.7)


@pytest.mark.parametrize(
    ("steps", "errors"),
    [
        pytest.param([BAD, 0.7], ["malformed", None], id="once"),
        pytest.param([BAD, 1.5, 0.7], ["malformed", "malformed", None], id="twice"),
    ],
)
def test_a_malformed_reply_is_handed_back_with_what_is_wrong(steps: list[Step], errors: list[str | None]) -> None:
    async def scenario(it: Setting) -> None:
        assert (await it.ask()).reply == {"score": 0.7}
        assert it.reported.errors == errors
        assert [exchange.problem is None for exchange in it.exchanges] == [error is None for error in errors]
        assert "the reply must be JSON" in it.texts(1)
        assert BAD in it.texts(1)

    run(scenario, *steps)


def test_three_malformed_replies_are_no_answer() -> None:
    async def scenario(it: Setting) -> None:
        with pytest.raises(
            NoAnswer, match=r"in 3 requests; the last one: reply.score: 7 is greater than the maximum of 1"
        ) as raised:
            await it.ask()
        assert raised.value.error_type == "malformed"
        assert len(it.exchanges) == 3

    run(scenario, BAD, BAD, 7)


def test_a_model_without_valid_replies_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(it: Setting) -> None:
        for _ in range(4):
            with pytest.raises(NoAnswer):
                await it.ask()
            it.judge.clock.advance(20.0)

    run(scenario, *[BAD] * 12)
    what_to_do = "requests to the judge had no valid reply, what was asked fails; name another model in judge.model"
    first = "the first question is completion, asked of m"
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.WARNING, f"3 {what_to_do}: {first}"),
        (logging.WARNING, f"9 {what_to_do}: {first}"),
    ]


def test_a_reply_that_is_valid_when_asked_again_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(it: Setting) -> None:
        await it.ask()

    run(scenario, BAD, 0.7)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("error", "raised", "recorded"),
    [
        pytest.param(REFUSED, NoAnswer, ["check judge.api_key"], id="refused is no answer"),
        pytest.param(DOWN, JudgeUnavailable, ["no reply in 30 s"], id="unavailable passes through"),
        pytest.param(BROKE, OverBudget, [], id="over budget passes through"),
        pytest.param(KeyError("defect"), KeyError, [], id="a defect passes through"),
    ],
)
@pytest.mark.parametrize("question", [FACTS, SCORING], ids=["facts", "scores"])
def test_errors(question: Question, error: Exception, raised: type[Exception], recorded: list[str]) -> None:
    async def scenario(it: Setting) -> None:
        with pytest.raises(raised):
            await it.ask(question)
        assert [exchange.problem for exchange in it.exchanges] == recorded
        assert [exchange.seconds for exchange in it.exchanges] == [1.0] * len(recorded)
        assert it.reported.errors == [getattr(error, "error_type", None)] * len(recorded)

    run(scenario, error)


def test_each_vote_is_asked_by_itself_at_its_own_temperature() -> None:
    async def scenario(it: Setting) -> None:
        answers = [await it.ask(question, vote=vote) for question in (SCORING, FACTS) for vote in (0, 1)]
        assert [str(answer.reply["task"]) for answer in answers[2:]] == ["a", "b"]
        assert [answer.reply["score"] for answer in answers[:2]] == [0.1, 0.9]
        assert [request.temperature for request in it.judge.requests] == [0.3, 0.7, 0.3, 0.7]

    tasks = [json.dumps({MARK: "c" * 16, "task": task}) for task in ("a", "b")]
    run(scenario, 0.1, 0.9, *tasks)


def test_votes_that_came_before_an_outage_are_not_paid_for_twice() -> None:
    async def scenario(it: Setting) -> None:
        await it.ask()
        with pytest.raises(JudgeUnavailable):
            await it.ask(vote=1)
        again: list[JudgeExchange] = []
        assert [(await it.ask(exchanges=again, vote=vote)).reply["score"] for vote in (0, 1)] == [0.1, 0.7]
        assert len(it.judge.requests) == 3
        assert [exchange.cached for exchange in again] == [True, False]

    run(scenario, 0.1, DOWN, 0.7)


def test_the_same_question_is_asked_once_for_all_traces() -> None:
    async def scenario(it: Setting) -> None:
        first, second = list[JudgeExchange](), list[JudgeExchange]()
        assert (
            len({str(answer) for answer in await asyncio.gather(it.ask(exchanges=first), it.ask(exchanges=second))})
            == 1
        )
        await it.ask()
        assert len(it.judge.requests) == 1
        assert it.reported.lookups == [False, True, True]
        assert [exchange.cached for exchange in first] == [False]
        for repeated in (second, it.exchanges):
            [exchange] = repeated
            assert exchange.cached
            assert (exchange.input_tokens, exchange.output_tokens, exchange.usd) == (0, 0, 0.0)
            assert exchange.reply == '{"score": 0.7}'
        assert it.reported.errors == [None]

    run(scenario, 0.7)


def in_another_process(it: Setting, answers: Answers, **other: Any) -> Setting:
    """What asks the same judge, and knows of its answers what is stored."""
    asking = replace(it.asking, answers=answers, **other)
    return replace(it, asking=asking, exchanges=[])


def test_what_one_process_has_asked_no_other_one_asks() -> None:
    async def scenario(it: Setting) -> None:
        answers = Answers()
        first, second, elsewhere = (
            in_another_process(it, answers, **other) for other in ({}, {}, {"endpoint": "http://other"})
        )
        assert await first.ask() == await second.ask() == await second.ask()
        assert len(it.judge.requests) == 1
        assert it.reported.lookups == [False, True, True]
        assert [exchange.cached for exchange in (*first.exchanges, *second.exchanges)] == [False, True, True]
        assert json.loads(second.exchanges[0].reply or "") == {"score": 0.7}
        assert (await elsewhere.ask()).reply == {"score": 0.2}

    run(scenario, 0.7, 0.2)


def test_a_store_that_refuses_an_answer_costs_nobody_that_answer() -> None:
    async def scenario(it: Setting) -> None:
        setting = in_another_process(it, Answers(is_full=True))
        assert (await setting.ask()).reply == {"score": 0.7}

    run(scenario, 0.7)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"version": "2"}, id="version"),
        pytest.param({"name": "another"}, id="name"),
        pytest.param({"instructions": "Score it well."}, id="instructions"),
        pytest.param({"data": {"task": "u"}}, id="data"),
        pytest.param({"schema": object_schema(score=SCORE, reason=TEXT)}, id="schema"),
    ],
)
def test_another_question_has_another_answer(other: dict[str, Any]) -> None:
    async def scenario(it: Setting) -> None:
        await it.ask()
        with pytest.raises(NoAnswer):
            await it.ask(replace(SCORING, **other))

    run(scenario, 0.7, REFUSED)


def test_another_model_has_another_answer() -> None:
    async def scenario(it: Setting) -> None:
        await it.ask()
        answer = await it.ask(model="n")
        assert answer.reply == {"score": 0.2}
        assert [exchange.usd for exchange in it.exchanges] == [0.002, None]

    run(scenario, 0.7, 0.2)


@pytest.mark.parametrize("usage", [(None, None), (1000, None), (None, 100)])
def test_a_reply_without_usage_costs_nobody_knows_what(usage: tuple[int | None, int | None]) -> None:
    async def scenario(it: Setting) -> None:
        it.judge.usage = usage
        await it.ask()
        [exchange] = it.exchanges
        assert (exchange.input_tokens, exchange.output_tokens, exchange.usd) == (*usage, None)
        assert it.reported.usages == ["missing"]

    run(scenario, 0.7)


def test_requests_of_one_question_have_one_schema_and_delimiters_of_their_own() -> None:
    """Endpoints keep the schemas that they have compiled."""

    async def scenario(it: Setting) -> None:
        for vote in range(3):
            await it.ask(vote=vote)
        first, *others = it.judge.requests
        assert [request.schema for request in others] == [first.schema] * 2
        assert len({request.messages[1].text.partition("\n")[0] for request in it.judge.requests}) == 3

    run(scenario, 0.1, 0.2, 0.3)


def test_the_canary_is_shown_to_nobody_but_the_judge() -> None:
    known = "c" * 16

    async def scenario(it: Setting) -> None:
        await it.ask()
        await it.ask()
        assert all(known in request.messages[0].text for request in it.judge.requests)
        assert all(known not in request.messages[1].text for request in it.judge.requests)
        assert [exchange.cached for exchange in it.exchanges] == [False, False, True]
        assert all("..." in str(exchange.reply) for exchange in it.exchanges[:2])
        assert known not in str(it.exchanges)

    run(scenario, json.dumps({MARK: known, "score": known}), 0.7)


def test_what_is_kept_of_an_exchange_is_bounded() -> None:
    async def scenario(it: Setting) -> None:
        data: dict[str, Json] = {"task": "x" * 1_000_000}
        with pytest.raises(NoAnswer):
            await it.ask(replace(SCORING, data=data))
        for exchange in it.exchanges:
            assert len(exchange.data) < MAX_DATA + 100
            assert exchange.data.endswith('"}')
            assert "characters left out" in exchange.data
            assert exchange.reply is not None
            assert len(exchange.reply) < MAX_REPLY + 100

    run(scenario, *["y" * 1_000_000] * 3)
