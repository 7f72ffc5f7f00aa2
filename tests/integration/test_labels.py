"""Labels in the store: kept, replaced, shown beside the scores, and compared with them."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.model.commit import Commit
from agenteval_collector.model.labels import Label

from otel_agenteval.metrics.agreement import AGREEMENT_METRICS
from otel_agenteval.outcome import Failure, Method, Score, SubjectKind
from tests.support.evaluations import evaluation
from tests.support.otlp import trace_id, turn
from tests.support.referring import PENDING, Referring, exchange, judged, judgement
from tests.support.scoring import Scoring, assembled

pytestmark = pytest.mark.databases

START = 1_700_000_000_000_000_000


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path)
    yield made
    made.close()


def hex_id(number: int) -> str:
    return trace_id(number).hex()


def judge(number: int, value: float, **changes: Any) -> Any:
    """The judge's score of a trace, `number` nanoseconds after the first."""
    about = {"name": "task_completion", "method": Method.LLM, "model": "judge-1", "evaluated_at": START + number}
    arguments = {**about, "subject_id": hex_id(number), "outcome": Score(value=value, reason=""), **changes}
    return evaluation(**arguments)


def label(number: int, value: float, **changes: Any) -> Label:
    return Label(**{"trace_id": hex_id(number), "name": "task_completion", "value": value, **changes})


def test_labels_are_shown_with_their_trace_and_a_later_one_of_a_person_replaces_the_first(scoring: Scoring) -> None:
    scoring.put(assembled(turn(1, "hi", "hello", session="s")))
    assert scoring.trace(hex_id(1))["labels"] == []
    for each in (label(1, 0.0), label(1, 1.0, author="ann", note="fine"), label(1, 0.5, author="ann"), label(2, 1)):
        scoring.store.label(each)
    labels = scoring.trace(hex_id(1))["labels"]
    assert [{key: each[key] for key in ("name", "value", "author", "note")} for each in labels] == [
        {"name": "task_completion", "value": 0.0, "author": None, "note": None},
        {"name": "task_completion", "value": 0.5, "author": "ann", "note": None},
    ]
    assert all(each["labelled_at"].endswith("Z") for each in labels)


def test_agreement_is_by_evaluator_version_and_model(scoring: Scoring) -> None:
    rows = [(1 + at, *row) for at, row in enumerate([(0.9, 1.0), (0.2, 0.0), (0.8, 0.0), (0.1, 0.0)] * 3)]
    scoring.store.commit(Commit(evaluations=[judge(number, score) for number, score, _ in rows]))
    scoring.store.commit(
        Commit(
            evaluations=[
                judge(1, 0.7, version="2"),
                judge(2, 0.9, method=Method.EXACT, model=None),
                # None of these is a score that a label could be compared with.
                judge(3, 0.0, outcome=Failure(error_type="timeout", reason=""), version="3"),
                judge(4, 0.5, subject=SubjectKind.SESSION, version="4"),
                judge(99, 0.5, version="5"),
            ]
        )
    )
    for number, _, value in rows:
        scoring.store.label(label(number, value))
    scoring.store.label(label(4, 1.0, name="coherence"))

    items = scoring.queries.agreement()
    evaluators = [tuple(item[key] for key in ("name", "method", "evaluator_version", "model")) for item in items]
    assert evaluators == [
        ("task_completion", "exact", "1", None),
        ("task_completion", "llm", "1", "judge-1"),
        ("task_completion", "llm", "2", "judge-1"),
    ]
    assert [item["labels"] for item in items] == [1, 12, 1]
    found = items[1]
    assert set(found["metrics"]) == set(AGREEMENT_METRICS)
    assert found["metrics"]["kappa"] == pytest.approx(0.5)
    assert found["metrics"]["mean_absolute_difference"] == pytest.approx((0.1 + 0.2 + 0.8 + 0.1) / 4)
    assert found["intervals"]["kappa"][0] <= 0.5 <= found["intervals"]["kappa"][1]
    assert found["older"] == {
        "labels": 6,
        "first": "2023-11-14T22:13:20.000000Z",
        "last": "2023-11-14T22:13:20.000000Z",
        "mean_score": pytest.approx((2 * 0.9 + 2 * 0.2 + 0.8 + 0.1) / 6),
        "mean_label": pytest.approx(2 / 6),
    }
    assert found["newer"]["mean_score"] == pytest.approx((0.9 + 0.2 + 2 * 0.8 + 2 * 0.1) / 6)
    assert set(items[0]["metrics"].values()) == {None}
    assert set(items[0]["reasons"].values()) == {"not enough labels: 1 of 10"}
    assert [item["labelled_by"] for item in items] == [[{"author": None, "labels": count}] for count in (1, 12, 1)]


def test_the_label_of_a_trace_is_the_mean_of_what_people_said(scoring: Scoring) -> None:
    scoring.store.commit(Commit(evaluations=[judge(1, 0.5)]))
    scoring.store.label(label(1, 1.0, author="ann"))
    scoring.store.label(label(1, 0.0, author="bob"))
    [found] = scoring.queries.agreement(name="task_completion")
    assert found["labels"] == 1
    with scoring.store.snapshot() as records:
        assert [each.label for each in records.labelled("task_completion")[0].scores] == [0.5]
    assert [(each["author"], each["labels"]) for each in found["labelled_by"]] == [("ann", 1), ("bob", 1)]
    assert scoring.queries.agreement(name="coherence") == []


def test_a_judgement_is_read_with_its_trace(tmp_path: Path) -> None:
    scoring = Scoring(tmp_path, judging=Referring({"confidence": PENDING}), judge={"base_url": "http://127.0.0.1:9/v1"})
    try:
        scoring.put(assembled(turn(1, "hi", "hello", session="s")))
        found = scoring.queries
        assert found.judgements(hex_id(1)) == []
        assert found.judgements(hex_id(2)) is None
        scoring.stage.store_judgements([judgement(scoring.referred[0], judged(0.25), exchange())])
        [document] = found.judgements(hex_id(1)) or []
    finally:
        scoring.close()
    asked = exchange()
    assert document["data"] == asked.data
    assert document["asked_at"].endswith("Z")
    assert set(document) == {field.name for field in fields(asked)}


def test_a_label_of_a_drawn_trace_stays_one_when_its_author_corrects_it(scoring: Scoring) -> None:
    scoring.put(assembled(turn(1, "hi", "hello", session="s")))
    for author in ("ann", None):
        scoring.store.label(label(1, 1.0, author=author, drawn=True))
        scoring.store.label(label(1, 0.0, author=author, note="a wrong key"))
    scoring.store.label(label(1, 0.0, author="bo"))
    with scoring.store.snapshot() as records:
        kept = {each.author or None: (each.value, each.drawn) for each in records.trace_labels([hex_id(1)])[hex_id(1)]}
    assert kept == {"ann": (0.0, True), None: (0.0, True), "bo": (0.0, False)}
