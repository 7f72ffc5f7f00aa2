"""Panels that the dashboard of all agents and that of one agent both show, each for its own series and labels."""

from collections.abc import Sequence
from typing import Final

from grafana_foundation_sdk.builders.stat import Panel as StatPanel
from grafana_foundation_sdk.builders.timeseries import Panel as TrendPanel

from deploy.builder.panels import ORANGE, RED, Link, Query, Steps, stat, trend
from deploy.builder.promql import EVALUATOR, TENANT, Series, grown, label, quantile, rate, share

NORMAL: Final[Steps] = ((0.1, ORANGE), (0.2, RED))
"""One trace in ten with an error is what the alerts take for normal; twice as many is not."""
OPEN: Final = ('agenteval_problem_severity="error"', 'agenteval_problem_state=~"new|ongoing|regressed"')
"""The matchers of the open problems of severity error."""


def errors_now(own: Series, links: Sequence[Link] = ()) -> StatPanel:
    """Return the share of traces with an error over the time range."""
    return stat(
        "Traces with an error",
        "Share of the traces of the time range whose worst finding is an error. Orange from 10 %, which the alerts "
        "take for normal; red from 20 %.",
        error_share(own),
        unit="percentunit",
        steps=NORMAL,
        nothing="no traces",
        links=links,
    )


def errors_over_time(own: Series, by: Sequence[str], named: str, links: Sequence[Link]) -> TrendPanel:
    """Return the share of traces with an error as a line for each value of the labels `by`, which are `named` so."""
    return trend(
        f"Traces with an error, by {named}",
        "Share of traces whose worst finding is an error. The line at 10 % is what the alerts take for normal.",
        Query(share(rate(with_error(own), *by), rate(own("agenteval_traces_total"), *by)), label(*by)),
        unit="percentunit",
        steps=NORMAL,
        largest=1,
        links=links,
    )


def error_share(own: Series, *by: str) -> str:
    """Return the query of the share of traces with an error over the time range."""
    return share(grown(with_error(own), *by), grown(own("agenteval_traces_total"), *by))


def evidence(expr: str, version: str, links: Sequence[Link]) -> TrendPanel:
    """Return the evidence against versions, from the series `expr`; `version` is the legend that names one."""
    return trend(
        "Evidence that a version is worse",
        "Against the version before it, for each evaluator and kind of finding. From 20 on it is worse: where "
        "nothing got worse, 5 % of the versions ever reach that.",
        Query(expr, f"{version}: {label(EVALUATOR)}{{{{agenteval_finding_kind}}}} {label(TENANT)}"),
        steps=((20, RED),),
        links=links,
    )


def burnt(own: Series, by: Sequence[str], links: Sequence[Link]) -> TrendPanel:
    """Return the cost of loops per hour, as a line for each value of the labels `by`."""
    return trend(
        "Burnt in loops, per hour",
        "US dollars of model calls that repeated in a loop. All of it is waste.",
        Query(f"3600 * {rate(own('agenteval_loops_cost_total'), *by)}", label(*by)),
        unit="currencyUSD",
        links=links,
        width=8,
    )


def coverage(own: Series, by: Sequence[str], links: Sequence[Link] = ()) -> TrendPanel:
    """Return the coverage of session scores, as a line for each value of the labels `by`."""
    return trend(
        "Coverage of session scores",
        "Median share of the signals a session's score should rest on that were there. Below 0.5 a session has no "
        "score by default.",
        Query(quantile(0.5, own("agenteval_session_coverage_bucket"), *by), label(*by)),
        unit="percentunit",
        largest=1,
        links=links,
    )


def with_error(own: Series) -> str:
    return own("agenteval_traces_total", 'agenteval_worst="error"')
