"""What the judge learns of its endpoint: the forms it takes, that it is down, and why."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from agenteval_collector.judge.client.circuit import FAILURES, FIRST_REST
from agenteval_collector.judge.client.lessons import IN_VAIN, LASTS, VAIN_LASTS
from agenteval_collector.judge.client.openai_judge import RETRIES
from agenteval_collector.judge.client.port import JudgeError, JudgeReply, JudgeUnavailable

from tests.support.judge.behaviours import NAMED, OK, Behaviour, Wire
from tests.support.judge.judge_server import JudgeServer
from tests.support.judge_client import GOOD, REQUEST, Asking, described, run

FAILING = NAMED["failing"]
HOLDING_OFF = Behaviour(status=429, headers={"Retry-After": "7"})


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


@pytest.mark.parametrize(
    ("address", "says"),
    [
        pytest.param("http://127.0.0.1:9/v1", "127.0.0.1:9: refuses connections; check judge.base_url", id="refused"),
        pytest.param(
            "http://nowhere.invalid/v1", "nowhere.invalid: no address is known by this name; check", id="unknown name"
        ),
    ],
)
def test_a_connection_that_fails_says_why(address: str, says: str) -> None:
    asking, failed = run(address, lambda asking: asking.ask())
    assert str(failed).startswith(says)
    assert asking.judge.trouble is not None
    assert asking.judge.trouble.message == str(failed)


def test_no_tls_with_what_speaks_none() -> None:
    with JudgeServer() as server:
        _, failed = run(server.url.replace("http", "https"), lambda asking: asking.ask())
    assert "no TLS with it (WRONG_VERSION_NUMBER)" in str(failed)


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
