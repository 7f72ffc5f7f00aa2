"""Expressions that several panels have in common."""

from collections.abc import Sequence
from typing import Final

AGENT: Final = "gen_ai_agent_name"
VERSION: Final = "service_version"
EVALUATOR: Final = "gen_ai_evaluation_name"
TENANT: Final = "agenteval_tenant"
"""The label of a named tenant's series; those of the default tenant have none."""
CHOSEN: Final = f'{TENANT}=~"${{tenant:pipe}}"'
"""The matcher of the chosen tenants' series. What is chosen are regular expressions (`frame.tenants`), which Grafana
must not escape."""


def label(*names: str) -> str:
    """Return the values of labels, as legends name them."""
    return " ".join(f"{{{{{name}}}}}" for name in names)


class Series:
    """Names series that match what a dashboard's variables say."""

    def __init__(self, *matchers: str) -> None:
        self._matchers = matchers

    def __call__(self, name: str, *matchers: str) -> str:
        """Return the selector of series `name` with the dashboard's matchers and these."""
        return f"{name}{{{', '.join((*self._matchers, *matchers))}}}"


def grown(selector: str, *by: str) -> str:
    """Return by how much counters grew within the dashboard's time range."""
    return _summed(f"increase({selector}[$__range])", by)


def rate(selector: str, *by: str) -> str:
    """Return how fast counters grow, per second."""
    return _summed(f"rate({selector}[$__rate_interval])", by)


def shared_gauge(selector: str, *by: str) -> str:
    """Return a gauge that is the same for all processes that share the work: one of them shows it, and for a moment
    two, if another one takes over. `by` are the labels that tell such gauges apart."""
    return f"max by ({', '.join((*by, TENANT))}) ({selector})"


def share(selection: str, whole: str) -> str:
    """Return the part of a whole, from 0 to 1. If there is a whole and no part it is 0; without a whole, nothing."""
    return f"({selection} or 0 * {whole}) / ({whole} > 0)"


def quantile(level: float, selector: str, *by: str) -> str:
    """Return a quantile of a histogram, given by its `_bucket` series."""
    return f"histogram_quantile({level}, {rate(selector, 'le', *by)})"


def largest(number: int, expression: str) -> str:
    """Return the series with the largest values at each moment, so that a panel stays readable."""
    return f"topk({number}, {expression})"


def _summed(expression: str, by: Sequence[str]) -> str:
    return f"sum by ({', '.join(by)}) ({expression})" if by else f"sum({expression})"
