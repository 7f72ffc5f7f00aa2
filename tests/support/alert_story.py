"""A story of agents, a judge and two collectors in which every shipped alert fires, and resolves.

Each cause stands beside a near miss: something similar that must not alert anybody. Durations of rules and servers are
a `FACTOR` shorter than shipped. `benchmarks.alarm_weeks` has the alarms that compare an agent with weeks of its past.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
import yaml
from agenteval_collector.cli.demo_agents import play
from agenteval_collector.cli.demo_scripts import SCRIPTS

from otel_agenteval.proto.v1.evaluation_pb2 import EndSessionRequest, ResolveProblemRequest
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from tests.support import alertmanager, prometheus
from tests.support.alerting import written
from tests.support.alertmanager import Told, Webhook
from tests.support.collector_process import collector_process
from tests.support.eventually import eventually
from tests.support.fleet import DOLLARS_A_TOKEN, MODEL, Agent
from tests.support.judge.completions import Received
from tests.support.judge.filling import fill
from tests.support.judge.judge_server import JudgeServer
from tests.support.ports import free_port
from tests.support.prometheus import FACTOR, Prometheus
from tests.support.scaled import seconds

HOUR, DAY = (seconds(each) / FACTOR for each in ("1h", "1d"))
WITHIN = 240.0
"""Seconds until an alert is told, at most; more than any of the windows."""
POOR = "I cannot help with that."
STUCK = next(script for script in SCRIPTS if script.session == "demo-stuck")
SETTINGS = {
    "assembly": {"settle_logs": 0.2},
    "objectives": {
        "failing": {"failing": 0.05},
        **{agent: {"cost": 1.0, "owner": "team-money"} for agent in ("spender", "steady")},
    },
    "prices": {MODEL: {"input": DOLLARS_A_TOKEN * 1e6, "output": DOLLARS_A_TOKEN * 1e6}},
}
FEW_REQUESTS = {**SETTINGS, "judge": {"budget": {"requests_per_hour": 20}}}
ALARMS = {
    STUCK.agent: "loop",
    "worse": "regression",
    "spender": "spend",
    **dict.fromkeys(("failing", "hasty", "leaky", "flaky", "gloomy", "mixed"), "problem"),
}
"""The kind of alarm of each agent. The rate of `failing` is above its objective as well, which is the same incident."""
MANY_REQUESTS = {**SETTINGS, "judge": {"budget": {"requests_per_hour": 1_000_000}}}


class Place:
    """A collector with an address that stays the same when it is started anew."""

    def __init__(self, directory: Path, judge_url: str) -> None:
        self._directory = directory
        directory.mkdir()
        (directory / "data").mkdir()
        self._environ = {"OPENAI_BASE_URL": judge_url}
        self._ports = {name: free_port() for name in ("grpc", "http", "web")}
        self.web = f"127.0.0.1:{self._ports['web']}"
        self.endpoint = f"http://127.0.0.1:{self._ports['grpc']}"

    @contextmanager
    def running(self, settings: object) -> Iterator[None]:
        config = self._directory / "settings.yml"
        config.write_text(yaml.safe_dump(settings))
        flags = [f"--{name}-address=127.0.0.1:{port}" for name, port in self._ports.items()]
        with collector_process(self._directory / "data", self._environ, flags=[f"--config={config}", *flags]):
            yield

    def end(self, session_ids: Sequence[str]) -> None:
        """Report that sessions are over."""
        with grpc.insecure_channel(self.endpoint.removeprefix("http://")) as channel:
            for session_id in session_ids:
                EvaluationServiceStub(channel).EndSession(EndSessionRequest(session_id=session_id), timeout=10)

    def resolve(self) -> None:
        """Say of every problem that it is resolved."""
        with urllib.request.urlopen(f"http://{self.web}/api/v1/problems?limit=500", timeout=10) as response:
            problems = json.load(response)["items"]
        with grpc.insecure_channel(self.endpoint.removeprefix("http://")) as channel:
            for problem in problems:
                request = ResolveProblemRequest(problem_id=problem["problem_id"], author="ann")
                EvaluationServiceStub(channel).ResolveProblem(request, timeout=10)

    def refuse(self) -> None:
        """Send what is no telemetry."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._ports['http']}/v1/traces",
            data=b"\xff",
            headers={"content-type": "application/x-protobuf"},
        )
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(request, timeout=10)


class Story:
    """What happened, and what the webhook was told of it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.webhook = Webhook()
        self.prometheus: Prometheus
        self.pages: dict[str, int] = {}
        """The status of each page that an alert links to."""

    def tell(self) -> None:
        """Let it happen, from the start of all servers to the last alert that resolves."""
        with ExitStack() as stack:
            mine = JudgeServer(responder=_judge)
            other = stack.enter_context(JudgeServer())
            a, b = Place(self._directory / "a", mine.url), Place(self._directory / "b", other.url)
            address, self.webhook = stack.enter_context(alertmanager.start(self._directory))
            stack.enter_context(a.running(SETTINGS))
            with b.running(FEW_REQUESTS):
                self.prometheus = stack.enter_context(
                    prometheus.start(
                        [f"http://{place.web}/metrics" for place in (a, b)],
                        self._directory,
                        alertmanager=address,
                        history=_history(a.web, b.web),
                    )
                )
                eventually(lambda: len(self.prometheus.query("up == 1")) == 2, within=60)
                with mine:
                    self._causes(a, b)
                    self._ends(a, b)
                self._judge_away(a, mine.url)
                self._resolved()
            self._wait("CollectorDown")
            with b.running(MANY_REQUESTS):
                self._wait("CollectorDown", firing=False)
                self._wait("JudgeBudget", firing=False)

    def _causes(self, a: Place, b: Place) -> None:
        """Let everything go wrong that can beside a judge and a collector that are up."""
        with Agent(b.endpoint, "eager") as eager:
            eager.work(10)
        self._wait("JudgeBudget")
        self._what_lasts_for_an_hour(b)
        with Agent(b.endpoint, "worse") as worse, Agent(b.endpoint, "better") as better:
            b.end([*worse.work(60), *better.work(60)])
        sessions = self._low_sessions(a)
        with Agent(a.endpoint, "sighted") as sighted:
            sessions += sighted.work(12)
        a.refuse()
        self._shown('agenteval_collector_requests_refused_total{error_type="InvalidRequest"}')
        a.refuse()
        self._on_the_second_collector(b)
        with Agent(a.endpoint, "slow") as slow, slow.hang():
            self._wait("AgentSessionsLow", "gloomy")
            a.end(sessions)
            for name, agent in (
                *(("AgentAlarm", agent) for agent in ALARMS),
                ("CollectorSpansRefused", ""),
                ("AgentCoverageDrop", "blinded"),
                ("CollectorScoringBehind", ""),
                ("CollectorDiskFull", ""),
            ):
                self._wait(name, agent)

    def _what_lasts_for_an_hour(self, b: Place) -> None:
        with Agent(b.endpoint, "spender") as spender, Agent(b.endpoint, "steady") as steady:
            spender.work(12, dollars=2.0)
            steady.work(12, dollars=0.2)
        with Agent(b.endpoint, "blinded") as blinded:
            # The judge has no budget left for them.
            b.end(blinded.work(12))

    def _low_sessions(self, a: Place) -> list[str]:
        with (
            Agent(a.endpoint, "gloomy") as gloomy,
            Agent(a.endpoint, "mixed", "1") as mixed,
            Agent(a.endpoint, "mixed", "2") as also_mixed,
        ):
            return [*gloomy.work(10, answer=POOR), *mixed.work(5, answer=POOR), *also_mixed.work(5)]

    def _on_the_second_collector(self, b: Place) -> None:
        play(STUCK, b.endpoint, lambda _: None)
        patient = replace(STUCK, agent="patient", session="patient", turns=STUCK.turns[:2])
        play(patient, b.endpoint, lambda _: None)
        for name, sessions, failing in (("failing", 6, 6), ("hasty", 3, 3), ("leaky", 50, 10), ("flaky", 90, 8)):
            with Agent(b.endpoint, name) as agent:
                agent.work(1, failing=1)
                agent.flush()
                # A scrape that failed would have had the 0 with which a series begins.
                self._shown(f'agenteval_traces_total{{gen_ai_agent_name="{name}"}}')
                agent.work(sessions, failing=failing)
        with Agent(b.endpoint, "worse", "2") as worse, Agent(b.endpoint, "better", "2") as better:
            b.end([*worse.work(12, failing_tools=12), *better.work(12, failing_tools=1)])

    def _ends(self, a: Place, b: Place) -> None:
        """Let the causes end that do not do so by themselves."""
        for place in (a, b):
            place.resolve()
        with Agent(b.endpoint, "spender", "cheaper") as spender:
            spender.work(60, dollars=0.2)
        for version in ("3", "4", "5"):
            with Agent(b.endpoint, "worse", version) as worse:
                worse.work(1)

    def _resolved(self) -> None:
        """See all alerts resolve, and look at the pages that they link to."""
        told = self.webhook.told(firing=True)
        for name, agent in {(each.name, each.agent) for each in told if each.name != "JudgeBudget"}:
            self._wait(name, agent, firing=False)
        # Prometheus has no targets for its first five seconds, however short the rules wait: CollectorDown may say so.
        linked = {each.alert["annotations"]["page"] for each in told if "instance" in each.alert["labels"]}
        self.pages = {page: _status(page) for page in linked}

    def _judge_away(self, a: Place, judge_url: str) -> None:
        with Agent(a.endpoint, "waiting") as waiting:
            # An answer that was judged before would not be asked about again.
            waiting.work(3, answer="It waits at your neighbour's.")
        self._wait("JudgeDown")
        port = int(judge_url.split(":")[2].split("/", maxsplit=1)[0])
        with JudgeServer(responder=_judge, port=port):
            self._wait("JudgeDown", firing=False)

    def _shown(self, series: str) -> None:
        eventually(lambda: self.prometheus.query(f"{series} > 0"), within=60)

    def _wait(self, name: str, agent: str = "", *, firing: bool = True) -> None:
        eventually(lambda: self.webhook.told(name, agent, firing=firing), within=WITHIN)


def seconds_to_the_webhook(directory: Path) -> tuple[float, Told]:
    """Return the seconds from the end of a session that loops to the message about it, with all shipped intervals, and
    the alert."""
    (directory / "data").mkdir()
    with (
        collector_process(directory / "data") as addresses,
        alertmanager.start(directory, factor=1) as (address, webhook),
        prometheus.start(f"http://{addresses['web']}/metrics", directory, factor=1, alertmanager=address) as server,
    ):
        eventually(lambda: server.query("up == 1"), within=60)
        play(STUCK, f"http://{addresses['grpc']}", lambda _: None)
        ended = time.monotonic()
        told = eventually(lambda: webhook.told("AgentAlarm", firing=True), within=120)
        return told[0].at - ended, told[0]


def _judge(received: Received) -> str:
    return json.dumps(fill(received.schema or {"type": "object"}, 0.1 if POOR in received.text else 0.9))


def _status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=10) as response:
        return int(response.status)


def _history(first: str, second: str) -> str:
    """Return what Prometheus had scraped before: agents that had scores with coverage, and the disks of two
    tenants."""
    now = time.time()
    lines = []
    for agent, instance in (("sighted", first), ("blinded", second)):
        labels = {**_whose(agent, instance), "gen_ai_evaluation_name": "agent_reliability"}
        for what, step in (("sum", 0.625), ("count", 1.0)):
            name = written(f"agenteval_session_coverage_{what}", labels)
            lines += _counter(name, now - DAY, now - HOUR, step)
    # Nobody scrapes them again, so that the alert resolves once an hour of the rule is over.
    for tenant, step in (("filling", -2e8), ("roomy", -5e7)):
        disk = {"job": "agenteval", "instance": second, "agenteval_tenant": tenant}
        name = written("agenteval_collector_disk_free_bytes", disk)
        lines += _series(name, now - 5 * HOUR, now - 1.7 * HOUR, 1e11, step)
    return "".join(lines)


def _whose(agent: str, instance: str) -> dict[str, str]:
    labels = {"gen_ai_agent_name": agent, "service_name": agent, "service_version": "1"}
    return {**labels, "job": "agenteval", "instance": instance}


def _counter(series: str, since: float, until: float, step: float) -> list[str]:
    """Return a counter that rises by `step` every five seconds."""
    return _series(series, since, until, 0.0, step)


def _series(series: str, since: float, until: float, first: float, step: float) -> list[str]:
    """Return values that begin with `first` and change by `step` every five seconds."""
    return [
        f"{series} {first + step * number} {since + 5 * number:.3f}\n" for number in range(int((until - since) / 5))
    ]
