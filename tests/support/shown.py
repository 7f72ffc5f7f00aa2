"""All that alerts look at, as a collector shows it on `/metrics`, of an agent `planner` in the service `shop`."""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from agenteval_collector.config.objectives import ObjectiveConfig
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.model.agent_work import work_of
from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.alarms import AgentAlarm, AlarmKey, AlarmKind, AlarmSeverity, AlarmState, DeployedAgent
from agenteval_collector.model.counters import Counted
from agenteval_collector.model.judge_jobs import BudgetLevel
from agenteval_collector.model.logged_requests import LogLag
from agenteval_collector.model.news import CommittedEvaluation, News, WorstFinding
from agenteval_collector.model.problem import ProblemCount, ProblemState
from agenteval_collector.model.regressions import Regression
from prometheus_client.parser import text_string_to_metric_families

from otel_agenteval.finding import Severity
from otel_agenteval.model import ModelCall, Trace, Turn
from otel_agenteval.outcome import SubjectKind
from tests.support.evaluations import committed
from tests.support.findings import loop_found
from tests.support.rendering import rendered
from tests.support.sessions import Past, Sessions, level

TARGET = {"job": "agenteval", "instance": "127.0.0.1:4319"}
"""The labels that Prometheus adds."""


class Sample(NamedTuple):
    """A sample of the page."""

    name: str
    labels: dict[str, str]


class _Worse:
    """A version that is worse by an evaluator, and by a kind of finding."""

    def figures(self) -> Iterable[Regression]:
        whose = {"agent": "planner", "service": "shop", "version": "1.2.0"}
        yield Regression(**whose, evaluator="task_completion", evidence=25.0)
        yield Regression(**whose, kind="turn_failed", evidence=25.0)


class _Assembling:
    """An assembly that waits."""

    open_traces, late = 1, 1.0

    def lag(self) -> LogLag:
        return LogLag(requests=1, oldest_age=1.0)


class _Queue:
    """A judge that is away."""

    waiting, paused = 1, True


def _feed_judge(telemetry: TelemetryOutput) -> None:
    judge = telemetry.judge({"small"})
    waiting: Any = _Queue()
    judge.observe_stage(waiting)
    judge.observe_budget(lambda: [BudgetLevel("requests_per_hour", 9, 10)])


def _over() -> CommittedEvaluation:
    """The final score of a session."""
    return committed(name="agent_reliability", subject=SubjectKind.SESSION, final=True)


_ALARM = AgentAlarm(
    alarm_id="3f0c6a52d1e47b98",
    key=AlarmKey(DeployedAgent("prod", "shop", "planner"), AlarmKind.TOOL_FAILING, "find_order"),
    severity=AlarmSeverity.WARNING,
    owner="team-shop",
    state=AlarmState.FIRING,
    since=1,
    until=None,
    title="planner: tool find_order fails more often than usual",
    evidence="31% of the last traces failed; usually 0.8% do.",
    problem_id=None,
    examples=[],
)


@cache
def samples() -> Sequence[Sample]:
    """Return the samples of the second scrape: the first one shows counters as 0."""
    telemetry = TelemetryOutput(version="1", instance_id="i", is_on_duty=lambda: True)
    levels = Sessions(level("planner", "shop", None, 7, 0), level("planner", "shop", "agent_reliability", 6, 2))
    telemetry.evaluations.observe_sessions(levels.session_levels, Past())
    telemetry.findings.take_news(
        News(
            counted=[loop_found()],
            traces=[WorstFinding(worst, "planner", "shop", "1.2.0") for worst in (Severity.ERROR, None)],
        )
    )
    call = ModelCall(model="small", started_at=1, ended_at=2, span_id="1" * 16)
    turn = Turn(span_id="2" * 16, input=None, output=None, started_at=1, ended_at=2, model_calls=(call,))
    trace = Trace(trace_id="1" * 32, agents=("planner",), service="shop", service_version="1.2.0", turns=(turn,))
    telemetry.agents.take_news(News(work=[work_of(trace, lambda _: 0.25)]))
    telemetry.versions.observe_regressions(_Worse().figures)
    telemetry.alarms.observe_alarms(lambda: [_ALARM])
    telemetry.alarms.observe_objectives({"planner": ObjectiveConfig(failing=0.05)})
    telemetry.findings.observe_problems(
        lambda: [ProblemCount(ProblemState.NEW, Severity.ERROR, AgentKey("planner", "shop"), 1)]
    )
    assembling: Any = _Assembling()
    telemetry.own_work.observe_assembly(assembling, assembling)
    telemetry.own_work.observe_duty(lambda: True)
    telemetry.own_work.observe_quarantine(lambda: [("trace", 1)])
    telemetry.own_work.observe_disk(Path(__file__).parent)
    telemetry.own_work.observe_partitions({"traces": lambda: {3: 1}})
    telemetry.own_work.count(Counted.REFUSED, which="Overloaded")
    _feed_judge(telemetry)
    telemetry.evaluations.take_news(News(evaluations=[_over()]))
    page = rendered(telemetry)
    telemetry.shutdown(1.0)
    families = text_string_to_metric_families(page)
    return [Sample(sample.name, dict(sample.labels)) for family in families for sample in family.samples]
