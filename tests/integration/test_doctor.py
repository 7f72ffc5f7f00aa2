"""`agenteval doctor` against real collectors, against what is none, and against none at all."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from agenteval_collector.cli.client import get
from agenteval_collector.serve.api.answers import CollectorDocument, JudgeDocument, QuarantineDocument
from agenteval_collector.serve.api.figure_documents import ArrivalDocument
from agenteval_collector.serve.api.trace_documents import UnknownSpansDocument
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from otel_agenteval.doctor.collector import (
    ArrivalAnswer,
    CollectorAnswer,
    JudgeAnswer,
    QuarantineAnswer,
    UnknownSpansAnswer,
    about_arrivals,
)
from otel_agenteval.doctor.command import main
from otel_agenteval.doctor.environment import about_environment
from otel_agenteval.reader import ApiError
from tests.support.certificates import self_signed
from tests.support.eventually import eventually
from tests.support.fake_collector import FakeCollector
from tests.support.otlp import span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector
from tests.support.web_server import serve

HOSTILE = "shop\x1b[2J\u202e"
INSTRUMENTED = {"opentelemetry-sdk": "1.45.2", "openinference-instrumentation-langchain": "0.1.2"}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGENTEVAL_ENDPOINT", "AGENTEVAL_URL", "AGENTEVAL_API_KEY", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path_factory.mktemp("collector")) as running:
        yield running


def http(address: str) -> str:
    return f"http://{address}"


@pytest.mark.parametrize(
    ("read", "answered"),
    [
        (CollectorAnswer, CollectorDocument),
        (JudgeAnswer, JudgeDocument),
        (ArrivalAnswer, ArrivalDocument),
        (QuarantineAnswer, QuarantineDocument),
        (UnknownSpansAnswer, UnknownSpansDocument),
    ],
)
def test_the_doctor_reads_what_the_collector_answers(read: type, answered: type) -> None:
    own = get_type_hints(read)
    for nested in ("judge", "not_understood"):
        own.pop(nested, None)
    assert own.items() <= get_type_hints(answered).items()


class Told:
    """What the doctor says: its exit code, and each check by name (the last of a name)."""

    def __init__(self, code: Any, document: Mapping[str, Any]) -> None:
        self.code = int(code)
        self.checks = {check["name"]: check for check in document["checks"]}

    def __getitem__(self, name: str) -> tuple[str, str, str]:
        check = self.checks[name]
        return check["state"], check["found"], check["advice"] or ""


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> Told:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    return Told(ended.value.code, json.loads(capsys.readouterr().out))


def at(running: RunningCollector) -> tuple[str, ...]:
    return "--endpoint", http(running.addresses["grpc"]), "--url", http(running.addresses["web"])


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def assert_says(check: tuple[str, str, str], state: str, *words: str) -> None:
    assert check[0] == state, check
    for word in words:
        assert word in f"{check[1]} {check[2]}"


def test_without_a_collector_it_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    told = doctor(capsys, "--endpoint", closed_port(), "--url", closed_port())
    assert told.code == 1
    assert_says(told["gRPC"], "error", "Connection refused", "start `agenteval collector`")
    assert_says(told["web"], "error", "nothing listens", "start `agenteval collector`")


def test_a_collector_that_has_everything_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunningCollector(tmp_path) as running:
        empty = doctor(capsys, *at(running))
        running.send(traces(turn(1, "Where is it?", "On its way.", session="s"), service="shop"))
        running.scored(trace_id(1).hex())
        told = doctor(capsys, *at(running))
    assert empty.code == 1
    assert_says(empty["spans"], "error", "no span has arrived", "agenteval run -- python")
    assert told.code == 0
    assert_says(told["gRPC"], "ok", "a collector of ours")
    assert_says(told["web"], "ok", "is ready")
    assert_says(told["collector"], "ok", "otel-agenteval", "Python", "opentelemetry-sdk")
    assert_says(told["judge"], "ok", "none is configured")
    assert_says(told["spans"], "ok", "shop: GenAI spans in 1 of 1 trace")
    assert_says(told["content"], "ok", "shop: recorded in 1 of 1")
    assert_says(told["sessions"], "ok", "1 of 1 name their session")


def test_spans_that_are_not_genai_are_an_error_with_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunningCollector(tmp_path) as running:
        running.send(traces(span(1, 1), service=HOSTILE))
        running.scored(trace_id(1).hex())
        told = doctor(capsys, *at(running))
        with pytest.raises(SystemExit):
            main(at(running))
        text = capsys.readouterr().out
    assert told.code == 1
    assert_says(told["spans"], "error", "none with GenAI spans", "docs/instrumentations.md")
    assert "\\u001b[2J\\u202e" in text
    assert "\x1b" not in text


def test_missing_content_and_sessions_are_warnings_with_the_switch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = turn(1, "", None)
    del silent.attributes[-1]
    with RunningCollector(tmp_path) as running:
        running.send(traces(silent))
        running.scored(trace_id(1).hex())
        told = doctor(capsys, *at(running))
    assert told.code == 0
    assert_says(told["content"], "warning", "0 of 1", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
    assert_says(told["sessions"], "warning", "otel_agenteval.session(")


def test_each_service_is_told_of_by_itself_the_one_that_came_last_first(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, assembly={"silence": 60.0}) as running:
        running.send(traces(turn(1, "Where is it?", "On its way.", session="s"), service="shop"))
        running.scored(trace_id(1).hex())
        running.send(traces(span(2, 1), service="proxy"))
        running.scored(trace_id(2).hex())
        running.send(traces(span(3, 2, parent=1, gen_ai__operation__name="chat"), service="slow"))
        items = eventually(lambda: found if len(found := running.get("/api/v1/arrivals")["items"]) == 3 else [])
    figures = ("service", "traces", "genai", "with_content", "with_session", "running")
    assert [tuple(item[name] for name in figures) for item in items] == [
        ("proxy", 1, 0, 0, 0, 0),
        ("shop", 1, 1, 1, 1, 0),
        ("slow", 0, 0, 0, 0, 1),
    ]
    assert [check.state for check in about_arrivals(items)] == ["error", "ok", "ok", "ok", "ok"]


@pytest.mark.parametrize(
    ("endpoint", "url", "grpc_says", "web_says"),
    [
        ("http", "grpc", "speaks HTTP, not gRPC: 4318 is OTLP/HTTP", "does not speak HTTP"),
        ("web", "http", "speaks HTTP, not gRPC", "is not a collector's web port"),
    ],
)
def test_a_wrong_port_is_named(
    collector: RunningCollector,
    capsys: pytest.CaptureFixture[str],
    endpoint: str,
    url: str,
    grpc_says: str,
    web_says: str,
) -> None:
    where = "--endpoint", http(collector.addresses[endpoint]), "--url", http(collector.addresses[url])
    told = doctor(capsys, *where)
    assert told.code == 1
    assert_says(told["gRPC"], "error", grpc_says, "use 4317")
    assert_says(told["web"], "error", web_says, "4319")


@pytest.mark.parametrize("address", ["http://", "ftp://127.0.0.1:1", "http://[::1", "http://127.0.0.1:x"])
def test_an_address_that_is_none_is_named(capsys: pytest.CaptureFixture[str], address: str) -> None:
    told = doctor(capsys, "--endpoint", address, "--url", address)
    assert told.code == 1
    assert_says(told["endpoint"], "error", address)
    assert_says(told["web"], "error", address)


def test_a_receiver_of_another_make_is_told_from_ours(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeCollector() as foreign:
        told = doctor(capsys, "--endpoint", foreign.endpoint, "--url", closed_port())
    assert_says(told["gRPC"], "warning", "is not a collector of ours", "--grpc-address")


def test_keys_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunningCollector(tmp_path, server={"keys": ["secret"]}) as running:
        told = doctor(capsys, *at(running))
        assert_says(told["gRPC"], "error", "wants a key", "AGENTEVAL_API_KEY")
        assert_says(told["key"], "error", "wants a key", "AGENTEVAL_API_KEY")
        right = doctor(capsys, *at(running), "--api-key", "secret")
        monkeypatch.setenv("AGENTEVAL_API_KEY", "secret")
        by_environment = doctor(capsys, *at(running))
    for told in (right, by_environment):
        assert_says(told["gRPC"], "ok", "of ours")
        assert_says(told["collector"], "ok", "otel-agenteval")


def test_a_key_that_may_only_send_or_only_read_is_told_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = [{"name": scope, "key": f"{scope}-key", "scopes": [scope]} for scope in ("write", "read")]
    judge = {"base_url": f"{closed_port()}/v1", "api_key": "k", "model": "m"}
    with RunningCollector(tmp_path, server={"keys": keys}, judge=judge) as running:
        sends = doctor(capsys, *at(running), "--api-key", "write-key")
        reads = doctor(capsys, *at(running), "--api-key", "read-key", "--judge")
    assert sends.code == 0
    assert_says(sends["gRPC"], "ok", "a collector of ours")
    assert_says(sends["web"], "ok", "is ready")
    assert_says(sends["key"], "warning", "the key 'write' does not have the scope read", "--api-key")
    assert "version" not in sends.checks
    assert reads.code == 1
    assert_says(reads["gRPC"], "error", "the key 'read' does not have the scope write", "AGENTEVAL_API_KEY")
    assert_says(reads["collector"], "ok", "otel-agenteval")
    assert_says(reads["judge"], "warning", "the key 'read' does not have the scope label", "--api-key")


def test_tls_on_one_side_only_and_a_certificate_that_nobody_trusts_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = self_signed(tmp_path)
    files = {"tls_certificate": str(made.certificate), "tls_key": str(made.key)}
    with RunningCollector(tmp_path / "data", server=files) as running:
        grpc, web = running.addresses["grpc"], running.addresses["web"]
        plain = doctor(capsys, "--endpoint", f"http://{grpc}", "--url", f"http://{web}")
        unknown = doctor(capsys, "--endpoint", f"https://{grpc}", "--url", f"https://{web}")
        trusted = ("--certificate", files["tls_certificate"])
        right = doctor(capsys, "--endpoint", f"https://{grpc}", "--url", f"https://{web}", *trusted)
        missing = doctor(capsys, "--endpoint", f"https://{grpc}", "--url", f"https://{web}", "--certificate", "no.pem")
        with pytest.raises(ApiError, match="is not trusted: name the file of its authority in SSL_CERT_FILE"):
            get(f"https://{web}", "/api/v1/sessions", None)
    assert_says(plain["gRPC"], "error", "use https://")
    assert_says(plain["web"], "error", "use https://")
    assert_says(unknown["gRPC"], "error", "certificate is not trusted", "certificate=FILE")
    assert_says(unknown["web"], "error", "certificate is not trusted", "--certificate FILE")
    assert_says(right["gRPC"], "ok", "of ours")
    assert_says(right["web"], "ok", "is ready")
    assert_says(missing["gRPC"], "error", "no.pem")
    assert_says(missing["web"], "error", "no.pem")


def test_tls_to_a_port_without_is_named(collector: RunningCollector, capsys: pytest.CaptureFixture[str]) -> None:
    grpc, web = (f"https://{collector.addresses[name]}" for name in ("grpc", "web"))
    told = doctor(capsys, "--endpoint", grpc, "--url", web)
    assert_says(told["gRPC"], "error", "use http://")
    assert_says(told["web"], "error", "use http://")


def test_it_runs_as_a_command_where_only_the_client_is_installed() -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('agenteval_collector', 'typer', 'rich', 'pydantic')));"
        f"sys.argv = ['agenteval', 'doctor', '--endpoint', '{closed_port()}', '--url', '{closed_port()}'];"
        "from otel_agenteval.command import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("ok       client")
    assert "error    gRPC" in done.stdout


@pytest.mark.parametrize(
    ("environ", "installed", "name", "state", "says"),
    [
        ({}, INSTRUMENTED, "instrumentation", "ok", "openinference-instrumentation-langchain 0.1.2"),
        ({}, {"pydantic-ai-slim": "2.0"}, "instrumentation", "ok", "pydantic-ai-slim 2.0"),
        ({}, {"crewai": "1", "openai": "2"}, "instrumentation", "warning", "openinference-instrumentation-crewai"),
        ({}, {"openai": "2"}, "instrumentation", "warning", "openinference-instrumentation-openai"),
        ({}, {"openai": "2", "wordllama": "0.4"}, "instrumentation", "warning", "docs/instrumentations.md"),
        ({}, {}, "instrumentation", "warning", "in the agent's environment"),
        ({"OTEL_SDK_DISABLED": "TRUE"}, {}, "sdk", "warning", "unset it"),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, {}, "sampling", "warning", "always_off"),
    ],
)
def test_the_environment_is_looked_at(
    environ: dict[str, str], installed: dict[str, str], name: str, state: str, says: str
) -> None:
    [check] = [each for each in about_environment(environ, installed) if each.name == name]
    assert_says((check.state, check.found, check.advice or ""), state, says)


def test_an_otel_endpoint_that_belongs_to_another_exporter_is_said(
    collector: RunningCollector, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", http(collector.addresses["grpc"]))
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    told = doctor(capsys, "--url", http(collector.addresses["web"]))
    assert_says(told["endpoint"], "warning", "from the default", "set AGENTEVAL_ENDPOINT")


@pytest.mark.parametrize(
    ("models", "status", "state", "says"),
    [
        ({"data": [{"id": "m"}]}, 200, "ok", "its endpoint answers"),
        ({"data": [{"id": "other"}]}, 200, "error", "does not have 'm', but other; check judge.model"),
        ({"error": "secret"}, 401, "error", "status 401: check judge.api_key"),
        ({}, 404, "ok", "its endpoint answers"),
        ([], 200, "ok", "its endpoint answers"),
    ],
)
def test_the_judges_endpoint_is_asked_for_its_models_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], models: Any, status: int, state: str, says: str
) -> None:
    asked: list[tuple[str, str]] = []

    def answer(request: Request) -> Response:
        asked.append((request.url.path, request.headers["authorization"]))
        return JSONResponse(models, status)

    endpoint = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    with serve(endpoint) as url:
        judge = {"base_url": f"{url}/v1", "api_key": "k", "model": "m"}
        with RunningCollector(tmp_path, judge=judge) as running:
            assert_says(doctor(capsys, *at(running))["judge"], "ok", "m, no trouble so far")
            assert asked == []
            told = doctor(capsys, *at(running), "--judge")
    assert asked == [("/v1/models", "Bearer k")]
    assert_says(told["judge"], state, says)
    assert "secret" not in str(told.checks)


def test_a_judge_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge = {"base_url": f"{closed_port()}/v1", "api_key": "k", "model": "m"}
    with RunningCollector(tmp_path, judge=judge, server={"keys": ["secret"]}) as running:
        told = doctor(capsys, *at(running), "--judge", "--api-key", "secret")
    assert_says(told["judge"], "error", "refuses connections; check judge.base_url")
