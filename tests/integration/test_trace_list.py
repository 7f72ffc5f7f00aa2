"""Listings of traces: which, page by page, on a real store."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.model.labels import Label, LabelSource, LabelVerdict
from agenteval_collector.model.session_filter import Below, TraceFilter
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.filters import trace_filter
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from otel_agenteval.finding import Severity
from tests.support.otlp import trace_id
from tests.support.runs import run_trace
from tests.support.scoring import Scoring

pytestmark = pytest.mark.databases

TRACES = 12


def name(number: int) -> str:
    return trace_id(number).hex()


def environment(number: int) -> str:
    return "production" if number % 2 else "staging"


def resource(*, version: str, environment: str) -> bytes:
    named = {"service.name": "shop", "service.version": version, "deployment.environment.name": environment}
    pairs = [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in named.items()]
    return Resource(attributes=pairs).SerializeToString()


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    """Twelve traces in four sessions: each third one has no answer, sessions alternate between two environments."""
    scoring = Scoring(tmp_path)
    for number in range(1, TRACES + 1):
        trace = run_trace(
            number,
            task=None,
            run=None,
            version="2" if number > 6 else "1",
            session=f"s{number % 4}",
            asked=f"Where is order {number}?",
            answered="" if number % 3 == 0 else f"Order {number} is on its way.",
            user__id=f"u{number % 2}",
        )
        of = resource(version="2" if number > 6 else "1", environment=environment(number))
        scoring.put(replace(trace, spans=[(raw, replace(origin, resource=of)) for raw, origin in trace.spans]))
    yield scoring
    scoring.close()


def ids(scoring: Scoring, wanted: TraceFilter, limit: int = 5) -> list[int]:
    """The numbers of the wanted traces, of all pages."""
    found: list[int] = []
    cursor = None
    while True:
        page = scoring.queries.listed_traces(wanted, limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        found += [int(each["trace_id"], 16) for each in page.items]
        if (cursor := page.next_cursor) is None:
            return found


def newest(*numbers: int) -> list[int]:
    return sorted(numbers, reverse=True)


EVERY = range(1, TRACES + 1)


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (TraceFilter(), EVERY),
        (TraceFilter(agent="planner"), EVERY),
        (TraceFilter(agent="nobody"), ()),
        (TraceFilter(service="shop"), EVERY),
        (TraceFilter(service="bank"), ()),
        (TraceFilter(version="2"), range(7, 13)),
        (TraceFilter(user="u1"), range(1, 13, 2)),
        (TraceFilter(environment="production"), range(1, 13, 2)),
        (TraceFilter(environment="staging", version="1"), (2, 4, 6)),
        (TraceFilter(finding="no_answer"), (3, 6, 9, 12)),
        (TraceFilter(severity=Severity.ERROR), (3, 6, 9, 12)),
        (TraceFilter(finding="no_answer", severity=Severity.INFO), ()),
        (TraceFilter(text="ORDER 11 is"), (11,)),
        (TraceFilter(text="no such words"), ()),
        (TraceFilter(finding="no_answer", environment="production"), (3, 9)),
    ],
)
def test_a_listing_has_the_wanted_traces_newest_first(
    scoring: Scoring, wanted: TraceFilter, numbers: range | tuple[int, ...]
) -> None:
    assert ids(scoring, wanted) == newest(*numbers)


def test_times_bound_when_a_trace_started(scoring: Scoring) -> None:
    at = {int(each["trace_id"], 16): each["started_at"] for each in scoring.queries.listed_traces(TraceFilter()).items}
    wanted = trace_filter({"since": str(at[4]), "until": str(at[8])})
    assert ids(scoring, wanted) == newest(4, 5, 6, 7)


def test_items_are_the_documents_of_the_traces(scoring: Scoring) -> None:
    [item] = scoring.queries.listed_traces(TraceFilter(text="order 11 is")).items
    assert item == scoring.queries.trace(name(11))
    assert item["environment"] == "production"
    session = scoring.queries.session("s3")
    assert session is not None
    assert session["environment"] == "production"


def test_a_problem_has_all_its_traces(scoring: Scoring) -> None:
    [problem] = scoring.queries.problems().items
    assert ids(scoring, TraceFilter(problem=problem["problem_id"])) == newest(3, 6, 9, 12)
    assert ids(scoring, TraceFilter(problem="0" * 16)) == []


def test_labels_choose_traces_by_what_they_say(scoring: Scoring) -> None:
    for number, value in ((2, 0.0), (5, 0.4), (7, 0.5), (8, 1.0)):
        scoring.store.label(Label(trace_id=name(number), name="task_completion", value=value))
    scoring.store.label(Label(session_id="s1", name="goal_success", value=0.0))
    assert ids(scoring, TraceFilter(label=LabelVerdict.FAIL)) == newest(2, 5)
    assert ids(scoring, TraceFilter(label=LabelVerdict.PASS)) == newest(7, 8)


def test_scores_below_a_value_choose_traces(scoring: Scoring) -> None:
    known = {
        int(trace["trace_id"], 16): outcome["score"]
        for trace in scoring.queries.listed_traces(TraceFilter()).items
        for outcome in trace["outcomes"]
        if outcome["name"] == "coherence" and outcome["score"] is not None
    }
    assert known
    value = sorted(known.values())[len(known) // 2]
    below = [number for number, score in known.items() if score < value]
    assert ids(scoring, TraceFilter(below=Below("coherence", value))) == newest(*below)


def test_labels_are_listed_newest_first_page_by_page(scoring: Scoring) -> None:
    for number in range(1, 8):
        scoring.clock.advance(1)
        scoring.store.label(
            Label(
                trace_id=name(number),
                name="task_completion" if number % 2 else "coherence",
                value=number / 10,
                author="ann",
                source=LabelSource.PERSON,
            )
        )
    scoring.store.label(Label(session_id="s1", name="goal_success", value=1.0, source=LabelSource.USER))

    def listed(**wanted: Any) -> list[tuple[str | None, str | None, float]]:
        found, cursor = [], None
        while True:
            page = scoring.queries.labels(**wanted, limit=3, cursor=cursor)
            found += [(each["trace_id"], each["session_id"], each["value"]) for each in page.items]
            if (cursor := page.next_cursor) is None:
                return found

    of_traces = [(name(number), None, number / 10) for number in range(7, 0, -1)]
    assert sorted(listed(), key=str) == sorted([*of_traces, (None, "s1", 1.0)], key=str)
    assert listed(name="coherence") == [each for each in of_traces if int(each[0], 16) % 2 == 0]
    assert listed(source=LabelSource.USER) == [(None, "s1", 1.0)]


@pytest.mark.parametrize("given", [{"label": "good"}, {"problem": "x"}, {"finding": "odd"}, {"below": "1"}])
def test_a_wrong_parameter_is_refused_by_name(given: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(given))):
        trace_filter(given)


def test_a_cursor_of_another_listing_is_refused(scoring: Scoring) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        scoring.queries.listed_traces(TraceFilter(), cursor="x")
