"""The judge over real HTTP, against a server that behaves as badly as it is told."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import openai
import pytest
from agenteval_collector.clock import ManualClock
from agenteval_collector.judges.circuit import FAILURES, FIRST_REST
from agenteval_collector.judges.endpoint import sent_model
from agenteval_collector.judges.lessons import IN_VAIN, LASTS, VAIN_LASTS
from agenteval_collector.judges.openai_client import RETRIES, OpenAIJudge
from agenteval_collector.judges.port import (
    JudgeError,
    JudgeReply,
    JudgeRequest,
    JudgeUnavailable,
    Message,
)
from agenteval_collector.judging.port import OverBudget
from agenteval_collector.testing.behaviours import NAMED, OK, Behaviour, Content, Wire
from agenteval_collector.testing.judge_server import JudgeServer, Received
from opentelemetry.instrumentation.utils import is_http_instrumentation_enabled, is_instrumentation_enabled

T = TypeVar("T")

REQUEST = JudgeRequest(
    name="verdict",
    model="judge-1",
    messages=(Message("system", "Judge."), Message("user", "A trace.")),
    schema={"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]},
    temperature=0.0,
)
GOOD = '{"score": 0.8}'


class Books:
    """Spending without a bound, or with one of `most` requests; counts."""

    def __init__(self, most: int = 1000) -> None:
        self.most = most
        self.reserved = 0
        self.settled: list[JudgeReply | None] = []
        self.rejected = 0
        self.released = 0
        self.most_under_way = 0

    async def reserve(self, request: JudgeRequest) -> None:
        if self.reserved == self.most:
            raise OverBudget(f"{self.most} requests")
        self.reserved += 1
        self.most_under_way = max(self.most_under_way, self.reserved - self.ended)

    def settle(self, request: JudgeRequest, reply: JudgeReply | None) -> None:
        self.settled.append(reply)

    def reject(self, request: JudgeRequest) -> None:
        self.rejected += 1

    def release(self, request: JudgeRequest) -> None:
        self.released += 1

    @property
    def ended(self) -> int:
        """Those that left and came to their end."""
        return len(self.settled) + self.rejected


class Asking:
    """A judge with its books, its clock, and the pauses that it would have made between attempts."""

    def __init__(self, url: str, *, timeout: float = 5.0, concurrency: int = 8, api_key: str | None = None) -> None:
        self.books = Books()
        self.clock = ManualClock()
        self.pauses: list[float] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.requested: list[str | None] = []
        self.judge = OpenAIJudge(
            base_url=url,
            api_key=api_key,
            timeout=timeout,
            concurrency=concurrency,
            spending=self.books,
            clock=self.clock,
            requested=lambda model, error_type: self.requested.append(error_type),
            sleep=self.pause,
            chance=lambda: 0.5,
        )

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self.go_on.wait()

    async def ask(self, request: JudgeRequest = REQUEST) -> JudgeReply | JudgeError:
        try:
            return await self.judge.ask(request)
        except JudgeError as error:
            return error


def run(url: str, use: Callable[[Asking], Awaitable[T]], **options: Any) -> tuple[Asking, T]:
    async def within() -> tuple[Asking, T]:
        asking = Asking(url, **options)
        try:
            return asking, await use(asking)
        finally:
            await asking.judge.close()

    return asyncio.run(within())


def described(outcome: JudgeReply | JudgeError) -> str:
    """A reply's text; of an error its kind and type."""
    if isinstance(outcome, JudgeReply):
        return outcome.text
    kind = "unavailable" if isinstance(outcome, JudgeUnavailable) else "refused"
    return f"{kind}: {outcome.error_type}"


FAILING = NAMED["failing"]
HOLDING_OFF = Behaviour(status=429, headers={"Retry-After": "7"})


@pytest.mark.parametrize(
    ("script", "then", "outcome", "requests", "pauses"),
    [
        pytest.param([], OK, GOOD, 1, [], id="a good answer"),
        pytest.param([], NAMED["no_usage"], GOOD, 1, [], id="an answer without usage"),
        pytest.param([FAILING] * 3, OK, GOOD, 4, [0.5, 1, 2], id="a burst of errors"),
        pytest.param([], FAILING, "unavailable: 500", 4, [0.5, 1, 2], id="errors without end"),
        pytest.param([HOLDING_OFF], OK, GOOD, 2, [7.5], id="asked to wait"),
        pytest.param(
            [Behaviour(status=503, headers={"retry-after-ms": "1500"})], OK, GOOD, 2, [2.0], id="asked in milliseconds"
        ),
        pytest.param(
            [], Behaviour(status=429, headers={"Retry-After": "61"}), "unavailable: 429", 1, [], id="asked too long"
        ),
        pytest.param([Behaviour(status=408)] * 2, OK, GOOD, 3, [0.5, 1], id="the endpoint's own timeout"),
        pytest.param([Behaviour(status=409)], OK, GOOD, 2, [0.5], id="a conflict"),
        pytest.param([Behaviour(wire=Wire.RESET)], OK, GOOD, 2, [0.5], id="a connection reset"),
        pytest.param([], Behaviour(wire=Wire.RESET), "unavailable: connection_error", 4, [0.5, 1, 2], id="only resets"),
        pytest.param([], NAMED["unauthorized"], "unavailable: 401", 1, [], id="a wrong key"),
        pytest.param([], Behaviour(status=402), "unavailable: 402", 1, [], id="an empty account"),
        pytest.param([], Behaviour(status=400), "refused: 400", 4, [], id="a request that is not taken in any form"),
        pytest.param([Behaviour(status=400)], OK, GOOD, 2, [], id="a refusal without a word"),
        pytest.param(
            [],
            Behaviour(status=400, error_code="context_length_exceeded"),
            "refused: 400",
            1,
            [],
            id="a trace that is too long",
        ),
        pytest.param([], Behaviour(status=415), "refused: 415", 4, [], id="a media type"),
        pytest.param([], Behaviour(status=403), "refused: 403", 1, [], id="a model that is not allowed"),
        pytest.param([], Behaviour(status=404), "refused: 404", 1, [], id="a model that is unknown"),
        pytest.param([], Behaviour(status=422), "refused: 422", 4, [], id="a request that is not understood"),
        pytest.param([], Behaviour(status=501), "refused: 501", 4, [], id="not implemented, whatever it is"),
        pytest.param(
            [],
            Behaviour(status=307, headers={"Location": "/v1/chat/completions"}),
            "refused: 307",
            1,
            [],
            id="elsewhere",
        ),
        pytest.param(
            [Behaviour(status=500, error_code="json_schema_not_implemented")], OK, GOOD, 2, [], id="schemas as a defect"
        ),
        pytest.param(
            [Behaviour(status=500, error_code="json_schema_not_implemented")],
            Behaviour(status=403),
            "refused: 500",
            2,
            [],
            id="the first refusal counts",
        ),
        pytest.param(
            [],
            Behaviour(status=503, error_code="no_schema"),
            "unavailable: 503",
            6,
            [0.5, 1, 2],
            id="an outage that quotes the request",
        ),
        pytest.param([], NAMED["schema_refused"], GOOD, 2, [], id="no schemas"),
        pytest.param([], NAMED["json_refused"], GOOD, 3, [], id="no JSON mode either"),
        pytest.param([], NAMED["temperature_refused"], GOOD, 2, [], id="no temperature"),
        pytest.param(
            [],
            Behaviour(refuses=frozenset({"json_schema", "json_object", "temperature"})),
            GOOD,
            4,
            [],
            id="nothing but words",
        ),
        pytest.param(
            [NAMED["schema_refused"], FAILING, FAILING], NAMED["schema_refused"], GOOD, 4, [0.5, 1], id="both at once"
        ),
        pytest.param([], NAMED["truncated"], GOOD[: len(GOOD) // 2], 1, [], id="cut off, for the caller to refuse"),
        pytest.param([], NAMED["wrong_counts"], GOOD, 1, [], id="content is not looked at"),
        pytest.param([], NAMED["nan"], '{"score": NaN}', 1, [], id="numbers are not looked at"),
        pytest.param([], NAMED["fenced"], f"Here you are:\n```json\n{GOOD}\n```", 1, [], id="fences are not taken off"),
        pytest.param([], NAMED["missing"], "", 1, [], id="no content is an empty text"),
        pytest.param([], NAMED["no_choices"], "", 1, [], id="no choices are an empty text"),
        pytest.param([], NAMED["cut"], "", 1, [], id="broken JSON is an empty text"),
        pytest.param([], NAMED["refusal"], "refused: refusal", 1, [], id="the model declines"),
        pytest.param([], NAMED["filtered"], "refused: content_filter", 1, [], id="the answer is filtered out"),
        pytest.param([], NAMED["html"], "unavailable: no_completion", 1, [], id="a page instead of an answer"),
        pytest.param([], NAMED["huge"], "refused: answer_too_large", 1, [], id="an answer without end"),
    ],
)
def test_every_behaviour_has_its_outcome(
    script: list[Behaviour], then: Behaviour, outcome: str, requests: int, pauses: list[float]
) -> None:
    with JudgeServer(script, then=then) as server:
        asking, ended = run(server.url, lambda asking: asking.ask())
        assert described(ended) == outcome
        assert asking.pauses == pauses
        assert len(server.requests) == asking.books.reserved == asking.books.ended == requests


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(Behaviour(wire=Wire.HANGING), id="never answers"),
        pytest.param(Behaviour(wire=Wire.DRIPPING), id="a byte now and then"),
        pytest.param(Behaviour(wait=30), id="too slow"),
    ],
)
def test_the_timeout_holds_for_the_whole_request(behaviour: Behaviour) -> None:
    with JudgeServer([behaviour] * 4) as server:
        started = time.monotonic()
        asking, outcome = run(server.url, lambda asking: asking.ask(), timeout=0.2)
        assert time.monotonic() - started < 8, "four requests of 0.2 s"
        assert described(outcome) == "unavailable: timeout"
        assert asking.books.reserved == len(asking.books.settled) == 4
        assert asking.pauses == [0.5, 1, 2]
        assert server.requests


def test_a_reply_says_who_answered_and_what_it_took() -> None:
    with JudgeServer(then=Behaviour(model="judge-1-2024")) as server:
        asking, reply = run(server.url, lambda asking: asking.ask())
        assert isinstance(reply, JudgeReply)
        assert (reply.model, reply.temperature) == ("judge-1-2024", 0.0)
        assert (reply.input_tokens, reply.output_tokens) == (len("Judge.\n\nA trace.") // 4 + 1, len(GOOD) // 4 + 1)
        assert asking.books.settled == [reply]


def test_error_statuses_take_no_tokens() -> None:
    with JudgeServer([FAILING, NAMED["schema_refused"], Behaviour(wire=Wire.RESET)]) as server:
        asking, _ = run(server.url, lambda asking: asking.ask())
        assert asking.books.rejected == 2
        assert [reply is None for reply in asking.books.settled] == [True, False]


def test_what_a_refusal_used_up_is_accounted_for() -> None:
    with JudgeServer(then=NAMED["refusal"]) as server:
        asking, _ = run(server.url, lambda asking: asking.ask())
        (reply,) = asking.books.settled
        assert reply is not None
        assert reply.output_tokens


def forms(server: JudgeServer) -> list[tuple[str, bool]]:
    return [
        (received.body.get("response_format", {}).get("type", "text"), "temperature" in received.body)
        for received in server.requests
    ]


@pytest.mark.parametrize(
    ("refused", "lesson", "temperature"),
    [
        (["json_schema"], ("json_object", True), 0.0),
        (["json_schema", "json_object"], ("text", True), 0.0),
        (["temperature"], ("json_schema", False), None),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else None,
)
def test_a_lesson_is_paid_for_once_an_hour_and_by_model(
    refused: list[Any], lesson: tuple[str, bool], temperature: float | None
) -> None:
    async def use(asking: Asking) -> None:
        for _ in range(2):
            reply = await asking.ask()
            assert isinstance(reply, JudgeReply)
            assert reply.temperature == temperature
        paid = len(server.requests)
        assert forms(server)[-2:] == [lesson, lesson]
        assert paid == len(refused) + 2
        await asking.ask(replace(REQUEST, model="b"))
        assert forms(server)[paid] == ("json_schema", True)
        paid = len(server.requests)
        asking.clock.advance(LASTS)
        await asking.ask()
        assert forms(server)[paid] == ("json_schema", True)

    with JudgeServer(then=Behaviour(refuses=frozenset(refused))) as server:
        run(server.url, use)


def test_requests_at_once_pay_for_a_lesson_once() -> None:
    with JudgeServer(then=NAMED["schema_refused"]) as server:

        async def three(asking: Asking) -> list[JudgeReply | JudgeError]:
            return await asyncio.gather(*(asking.ask() for _ in range(3)))

        _, replies = run(server.url, three)
    assert [reply.text for reply in replies if isinstance(reply, JudgeReply)] == [GOOD] * 3
    assert len(server.requests) == 4


def test_nobody_waits_for_what_a_first_request_learns_of_an_outage() -> None:
    async def use(asking: Asking) -> None:
        asking.go_on.clear()
        first = asyncio.create_task(asking.ask())
        others = await asyncio.gather(*(asking.ask() for _ in range(3)))
        assert [described(other) for other in others] == [GOOD] * 3
        assert not first.done()
        asking.go_on.set()
        assert described(await first) == GOOD

    with JudgeServer([FAILING]) as server:
        run(server.url, use)


def test_nothing_is_learnt_where_no_form_is_answered_but_that_forms_do_not_help() -> None:
    every = [("json_schema", True), ("json_object", True), ("text", True), ("text", False)]
    first = every[:1]

    async def use(asking: Asking) -> None:
        for _ in range(IN_VAIN + 2):
            assert described(await asking.ask()) == "refused: 422"
        assert forms(server) == every * IN_VAIN + first * 2
        asking.clock.advance(VAIN_LASTS)
        await asking.ask()
        assert forms(server)[IN_VAIN * 4 + 2 :] == every

    # The body of the error quotes what it got, and the schema with it.
    with JudgeServer(then=Behaviour(status=422, error_code="json_schema")) as server:
        run(server.url, use)


def test_an_answer_shows_that_the_form_is_not_what_is_refused() -> None:
    async def use(asking: Asking) -> None:
        for _ in range(IN_VAIN - 1):
            assert described(await asking.ask()) == "refused: 400"
        assert described(await asking.ask()) == GOOD
        assert described(await asking.ask()) == "refused: 400"
        assert described(await asking.ask()) == GOOD
        assert forms(server)[-1] == ("json_object", True)

    nameless = Behaviour(status=400)
    with JudgeServer([nameless] * 4 * (IN_VAIN - 1) + [OK] + [nameless] * 5) as server:
        run(server.url, use)


def test_a_declined_answer_shows_that_its_form_is_taken() -> None:
    async def use(asking: Asking) -> None:
        for _ in range(2):
            assert described(await asking.ask()) == "refused: refusal"
        assert forms(server) == [("json_schema", True), ("json_object", True), ("json_object", True)]

    with JudgeServer([Behaviour(status=400)], then=NAMED["refusal"]) as server:
        run(server.url, use)


def test_an_endpoint_that_is_down_is_left_alone_and_probed() -> None:
    down = FAILURES * 4

    async def use(asking: Asking) -> None:
        for _ in range(FAILURES - 1):
            assert described(await asking.ask()) == "unavailable: 500"
        last = await asking.ask()
        assert isinstance(last, JudgeUnavailable)
        assert (last.error_type, last.sent) == ("circuit_open", True)
        assert len(server.requests) == down - RETRIES
        refused = await asking.ask()
        assert isinstance(refused, JudgeUnavailable)
        assert (refused.error_type, refused.sent, refused.retry_after) == ("circuit_open", False, FIRST_REST)
        host = server.url.split("/")[2]
        assert str(refused) == f"{host}: status 500; left alone for 5 s after 5 failed requests"
        assert len(server.requests) == down - RETRIES
        asking.clock.advance(FIRST_REST)
        outcomes = await asyncio.gather(*(asking.ask() for _ in range(4)))
        assert {described(outcome) for outcome in outcomes} == {"unavailable: circuit_open"}
        assert len(server.requests) == down - RETRIES + 1, "the others wait for what comes of the probe"
        asking.clock.advance(2 * FIRST_REST)
        outcomes = await asyncio.gather(*(asking.ask() for _ in range(4)))
        assert {described(outcome) for outcome in outcomes} == {GOOD}
        assert len(server.requests) == down - RETRIES + 5

    with JudgeServer([FAILING] * (down - RETRIES + 1)) as server:
        asking, _ = run(server.url, use)
        assert len(server.requests) == asking.books.reserved == asking.books.ended
        assert asking.requested == ["500"] * (down - RETRIES + 1) + [None] * 4


def test_one_poisonous_question_does_not_open_the_circuit_for_the_others() -> None:
    """It fails in every attempt, and others are answered between two of its turns."""

    async def use(asking: Asking) -> None:
        for _ in range(FAILURES - 1):
            assert described(await asking.ask()) == "unavailable: 500"
        assert described(await asking.ask()) == GOOD
        assert described(await asking.ask()) == "unavailable: 500"
        assert described(await asking.ask()) == GOOD

    poison = [FAILING] * (1 + RETRIES)
    with JudgeServer([*poison * (FAILURES - 1), OK, *poison]) as server:
        run(server.url, use)


@pytest.mark.parametrize("name", ["unauthorized", "html", "error_in_answer"])
def test_what_can_be_repaired_is_an_outage_with_its_cause(name: str) -> None:
    async def use(asking: Asking) -> None:
        for _ in range(FAILURES):
            assert described(await asking.ask()).startswith("unavailable: ")
        kept_out = await asking.ask()
        assert isinstance(kept_out, JudgeUnavailable)
        assert (kept_out.error_type, kept_out.sent) == ("circuit_open", False)
        assert "check judge." in str(kept_out)
        asking.clock.advance(kept_out.retry_after)
        assert described(await asking.ask()) == GOOD

    with JudgeServer([NAMED[name]] * FAILURES) as server:
        run(server.url, use)
        assert len(server.requests) == FAILURES + 1


def test_an_error_in_an_answer_counts_like_its_status() -> None:
    script = [Behaviour(wire=Wire.ERROR, status=status) for status in (503, 400)]
    with JudgeServer(script) as server:
        asking, outcome = run(server.url, lambda asking: asking.ask())
        assert described(outcome) == GOOD
        assert asking.requested == ["503", "400", None]
        assert [form for form, _ in forms(server)] == ["json_schema", "json_schema", "json_object"]


def test_a_lasting_error_is_logged_once_a_minute_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    async def use(asking: Asking) -> None:
        for _ in range(3):
            await asking.ask()
        asking.clock.advance(61)
        await asking.ask()

    with JudgeServer(then=Behaviour(status=404, error_code="model_not_found")) as server:
        run(server.url, use, api_key="sk-SECRET")
        host = server.url.split("/")[2]
    says = (
        f"the judge refuses, what it was asked fails: {host}: status 404 (model_not_found): "
        "check judge.model and judge.base_url"
    )
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [says, f"{says} (2 more like this since)"]


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        pytest.param(
            NAMED["unauthorized"],
            "next try in 60 s: HOST: status 401 (invalid_api_key): check judge.api_key; traces wait until then",
            id="a wrong key",
        ),
        pytest.param(
            NAMED["html"],
            "next try in 5 s: HOST answers with no JSON instead of a chat completion; check judge.base_url",
            id="a page",
        ),
        pytest.param(
            Behaviour(status=429, headers={"Retry-After": "86400"}),
            "next try in 600 s: HOST: status 429",
            id="a long wait",
        ),
    ],
)
def test_what_no_attempt_repairs_is_logged_at_once(
    behaviour: Behaviour, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with JudgeServer(then=behaviour) as server:
        run(server.url, lambda asking: asking.ask())
        says = says.replace("HOST", server.url.split("/")[2])
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [f"the judge cannot be asked, {says}"]


@pytest.mark.parametrize("refusal", [Behaviour(status=404), NAMED["schema_refused"], NAMED["refusal"]])
def test_a_refusal_is_no_outage(refusal: Behaviour) -> None:
    async def use(asking: Asking) -> None:
        for _ in range(FAILURES + 1):
            await asking.ask()
        assert described(await asking.ask()) == GOOD

    with JudgeServer([FAILING, refusal] * (FAILURES + 1)) as server:
        run(server.url, use)


def test_over_budget_nothing_leaves() -> None:
    async def use(asking: Asking) -> None:
        asking.books.most = 2
        with pytest.raises(OverBudget):
            await asking.judge.ask(REQUEST)

    with JudgeServer(then=FAILING) as server:
        asking, _ = run(server.url, use)
        assert len(server.requests) == asking.books.reserved == asking.books.ended == 2


def test_a_probe_that_may_not_leave_is_left_to_another() -> None:
    async def use(asking: Asking) -> None:
        for _ in range(FAILURES):
            await asking.ask()
        asking.clock.advance(FIRST_REST)
        asking.books.most = asking.books.reserved
        with pytest.raises(OverBudget):
            await asking.judge.ask(REQUEST)
        asking.books.most += 1
        assert described(await asking.ask()) == GOOD

    with JudgeServer([FAILING] * (FAILURES * 4 - RETRIES)) as server:
        run(server.url, use)


def test_a_cancelled_question_is_settled_and_leaves_its_place() -> None:
    async def use(asking: Asking) -> None:
        asked = asyncio.create_task(asking.ask())
        while not server.requests:
            await asyncio.sleep(0.01)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert asking.books.settled == [None]
        assert described(await asking.ask()) == GOOD

    with JudgeServer([Behaviour(wire=Wire.HANGING)]) as server:
        run(server.url, use, concurrency=1)


def test_no_more_requests_at_once_than_allowed() -> None:
    async def use(asking: Asking) -> list[JudgeReply | JudgeError]:
        return list(await asyncio.gather(*(asking.ask() for _ in range(9))))

    with JudgeServer(then=Behaviour(wait=0.02)) as server:
        asking, outcomes = run(server.url, use, concurrency=3)
        assert [described(outcome) for outcome in outcomes] == [GOOD] * 9
        assert asking.books.most_under_way == 3


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        pytest.param("api.openai.com", "gpt-5.4", id="OpenAI"),
        pytest.param("eu.api.openai.com:443", "gpt-5.4", id="OpenAI elsewhere"),
        pytest.param("litellm.example:4000", "openai/gpt-5.4", id="a router"),
        pytest.param("api.openai.com.example", "openai/gpt-5.4", id="somebody else"),
    ],
)
def test_the_prefix_is_for_routers(host: str, expected: str) -> None:
    assert sent_model("openai/gpt-5.4", host) == expected
    assert sent_model("gpt-5.4", host) == "gpt-5.4"


def test_a_model_keeps_its_prefix_here() -> None:
    with JudgeServer() as server:
        run(server.url, lambda asking: asking.ask(replace(REQUEST, model="openai/gpt-5.4")))
        assert server.requests[0].body["model"] == "openai/gpt-5.4"


def test_only_what_was_given_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "OPENAI_API_KEY": "sk-environment",
        "OPENAI_ADMIN_KEY": "sk-admin",
        "OPENAI_ORG_ID": "org-1",
        "OPENAI_PROJECT_ID": "proj-1",
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer sk-custom\nX-Team: 7",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with JudgeServer() as server:
        for key in (None, "sk-given"):
            assert described(run(server.url, lambda asking: asking.ask(), api_key=key)[1]) == GOOD
        sent = [received.headers for received in server.requests]
        assert [headers["authorization"] for headers in sent] == ["Bearer none", "Bearer sk-given"]
        assert set(sent[0]) == {
            "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "host",
            "user-agent",
        }  # fmt: skip


@pytest.mark.parametrize("name", ["unauthorized", "failing", "reset", "huge", "html"])
def test_keys_stand_in_no_message_and_no_log(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="agenteval_collector")
    with JudgeServer(then=NAMED[name]) as server:
        _, outcome = run(server.url, lambda asking: asking.ask(), api_key="sk-SECRET")
        assert isinstance(outcome, JudgeError)
        assert "sk-SECRET" not in f"{outcome}{outcome.__cause__}{caplog.text}"


def test_an_instrumented_client_makes_no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """As instrumentations do, `send` of the HTTP client is wrapped, and asks whether it is to make a span."""
    wrapped = openai.DefaultAsyncHttpxClient.send
    asked: list[bool] = []

    async def send(*args: Any, **options: Any) -> Any:
        asked.extend((is_instrumentation_enabled(), is_http_instrumentation_enabled()))
        return await wrapped(*args, **options)

    monkeypatch.setattr(openai.DefaultAsyncHttpxClient, "send", send)
    with JudgeServer([FAILING]) as server:
        run(server.url, lambda asking: asking.ask())
    assert asked == [False] * 4
    assert is_instrumentation_enabled(), "suppressed for the judge alone"


@pytest.mark.parametrize(
    "url", ["127.0.0.1:11434/v1", "ftp://127.0.0.1", "https://", "https://user:secret@127.0.0.1/v1"]
)
def test_an_unusable_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"no http or https address|judge\.api_key") as refusal:
        Asking(url)
    assert "secret" not in str(refusal.value)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    asking, outcome = run(f"http://127.0.0.1:{port}/v1", lambda asking: asking.ask())
    assert described(outcome) == "unavailable: connection_error"
    assert "judge.base_url" in str(outcome)
    assert asking.books.reserved == asking.books.released == 4, "nothing has left"
    assert asking.books.settled == []


def test_a_question_that_is_cancelled_before_anything_left_is_released() -> None:
    async def use(asking: Asking) -> None:
        asked = asyncio.create_task(asking.ask())
        while not asking.books.reserved:
            await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert (asking.books.released, asking.books.settled) == (1, [])

    with JudgeServer() as server:
        run(server.url, use)
        assert not server.requests


def test_a_responder_gives_the_text() -> None:
    def respond(received: Received) -> str | None:
        return '{"score": 0.1}' if "A trace." in received.text else None

    with JudgeServer(responder=respond, then=Behaviour(content=Content.OUT_OF_RANGE)) as server:
        assert described(run(server.url, lambda asking: asking.ask())[1]) == '{"score": 1000.1}'


@contextmanager
def command(*arguments: str) -> Iterator[str]:
    line = [sys.executable, "-m", "agenteval_collector.testing.judge_server", *arguments]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            assert process.wait(timeout=10) == 0


def test_the_server_stands_alone() -> None:
    with command("--score", "0.25", "--behaviour", "schema_refused") as url:
        assert described(run(url, lambda asking: asking.ask())[1]) == '{"score": 0.25}'
