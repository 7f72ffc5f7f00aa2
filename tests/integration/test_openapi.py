"""The description of the API: every address is described, and every answer has the shape that is described."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from agenteval_collector.api.endpoints import ENDPOINTS, WRITE_ENDPOINTS
from agenteval_collector.api.openapi import DESCRIPTION_PATH, description
from agenteval_collector.api.writing import TOKEN_HEADER
from agenteval_collector.config import Settings
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.drift import Drift, Flip
from agenteval_collector.model.reports import Label, RunReport
from agenteval_collector.offline.recordings import read_recording
from agenteval_collector.offline.replay import replay
from agenteval_collector.web.app import make_app
from jsonschema import Draft202012Validator, ValidationError

from otel_agenteval.outcome import Method, Part
from tests.support.evaluations import evaluation
from tests.support.memory_queries import MemoryReports
from tests.support.otlp import trace_id
from tests.support.recordings import DATA
from tests.support.referring import PENDING, Referring, exchange, judged, judgement
from tests.support.runs import run_trace
from tests.support.scoring import Scoring
from tests.support.web_server import serve

RUNS = 32
TRACE = trace_id(1).hex()
QUERIES = (
    f"/api/v1/traces/{TRACE}",
    f"/api/v1/traces/{TRACE}/judgements",
    "/api/v1/sessions",
    "/api/v1/sessions?agent=planner&order=attention",
    "/api/v1/sessions?agent=nobody",
    "/api/v1/sessions/s1",
    "/api/v1/agreement",
    "/api/v1/judge",
    "/api/v1/quality",
    "/api/v1/review/next?name=coherence",
    "/api/v1/reliability",
    "/api/v1/reliability/comparison?before=1&after=2",
)
WRITTEN = "/api/v1/labels"
REFUSED = (
    "/api/v1/traces/x",
    f"/api/v1/traces/{'0' * 32}",
    "/api/v1/sessions?limit=none",
    "/api/v1/reliability/comparison",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A collector's answers on runs of two versions, reported, judged and labelled."""
    scoring = Scoring(tmp_path_factory.mktemp("openapi"), judging=Referring({"task_completion": PENDING}))
    for number in range(1, RUNS + 1):
        version, run = ("1" if number <= RUNS / 2 else "2"), str(number)
        tools = ("find_order",) * (number % 4)
        scoring.put(
            run_trace(number, task=f"t{number % 2}", run=run, version=version, session=f"s{number}", tools=tools)
        )
        scoring.store.report_run(RunReport(task_id=f"t{number % 2}", run_id=run, success=number % 3 > 0))
        scoring.store.label(Label(trace_id=trace_id(number).hex(), name="task_completion", value=number % 2))
    scoring.stage.process_judgements(
        [judgement(job, judged(0.1 * (n % 9)), exchange()) for n, job in enumerate(scoring.referred)]
    )
    flip = Flip(trace_id=TRACE, before=0.9, after=0.1, reason="It guesses.")
    scoring.drifts = [
        Drift(
            name="task_completion", version="1", model="m", was="m, version 1", traces=1, higher=0, lower=1,
            flips=(flip,), p_value=1.0, drifted=False,
        )
    ]  # fmt: skip
    scoring.store.commit(Commit(evaluations=[evaluation(part=Part.RANDOM, method=Method.LLM)]))
    with serve(
        make_app(scoring.queries, MemoryReports(), metrics=lambda: (b"", "text/plain"), health=lambda: None)
    ) as url:
        yield url
    scoring.close()


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
    path = query.partition("?")[0].replace(TRACE, "{trace_id}").replace("/s1", "/{session_id}")
    assert path in description()["paths"]
    return path


@pytest.mark.parametrize("query", QUERIES)
def test_an_answer_has_the_shape_that_is_described(url: str, query: str) -> None:
    answer = httpx.get(url + query)
    assert answer.status_code == 200
    document = answer.json()
    assert document.get("items", [1]) or "nobody" in query, "it holds something to be looked at"
    described(template_of(query)).validate(document)


@pytest.mark.parametrize("query", REFUSED)
def test_a_refusal_has_the_shape_that_is_described(url: str, query: str) -> None:
    answer = httpx.get(url + query)
    assert answer.status_code in (400, 404)
    described("/api/v1/sessions", "default").validate(answer.json())


def test_every_address_is_described_with_its_parameters_and_asked_here(url: str) -> None:
    served = httpx.get(url + DESCRIPTION_PATH).json()
    assert served == description()
    read = {path for path, operations in served["paths"].items() if "get" in operations}
    assert read == {endpoint.path for endpoint in ENDPOINTS} == set(map(template_of, QUERIES))
    assert set(served["paths"]) - read == {endpoint.path for endpoint in WRITE_ENDPOINTS} == {WRITTEN}
    for endpoint in ENDPOINTS:
        named = {each["name"] for each in served["paths"][endpoint.path]["get"]["parameters"] if each["in"] == "query"}
        assert named == set(endpoint.parameters)


def test_what_is_posted_and_what_is_answered_have_the_shapes_that_are_described(url: str) -> None:
    operation = description()["paths"][WRITTEN]["post"]
    shape = validator(operation["requestBody"]["content"]["application/json"]["schema"])
    answers = {status: each["content"]["application/json"]["schema"] for status, each in operation["responses"].items()}
    token = {TOKEN_HEADER: httpx.get(f"{url}/review").headers[TOKEN_HEADER]}
    body = {"trace_id": TRACE, "name": "task_completion", "value": 0.5, "author": None, "note": "so-so", "drawn": True}
    for said in (body, {name: body[name] for name in ("trace_id", "name", "value")}):
        shape.validate(said)
        answer = httpx.post(url + WRITTEN, json=said, headers=token)
        assert answer.status_code == 200
        validator(answers["200"]).validate(answer.json())
    for wrong in ({**body, "value": "1"}, {**body, "by": "ann"}, {"trace_id": TRACE}):
        refusal = httpx.post(url + WRITTEN, json=wrong, headers=token)
        assert refusal.status_code == 400
        validator(answers["default"]).validate(refusal.json())
        with pytest.raises(ValidationError):
            shape.validate(wrong)


def test_recordings_have_the_shapes_that_are_described() -> None:
    recorded = [each for path in (DATA / "corpus").glob("*--toolerror.otlp.pb") for each in read_recording(path)]
    document = replay(recorded, Settings())
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
