"""Regressions of versions, from sessions in a real store to the gauge."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from agenteval_collector.config.findings import KINDS
from agenteval_collector.emit.output import TelemetryOutput
from agenteval_collector.figures.regressions import (
    OF_KINDS,
    OF_OTHERS,
    OF_PRIMARY,
    VERSIONS_COMPARED_EVERY,
    Regressions,
)
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.regressions import Regression
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Status as SpanStatus

from otel_agenteval.metrics.regression import LEVEL, regression_evidence
from otel_agenteval.outcome import Evaluation, JudgedPart, Method, Score
from otel_agenteval.proto.v1.evaluation_pb2 import EndSessionRequest
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from tests.support.evaluations import evaluation
from tests.support.otlp import START, trace_id, traces, turn
from tests.support.rendering import rendered
from tests.support.running_collector import RunningCollector
from tests.support.scoring import Scoring, assembled

pytestmark = pytest.mark.databases

AGENT = "planner"
ENOUGH = 1 / LEVEL
SECOND = 10**9


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path)
    yield made
    made.close()


class Sessions:
    """Adds sessions of one trace each, one second after another."""

    def __init__(self, scoring: Scoring) -> None:
        self._scoring = scoring
        self._number = 0
        self.regressions = Regressions(scoring.store.versions, scoring.clock)

    def add(
        self,
        version: str,
        scores: Iterable[float],
        *,
        raises: bool = False,
        over: bool = True,
        part: JudgedPart = JudgedPart.RANDOM,
        model: str = "judge-1",
        names: tuple[str, ...] = ("task_completion",),
        service: str = "shop",
    ) -> None:
        resource = Resource()
        resource.attributes.add(key="service.name").value.string_value = service
        resource.attributes.add(key="service.version").value.string_value = version
        added = []
        evaluations: list[Evaluation] = []
        for score in scores:
            self._number += 1
            name = f"s-{self._number}"
            root = turn(self._number, "May I have my money back?", None if raises else "You may.", session=name)
            root.start_time_unix_nano = START + self._number * SECOND
            root.end_time_unix_nano = root.start_time_unix_nano + SECOND // 2
            if raises:
                root.status.CopyFrom(SpanStatus(code=SpanStatus.STATUS_CODE_ERROR, message="boom"))
            added.append(assembled(root, resource=resource.SerializeToString()))
            evaluations.extend(
                evaluation(
                    name=evaluator, method=Method.LLM, model=model, part=part, agent=AGENT, service=service,
                    session_id=name,
                    subject_id=trace_id(self._number).hex(), service_version=version,
                    outcome=Score(value=score, reason=""),
                )
                for evaluator in names
            )  # fmt: skip
        self._scoring.put(*added)
        self._scoring.store.commit(Commit(evaluations=evaluations))
        if over:
            self._scoring.store.finalize(sorted({each.session_id for each in evaluations}))

    def look(self) -> list[Regression]:
        self._scoring.clock.advance(VERSIONS_COMPARED_EVERY)
        return self.regressions.figures()


@pytest.fixture
def sessions(scoring: Scoring) -> Sessions:
    return Sessions(scoring)


def shown(version: str, evidence: float, evaluator: str | None = "task_completion", kind: str | None = None) -> object:
    about = {"service": "shop", "evaluator": evaluator, "kind": kind}
    return Regression(agent=AGENT, version=version, evidence=pytest.approx(evidence), **about)  # type: ignore[arg-type]


def test_a_version_is_compared_with_those_of_its_own_service(sessions: Sessions) -> None:
    """An agent of the same name in another service had passed until then."""
    sessions.add("1", [1.0] * 40, service="bank")
    sessions.add("1", [0.0] * 40)
    sessions.add("2", [0.0] * 40)
    [found] = sessions.look()
    assert (found.service, found.version) == ("shop", "2")
    assert found.evidence < 1
    sessions.add("2", [0.0] * 40, service="bank")
    evidence = {each.service: each.evidence for each in sessions.look()}
    assert (evidence["bank"] > 20, evidence["shop"] < 1) == (True, True)


def test_a_version_that_is_worse_than_the_one_before_it_shows_with_its_evidence(sessions: Sessions) -> None:
    sessions.add("1", [1.0] * 36 + [0.0] * 4)
    assert sessions.look() == []
    sessions.add("2", [0.0] * 10)
    [found] = sessions.look()
    assert found == shown("2", regression_evidence(40, 36, 10, 0, OF_PRIMARY))
    assert found.evidence > ENOUGH


def test_only_sessions_that_are_over_were_drawn_at_random_and_began_in_time_count(sessions: Sessions) -> None:
    sessions.add("1", [1.0] * 20)
    sessions.add("2", [1.0] * 5)
    sessions.add("2", [0.0] * 5, part=JudgedPart.ESCALATED)
    sessions.add("2", [0.0] * 5, over=False)
    # These belong to the time after, when both versions ran.
    sessions.add("1", [0.0] * 5)
    assert sessions.look() == [shown("2", regression_evidence(20, 20, 5, 5, OF_PRIMARY))]


def test_a_rate_that_another_judge_gives_is_no_regression(sessions: Sessions) -> None:
    sessions.add("1", [1.0] * 20)
    sessions.add("2", [0.0] * 10, model="judge-2")
    assert sessions.look() == []


def test_findings_count_by_kind_once_a_session(sessions: Sessions) -> None:
    sessions.add("1", [1.0] * 60)
    sessions.add("2", [1.0] * 8, raises=True)
    found = {each.kind: each for each in sessions.look()}
    evidence = regression_evidence(60, 60, 8, 0, OF_KINDS / len(KINDS))
    assert found["turn_failed"] == shown("2", evidence, None, "turn_failed")
    assert found["turn_failed"].evidence > ENOUGH
    assert found[None].evidence < ENOUGH


def test_judges_of_the_primary_evaluator_share_its_half_of_the_level(sessions: Sessions) -> None:
    sessions.add("1", [1.0] * 30)
    sessions.add("1", [1.0] * 30, model="judge-2")
    sessions.add("2", [0.0] * 8)
    assert sessions.look() == [shown("2", regression_evidence(30, 30, 8, 0, OF_PRIMARY / 2))]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(
            ("goal_success", "groundedness", "task_completion"), [OF_PRIMARY, OF_OTHERS / 2, OF_OTHERS / 2], id="goal"
        ),
        pytest.param(("groundedness", "task_completion"), [OF_OTHERS, OF_PRIMARY], id="task"),
        pytest.param(("groundedness",), [OF_PRIMARY + OF_OTHERS], id="neither"),
    ],
)
def test_the_primary_evaluator_has_half_of_the_level(
    sessions: Sessions, names: tuple[str, ...], expected: list[float]
) -> None:
    sessions.add("1", [1.0] * 30, names=names)
    sessions.add("2", [0.0] * 8, names=names)
    evidence = [(name, regression_evidence(30, 30, 8, 0, share)) for name, share in zip(names, expected, strict=True)]
    assert sessions.look() == [shown("2", value, name) for name, value in evidence]


def test_the_settings_may_name_another_primary_evaluator(sessions: Sessions, scoring: Scoring) -> None:
    sessions.add("1", [1.0] * 30, names=("groundedness", "task_completion"))
    sessions.add("2", [0.0] * 8, names=("groundedness", "task_completion"))
    sessions.regressions = Regressions(scoring.store.versions, scoring.clock, ("groundedness",))
    shares = {"groundedness": OF_PRIMARY, "task_completion": OF_OTHERS}
    expected = [shown("2", regression_evidence(30, 30, 8, 0, share), name) for name, share in shares.items()]
    assert sessions.look() == expected


def test_the_newest_three_versions_are_each_compared_with_the_one_before(sessions: Sessions) -> None:
    for version in ("5", "1", "4", "2", "3"):
        sessions.add(version, [1.0] * 2)
    assert [each.version for each in sessions.look()] == ["4", "2", "3"]


def test_sessions_are_looked_at_again_now_and_then(sessions: Sessions) -> None:
    sessions.add("1", [1.0] * 20)
    sessions.add("2", [1.0])
    first = sessions.look()
    sessions.add("2", [0.0] * 9)
    assert sessions.regressions.figures() == first
    assert sessions.look() == [shown("2", regression_evidence(20, 20, 10, 1, OF_PRIMARY))]


def test_the_gauge_names_the_evaluator_or_the_kind_the_agent_and_its_version(sessions: Sessions) -> None:
    sessions.add("1", [1.0] * 60)
    sessions.add("2", [0.0] * 8, raises=True)
    sessions.look()
    output = TelemetryOutput(version="1", instance_id="i", is_on_duty=lambda: True)
    output.versions.observe_regressions(sessions.regressions.figures)
    page = rendered(output)
    output.shutdown(1.0)
    whose = f'gen_ai_agent_name="{AGENT}"'
    for about in ('gen_ai_evaluation_name="task_completion"', 'agenteval_finding_kind="turn_failed"'):
        [line] = [each for each in page.splitlines() if about in each and not each.startswith("#")]
        assert line.startswith("agenteval_regression{")
        assert whose in line
        assert 'service_version="2"' in line
        assert float(line.rpartition(" ")[2]) > ENOUGH


def test_a_collector_shows_them_of_sessions_that_are_over(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        for number, answer in ((1, "You may."), (2, None)):
            root = turn(number, "May I have my money back?", answer, session=f"s-{number}")
            if answer is None:
                root.status.CopyFrom(SpanStatus(code=SpanStatus.STATUS_CODE_ERROR, message="boom"))
            request = traces(root)
            version = request.resource_spans[0].resource.attributes.add(key="service.version")
            version.value.string_value = str(number)
            collector.send(request)
            collector.scored(trace_id(number).hex())
            end = EndSessionRequest(session_id=f"s-{number}")
            EvaluationServiceStub(collector.channel).EndSession(end, timeout=20)
    with RunningCollector(tmp_path) as collector:
        lines = [line for line in collector.get("/metrics").splitlines() if line.startswith("agenteval_regression{")]
    [line] = [line for line in lines if 'agenteval_finding_kind="turn_failed"' in line]
    assert 'service_version="2"' in line
