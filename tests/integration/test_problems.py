"""Problems of a real collector: over HTTP, over gRPC, on the command line, on /metrics."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status as SpanStatus

from otel_agenteval.proto.v1.evaluation_pb2 import MuteProblemRequest, ResolveProblemRequest
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from tests.integration.test_cli_label import agenteval
from tests.support import asking
from tests.support.eventually import eventually
from tests.support.otlp import span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

UNKNOWN = "0" * 16
EVIL = {"Origin": "http://evil.example"}


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path) as running:
        yield running


def fail(collector: RunningCollector, number: int, error: str, version: str = "1") -> None:
    """Send a turn that ends in this error, and wait until it is scored."""
    root = turn(number, "May I have my money back?", None, session=f"s-{number}")
    root.status.CopyFrom(SpanStatus(code=SpanStatus.STATUS_CODE_ERROR, message=error))
    request = traces(root)
    request.resource_spans[0].resource.attributes.add(key="service.version").value.string_value = version
    collector.send(request)
    collector.scored(trace_id(number).hex())


def items(collector: RunningCollector, query: str = "") -> list[Any]:
    listed: list[Any] = collector.get(f"/api/v1/problems{query}")["items"]
    return listed


def stub(collector: RunningCollector) -> Any:
    return EvaluationServiceStub(collector.channel)


def levels(collector: RunningCollector) -> dict[str, float]:
    """The gauge's value of each state."""
    lines = [line for line in collector.get("/metrics").splitlines() if line.startswith("agenteval_problems{")]
    return {line.split('problem_state="')[1].split('"')[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_errors_that_differ_in_numbers_are_one_problem_until_it_is_resolved_and_comes_back(
    collector: RunningCollector,
) -> None:
    for number in range(1, 6):
        fail(collector, number, f"no order {number * 977} in shard {number}", version="2" if number > 3 else "1")
    [problem] = items(collector)
    assert problem["title"] == "Turn ends in an error: no order … in shard …"
    assert (problem["traces"], problem["sessions"], problem["versions"]) == (5, 5, {"1": 3, "2": 2})
    assert (problem["state"], problem["severity"], problem["first_version"]) == ("new", "error", "1")
    assert problem["examples"][0] == trace_id(5).hex()
    assert sum(problem["trend"]) == 5
    assert collector.get(f"/api/v1/problems/{problem['problem_id']}") == problem
    assert levels(collector) == {"new": 1, "ongoing": 0, "regressed": 0, "muted": 0, "resolved": 0}

    stub(collector).ResolveProblem(ResolveProblemRequest(problem_id=problem["problem_id"], author="anna"), timeout=20)
    [resolved] = items(collector, "?state=resolved")
    assert (resolved["resolved_by"], levels(collector)["resolved"]) == ("anna", 1)
    fail(collector, 6, "no order 1 in shard 0")
    [back] = items(collector)
    assert (back["state"], back["traces"], back["resolved_at"]) == ("regressed", 6, None)


def test_a_muted_problem_goes_on_to_be_counted(collector: RunningCollector) -> None:
    fail(collector, 1, "boom")
    [problem] = items(collector)
    until = 4_000_000_000 * 10**9
    muting = MuteProblemRequest(problem_id=problem["problem_id"], until_unix_nano=until, author="bo")
    stub(collector).MuteProblem(muting, timeout=20)
    fail(collector, 2, "boom")
    [muted] = items(collector)
    assert (muted["state"], muted["muted_until"], muted["muted_by"], muted["traces"]) == (
        "muted", "2096-10-02T07:06:40.000000Z", "bo", 2,
    )  # fmt: skip
    stub(collector).MuteProblem(MuteProblemRequest(problem_id=problem["problem_id"]), timeout=20)
    assert items(collector)[0]["state"] == "new"


def test_a_tool_that_fails_until_the_turn_fails_is_one_problem_that_says_what_followed(
    collector: RunningCollector,
) -> None:
    root = turn(1, "May I have my money back?", None, session="s")
    root.status.CopyFrom(SpanStatus(code=SpanStatus.STATUS_CODE_ERROR, message="no connection to shard 7"))
    calls = [
        span(1, number, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="refund")
        for number in (2, 3, 4)
    ]
    for number, item in enumerate(calls):
        item.start_time_unix_nano = root.start_time_unix_nano + 10 * number + 1
        item.end_time_unix_nano = root.start_time_unix_nano + 10 * number + 9
        item.status.CopyFrom(root.status)
    [count] = [item for item in root.attributes if item.key == "agenteval.trace.span_count"]
    count.value.int_value = 4
    collector.send(traces(*calls, root))
    collector.scored(trace_id(1).hex())
    [problem] = eventually(lambda: [each for each in [items(collector)] if len(each) == 1])[0]
    assert (problem["kind"], problem["tool"], problem["severity"]) == ("tool_failed", "refund", "error")
    assert problem["cause"] == {
        "trace_id": trace_id(1).hex(), "span_id": calls[0].span_id.hex(), "turn": 0, "agent": "planner",
        "what": "refund failed: no connection to shard 7", "told_by": "tool_failed", "tool": "refund", "traces": 1,
    }  # fmt: skip
    assert {each["kind"]: each["traces"] for each in problem["followed"]} == {"error_storm": 1, "turn_failed": 1}
    printed = agenteval("problems", problem["problem_id"], "--url", f"http://{collector.addresses['web']}").stdout
    assert "It begins with: refund failed: no connection to shard 7, by planner, tool refund (1 of 1)." in printed
    assert "Followed by error_storm in 1 trace." in printed


def test_problems_outlive_the_process(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        fail(collector, 1, "boom")
        before = items(collector)
    with RunningCollector(tmp_path) as collector:
        assert items(collector) == before


@pytest.mark.parametrize("method", ["ResolveProblem", "MuteProblem"])
@pytest.mark.parametrize(
    ("problem_id", "code"), [(UNKNOWN, grpc.StatusCode.NOT_FOUND), ("no id", grpc.StatusCode.INVALID_ARGUMENT)]
)
def test_what_is_no_problem_is_refused(
    collector: RunningCollector, method: str, problem_id: str, code: grpc.StatusCode
) -> None:
    request = {"ResolveProblem": ResolveProblemRequest, "MuteProblem": MuteProblemRequest}[method]
    with pytest.raises(grpc.RpcError) as refused:
        getattr(stub(collector), method)(request(problem_id=problem_id), timeout=20)
    assert refused.value.code() is code


def test_the_command_line_lists_resolves_and_mutes(collector: RunningCollector) -> None:
    url = f"http://{collector.addresses['web']}"
    assert agenteval("problems", "--url", url).stdout.startswith("No problems")
    fail(collector, 1, "no order 12\x1b[2J")
    shown = agenteval("problems", "--url", url).stdout
    assert "Turn ends in an error: no order …" in shown
    assert f"agenteval why {trace_id(1).hex()}" in shown
    assert "\x1b" not in shown
    [problem] = json.loads(agenteval("problems", "--json", "--url", url).stdout)["items"]
    problem_id = problem["problem_id"]
    told = agenteval("mute", problem_id, "--for", "8h", "--url", url).stdout
    assert re.fullmatch(rf"{problem_id} is muted until \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.\n", told)
    assert items(collector)[0]["state"] == "muted"
    assert "not muted any more" in agenteval("mute", problem_id, "--end", "--url", url).stdout
    assert agenteval("resolve", problem_id, "--by", "anna", "--url", url).exit_code == 0
    assert items(collector)[0]["resolved_by"] == "anna"
    assert "problem_id is 'x'" in agenteval("resolve", "x", "--url", url).stderr
    assert "--for is 'soon'" in agenteval("mute", problem_id, "--for", "soon", "--url", url).stderr
    assert "state is 'odd', not one of" in agenteval("problems", "--state", "odd", "--url", url).stderr


def page(collector: RunningCollector, path: str) -> httpx.Response:
    return asking.get(f"http://{collector.addresses['web']}{path}", trust_env=False)


def token_in(response: httpx.Response) -> str:
    return response.text.split('name="token" value="')[1].split('"')[0]


def test_the_first_page_begins_with_open_problems(collector: RunningCollector) -> None:
    assert "<h2>Problems</h2>" not in page(collector, "/").text
    fail(collector, 1, "no order 12 <script>alert(1)</script>")
    shown = page(collector, "/").text
    assert shown.index("<h2>Problems</h2>") < shown.index("<h2>Sessions</h2>")
    assert "Turn ends in an error: no order … &lt;script&gt;alert(…)" in shown
    assert "<script>" not in shown
    assert page(collector, "/problems?state=resolved").text.count("/problems/") == 0
    assert page(collector, "/problems?state=odd").status_code == 400


def test_the_page_of_a_problem_says_what_happened_in_its_examples(collector: RunningCollector) -> None:
    fail(collector, 1, "no order 12 <script>alert(1)</script>")
    [problem] = items(collector)
    [trace_id] = problem["examples"]
    session = collector.get(f"/api/v1/traces/{trace_id}")["session_id"]
    shown = page(collector, f"/problems/{problem['problem_id']}").text
    assert "no order 12 &lt;script&gt;alert(1)" in shown
    assert f'href="/traces/{trace_id}"' in shown
    assert f'href="/sessions/{session}"' in shown


def test_a_problem_is_resolved_muted_and_unmuted_on_its_page(collector: RunningCollector) -> None:
    fail(collector, 1, "boom")
    [problem] = items(collector)
    path = f"/problems/{problem['problem_id']}"
    token = token_in(page(collector, path))
    for say, state in (("muted", "muted"), ("unmuted", "new"), ("resolved", "resolved")):
        url = f"http://{collector.addresses['web']}{path}"
        answer = asking.post(url, data={"token": token, "say": say}, trust_env=False)
        assert (answer.status_code, answer.headers["location"]) == (303, path)
        assert items(collector)[0]["state"] == state


def titles(collector: RunningCollector) -> dict[str, str]:
    return {item["title"].removeprefix("Turn ends in an error: "): item["problem_id"] for item in items(collector)}


def test_problems_are_merged_and_taken_apart_by_commands(collector: RunningCollector) -> None:
    fail(collector, 1, "timed out")
    fail(collector, 2, "no answer")
    url = f"http://{collector.addresses['web']}"
    part, into = (titles(collector)[name] for name in ("timed out", "no answer"))
    merged = agenteval("merge", part, into, "--by", "anna", "--url", url)
    assert merged.stdout == f"{part} is part of {into} now, which has 2 traces.\n"
    fail(collector, 3, "timed out")
    [whole] = items(collector)
    assert (whole["problem_id"], whole["traces"], whole["merged"]) == (into, 3, [part])
    assert agenteval("split", into, "--url", url).exit_code == 0
    assert set(titles(collector)) == {"timed out", "no answer"}
    assert "nothing was merged" in agenteval("split", into, "--url", url).stderr
    assert "itself" in agenteval("merge", into, into, "--url", url).stderr
    assert "not known" in agenteval("merge", into, UNKNOWN, "--url", url).stderr


def test_a_problem_is_split_by_its_texts_and_put_together_on_its_page(collector: RunningCollector) -> None:
    fail(collector, 1, "no <b>order</b> 12")
    fail(collector, 2, "no <b>order</b> 13")
    [whole] = items(collector)
    path = f"/problems/{whole['problem_id']}"
    url = f"http://{collector.addresses['web']}"

    def say(path: str, **data: str) -> httpx.Response:
        data = {"token": token_in(page(collector, path)), **data}
        return asking.post(url + path, data=data, trust_env=False)

    assert say(path, say="split by text").status_code == 303
    texts = items(collector)
    assert {(item["traces"], item["split_from"]) for item in texts} == {(1, whole["problem_id"])}
    shown = page(collector, f"/problems/{texts[0]['problem_id']}").text
    assert "Put its problem together again" in shown
    assert "<b>order" not in shown
    back = say(f"/problems/{texts[0]['problem_id']}", say="merged", into=whole["problem_id"])
    assert (back.status_code, back.headers["location"]) == (303, path)
    assert [(item["problem_id"], item["traces"]) for item in items(collector)] == [(whole["problem_id"], 2)]


@pytest.mark.parametrize(
    ("path", "data", "headers", "status"),
    [
        pytest.param("", {"say": "resolved"}, {}, 403, id="no token"),
        pytest.param("", {"say": "resolved", "token": "x"}, {}, 403, id="another token"),
        pytest.param("", {"say": "resolved", "token": "own"}, EVIL, 403, id="another site"),
        pytest.param("", {"say": "split by text"}, {}, 403, id="no token to split"),
        pytest.param("", {"say": "merged", "into": UNKNOWN}, {}, 403, id="no token to merge"),
        pytest.param("", {"say": "merged", "into": UNKNOWN, "token": "own"}, {}, 404, id="merged into an unknown one"),
        pytest.param("", {"say": "gone", "token": "own"}, {}, 400, id="nothing that can be said"),
        pytest.param(UNKNOWN, {"say": "resolved", "token": "own"}, {}, 404, id="an unknown problem"),
        pytest.param("no-id", {"say": "resolved", "token": "own"}, {}, 400, id="no id"),
    ],
)
def test_nobody_else_says_something_of_a_problem(
    collector: RunningCollector, path: str, data: dict[str, str], headers: dict[str, str], status: int
) -> None:
    fail(collector, 1, "boom")
    [problem] = items(collector)
    if data.get("token") == "own":
        data = {**data, "token": token_in(page(collector, f"/problems/{problem['problem_id']}"))}
    url = f"http://{collector.addresses['web']}/problems/{path or problem['problem_id']}"
    assert asking.post(url, data=data, headers=headers, trust_env=False).status_code == status
    assert items(collector) == [problem]
