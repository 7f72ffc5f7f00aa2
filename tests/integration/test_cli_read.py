"""`agenteval sessions`, `trace` and `why` against a real web port."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.serve.api.responses import json_response
from agenteval_collector.serve.api.trace_documents import FailureRateDocument
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from typer.testing import CliRunner, Result

from tests.support import asking
from tests.support.clock import ManualClock
from tests.support.collector_process import SCRIPT
from tests.support.keys import ring_of
from tests.support.memory_queries import (
    GOOD_TRACE,
    NOW,
    MemoryQueries,
    agreement,
    call,
    exchange,
    finding,
    label,
    outcome,
    seen,
    session,
    trace,
    turn,
    unjudged,
)
from tests.support.pages import app_of
from tests.support.travel_agent import RUNNING_TRACE, SILENT_TRACE, TOOL_TRACE, travel_agent
from tests.support.web_server import serve

HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]markup[/] \u202egnp.exe \x9b1A\r:skull:"


def web(queries: MemoryQueries, **options: Any) -> Starlette:
    return app_of(queries, clock=ManualClock(NOW), **options)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve(web(travel_agent())) as url:
        yield url


def agenteval(*arguments: str, input: str | None = None, **environ: str) -> Result:  # noqa: A002
    clean = {"AGENTEVAL_URL": None, "AGENTEVAL_API_KEY": None, "COLUMNS": "200"}
    result = CliRunner().invoke(command_line(), list(arguments), input=input, env={**clean, **environ})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (("sessions",), "/api/v1/sessions"),
        (("sessions", "--order", "attention"), "/api/v1/sessions?order=attention"),
        (("sessions", "--finding", "tool_failed"), "/api/v1/sessions?finding=tool_failed"),
        (("sessions", "--severity", "info", "--agent", "x"), "/api/v1/sessions?severity=info&agent=x"),
        (("sessions", "--agent", "flight_search", "--limit", "1"), "/api/v1/sessions?agent=flight_search&limit=1"),
        (("trace", GOOD_TRACE), f"/api/v1/traces/{GOOD_TRACE}"),
    ],
)
def test_json_is_what_the_api_says(url: str, command: tuple[str, ...], path: str) -> None:
    result = agenteval(*command, "--json", "--url", url)
    assert result.exit_code == 0
    assert json.loads(result.stdout) == asking.get(url + path).json()


def test_sessions_are_a_table(url: str) -> None:
    output = agenteval("sessions", "--url", url).stdout
    row = next(line for line in output.splitlines() if line.startswith("refund-1187"))
    assert row.split()[:10] == [
        "refund-1187",
        "travel_agent",
        "active",
        "5",
        "3",
        "errors:",
        "repeated",
        "answer",
        "1",
        "3",
    ]
    assert "50%" in row


def test_the_order_of_attention_begins_with_the_worst(url: str) -> None:
    _, *rows = agenteval("sessions", "--order", "attention", "--url", url).stdout.splitlines()
    assert [row.split()[0] for row in rows[:3]] == ["refund-1187", "s-42", "booking/2026-03/αθήνα"]


def test_every_filter_is_asked_of_the_api() -> None:
    asked: list[dict[str, str]] = []

    def listing(request: Request) -> Response:
        asked.append(dict(request.query_params))
        return json_response(b'{"items": [], "next_cursor": null}')

    wanted = {
        "agent": "a",
        "service": "b",
        "version": "c",
        "user": "d",
        "finding": "e",
        "severity": "error",
        "below": "coherence:0.2",
        "text": "g h",
        "until": "2026-03-02T09:00:00Z",
        "order": "attention",
        "limit": "7",
    }
    options = [part for name, value in wanted.items() for part in (f"--{name}", value)]
    with serve(Starlette(routes=[Route("/api/v1/sessions", listing)])) as url:
        nothing = agenteval("sessions", *options, "--since", "1d", "--url", url)
        agenteval("sessions", "--since", "2026-03-02T09:00:00Z", "--url", url)
    since = asked[0].pop("since")
    assert asked[0] == wanted
    assert datetime.fromisoformat(since) < datetime.now(UTC) - timedelta(hours=23)
    assert asked[1]["since"] == "2026-03-02T09:00:00Z"
    assert "No such sessions. Names are compared exactly. Words are found in upper and lower case." in nothing.stdout


def test_a_session_without_findings_says_where_to_see_what_was_looked_at() -> None:
    queries = MemoryQueries()
    member = trace(GOOD_TRACE, "s", began=0)
    queries.add(session("s", member, outcomes=[]), member)
    with serve(web(queries)) as url:
        assert "No finding in its traces" in agenteval("why", "--session", "s", "--url", url).stdout


def test_the_hit_rate_of_an_agent_stands_above_its_sessions() -> None:
    queries = travel_agent()
    rate: FailureRateDocument = {"sessions": 20, "failed": 10, "rate": 0.5, "interval": [0.3, 0.7]}
    queries.hit_rates["travel_agent"] = {"with_error": rate, "without_error": rate}
    with serve(web(queries)) as url:
        output = agenteval("sessions", "--agent", "travel_agent", "--url", url).stdout
        assert "whose end is known" not in agenteval("sessions", "--url", url).stdout
        document = json.loads(agenteval("sessions", "--agent", "travel_agent", "--json", "--url", url).stdout)
    assert output.startswith("Of 40 sessions of this agent whose end is known, 10 of 20 (50 %")
    assert document["hit_rate"] == queries.hit_rates["travel_agent"]


def test_a_session_says_whether_it_gets_anywhere_and_how_often_it_was_correct() -> None:
    said = trace(GOOD_TRACE, "s", turn("hi", "ok"), began=0)
    trend = {"stalled": False, "regressed": True, "best": 0.9, "last": 0.5, "evaluated": 2, "skipped": 0}
    interactions = {"interactions": 2, "correct": 1, "pass_hat_k": {"plugin": {"1": 0.5, "2": 0.25}}}
    queries = MemoryQueries()
    reason = "2 scored traces, best 0.9000, last 0.5000"
    queries.add(session("s", said, outcomes=[], trend={**trend, "reason": reason}, interactions=interactions), said)
    with serve(web(queries)) as url:
        output = agenteval("session", "s", "--url", url).stdout
    assert f"task completion regresses: {reason}" in output
    assert "1 of 2 interactions are correct by ground truth: pass^1 0.50, pass^2 0.25 (plug-in)" in output


def test_a_further_page_is_mentioned(url: str) -> None:
    assert "raise --limit" in agenteval("sessions", "--limit", "2", "--url", url).stdout
    assert "raise --limit" not in agenteval("sessions", "--url", url).stdout


def test_a_trace_is_shown_as_it_happened(url: str) -> None:
    output = agenteval("trace", TOOL_TRACE, AGENTEVAL_URL=url).stdout
    _, _, conversation = output.partition("Not looked for")
    said = ["What's the weather", "get_weather", "TimeoutError: no answer in 10 s", "I could not reach", "0.22"]
    places = [conversation.index(text) for text in said]
    assert places == sorted(places)
    assert "Scores by embedding compare the words of answers: they say nothing of repeated calls" in conversation


@pytest.mark.parametrize(
    ("trace_id", "sentences"),
    [
        pytest.param(
            TOOL_TRACE,
            [
                "Warning of travel_agent: tool_failed in turn 1, span 00f067aa0ba902b7: get_weather failed",
                "Not looked for: empty answers, tool calls written as text (answers: seen in part)",
                "is scored.",
                "read 2 times as late spans came",
                "cut on the way",
                "Its spans name session s-42",
                "coherence (embedding, version 1) scored 0.22, below its threshold of 0.30: input and output",
                "It rests on 50% of its signals",
                "loop_detection (embedding, version 1) does not apply to this trace: the session has no earlier trace",
                "tool_correctness (llm, version 1) failed: the judge answered with 503 three times",
                "judge.base_url",
            ],
            id="a trace with a score, a gap and a failure",
        ),
        pytest.param(
            SILENT_TRACE,
            [
                "No finding. Not looked for: empty answers, tool calls written as text (answers: not seen)",
                "has no score.",
                "neither an input nor an output that can be read",
                "it begins a session of its own",
                "otel_agenteval.session(",
                "session.attributes",
                "the content it reads is missing",
                "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
            ],
            id="a trace without content or session",
        ),
        pytest.param(
            RUNNING_TRACE,
            ["No finding so far", "is still running", "not complete: 5 spans so far", "assembly.silence"],
            id="a running trace",
        ),
    ],
)
def test_why_explains(url: str, trace_id: str, sentences: list[str]) -> None:
    result = agenteval("why", trace_id, "--url", url)
    assert result.exit_code == 0
    output = " ".join(result.stdout.split())
    places = [output.index(sentence) for sentence in sentences]
    assert places == sorted(places)


def test_why_says_once_how_to_record_what_several_scores_lack(url: str) -> None:
    shown = agenteval("why", SILENT_TRACE, "--url", url).stdout
    assert shown.count("the answer was not recorded") == 2
    assert shown.count("Set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY.") == 1


def test_why_in_json_is_the_trace_and_its_explanation(url: str) -> None:
    document = json.loads(agenteval("why", GOOD_TRACE, "--json", "--url", url).stdout)
    explanation = document.pop("explanation")
    assert document.pop("judgements") == []
    assert document == travel_agent().trace(GOOD_TRACE)
    assert all(set(note) == {"text", "advice"} for note in explanation)


def test_nothing_that_was_recorded_reaches_the_terminal_unescaped() -> None:
    hostile = trace(
        GOOD_TRACE,
        HOSTILE,
        turn(
            HOSTILE,
            HOSTILE,
            call(HOSTILE, {HOSTILE: HOSTILE}, HOSTILE),
            call("t", HOSTILE, error=HOSTILE),
            error=HOSTILE,
        ),
        began=0,
        agents=[HOSTILE],
        service=HOSTILE,
        user_id=HOSTILE,
        outcomes=[outcome("coherence", 0.1, HOSTILE, model=HOSTILE, error_type=HOSTILE)],
        labels=[label("coherence", 0.5, HOSTILE, HOSTILE)],
    )
    queries = MemoryQueries()
    texts = dict.fromkeys(("question", "version", "model", "instructions", "data", "reply", "problem"), HOSTILE)
    queries.asked[GOOD_TRACE] = [exchange(**texts)]
    named = dict.fromkeys(("method", "evaluator_version", "model"), HOSTILE)
    queries.agreements = [agreement(HOSTILE, 3, **named, reasons={"kappa": HOSTILE})]
    queries.add(session(HOSTILE, hostile, outcomes=[], agent=HOSTILE), hostile)
    with serve(web(queries)) as url:
        outputs = [
            agenteval(*command, "--url", url).output
            for command in (
                ("sessions",),
                ("trace", GOOD_TRACE),
                ("why", GOOD_TRACE),
                ("trace", HOSTILE),
                ("why", GOOD_TRACE, "--full"),
                ("agreement",),
            )
        ]
        outputs += [
            agenteval(*command, "--json", "--url", url).output
            for command in (("sessions",), ("why", GOOD_TRACE), ("agreement",))
        ]
    for output in outputs:
        assert not set("\x1b\x07\x9b\r\u202e") & set(output)
    assert "\\u001b[2J" in outputs[1]
    assert "[bold red]markup[/]" in outputs[1]
    assert ":skull:" in outputs[1]


def foreign(request: Request) -> Response:
    return PlainTextResponse("hello")


def elsewhere(request: Request) -> Response:
    return RedirectResponse("http://127.0.0.1:9/")


def odd(request: Request) -> Response:
    return json_response(b"[1]")


@pytest.fixture(scope="module")
def foreign_url() -> Iterator[str]:
    routes = [
        Route("/api/v1/sessions", foreign),
        Route("/moved/api/v1/sessions", elsewhere),
        Route("/odd/api/v1/sessions", odd),
    ]
    with serve(Starlette(routes=routes)) as url:
        yield url


def test_a_collector_that_is_not_there_is_said_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    result = agenteval("sessions", "--url", url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        result.stderr
        == f"agenteval: nothing listens on {url}: start `agenteval collector`, or give its web port as --url\n"
    )


@pytest.mark.parametrize("path", ["", "/moved", "/odd", "/nothing"])
def test_what_is_not_a_collector_is_told_apart(foreign_url: str, path: str) -> None:
    result = agenteval("sessions", "--url", foreign_url + path)
    assert result.exit_code == 1
    assert "is not a collector" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(("trace", "0" * 32), "is not known to this collector", id="an unknown trace"),
        pytest.param(
            ("why", "parcel-77"),
            "not 32 hexadecimal digits; for a session: agenteval why --session parcel-77\n",
            id="a session's id for a trace's",
        ),
        pytest.param(
            ("sessions", "--since", "yesterday"),
            "--since is 'yesterday', not a time as 2026-03-02T09:00:00Z, nor a length such as 30m or 2d\n",
            id="no time",
        ),
        pytest.param(("trace", "a/../../../metrics"), "nothing at", id="a path instead of an id"),
        pytest.param(("sessions", "--url", "file:///etc/passwd"), "--url is", id="a URL that is not HTTP"),
        pytest.param(("sessions", "--url", "http://[::1"), "--url is", id="a URL that is none"),
    ],
)
def test_errors_are_one_sentence(url: str, arguments: tuple[str, ...], says: str) -> None:
    result = agenteval(*arguments, AGENTEVAL_URL=url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_address_may_do_without_its_scheme(url: str) -> None:
    assert agenteval("sessions", "--url", url.removeprefix("http://")).exit_code == 0


def test_keys_are_given_by_option_or_environment() -> None:
    with serve(web(travel_agent(), ring=ring_of("secret"))) as url:
        assert agenteval("sessions", "--url", url, "--api-key", "secret").exit_code == 0
        assert agenteval("sessions", "--url", url, AGENTEVAL_API_KEY="secret").exit_code == 0
        none, wrong = agenteval("sessions", "--url", url), agenteval("sessions", "--url", url, "--api-key", "guess")
        broken = agenteval("sessions", "--url", url, "--api-key", "two\nlines")
    assert (none.exit_code, wrong.exit_code, broken.exit_code) == (1, 1, 1)
    assert "wants a key: give it as --api-key or AGENTEVAL_API_KEY" in none.stderr
    assert "does not accept this key" in wrong.stderr
    assert "no HTTP header can carry" in broken.stderr


def test_a_proxy_in_the_environment_does_not_stand_before_this_machine(url: str) -> None:
    assert (
        agenteval("sessions", "--url", url, HTTP_PROXY="http://127.0.0.1:9", http_proxy="http://127.0.0.1:9").exit_code
        == 0
    )


def test_a_session_shows_its_scores_and_its_traces_with_the_worst_finding_of_each(url: str) -> None:
    document = json.loads(agenteval("session", "refund-1187", "--url", url, "--json").stdout)
    scores, _, traces = agenteval("session", "refund-1187", "--url", url).stdout.rpartition("\ntrace ")
    assert "agent_reliability" in scores
    rows = {row.split()[0]: row for row in traces.splitlines() if row.split()[:1] and len(row.split()[0]) == 32}
    assert list(rows) == document["trace_ids"]
    found = {each["trace_id"]: each["kind"].replace("_", " ") for each in document["findings"]}
    assert found
    for trace_id, row in rows.items():
        assert found.get(trace_id, "–") in row


def test_the_installed_command_reads_too(url: str) -> None:
    result = subprocess.run(
        [SCRIPT, "why", GOOD_TRACE, "--url", url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert result.returncode == 0, result.stderr
    assert "is scored." in result.stdout


def test_findings_are_shown_wherever_a_trace_or_its_session_is() -> None:
    loop = finding(reason=f"get_weather {HOSTILE} was called 3 times", tool=HOSTILE, agent=HOSTILE)
    found = [loop, finding("tool_failed", "warning", reason=f"lookup {HOSTILE} failed")]
    about = {"findings_count": {"error": 7, "warning": 5, "info": 0}, "status_reason": "it may have died"}
    spoken = turn("hi", "yes")
    member = trace(
        GOOD_TRACE, "s", spoken, began=0, findings=found, seen=seen(results="none"), outcomes=unjudged(), **about
    )
    queries = MemoryQueries()
    queries.add(session("s", member, outcomes=[], running_traces=[GOOD_TRACE], **about), member)
    with serve(web(queries)) as url:
        trace_shown, session_shown, why, why_session = (
            agenteval(*command, "--url", url).stdout
            for command in (["trace", GOOD_TRACE], ["session", "s"], ["why", GOOD_TRACE], ["why", "--session", "s"])
        )
        assert f"tool_failed in trace {GOOD_TRACE}, turn 1" in why_session
        for shown in (trace_shown, session_shown, why, why_session):
            assert "was called 3 times" in shown
            assert not set("\x1b\x07\x9b\r\u202e") & set(shown)
        assert trace_shown.index("error identical call") < trace_shown.index("warning tool failed")
        for shown in (trace_shown, session_shown):
            assert "10 more findings are kept" in shown
        for shown in (trace_shown, why):
            assert "repeated results (results of tool calls: not seen)." in shown
            assert shown.count("5 scores need a judge") == 1
        [heading, row, *reasons] = agenteval("sessions", "--url", url).stdout.splitlines()
        assert reasons == ["s: it may have died"]
        assert row[heading.index("worst findings") :].startswith("7 errors: identical call")
