"""The judge and its endpoint: the forms that it takes, and what is wrong with it."""

from dataclasses import replace
from typing import Any

import pytest
from agenteval_collector.judge.client.failures import LONGEST_REST
from agenteval_collector.judge.ports import JudgeError, JudgeReply, JudgeUnavailable

from tests.support.judge.behaviours import NAMED, SOON, Behaviour, Wire
from tests.support.judge.judge_server import JudgeServer
from tests.support.judge_client import REQUEST, Asking, described, run


def forms(server: JudgeServer) -> list[tuple[str, bool]]:
    return [
        (received.body.get("response_format", {}).get("type", "text"), "temperature" in received.body)
        for received in server.requests
    ]


@pytest.mark.parametrize(
    ("refused", "taken", "temperature"),
    [
        (["json_schema"], ("json_object", True), 0.0),
        (["json_schema", "json_object"], ("text", True), 0.0),
        (["temperature"], ("json_schema", False), None),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else None,
)
def test_a_form_is_learnt_once_and_by_model(
    refused: list[Any], taken: tuple[str, bool], temperature: float | None
) -> None:
    async def use(asking: Asking) -> None:
        for _ in range(2):
            reply = await asking.ask()
            assert isinstance(reply, JudgeReply)
            assert reply.temperature == temperature
        paid = len(server.requests)
        assert forms(server)[-2:] == [taken, taken]
        assert paid == len(refused) + 2
        await asking.ask(replace(REQUEST, model="b"))
        assert forms(server)[paid] == ("json_schema", True)

    with JudgeServer(then=Behaviour(refuses=frozenset(refused))) as server:
        run(server.url, use)


def test_nothing_is_learnt_where_no_form_is_answered() -> None:
    async def use(asking: Asking) -> None:
        for _ in range(2):
            assert described(await asking.ask()) == "refused: 422"
        assert forms(server) == [("json_schema", True), ("json_object", True), ("text", True), ("text", False)] * 2

    # The body of the error quotes what it got, and the schema with it.
    with JudgeServer(then=Behaviour(status=422, error_code="json_schema")) as server:
        run(server.url, use)


def test_a_declined_answer_shows_that_its_form_is_taken() -> None:
    async def use(asking: Asking) -> None:
        for _ in range(2):
            assert described(await asking.ask()) == "refused: refusal"
        assert forms(server) == [("json_schema", True), ("json_object", True), ("json_object", True)]

    with JudgeServer([Behaviour(status=400)], then=NAMED["refusal"]) as server:
        run(server.url, use)


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
    _, failed = run(address, lambda asking: asking.ask(), retries=0)
    assert str(failed).startswith(says)


def test_no_tls_with_what_speaks_none() -> None:
    with JudgeServer() as server:
        _, failed = run(server.url.replace("http", "https"), lambda asking: asking.ask(), retries=0)
    assert "no TLS with it (WRONG_VERSION_NUMBER)" in str(failed)


def test_an_error_in_an_answer_of_status_200_is_an_outage() -> None:
    with JudgeServer(then=Behaviour(wire=Wire.ERROR, status=503, headers=SOON)) as server:
        _, outcome = run(server.url, lambda asking: asking.ask())
        assert described(outcome) == "unavailable: no_completion"


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
    ("behaviour", "says", "rest"),
    [
        pytest.param(
            NAMED["unauthorized"],
            "HOST: status 401 (invalid_api_key): check judge.api_key; traces wait until then",
            60.0,
            id="a wrong key",
        ),
        pytest.param(
            NAMED["html"],
            "HOST answers with something else than a chat completion; check judge.base_url",
            None,
            id="a page",
        ),
        pytest.param(
            Behaviour(status=429, headers={"Retry-After": "86400"}), "HOST: status 429", LONGEST_REST, id="a long wait"
        ),
        pytest.param(Behaviour(status=503, headers=SOON), "HOST: status 503", 0.001, id="a wait in milliseconds"),
    ],
)
def test_an_outage_says_what_to_do_and_how_long_to_wait(behaviour: Behaviour, says: str, rest: float | None) -> None:
    with JudgeServer(then=behaviour) as server:
        _, failed = run(server.url, lambda asking: asking.ask())
        assert isinstance(failed, JudgeUnavailable)
        assert str(failed) == says.replace("HOST", server.url.split("/")[2])
        assert failed.retry_after == rest
        assert failed.lasting == (rest == 60.0)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 503, 529, 501, 400, 403, 404, 413, 418])
def test_a_status_is_an_outage_or_a_refusal_that_says_what_to_check(status: int) -> None:
    with JudgeServer(then=Behaviour(status=status, error_code="sk-SECRET KEY")) as server:
        _, failed = run(server.url, lambda asking: asking.ask(), retries=0)
    assert isinstance(failed, JudgeError)
    assert "SECRET" not in str(failed)
    assert isinstance(failed, JudgeUnavailable) == (status in {408, 409, 425, 429, 500, 503, 529})
    assert isinstance(failed, JudgeUnavailable) or "judge." in str(failed)
