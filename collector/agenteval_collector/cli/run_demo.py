"""Run the sample agents with a collector of their own, and show the findings and scores meanwhile."""

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
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypedDict

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from agenteval_collector.app.collector import Collector
from agenteval_collector.cli.demo_agents import play
from agenteval_collector.cli.demo_scripts import SCRIPTS
from agenteval_collector.cli.settings import effective
from agenteval_collector.cli.tables import finding_table, session_table, trace_table
from agenteval_collector.cli.terminal import console, fail, failing_on
from agenteval_collector.config.settings import ServerConfig
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.model.session_filter import Order, SessionFilter
from agenteval_collector.runtime.addresses import split_address
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.serve.api.trace_documents import FindingDocument, SessionDocument, TraceDocument

SCORED_WITHIN = 20.0
"""Seconds to wait for the last scores after the agents are done."""
JUDGED_WITHIN = 60.0
"""Seconds to wait for a judge after that. Scores that are still missing then are shown as pending."""
REFRESH = 0.25
DEFAULT_URL = f"http://{ServerConfig().web_address}"


class _DemoResult(TypedDict):
    """The output of `--json`: the sample sessions and traces in the shapes of the API, and a count of each finding."""

    sessions: list[SessionDocument | None]
    traces: list[TraceDocument]
    findings: dict[str, int]
    metrics_url: str


def run(*, once: bool, as_json: bool) -> None:
    """Carry out `agenteval demo`."""
    logging.basicConfig(force=True, stream=sys.stderr, level=logging.WARNING)
    # With --json, stdout has nothing but the JSON.
    out = console(stderr=as_json)
    with tempfile.TemporaryDirectory(prefix="agenteval-demo-") as folder:
        settings = effective(None, {"data_dir": folder, "server": _addresses()})
        with failing_on(ConfigError):
            collector = Collector(settings)
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
    """Return each default address if its port is free, else port 0 of loopback: any free port."""
    wanted = ServerConfig().model_dump(include={"grpc_address", "http_address", "web_address"})
    return {name: address if _free(address) else "127.0.0.1:0" for name, address in wanted.items()}


def _free(address: str) -> bool:
    try:
        with socket.create_server(split_address(address)):
            return True
    except OSError:
        return False


def _watch_agents(collector: Collector, addresses: Mapping[str, str], out: Console) -> None:
    """Run the sample agents side by side, and show meanwhile what the collector finds."""
    endpoint, queries = f"http://{addresses['grpc']}", collector.pipeline.queries
    with ThreadPoolExecutor(len(SCRIPTS), "sample-agent") as pool, Live(console=out, auto_refresh=False) as live:

        def show() -> None:
            live.update(demo_view(queries, out.width), refresh=True)

        playing = [pool.submit(play, script, endpoint, time.sleep) for script in SCRIPTS]
        while wait(playing, timeout=REFRESH).not_done:
            show()
        expected = sum(player.result() for player in playing)
        deadline = time.monotonic() + SCORED_WITHIN
        while (scored := len(sample_traces(queries))) < expected:
            if time.monotonic() > deadline:
                fail(f"only {scored} of {expected} traces were scored within {SCORED_WITHIN:.0f} s")
            time.sleep(REFRESH)
            show()
        # A judge may take longer. The demo does not fail without its scores: they are shown as pending.
        deadline = time.monotonic() + JUDGED_WITHIN
        while any(trace["status"] == "pending" for trace in sample_traces(queries)) and time.monotonic() < deadline:
            time.sleep(REFRESH)
            show()
        # No session goes on, so none has to wait until it is idle.
        for script in SCRIPTS:
            collector.pipeline.reports.end_session(script.session)
        show()


def _result(collector: Collector, addresses: Mapping[str, str]) -> _DemoResult:
    """Return the document that `--json` prints. End the command unless /metrics holds both scores and findings."""
    metrics_url = f"http://{addresses['web']}/metrics"
    with urllib.request.urlopen(metrics_url, timeout=10) as response:
        metrics = response.read().decode()
    for series in ("gen_ai_evaluation_score_count{", "agenteval_findings_total{"):
        if series not in metrics:
            fail(f"{metrics_url} answers, but has no {series.rstrip('{')}")
    sessions = [collector.pipeline.queries.session(script.session) for script in SCRIPTS]
    traces = sample_traces(collector.pipeline.queries)
    findings = Counter(finding["kind"] for trace in traces for finding in trace["findings"])
    return {"sessions": sessions, "traces": traces, "findings": findings, "metrics_url": metrics_url}


def _where_next(addresses: Mapping[str, str], *, serving: bool) -> str:
    web = f"http://{addresses['web']}"
    command = "agenteval" if shutil.which("agenteval") else os.path.relpath(sys.argv[0])
    flag = "" if web == DEFAULT_URL else f" --url {web}"
    now = f"""
The collector goes on until you press Ctrl-C. Meanwhile
  look            {web}/
  scrape          {web}/metrics
  list sessions   {command} sessions --order attention{flag}
  ask why         {command} why TRACE{flag}
"""
    return (
        (now if serving else "")
        + f"""
Your own agent, instrumented by any OpenTelemetry GenAI instrumentation:
  {command} collector                       # findings, scores and /metrics on {DEFAULT_URL}
  {command} run -- python your_agent.py     # or: import otel_agenteval; otel_agenteval.attach()
"""
    )


def _stays(once: bool) -> bool:
    """Return whether the command stays: somebody is there to look at the pages and to press Ctrl-C."""
    return not once and sys.stdin.isatty() and sys.stdout.isatty()


def _until_interrupted() -> None:
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        typer.echo()


def demo_view(queries: Queries, width: int) -> Group:
    """Return tables of the sessions, the worst first, of their findings, and of each trace's scores."""
    names = {script.session for script in SCRIPTS}
    listed = queries.sessions(SessionFilter(order=Order.ATTENTION)).items
    sessions = [session for session in listed if session["session_id"] in names]
    traces = sorted(sample_traces(queries), key=lambda trace: trace["started_at"] or "")
    findings = {session["session_id"]: list[FindingDocument]() for session in sessions}
    for trace in traces:
        findings.setdefault(trace["session_id"], []).extend(trace["findings"])
    tables = session_table(sessions, now=SystemClock().now(), width=width), finding_table(findings), trace_table(traces)
    return Group(tables[0], Text(), tables[1], Text(), tables[2])


def sample_traces(queries: Queries) -> list[TraceDocument]:
    """Return the evaluated traces of the sample agents, by session and time."""
    traces: list[TraceDocument] = []
    for script in SCRIPTS:
        session = queries.session(script.session)
        ids = session["trace_ids"] if session else []
        traces += [trace for trace in map(queries.trace, ids) if trace is not None]
    return traces
