"""The command `mcp`: a server of the Model Context Protocol in front of a collector."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Annotated, Any

import anyio
import typer

from agenteval_collector.cli.client import Key, Url, get, post
from agenteval_collector.cli.terminal import fail
from agenteval_collector.runtime.addresses import is_loopback, split_address
from otel_agenteval.reader import DEFAULT_URL, ApiError


def mcp(
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="ADDRESS",
            help="Serve http://ADDRESS/mcp on this machine, such as 127.0.0.1:4320, instead of stdin and stdout.",
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Offer resolving, muting and labelling, too. The key needs the scope label.")
    ] = False,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
) -> None:
    """Let a coding agent ask the collector: problems, sessions, traces, why, comparisons (MCP)."""
    try:
        from agenteval_collector.serve.mcp import mcp_server  # noqa: PLC0415
    except ImportError as error:
        fail(f"{error}: install the extra `mcp`, as in `pip install 'otel-agenteval[collector,mcp]'`")

    def ask(path: str) -> Any:
        return get(url, path, api_key)

    def tell(path: str, document: Mapping[str, Any]) -> Any:
        return post(url, path, document, api_key)

    server = mcp_server(ask, tell if write else None, ApiError, version("otel-agenteval"))
    if http is None:
        anyio.run(_on_standard_streams, server)
    else:
        _on_http(server, http)


async def _on_standard_streams(server: Any) -> None:
    from mcp.server.stdio import stdio_server  # noqa: PLC0415

    async with stdio_server() as (requests, answers):
        await server.run(requests, answers, server.create_initialization_options())


def _on_http(server: Any, address: str) -> None:
    import uvicorn  # noqa: PLC0415

    host, port = split_address(address)
    if not is_loopback(host):
        # Whoever reaches this port asks with the key of this command.
        fail(f"--http {address}: only an address of this machine, such as 127.0.0.1:4320, as no key is asked for here")
    app = server.streamable_http_app(host=host, json_response=True, stateless_http=True)
    typer.echo(f"http://{address}/mcp", err=True)
    uvicorn.run(app, host=host, port=port, log_level="warning")
