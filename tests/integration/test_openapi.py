"""The description of the API: every address is described, and every answer has the shape that is described."""

from collections.abc import Iterator
from typing import Any

import pytest
from agenteval_collector.cli.offline_replay import replay
from agenteval_collector.cli.recordings import read_recording
from agenteval_collector.config.settings import Settings
from agenteval_collector.model.alarms import (
    AgentAlarm,
    AlarmKey,
    AlarmKind,
    AlarmSeverity,
    AlarmState,
    DeployedAgent,
)
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.drift import Drift, Flip
from agenteval_collector.model.judge_jobs import GOAL_SUCCESS, Judgement, job_of
from agenteval_collector.model.labels import Label
from agenteval_collector.model.problem import ProblemKey
from agenteval_collector.model.problem_shape import shape_of
from agenteval_collector.model.quarantine import InputKind, QuarantineItem
from agenteval_collector.model.runs import RunReport
from agenteval_collector.serve.api.endpoints import ENDPOINTS, WRITE_ENDPOINTS
from agenteval_collector.serve.api.openapi import DESCRIPTION_PATH, description
from agenteval_collector.serve.api.spans import SpanQueries
from agenteval_collector.serve.api.wire import TOKEN_HEADER, TOKEN_PATH
from jsonschema import Draft202012Validator, ValidationError

from otel_agenteval.outcome import JudgedPart, Method, SubjectKind
from tests.support import asking
from tests.support.assembled import assembled
from tests.support.evaluations import evaluation
from tests.support.memory_queries import MemoryReports
from tests.support.no_spans import unpriced
from tests.support.otlp import span_id, trace_id, turn
from tests.support.pages import app_of
from tests.support.recordings import DATA
from tests.support.referring import PENDING, Referring, exchange, judged, judgement
from tests.support.runs import run_trace
from tests.support.scoring import Scoring
from tests.support.web_server import serve

RUNS = 32
TRACE = trace_id(1).hex()
SPAN = span_id(1).hex()
PROBLEM = ProblemKey("planner", "shop", "task_completion", None, shape_of(judged(0.1).reason)).problem_id
QUERIES = (
    "/api/v1/collector",
    "/api/v1/arrivals",
    "/api/v1/quarantine",
    "/api/v1/traces?agent=planner",
    "/api/v1/traces?environment=nobody",
    "/api/v1/labels",
    f"/api/v1/traces/{TRACE}",
    f"/api/v1/traces/{TRACE}/otlp",
    f"/api/v1/traces/{TRACE}/judgements",
    f"/api/v1/traces/{TRACE}/spans",
    f"/api/v1/traces/{TRACE}/spans/{SPAN}",
    f"/api/v1/problems/{PROBLEM}/common",
    "/api/v1/overview",
    "/api/v1/overview?range=7d&environment=nowhere",
    "/api/v1/agents",
    "/api/v1/agents?range=30d&limit=1",
    "/api/v1/agents/planner?range=7d",
    "/api/v1/alarms",
    "/api/v1/alarms?state=firing&agent=planner&environment=prod",
    "/api/v1/problems",
    "/api/v1/problems?agent=nobody",
    f"/api/v1/problems/{PROBLEM}",
    "/api/v1/sessions",
    "/api/v1/sessions?agent=planner&order=attention",
    "/api/v1/sessions?agent=nobody",
    "/api/v1/sessions/s1",
    "/api/v1/judgements?session_id=s1",
    "/api/v1/agreement",
    "/api/v1/judge",
    "/api/v1/quality",
    "/api/v1/review/next?name=coherence",
    "/api/v1/review/next?name=goal_success",
    "/api/v1/reliability",
    "/api/v1/reliability/comparison?before=1&after=2",
)
LABELS = "/api/v1/labels"
WRITTEN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/api/v1/delete", {"session_id": "s-42", "author": "ann"}),
    (LABELS, {"trace_id": TRACE, "name": "task_completion", "value": 0.5}),
    (LABELS, {"session_id": "s1", "name": GOAL_SUCCESS, "value": 1.0, "author": "ann"}),
    (f"/api/v1/problems/{PROBLEM}/resolve", {"author": "ann"}),
    (f"/api/v1/problems/{PROBLEM}/mute", {"until": "2026-03-02T09:00:00Z"}),
    (f"/api/v1/problems/{PROBLEM}/merge", {"into": PROBLEM, "author": "ann"}),
    (f"/api/v1/problems/{PROBLEM}/split", {"by_text": True}),
    ("/api/v1/judge", {"trace_ids": [TRACE], "session_ids": ["s1"]}),
    ("/api/v1/judge/check", {}),
)
REFUSED = (
    "/api/v1/agents?range=1h",
    "/api/v1/agents?cursor=x",
    "/api/v1/agents/",
    "/api/v1/agents/nobody",
    "/api/v1/judgements",
    "/api/v1/judgements?session_id=nobody",
    "/api/v1/traces/x",
    f"/api/v1/traces/{'0' * 32}",
    "/api/v1/sessions?limit=none",
    "/api/v1/alarms?state=odd",
    "/api/v1/problems?state=odd",
    "/api/v1/problems/x",
    f"/api/v1/problems/{'0' * 16}",
    "/api/v1/reliability/comparison",
)


@pytest.fixture(scope="module")
def scoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scoring]:
    """Runs of two versions, reported, judged and labelled, and a session that is."""
    scoring = Scoring(tmp_path_factory.mktemp("openapi"), judging=Referring({"task_completion": PENDING}))
    scoring.queries.spans = SpanQueries({TRACE: assembled(turn(1, "hi", "ok"))}.get, unpriced)
    for number in range(1, RUNS + 1):
        version, run = ("1" if number <= RUNS / 2 else "2"), str(number)
        tools = ("find_order",) * (number % 4)
        scoring.put(
            run_trace(number, task=f"t{number % 2}", run=run, version=version, session=f"s{number}", tools=tools)
        )
        scoring.store.report_run(RunReport(task_id=f"t{number % 2}", run_id=run, success=number % 3 > 0))
        scoring.store.label(Label(trace_id=trace_id(number).hex(), name="task_completion", value=number % 2))
    scoring.stage.store_judgements(
        [judgement(job, judged(0.1 * (n % 9)), exchange()) for n, job in enumerate(scoring.referred)]
    )
    flip = Flip(trace_id=TRACE, before=0.9, after=0.1, reason="It guesses.")
    scoring.drifts = [
        Drift(
            name="task_completion", version="1", model="m", was="m, version 1", traces=1, higher=0, lower=1,
            flips=(flip,), p_value=1.0, drifted=False,
        )
    ]  # fmt: skip
    by_judge: dict[str, Any] = {"part": JudgedPart.RANDOM, "method": Method.LLM}
    of_session: dict[str, Any] = {"subject": SubjectKind.SESSION, "subject_id": "s1", "session_id": "s1", **by_judge}
    goal = evaluation(name=GOAL_SUCCESS, **of_session)
    asked = Judgement(job=job_of([goal]), evaluations=(goal,), exchanges=(exchange(asked_at=scoring.clock.now()),))
    scoring.store.commit(Commit(evaluations=[evaluation(**by_judge), goal], judgements=[asked]))
    alarm = AgentAlarm(
        alarm_id="a" * 16,
        key=AlarmKey(DeployedAgent("prod", "shop", "planner"), AlarmKind.TOOL_FAILING, "find_order"),
        severity=AlarmSeverity.WARNING,
        owner="team-shop",
        state=AlarmState.FIRING,
        since=scoring.clock.now(),
        until=None,
        title="planner: tool find_order fails more often than usual",
        evidence="30% of the last traces failed; usually 1.0% do.",
        problem_id=PROBLEM,
        examples=[TRACE],
    )
    scoring.store.alarms.write([alarm], [], scoring.clock.now(), scoring.store.alarms.erased())
    fatal: dict[str, Any] = {"kind": InputKind.TRACE, "key": TRACE, "trace_id": TRACE, "reason": "It was fatal."}
    scoring.store.quarantine.put(QuarantineItem(since=scoring.clock.now(), size=None, **fatal))
    yield scoring
    scoring.close()


@pytest.fixture(scope="module")
def url(scoring: Scoring) -> Iterator[str]:
    """A collector's answers."""
    reports = MemoryReports(problem_id=PROBLEM)
    with serve(app_of(scoring.queries, reports)) as url:
        yield url


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    """Of the schema, where a document has nothing that is not described."""
    closed = {
        name: {**each, "additionalProperties": False} for name, each in description()["components"]["schemas"].items()
    }
    return Draft202012Validator({**schema, "components": {"schemas": closed}})


def described(path: str, status: str = "200") -> Draft202012Validator:
    content = description()["paths"][path]["get"]["responses"][status]["content"]
    return validator(content["application/json"]["schema"])


def template_of(query: str) -> str:
    """The described path that a query asks for."""
    path = (
        query.partition("?")[0]
        .replace(TRACE, "{trace_id}")
        .replace(SPAN, "{span_id}")
        .replace("/s1", "/{session_id}")
        .replace("/planner", "/{agent}")
        .replace(PROBLEM, "{problem_id}")
    )
    assert path in description()["paths"]
    return path


@pytest.mark.parametrize("query", QUERIES)
def test_an_answer_has_the_shape_that_is_described(url: str, query: str) -> None:
    answer = asking.get(url + query)
    assert answer.status_code == 200
    document = answer.json()
    assert document.get("items", [1]) or "nobody" in query or query.endswith("/common"), (
        "it holds something to be looked at"
    )
    described(template_of(query)).validate(document)


def test_a_session_is_left_aside_whatever_its_id_holds(scoring: Scoring, url: str) -> None:
    query = f"{url}/api/v1/review/next?name=goal_success"
    drawn = asking.get(query).json()
    assert (drawn["subject"], drawn["trace_id"], drawn["session_id"]) == ("session", None, "s1")
    assert asking.get(f"{query}&skip=s%252C1,s%252F1").json() == drawn
    assert asking.get(f"{query}&skip=x,%2573%2531").status_code == 404


@pytest.mark.parametrize("query", REFUSED)
def test_a_refusal_has_the_shape_that_is_described(url: str, query: str) -> None:
    answer = asking.get(url + query)
    assert answer.status_code in (400, 404)
    described("/api/v1/sessions", "default").validate(answer.json())


def test_every_address_is_described_with_its_parameters_and_asked_here(url: str) -> None:
    served = asking.get(url + DESCRIPTION_PATH).json()
    assert served == description()
    read = {path for path, operations in served["paths"].items() if "get" in operations}
    written = {path for path, operations in served["paths"].items() if "post" in operations}
    assert read - {TOKEN_PATH} == {endpoint.path for endpoint in ENDPOINTS} == set(map(template_of, QUERIES))
    assert written == {endpoint.path for endpoint in WRITE_ENDPOINTS} == {template_of(path) for path, _ in WRITTEN}
    for endpoint in ENDPOINTS:
        named = {each["name"] for each in served["paths"][endpoint.path]["get"]["parameters"] if each["in"] == "query"}
        assert named == set(endpoint.parameters)


@pytest.mark.parametrize(("path", "said"), WRITTEN)
def test_each_write_is_answered_with_the_document_that_is_described(url: str, path: str, said: dict[str, Any]) -> None:
    operation = description()["paths"][template_of(path)]["post"]
    validator(operation["requestBody"]["content"]["application/json"]["schema"]).validate(said)
    refused = asking.post(url + path, json=said)
    assert (refused.status_code, TOKEN_PATH in refused.text) == (403, True)
    answer = asking.post(url + path, json=said, headers=token(url))
    assert answer.status_code == 200, answer.text
    validator(operation["responses"]["200"]["content"]["application/json"]["schema"]).validate(answer.json())


def token(url: str) -> dict[str, str]:
    document = asking.get(url + TOKEN_PATH).json()
    described(TOKEN_PATH).validate(document)
    return {TOKEN_HEADER: document["token"]}


def test_what_is_posted_and_what_is_answered_have_the_shapes_that_are_described(url: str) -> None:
    operation = description()["paths"][LABELS]["post"]
    shape = validator(operation["requestBody"]["content"]["application/json"]["schema"])
    answers = {status: each["content"]["application/json"]["schema"] for status, each in operation["responses"].items()}
    headers = token(url)
    body = {"trace_id": TRACE, "name": "task_completion", "value": 0.5, "author": None, "note": "so-so", "drawn": True}
    for said in (body, {name: body[name] for name in ("trace_id", "name", "value")}):
        shape.validate(said)
        answer = asking.post(url + LABELS, json=said, headers=headers)
        assert answer.status_code == 200
        validator(answers["200"]).validate(answer.json())
    for wrong in ({**body, "value": "1"}, {**body, "by": "ann"}, {"trace_id": TRACE}):
        refusal = asking.post(url + LABELS, json=wrong, headers=headers)
        assert refusal.status_code == 400
        validator(answers["default"]).validate(refusal.json())
        with pytest.raises(ValidationError):
            shape.validate(wrong)


def test_recordings_have_the_shapes_that_are_described() -> None:
    recorded = [each for path in (DATA / "corpus").glob("*--toolerror.otlp.pb") for each in read_recording(path)]
    document = replay(recorded, Settings(), lambda _: None)
    assert document["traces"]
    schemas = "#/components/schemas/"
    for kind, documents in (("TraceDocument", document["traces"]), ("SessionDocument", document["sessions"])):
        for each in documents:
            validator({"$ref": schemas + kind}).validate(each)


def test_a_document_with_a_field_more_or_less_is_none() -> None:
    shape = validator({"$ref": "#/components/schemas/ToolDocument"})
    shape.validate({"name": "search"})
    for wrong in ({}, {"name": None}, {"name": "search", "kind": "function"}):
        with pytest.raises(ValidationError):
            shape.validate(wrong)
