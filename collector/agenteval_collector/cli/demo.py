"""`agenteval demo`."""

import json
import logging
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from agenteval_collector.cli.settings import effective, fail
from agenteval_collector.cli.tables import session_table, trace_table
from agenteval_collector.cli.terminal import console
from agenteval_collector.clock import SystemClock
from agenteval_collector.config import ConfigError, ServerConfig
from agenteval_collector.demo.agents import play
from agenteval_collector.demo.scripts import SCRIPTS
from agenteval_collector.pipeline import Document
from agenteval_collector.servers import split_address
from agenteval_collector.service import Collector

SCORED_WITHIN = 20.0
"""Seconds to wait for the last scores after the agents are done."""
JUDGED_WITHIN = 60.0
"""Seconds to wait for a judge on top of that; what it has not said by then is shown as pending."""
REFRESH = 0.25
DEFAULT_URL = f"http://{ServerConfig().web_address}"


def demo(
    once: Annotated[bool, typer.Option("--once", help="End when the sample agents are done and scored.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print {sessions, traces, findings, metrics_url} at the end.")
    ] = False,
) -> None:
    """Start a collector, let four sample agents talk to it, and watch their scores; needs no key and no network.

    Where OPENAI_BASE_URL or OPENAI_API_KEY is set, a judge scores them too.
    """
    logging.basicConfig(force=True, stream=sys.stderr, level=logging.WARNING)
    out = console(stderr=as_json)
    with tempfile.TemporaryDirectory(prefix="agenteval-demo-") as folder:
        settings = effective(None, {"data_dir": folder, "server": _addresses()})
        try:
            collector = Collector(settings)
        except ConfigError as error:
            fail(str(error))
        try:
            addresses = collector.start()
            _watch_agents(collector, addresses, out)
            result = _result(collector, addresses)
            if as_json:
                print(json.dumps(result), flush=True)
            else:
                out.print(Text(_where_next(addresses, serving=_stays(once))), soft_wrap=True)
                if _stays(once):
                    _until_interrupted()
        finally:
            collector.shutdown()


def _addresses() -> dict[str, str]:
    """The default ports where they are free, any other where they are not."""
    wanted = ServerConfig().model_dump(include={"grpc_address", "http_address", "web_address"})
    return {name: address if _free(address) else "127.0.0.1:0" for name, address in wanted.items()}


def _free(address: str) -> bool:
    try:
        with socket.create_server(split_address(address)):
            return True
    except OSError:
        return False


def _watch_agents(collector: Collector, addresses: Mapping[str, str], out: Console) -> None:
    """Run the sample agents side by side, and show what the collector says of them meanwhile."""
    endpoint = f"http://{addresses['grpc']}"
    with (
        ThreadPoolExecutor(len(SCRIPTS), "sample-agent") as pool,
        Live(console=out, auto_refresh=False) as live,
    ):
        playing = [pool.submit(play, script, endpoint, time.sleep) for script in SCRIPTS]
        while wait(playing, timeout=REFRESH).not_done:
            live.update(_view(collector, out.width), refresh=True)
        expected = sum(done.result() for done in playing)
        deadline = time.monotonic() + SCORED_WITHIN
        while len(_traces(collector)) < expected:
            if time.monotonic() > deadline:
                fail(f"only {len(_traces(collector))} of {expected} traces were scored within {SCORED_WITHIN:.0f} s")
            time.sleep(REFRESH)
            live.update(_view(collector, out.width), refresh=True)
        deadline = time.monotonic() + JUDGED_WITHIN
        while any(trace["status"] == "pending" for trace in _traces(collector)) and time.monotonic() < deadline:
            time.sleep(REFRESH)
            live.update(_view(collector, out.width), refresh=True)
        for script in SCRIPTS:
            collector.reports.end_session(script.session)
        live.update(_view(collector, out.width), refresh=True)


def _view(collector: Collector, width: int) -> Group:
    sessions = sorted(collector.queries.sessions().items, key=lambda session: session["started_at"])
    traces = sorted(_traces(collector), key=lambda trace: trace["started_at"])
    kinds = _findings(traces)
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "none"
    findings = Text(f"Findings: {counted}", style="bold")
    tables = session_table(sessions, now=SystemClock().now(), width=width), Text(), trace_table(traces), Text()
    return Group(*tables, findings)


def _traces(collector: Collector) -> list[Document]:
    """The traces of the sample agents that are evaluated, by session and time."""
    found: list[Document] = []
    for script in SCRIPTS:
        session = collector.queries.session(script.session)
        ids = session["trace_ids"] if session else []
        found += [trace for trace in map(collector.queries.trace, ids) if trace is not None]
    return found


def _findings(traces: Sequence[Document]) -> dict[str, int]:
    """How many findings of each kind there are, the most frequent first."""
    return dict(Counter(finding["kind"] for trace in traces for finding in trace["findings"]).most_common())


def _result(collector: Collector, addresses: Mapping[str, str]) -> Document:
    """What `--json` prints. The metrics were fetched from the URL it names, and hold the scores."""
    metrics_url = f"http://{addresses['web']}/metrics"
    with urllib.request.urlopen(metrics_url, timeout=10) as response:
        metrics = response.read().decode()
    if "gen_ai_evaluation_score_count{" not in metrics:
        fail(f"{metrics_url} answers, but has no scores")
    sessions = [collector.queries.session(script.session) for script in SCRIPTS]
    traces = _traces(collector)
    return {"sessions": sessions, "traces": traces, "findings": _findings(traces), "metrics_url": metrics_url}


def _where_next(addresses: Mapping[str, str], *, serving: bool) -> str:
    web = f"http://{addresses['web']}"
    command = "agenteval" if shutil.which("agenteval") else os.path.relpath(sys.argv[0])
    flag = "" if web == DEFAULT_URL else f" --url {web}"
    now = f"""
The collector goes on until you press Ctrl-C. Meanwhile
  look            {web}/
  scrape          {web}/metrics
  list sessions   {command} sessions{flag}
  ask why         {command} why TRACE{flag}
"""
    return (
        (now if serving else "")
        + f"""
Your own agent, instrumented by any OpenTelemetry GenAI instrumentation:
  {command} collector                       # scores and /metrics on {DEFAULT_URL}
  {command} run -- python your_agent.py     # or: import otel_agenteval; otel_agenteval.attach()
"""
    )


def _stays(once: bool) -> bool:
    """Whether somebody is there to look and to press Ctrl-C."""
    return not once and sys.stdin.isatty() and sys.stdout.isatty()


def _until_interrupted() -> None:
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        typer.echo()
