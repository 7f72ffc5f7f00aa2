"""Who may write through the web port."""

import asyncio
from typing import Any

import pytest
from agenteval_collector.runtime.errors import Forbidden, InvalidRequest, Unavailable
from agenteval_collector.serve.api import write_guard
from agenteval_collector.serve.api.write_guard import WriteGuard, read_body
from starlette.datastructures import Headers
from starlette.requests import Request

HERE = {"Host": "127.0.0.1:4319"}
OURS = {**HERE, "Origin": "http://127.0.0.1:4319", "Sec-Fetch-Site": "same-origin"}


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(OURS, id="a page of ours"),
        pytest.param({**HERE, "Origin": "HTTP://127.0.0.1:4319"}, id="a browser that does not tell the site"),
        pytest.param(HERE, id="no browser"),
        pytest.param({"Host": "LOCALHOST:4319", "Origin": "http://localhost:4319"}, id="by name"),
        pytest.param({"Host": "[::1]:4319", "Origin": "http://[::1]:4319"}, id="by IPv6"),
        pytest.param({"Host": "10.0.0.7:4319", "Origin": "http://10.0.0.7:4319"}, id="another machine's address"),
    ],
)
def test_the_token_lets_our_own_pages_and_programs_write(headers: dict[str, str]) -> None:
    guard = WriteGuard(keyed=False)
    guard.check(Headers(headers), guard.token)
    for token, says in (("", "is missing"), (guard.token[:-1], "not the one"), ("\ud800é", "not the one")):
        with pytest.raises(Forbidden, match=says):
            guard.check(Headers(headers), token)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({**HERE, "Origin": "http://evil.example"}, id="another site"),
        pytest.param({**HERE, "Origin": "http://127.0.0.1:8000"}, id="another server on this machine"),
        pytest.param({**HERE, "Origin": "http://127.0.0.1"}, id="another port"),
        pytest.param({**HERE, "Origin": "null"}, id="a page without an origin"),
        pytest.param({**HERE, "Origin": ""}, id="an empty origin"),
        pytest.param({"Origin": "null"}, id="a page without an origin, and no host"),
        pytest.param({**OURS, "Sec-Fetch-Site": "cross-site"}, id="another site, as the browser says"),
        pytest.param({**OURS, "Sec-Fetch-Site": "same-site"}, id="another server of this site, as the browser says"),
        pytest.param({**OURS, "Sec-Fetch-Site": "none"}, id="no site at all, as the browser says"),
    ],
)
@pytest.mark.parametrize("keyed", [False, True])
def test_other_sites_never_write_whatever_they_have(headers: dict[str, str], keyed: bool) -> None:
    guard = WriteGuard(keyed=keyed)
    with pytest.raises(Forbidden):
        guard.check(Headers({**headers, "Authorization": "Bearer key"}), guard.token)


def test_without_keys_nothing_is_written_under_a_name_that_anybody_could_point_here() -> None:
    guard = WriteGuard(keyed=False)
    with pytest.raises(Forbidden, match="use the address"):
        guard.check(Headers({"Host": "evil.example:4319", "Origin": "http://evil.example:4319"}), guard.token)


@pytest.mark.parametrize(
    ("authorization", "token", "may"),
    [
        pytest.param("Bearer key", False, True, id="a key in a header that no browser sends by itself"),
        pytest.param("Basic OmtleQ==", False, False, id="a key that the browser sends for every site"),
        pytest.param("Basic OmtleQ==", True, True, id="such a key, and the token of our page"),
    ],
)
def test_where_there_are_keys_a_bearer_needs_no_token(authorization: str, token: bool, may: bool) -> None:
    guard = WriteGuard(keyed=True)
    headers = Headers({"Host": "evals.example", "Origin": "https://evals.example", "Authorization": authorization})
    if may:
        guard.check(headers, guard.token if token else "")
    else:
        with pytest.raises(Forbidden, match="token is missing"):
            guard.check(headers, "")


def test_the_bearer_of_a_proxy_that_names_its_user_needs_a_token() -> None:
    guard = WriteGuard(keyed=True)
    headers = Headers({"Host": "evals.example", "Authorization": "Bearer key"})
    with pytest.raises(Forbidden, match="token is missing"):
        guard.check(headers, "", has_user=True)
    guard.check(headers, guard.token, has_user=True)


def test_without_keys_a_bearer_is_worth_nothing() -> None:
    with pytest.raises(Forbidden, match="token is missing"):
        WriteGuard(keyed=False).check(Headers({**HERE, "Authorization": "Bearer anything"}), "")


def test_each_process_has_a_token_of_its_own() -> None:
    assert len({WriteGuard(keyed=False).token for _ in range(100)}) == 100


def posted(*messages: dict[str, Any]) -> bytes:
    """The body of a request that comes in these messages, and then no more."""
    waiting = list(messages)

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    async def read() -> bytes:
        scope = {"type": "http", "method": "POST", "headers": [(b"content-type", b"Application/JSON; charset=utf-8")]}
        return await read_body(Request(scope, receive), "application/json")

    return asyncio.run(read())


def test_a_body_comes_whole_or_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = {"type": "http.request", "body": b"[1,", "more_body": True}
    assert posted(begun, {"type": "http.request", "body": b"2]", "more_body": False}) == b"[1,2]"
    with pytest.raises(InvalidRequest, match="broke off"):
        posted(begun, {"type": "http.disconnect"})
    monkeypatch.setattr(write_guard, "BODY_SECONDS", 0.01)
    with pytest.raises(Unavailable, match=r"within 0.01 s"):
        posted(begun)
