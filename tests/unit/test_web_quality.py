"""The page of quality: one card for each evaluator, with everything that is known of it."""

from typing import Any, cast

from agenteval_collector.model.cursors import Page
from agenteval_collector.serve.api.figure_documents import DriftDocument, QualityDocument
from agenteval_collector.serve.web.quality import quality
from agenteval_collector.serve.web.site import Site

from tests.support.clock import ManualClock
from tests.support.memory_queries import NOW, MemoryQueries, agreement

RATE: QualityDocument = {
    "agent": "planner",
    "service": "shop",
    "version": "1.2.0",
    "name": "task_completion",
    "estimate": 0.81,
    "interval": [0.72, 0.88],
    "sequence": [0.68, 0.91],
    "estimator": "ppi",
    "judged": 640,
    "unscored": 0,
    "labelled": 60,
    "models": ["gpt-4o-mini"],
    "sensitivity": 0.91,
    "sensitivity_interval": [0.8, 0.97],
    "specificity": None,
    "specificity_interval": None,
    "reason": None,
    "by_judge": None,
}


class RatedQueries(MemoryQueries):
    """Has rates of passing."""

    def __init__(self, *rates: QualityDocument) -> None:
        super().__init__()
        self.rates = rates

    def quality(self, **asked: Any) -> Page[QualityDocument]:
        return Page(items=[*self.rates], next_cursor=None)


def page(queries: MemoryQueries) -> str:
    return quality(Site(queries=queries, clock=ManualClock(NOW), grpc_endpoint="", token=""), {})


def drift(**changes: Any) -> DriftDocument:
    said = {"name": "task_completion", "version": "1", "model": "new", "was": "old, version 1", "traces": 20}
    figures = {"higher": 0, "lower": 6, "p_value": 0.004, "drifted": True, "flips": []}
    return cast("DriftDocument", {**said, **figures, **changes})


def test_each_evaluator_has_one_card_with_what_it_means() -> None:
    shown = page(RatedQueries(RATE, {**RATE, "version": "1.1.0"}, {**RATE, "name": "no_jokes"}))
    assert shown.count('class="card"') == 2
    assert "Whether the user got what they asked for." in shown
    assert "An evaluator or a rubric of your own." in shown
    assert shown.count("72–88% for one look, 68–91% at any time") == 3
    assert "640 judged" in shown
    assert "0.91 <small>0.80 to 0.97</small>" in shown


def test_a_card_says_how_far_the_judge_agrees_with_people() -> None:
    queries = RatedQueries(RATE)
    queries.agreements = [agreement("task_completion", 40), agreement("coherence", 90)]
    shown = page(queries)
    assert "Agreement with 40 labels by people, gpt-4o-mini" in shown
    assert "kappa 0.62" in shown
    assert "90 labels" not in shown


def test_a_card_says_whether_the_judge_has_drifted() -> None:
    queries = RatedQueries(RATE)
    queries.drifted = [drift(), drift(drifted=False, p_value=None)]
    shown = page(queries)
    assert "The judge has drifted: 0 of 20 canaries changed between pass and fail, new against old, version 1" in shown
    assert "No drift: 0 of 20" in shown
