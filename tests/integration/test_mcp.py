"""A coding agent asks a collector, with the SDK's own client."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from otel_agenteval.reader import ApiError
from tests.support.eventually import eventually
from tests.support.otlp import span, traces
from tests.support.running_collector import RunningCollector

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
from agenteval_collector.serve.mcp import CUTS, MOST_CHARACTERS, READ_TOOLS, WRITE_TOOLS, mcp_server
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult

Use = Callable[[Client], Awaitable[Any]]
AGENTEVAL = Path(sys.executable).with_name("agenteval")
WRITES = {tool.name for tool in WRITE_TOOLS}


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """A collector with a trace whose tool failed."""
    root = span(1, 1, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="shop", session__id="s-1")
    tool = span(1, 2, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="find_order")
    tool.status.code, tool.status.message = Status.STATUS_CODE_ERROR, "KeyError: 'order_id'"
    with RunningCollector(tmp_path_factory.mktemp("data")) as running:
        running.send(traces(tool, root))
        eventually(lambda: running.get("/api/v1/problems")["items"])
        yield running


def used(collector: RunningCollector, use: Use, *options: str) -> Any:
    """Use the command over its standard streams."""
    command = [*options, "--url", f"http://{collector.addresses['web']}"]
    return over(StdioServerParameters(command=str(AGENTEVAL), args=["mcp", *command]), use)


def over(server: Any, use: Use) -> Any:
    async def session() -> Any:
        async with Client(server) as client:
            return await use(client)

    return asyncio.run(asyncio.wait_for(session(), 60))


def text(result: CallToolResult) -> str:
    [content] = result.content
    assert content.type == "text"
    return content.text


def test_from_a_problem_to_its_cause(collector: RunningCollector) -> None:
    async def use(client: Client) -> tuple[Any, ...]:
        [problem] = json.loads(text(await client.call_tool("problems", {"agent": "shop"})))["items"]
        of_problem = json.loads(text(await client.call_tool("traces", {"problem": problem["problem_id"]})))["items"]
        why = text(await client.call_tool("why", {"trace_id": of_problem[0]["trace_id"]}))
        otlp = json.loads(text(await client.call_tool("export_trace", {"trace_id": of_problem[0]["trace_id"]})))
        return problem, why, otlp

    problem, why, otlp = used(collector, use)
    assert "find_order" in problem["title"]
    assert "tool_failed in turn 1" in why
    assert "KeyError" in json.dumps(otlp)


def test_every_tool_that_reads_answers(collector: RunningCollector) -> None:
    async def use(client: Client) -> dict[str, CallToolResult]:
        [problem] = json.loads(text(await client.call_tool("problems", {})))["items"]
        [session] = json.loads(text(await client.call_tool("sessions", {})))["items"]
        trace_id = problem["examples"][0]
        known = {"problem_id": problem["problem_id"], "session_id": session["session_id"], "trace_id": trace_id}
        more: dict[str, dict[str, Any]] = {"why": {"session_id": "s-1"}, "compare": {"agent": "shop"}}
        versions = {"before": "1", "after": "2"}
        results = {}
        for tool in (await client.list_tools()).tools:
            needed = {name: {**known, **versions}.get(name, "shop") for name in tool.input_schema["required"]}
            results[tool.name] = await client.call_tool(tool.name, {**needed, **more.get(tool.name, {})})
        return results

    results = used(collector, use)
    assert set(results) == {tool.name for tool in READ_TOOLS}
    # The only version of the agent has no name.
    refusals = {name: text(result) for name, result in results.items() if result.is_error}
    assert set(refusals) <= {"compare"}, refusals


def test_it_writes_only_if_asked_to(collector: RunningCollector) -> None:
    async def names(client: Client) -> set[str]:
        return {tool.name for tool in (await client.list_tools()).tools}

    async def resolve(client: Client) -> Any:
        [problem] = json.loads(text(await client.call_tool("problems", {})))["items"]
        resolved = await client.call_tool("resolve_problem", {"problem_id": problem["problem_id"], "author": "ann"})
        return json.loads(text(resolved))["state"]

    assert not used(collector, names) & WRITES
    assert used(collector, names, "--write") >= WRITES
    assert used(collector, resolve, "--write") == "resolved"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("trace", {"trace_id": "0" * 31}, "trace_id"),
        ("trace", {}, "trace needs trace_id"),
        ("problems", {"agents": "shop"}, "no parameter 'agents'"),
        ("problems", {"limit": "many"}, "not of type integer"),
        ("why", {}, "either trace_id or session_id"),
        ("drop_tables", {}, "no tool 'drop_tables'"),
        ("session", {"session_id": "../../metrics"}, "session"),
    ],
)
def test_a_mistake_is_told_to_who_made_it(
    collector: RunningCollector, tool: str, arguments: Mapping[str, Any], says: str
) -> None:
    async def use(client: Client) -> CallToolResult:
        result = await client.call_tool(tool, dict(arguments))
        assert isinstance(result, CallToolResult)
        return result

    result = used(collector, use)
    assert result.is_error
    assert says in text(result)


def test_without_a_collector_it_says_so() -> None:
    async def use(client: Client) -> CallToolResult:
        result = await client.call_tool("problems", {})
        assert isinstance(result, CallToolResult)
        return result

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = StdioServerParameters(command=str(AGENTEVAL), args=["mcp", "--url", f"http://127.0.0.1:{port}"])
    result = over(server, use)
    assert result.is_error
    assert f"127.0.0.1:{port}" in text(result)


def test_it_serves_http_on_this_machine_alone(collector: RunningCollector) -> None:
    async def names(client: Client) -> set[str]:
        return {tool.name for tool in (await client.list_tools()).tools}

    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [str(AGENTEVAL), "mcp", "--url", f"http://{collector.addresses['web']}", "--http"]
    with subprocess.Popen([*command, address], stderr=subprocess.PIPE, text=True) as process:
        try:
            eventually(lambda: listens(address))
            assert over(f"http://{address}/mcp", names) == {tool.name for tool in READ_TOOLS}
        finally:
            process.terminate()
    refused = subprocess.run([*command, "0.0.0.0:4320"], capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1
    assert "only an address of this machine" in refused.stderr


def listens(address: str) -> bool:
    host, port = address.split(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=5):
        return True
    return False


def answer_of(document: Any, tool: str = "trace") -> CallToolResult:
    async def use(client: Client) -> CallToolResult:
        result = await client.call_tool(tool, {"trace_id": "1" * 32})
        assert isinstance(result, CallToolResult)
        return result

    server = mcp_server(lambda path: document, None, ApiError, "1")
    result = over(server, use)
    assert isinstance(result, CallToolResult)
    return result


def test_long_texts_are_cut_and_say_so() -> None:
    result = answer_of({"input": "x" * 200_000, "output": "short"})
    answer = json.loads(text(result))
    assert len(text(result)) <= MOST_CHARACTERS
    assert answer == {"input": f"{'x' * CUTS[0]}… ({200_000 - CUTS[0]:,} more characters)", "output": "short"}


def test_an_answer_that_cannot_fit_is_an_error_with_advice() -> None:
    assert "lower the limit" in text(answer_of({"items": list(range(50_000))}))
    # A recording that is cut would be another one.
    whole = answer_of({"resourceSpans": "x" * 200_000}, "export_trace")
    assert whole.is_error
    assert "agenteval export" in text(whole)
