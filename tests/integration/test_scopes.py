"""What each scope opens: every method of gRPC, every address of HTTP."""

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from agenteval_collector.model.callers import Caller, Scope
from agenteval_collector.serve.api.endpoints import WRITE_ENDPOINTS
from agenteval_collector.serve.doors.audit import LINES_PER_WINDOW, Audit
from starlette.routing import Route

from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.keys import ring_of
from tests.support.memory_queries import GOOD_TRACE, KNOWN_PROBLEM, MemoryReports, problem
from tests.support.pages import app_of
from tests.support.running_collector import RunningCollector
from tests.support.travel_agent import travel_agent
from tests.support.web_server import serve

KEYS = [{"name": f"{scope}-only", "key": scope.value, "scopes": [scope.value]} for scope in Scope]
OURS = "/otel_agenteval.proto.v1.EvaluationService/"
METHODS = {
    Scope.WRITE: {
        "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        *(OURS + each for each in ("ReportRun", "ReportStarts", "ReportFeedback", "EndSession")),
    },
    Scope.LABEL: {
        OURS + each for each in ("LabelTrace", "LabelSession", "ResolveProblem", "MuteProblem", "JudgeTraces")
    },
    Scope.ADMIN: {OURS + "Delete"},
    Scope.READ: {
        OURS + each.name
        for each in pb.DESCRIPTOR.services_by_name["EvaluationService"].methods
        if each.name.startswith(("Get", "List", "Compare", "Next"))
    },
}
WATCH = OURS + "Watch"
DANGEROUS = {"/api/v1/delete"}


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path_factory.mktemp("data"), server={"keys": KEYS}) as running:
        yield running


def bearer(key: str | None) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {key}"),) if key else ()


def code(collector: RunningCollector, method: str, key: str | None) -> tuple[grpc.StatusCode, str]:
    method_of: Any = collector.channel.unary_unary(method)
    call = method_of.future(b"", timeout=20, metadata=bearer(key))
    call.exception(timeout=20)
    return call.code(), call.details() or ""


def test_every_method_has_a_scope() -> None:
    ours = {OURS + each.name for each in pb.DESCRIPTOR.services_by_name["EvaluationService"].methods}
    listed = {method for methods in METHODS.values() for method in methods if method.startswith(OURS)}
    assert ours == listed | {WATCH}


@pytest.mark.parametrize(
    ("method", "needed"), [(method, scope) for scope, methods in METHODS.items() for method in sorted(methods)]
)
def test_a_method_takes_its_scope(collector: RunningCollector, method: str, needed: Scope) -> None:
    for scope in Scope:
        got, says = code(collector, method, scope)
        if scope in (needed, Scope.ADMIN):
            assert got not in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
        else:
            assert (got, says) == (
                grpc.StatusCode.PERMISSION_DENIED,
                f"the key '{scope}-only' does not have the scope {needed}",
            )
    assert code(collector, method, None)[0] is code(collector, method, "guess")[0] is grpc.StatusCode.UNAUTHENTICATED


def test_a_method_that_is_not_listed_takes_all_rights(collector: RunningCollector) -> None:
    assert code(collector, OURS + "DropTables", "read")[0] is grpc.StatusCode.PERMISSION_DENIED
    assert code(collector, OURS + "DropTables", "admin")[0] is grpc.StatusCode.UNIMPLEMENTED


def test_an_agent_that_may_only_write_watches_its_own_process(collector: RunningCollector) -> None:
    watch: Any = collector.channel.unary_stream(WATCH)
    with ExitStack() as ended:
        for key, process_id in (("write", "p-1"), ("read", ""), ("admin", "")):
            call = watch(pb.WatchRequest(process_id=process_id).SerializeToString(), 20, metadata=bearer(key))
            ended.callback(call.cancel)
            call.initial_metadata()
            assert call.is_active()
    for key, says in (("write", "without the scope read"), ("label", "does not have the scope read or write")):
        with pytest.raises(grpc.RpcError, match=says):
            next(watch(b"", 20, metadata=bearer(key)))


def test_a_watcher_whose_key_is_removed_hears_no_more(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    keys.write_text(json.dumps([{"name": "page", "key": "r" * 32, "scopes": ["read"]}]))
    with RunningCollector(tmp_path / "data", server={"keys_file": keys}) as running:
        watch: Any = running.channel.unary_stream(WATCH)
        call = watch(b"", 60, metadata=bearer("r" * 32))
        call.initial_metadata()
        keys.write_text(json.dumps([{"name": "other", "key": "o" * 32, "scopes": ["read"]}]))
        with pytest.raises(grpc.RpcError, match="not known any more"):
            next(call)


@pytest.mark.parametrize("path", [each.path for each in WRITE_ENDPOINTS if each.scope is Scope.LABEL])
def test_who_may_label_reads_nothing_in_the_answer(path: str) -> None:
    bodies: dict[str, dict[str, object]] = {
        "/api/v1/labels": {"trace_id": GOOD_TRACE, "name": "coherence", "value": 1.0},
        "/api/v1/problems/{problem_id}/mute": {"until": None},
        "/api/v1/problems/{problem_id}/merge": {"into": KNOWN_PROBLEM},
        "/api/v1/judge": {"trace_ids": [GOOD_TRACE]},
    }
    queries = travel_agent()
    queries.recurring.append(problem("search: timeout"))
    app = app_of(queries, MemoryReports(), ring=ring_of(*KEYS))
    with serve(app) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        answers = {
            scope: client.post(
                path.format(problem_id=KNOWN_PROBLEM),
                json=bodies.get(path, {}),
                headers={"authorization": f"Bearer {scope}"},
            )
            for scope in (Scope.LABEL, Scope.ADMIN)
        }
    assert {answer.status_code for answer in answers.values()} == {200}, answers
    texts = [text for text in strings(answers[Scope.LABEL].json()) if text]
    assert texts == []


def strings(value: Any) -> Iterator[str]:
    """Yield all texts in a document but its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def test_health_needs_no_key(collector: RunningCollector) -> None:
    check: Any = collector.channel.unary_unary("/grpc.health.v1.Health/Check")
    assert check(b"", timeout=20) == b"\x08\x01"


def test_every_address_of_the_web_port_takes_its_scope() -> None:
    app = app_of(
        travel_agent(),
        MemoryReports(),
        metrics=lambda _accept: (b"", "text/plain"),
        health=lambda: None,
        ring=ring_of(*KEYS),
    )
    routes = [each for each in app.state.routes if isinstance(each, Route)]
    assert len(routes) > 30
    # A connection for each request: one that is kept could be closed just as the next request leaves.
    alone = httpx.Limits(max_keepalive_connections=0)
    with serve(app) as url, httpx.Client(base_url=url, trust_env=False, timeout=60, limits=alone) as client:
        for route in routes:
            path = route.path.replace("{", "").replace(":anytext", "").replace(":path", "").replace("}", "")
            for method in sorted((route.methods or set()) - {"HEAD"}):
                needed = Scope.READ if method == "GET" else Scope.ADMIN if path in DANGEROUS else Scope.LABEL
                statuses = {
                    scope: client.request(method, path, headers={"authorization": f"Bearer {scope}"}).status_code
                    for scope in Scope
                }
                nobody = client.request(method, path).status_code
                if path in ("/healthz", "/readyz"):
                    assert {*statuses.values(), nobody} == {200}
                    continue
                assert nobody == 401, (method, path)
                turned_away = {scope for scope, status in statuses.items() if status == 403}
                assert turned_away == set(Scope) - {needed, Scope.ADMIN}, (method, path, statuses)


def test_otlp_over_http_takes_the_scope_write(collector: RunningCollector) -> None:
    for path in ("/v1/traces", "/v1/logs"):
        statuses = {
            scope: httpx.post(
                f"http://{collector.addresses['http']}{path}",
                headers={"content-type": "application/x-protobuf", "authorization": f"Bearer {scope}"},
                timeout=20,
                trust_env=False,
            ).status_code
            for scope in Scope
        }
        assert statuses == {Scope.WRITE: 200, Scope.READ: 403, Scope.LABEL: 403, Scope.ADMIN: 200}


def test_who_writes_and_who_is_turned_away_is_in_the_audit_log(
    collector: RunningCollector, caplog: pytest.LogCaptureFixture
) -> None:
    def told(**fields: object) -> bool:
        lines = (json.loads(each.message) for each in caplog.records if each.name == "agenteval_collector.audit")
        return any(fields.items() <= line.items() for line in lines)

    caplog.set_level(logging.INFO)
    resolve = f"/api/v1/problems/{'0' * 32}/resolve"
    web = f"http://{collector.addresses['web']}"
    httpx.post(web + resolve, json={}, headers={"authorization": "Bearer label"}, timeout=20, trust_env=False)
    about = {"result": "allowed", "caller": "label-only", "tenant": "default", "action": f"POST {resolve}"}
    eventually(lambda: told(**about, status=400))
    assert "Bearer" not in "".join(each.message for each in caplog.records if '"allowed"' in each.message)


def audited(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [json.loads(each.message) for each in caplog.records]


def test_what_programs_repeat_is_told_once_in_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    audit = Audit(clock)
    shop = Caller("shop", "acme")
    for port in range(100):
        audit.allowed(shop, (Scope.WRITE,), "Export", f"ipv4:10.0.0.1:{port}")
        audit.allowed(shop, (Scope.READ,), "GET /", f"ipv4:10.0.0.1:{port}")
        audit.refused(None, "Export", f"ipv4:10.0.0.2:{port}", "a key is needed")
    assert [(each["result"], each["caller"]) for each in audited(caplog)] == [("allowed", "shop"), ("refused", None)]
    caplog.clear()
    clock.advance(61)
    audit.allowed(shop, (Scope.LABEL,), "POST /api/v1/labels", "10.0.0.1:1")
    assert [each.get("more") for each in audited(caplog)] == [99, 99, None]


def test_strangers_cannot_fill_the_disk_with_audit_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    audit = Audit(clock)
    for number in range(5 * LINES_PER_WINDOW):
        audit.refused(None, "GET /" + "x" * 10_000 + "\n\x1b[2J", f"{number}:1", "a key is needed")
    assert len(caplog.records) == LINES_PER_WINDOW
    assert all(len(each.message) < 500 and each.message.isprintable() for each in caplog.records)
    caplog.clear()
    clock.advance(61)
    audit.refused(None, "GET /", "1:1", "a key is needed")
    assert audited(caplog)[0] == {"left_out": 4 * LINES_PER_WINDOW}
