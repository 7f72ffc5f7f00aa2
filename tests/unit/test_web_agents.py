"""The pages of agents: which charts there are, and how two versions are compared."""

from typing import Any, cast

import pytest
from agenteval_collector.model.agents import Range, quantile, step_of
from agenteval_collector.runtime.errors import NotFound
from agenteval_collector.serve.api.figure_documents import AgentDocument, FiguresDocument, RateDocument
from agenteval_collector.serve.web.agents import compared
from agenteval_collector.serve.web.charts import charts_of, main_evaluator, spark

DAY = 86_400 * 1_000_000_000


def rate(count: int, traces: int, interval: tuple[float, float] | None = None) -> RateDocument:
    share = count / traces if traces else None
    return {"traces": traces, "count": count, "rate": share, "interval": interval}


def figures(errors: RateDocument, **rates: RateDocument) -> FiguresDocument:
    return {
        "sessions": 2 if errors["traces"] else 0,
        "errors": errors,
        "pass_rates": dict(rates),
        "usd": None,
        "usd_per_session": None,
        "unpriced": errors["traces"],
        "seconds": {"p50": None, "p95": None},
    }


def agent(*points: FiguresDocument, versions: dict[str | None, FiguresDocument] | None = None) -> AgentDocument:
    hours = [f"2026-03-02T{hour:02}:00:00.000000Z" for hour in range(len(points))]
    document: dict[str, Any] = {
        **figures(rate(0, 0), **{name: each for point in points for name, each in point["pass_rates"].items()}),
        "agent": "planner",
        "range": "24h",
        "points": [{**point, "at": at} for point, at in zip(points, hours, strict=True)],
        "versions": [{**each, "version": name, "first_at": hours[-1]} for name, each in (versions or {}).items()],
    }
    return cast("AgentDocument", document)


def test_only_charts_with_something_to_show_are_drawn() -> None:
    found = agent(figures(rate(0, 0)), figures(rate(1, 4)))
    assert [chart.title for chart in charts_of(found, None)] == ["Traces with an error", "Sessions"]
    assert charts_of(found, None)[0].known == [1]


def test_the_evaluator_of_completed_tasks_comes_first() -> None:
    found = agent(figures(rate(0, 9), a=rate(1, 9), task_completion=rate(1, 2)))
    assert main_evaluator(found) == "task_completion"
    titles = [chart.title for chart in charts_of(found, "task_completion")]
    assert titles[0] == "Pass rate: task completion"
    assert titles[-1] == "Pass rate: a"


def test_a_version_that_began_before_the_chart_has_no_mark() -> None:
    found = agent(figures(rate(1, 4)), versions={"2": figures(rate(1, 4)), "1": figures(rate(1, 4))})
    found["versions"][1]["first_at"] = "2026-01-01T00:00:00.000000Z"
    assert [label for _, label in charts_of(found, None)[0].marks] == ["2"]


def test_a_small_chart_has_a_band_where_there_are_intervals() -> None:
    points = agent(
        *(figures(each) for each in (rate(1, 4), rate(0, 0), rate(2, 4, (0.1, 0.9)), rate(4, 4, (0.5, 1.0))))
    )
    drawn = spark(points["points"], lambda point: point["errors"])
    assert (drawn.line.count("M"), drawn.line.count("L")) == (1, 2)
    assert drawn.band.count("M") == 1


def test_the_newest_two_versions_are_compared() -> None:
    before, after = figures(rate(10, 100, (0.06, 0.17))), figures(rate(40, 100, (0.31, 0.5)))
    found = agent(figures(rate(1, 4)), versions={"3": after, None: after, "2": before, "1": before})
    comparison = compared(found, None, None)
    assert comparison is not None
    assert (comparison.before, comparison.after) == ("2", "3")
    [row] = [row for row in comparison.rows if row.difference is not None]
    assert row.words == "+30 points (+19 to +41)"
    assert row.is_worse


def test_versions_that_are_named_are_compared_and_others_refused() -> None:
    one = figures(rate(1, 4))
    found = agent(one, versions={"3": one, "2": one, "1": one})
    comparison = compared(found, "1", "2")
    assert comparison is not None
    assert (comparison.before, comparison.after) == ("1", "2")
    with pytest.raises(NotFound, match="'4' has no trace in the last 24h"):
        compared(found, "4", None)


def test_one_version_is_compared_with_nothing() -> None:
    one = figures(rate(1, 4))
    assert compared(agent(one, versions={"1": one}), None, None) is None


@pytest.mark.parametrize("seconds", [0.002, 0.5, 1.0, 3.7, 4000.0])
def test_a_duration_is_known_to_within_a_tenth(seconds: float) -> None:
    assert quantile({step_of(seconds): 1}, 0.5) == pytest.approx(seconds, rel=0.095)


def test_quantiles_are_of_traces() -> None:
    steps = {step_of(1.0): 94, step_of(60.0): 6}
    assert quantile(steps, 0.5) == pytest.approx(1.0, rel=0.095)
    assert quantile(steps, 0.95) == pytest.approx(60.0, rel=0.095)
    assert quantile({}, 0.5) is None


@pytest.mark.parametrize("chosen", Range)
def test_the_last_point_of_a_range_is_the_present_one(chosen: Range) -> None:
    now = 20_000 * DAY + DAY // 3
    last = chosen.first(now) + chosen.points - 1
    start = last * chosen.step * 3600 * 1_000_000_000
    assert start <= now < start + chosen.step * 3600 * 1_000_000_000
