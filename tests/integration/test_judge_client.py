"""The judge over real HTTP, against a server that behaves as badly as it is told."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import openai
import pytest
from agenteval_collector.judge.client.openai_judge import RETRIES, sent_model
from agenteval_collector.judge.ports import JudgeError, JudgeReply, Message, OverBudget
from agenteval_collector.model.judge_jobs import Spend
from opentelemetry.instrumentation.utils import is_http_instrumentation_enabled, is_instrumentation_enabled

from tests.support.eventually import eventually
from tests.support.judge.behaviours import NAMED, OK, SOON, Behaviour, Content, Wire
from tests.support.judge.completions import Received
from tests.support.judge.judge_server import JudgeServer
from tests.support.judge_client import GOOD, REJECTED, RELEASED, REQUEST, UNKNOWN, Asking, described, run

FAILING = NAMED["failing"]
HOLDING_OFF = Behaviour(status=429, headers={"Retry-After": "3600"})


@pytest.mark.parametrize(
    ("script", "then", "outcome", "requests"),
    [
        pytest.param([], OK, GOOD, 1, id="a good answer"),
        pytest.param([], NAMED["no_usage"], GOOD, 1, id="an answer without usage"),
        pytest.param([FAILING] * RETRIES, OK, GOOD, 1 + RETRIES, id="a burst of errors"),
        pytest.param([], FAILING, "unavailable: 500", 1 + RETRIES, id="errors without end"),
        pytest.param([Behaviour(status=429, headers=SOON)], OK, GOOD, 2, id="asked to wait"),
        pytest.param([], HOLDING_OFF, "unavailable: 429", 1, id="asked too long"),
        pytest.param([Behaviour(status=408, headers=SOON)] * 2, OK, GOOD, 3, id="the endpoint's own timeout"),
        pytest.param([Behaviour(status=409, headers=SOON)], OK, GOOD, 2, id="a conflict"),
        pytest.param([Behaviour(wire=Wire.RESET)], OK, GOOD, 2, id="a connection reset"),
        pytest.param([], NAMED["unauthorized"], "unavailable: 401", 1, id="a wrong key"),
        pytest.param([], Behaviour(status=402), "unavailable: 402", 1, id="an empty account"),
        pytest.param([], Behaviour(status=400), "refused: 400", 4, id="a request that is not taken in any form"),
        pytest.param([Behaviour(status=400)], OK, GOOD, 2, id="a refusal without a word"),
        pytest.param(
            [],
            Behaviour(status=400, error_code="context_length_exceeded"),
            "refused: 400",
            1,
            id="a trace that is too long",
        ),
        pytest.param([], Behaviour(status=415), "refused: 415", 4, id="a media type"),
        pytest.param([], Behaviour(status=403), "refused: 403", 1, id="a model that is not allowed"),
        pytest.param([], Behaviour(status=404), "refused: 404", 1, id="a model that is unknown"),
        pytest.param([], Behaviour(status=422), "refused: 422", 4, id="a request that is not understood"),
        pytest.param([Behaviour(status=501, headers=SOON)] * 3, OK, GOOD, 4, id="a form that is not implemented"),
        pytest.param(
            [], Behaviour(status=307, headers={"Location": "/v1/chat/completions"}), "refused: 307", 1, id="elsewhere"
        ),
        pytest.param(
            [Behaviour(status=500, error_code="json_schema_not_implemented", headers=SOON)],
            OK,
            GOOD,
            2,
            id="schemas as a defect",
        ),
        pytest.param([Behaviour(status=422)], Behaviour(status=403), "refused: 422", 2, id="the first refusal counts"),
        pytest.param(
            [],
            Behaviour(status=503, error_code="no_schema", headers=SOON),
            "unavailable: 503",
            3,
            id="an outage that quotes the request",
        ),
        pytest.param([], NAMED["schema_refused"], GOOD, 2, id="no schemas"),
        pytest.param([], NAMED["json_refused"], GOOD, 3, id="no JSON mode either"),
        pytest.param([], NAMED["temperature_refused"], GOOD, 2, id="no temperature"),
        pytest.param(
            [], Behaviour(refuses=frozenset({"json_schema", "json_object", "temperature"})), GOOD, 4, id="only words"
        ),
        pytest.param(
            [NAMED["schema_refused"], FAILING, FAILING],
            NAMED["schema_refused"],
            GOOD,
            4,
            id="form and errors",
        ),
        pytest.param([], NAMED["truncated"], GOOD[: len(GOOD) // 2], 1, id="cut off, for the caller to refuse"),
        pytest.param([], NAMED["wrong_counts"], GOOD, 1, id="content is not looked at"),
        pytest.param([], NAMED["nan"], '{"score": NaN}', 1, id="numbers are not looked at"),
        pytest.param([], NAMED["fenced"], f"Here you are:\n```json\n{GOOD}\n```", 1, id="fences are not taken off"),
        pytest.param([], NAMED["missing"], "", 1, id="no content is an empty text"),
        pytest.param([], NAMED["no_choices"], "", 1, id="no choices are an empty text"),
        pytest.param([], NAMED["cut"], "", 1, id="broken JSON is an empty text"),
        pytest.param([], NAMED["refusal"], "refused: refusal", 1, id="the model declines"),
        pytest.param([], NAMED["filtered"], "refused: content_filter", 1, id="the answer is filtered out"),
        pytest.param([], NAMED["html"], "unavailable: no_completion", 1, id="a page instead of an answer"),
        pytest.param([], NAMED["huge"], "unavailable: answer_too_large", 1, id="an answer without end"),
    ],
)
def test_every_behaviour_has_its_outcome(script: list[Behaviour], then: Behaviour, outcome: str, requests: int) -> None:
    with JudgeServer(script, then=then) as server:
        asking, ended = run(server.url, lambda asking: asking.ask())
        assert described(ended) == outcome
        assert len(server.requests) == len(asking.requested) == requests
        assert asking.books.reserved == asking.books.ended == requests


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(Behaviour(wire=Wire.HANGING), id="never answers"),
        pytest.param(Behaviour(wire=Wire.DRIPPING), id="a byte now and then"),
        pytest.param(Behaviour(wait=30), id="too slow"),
    ],
)
def test_the_timeout_holds_for_the_whole_request(behaviour: Behaviour) -> None:
    with JudgeServer(then=behaviour) as server:
        started = time.monotonic()
        asking, outcome = run(server.url, lambda asking: asking.ask(), timeout=0.5)
        assert time.monotonic() - started < 20
        assert described(outcome) == "unavailable: timeout"
        assert asking.books.reserved == 1, "the next one would take as long"
        assert asking.requested == ["timeout"]
        assert server.requests


def test_a_reply_says_who_answered_and_what_it_took() -> None:
    with JudgeServer(then=Behaviour(model="judge-1-2024")) as server:
        asking, reply = run(server.url, lambda asking: asking.ask())
        assert isinstance(reply, JudgeReply)
        assert (reply.model, reply.temperature) == ("judge-1-2024", 0.0)
        assert (reply.input_tokens, reply.output_tokens) == (len("Judge.\n\nA trace.") // 4 + 1, len(GOOD) // 4 + 1)
        assert asking.books.settled == [
            Spend(requests=1, input_tokens=len("Judge.\n\nA trace.") // 4 + 1, output_tokens=len(GOOD) // 4 + 1)
        ]


LONG = replace(REQUEST, messages=(Message("system", "Judge."), Message("user", "A trace. " * 400)))
"""About 1,000 tokens."""
MOST_INPUT = len("Judge.") + len("A trace. " * 400) + 2 * len(json.dumps(LONG.schema)) + 1024
MOST_OUTPUT = 131_072


@pytest.mark.parametrize(
    ("tokens", "usage"),
    [
        pytest.param((900, 8), "reported", id="about what it was"),
        pytest.param((226, 1), "reported", id="the thriftiest tokenizer"),
        pytest.param((MOST_INPUT, MOST_OUTPUT), "reported", id="a token for each byte, and long thoughts"),
        pytest.param((0, 0), "implausible", id="nothing"),
        pytest.param((900, 0), "implausible", id="no reply"),
        pytest.param((225, 8), "implausible", id="less than was sent"),
        pytest.param((9_000_000, 8), "implausible", id="9 million sent"),
        pytest.param((900, 9_000_000), "implausible", id="9 million received"),
        pytest.param((MOST_INPUT + 1, 8), "implausible", id="more than a token for each byte"),
        pytest.param((900, MOST_OUTPUT + 1), "implausible", id="more than any model writes"),
        pytest.param((-900, 8), "implausible", id="negative"),
        pytest.param((900, 2**62), "implausible", id="more than a ledger could add up"),
        pytest.param(None, "missing", id="missing"),
    ],
)
def test_a_usage_counts_only_if_it_can_be_right(
    tokens: tuple[int, int] | None, usage: str, caplog: pytest.LogCaptureFixture
) -> None:
    with JudgeServer(then=Behaviour(usage=tokens is not None, tokens=tokens)) as server:
        asking, reply = run(server.url, lambda asking: asking.ask(LONG))
    assert isinstance(reply, JudgeReply)
    assert (reply.text, reply.usage) == (GOOD, usage)
    counts = tokens if usage == "reported" else (None, None)
    assert (reply.input_tokens, reply.output_tokens) == counts
    spent = Spend(requests=1, input_tokens=tokens[0], output_tokens=tokens[1]) if tokens else None
    assert asking.books.settled == [spent if usage == "reported" else UNKNOWN]
    assert ("does not fit what was sent and received" in caplog.text) == (usage == "implausible")


def test_an_endpoint_that_never_counts_right_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def several(asking: Asking) -> None:
        for _ in range(3):
            await asking.ask()

    with JudgeServer(then=Behaviour(tokens=(0, 0))) as server:
        run(server.url, several)
    assert caplog.text.count("does not fit what was sent and received") == 1


def test_error_statuses_take_no_tokens() -> None:
    with JudgeServer([FAILING, NAMED["schema_refused"], Behaviour(wire=Wire.RESET)]) as server:
        asking, _ = run(server.url, lambda asking: asking.ask())
        *failed, answered = asking.books.settled
        assert failed == [REJECTED, REJECTED, UNKNOWN]
        assert answered is not None
        assert (answered.requests, answered.output_tokens > 0) == (1, True)


def test_what_a_refusal_used_up_is_accounted_for() -> None:
    with JudgeServer(then=NAMED["refusal"]) as server:
        asking, _ = run(server.url, lambda asking: asking.ask())
        [spend] = asking.books.settled
        assert spend is not None
        assert spend.output_tokens


def test_over_budget_nothing_leaves() -> None:
    async def use(asking: Asking) -> None:
        asking.books.most = 2
        with pytest.raises(OverBudget):
            await asking.judge.ask(REQUEST, asking.books.reserve)

    with JudgeServer(then=FAILING) as server:
        asking, _ = run(server.url, use)
        assert len(server.requests) == asking.books.reserved == asking.books.ended == 2


def test_a_cancelled_question_is_settled_and_leaves_its_place() -> None:
    async def use(asking: Asking) -> None:
        asked = asyncio.create_task(asking.ask())
        await asyncio.to_thread(eventually, lambda: server.requests)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert asking.books.settled == [UNKNOWN]
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
    assert asked == [False] * 4, "two requests, each asked by two ways"
    assert is_instrumentation_enabled(), "suppressed for the judge alone"


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("localhost:11434/v1", "'localhost:11434/v1' is no http or https address"),
        ("foo?key=secret", "'foo' is no http or https address"),
        ("ftp://127.0.0.1", "'ftp://127.0.0.1' is no http or https address"),
        ("https://", "'https://' is no http or https address"),
        ("user:secret@127.0.0.1/v1", "it is no http or https address"),
        ("https://user:secret@127.0.0.1/v1", r"judge\.api_key"),
    ],
)
def test_an_unusable_address_is_refused_at_once(url: str, named: str) -> None:
    with pytest.raises(ValueError, match=named) as refusal:
        Asking(url)
    assert "secret" not in str(refusal.value)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    asking, outcome = run(f"http://127.0.0.1:{port}/v1", lambda asking: asking.ask(), retries=0)
    assert described(outcome) == "unavailable: connection_error"
    assert "judge.base_url" in str(outcome)
    assert asking.books.settled == [RELEASED], "nothing has left"


def test_a_responder_gives_the_text() -> None:
    def respond(received: Received) -> str | None:
        return '{"score": 0.1}' if "A trace." in received.text else None

    with JudgeServer(responder=respond, then=Behaviour(content=Content.OUT_OF_RANGE)) as server:
        assert described(run(server.url, lambda asking: asking.ask())[1]) == '{"score": 1000.1}'


@contextmanager
def command(*arguments: str) -> Iterator[str]:
    line = [sys.executable, "-m", "tests.support.judge.judge_server", *arguments]
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
