"""Least values that a replay has to reach."""

import re
from typing import Any, cast

import pytest
from agenteval_collector.cli.gate import Least, read_least, refuse_unknown, shortfalls
from agenteval_collector.figures.assembled_run import NO_OUTCOME
from agenteval_collector.model.runs import Unmatched
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.figure_documents import ReplayDocument

from otel_agenteval.metrics import RELIABILITY_METRICS


def item(version: str, **figures: float) -> dict[str, Any]:
    return {
        "agent": "clerk",
        "version": version,
        "runs": 5,
        "left_out": {},
        "metrics": {**dict.fromkeys(RELIABILITY_METRICS), **figures},
        "reasons": {"R_rob": "there is no run under 'fault'"},
        "pass_at_k": {"1": 0.6, "2": 0.9},
        "pass_hat_k": {"1": 0.6, "2": 0.3},
    }


def scored(name: str, *scores: float | None, method: str = "embedding") -> list[dict[str, Any]]:
    return [{"outcomes": [{"name": name, "score": score, "method": method, "reason": "no answer"}]} for score in scores]


def document(**parts: Any) -> ReplayDocument:
    """A replay of which there is only what the gate reads."""
    return cast("ReplayDocument", {"traces": [], "sessions": [], "reliability": [], **parts})


BOTH = document(reliability=[item("1", C_out=0.9), item("2", C_out=0.7)])


@pytest.mark.parametrize(
    ("name", "value", "short"),
    [
        pytest.param("C_out", 0.6, [], id="reached by all"),
        pytest.param("C_out", 0.7, [], id="just reached"),
        pytest.param("C_out", 0.8, [("clerk 2", 0.7, "")], id="missed by one version"),
        pytest.param(
            "R_rob",
            0.1,
            [("clerk 1", None, "there is no run under 'fault'"), ("clerk 2", None, "there is no run under 'fault'")],
            id="undefined falls short, whatever was wanted",
        ),
        pytest.param("pass^1", 0.6, [], id="pass^1"),
        pytest.param("pass^1", 0.6 + 5e-10, [], id="missed by less than floating point is exact to"),
        pytest.param("pass_hat_k:2", 0.4, [("clerk 1", 0.3, ""), ("clerk 2", 0.3, "")], id="pass^2 in words"),
        pytest.param("pass_at_k:2", 0.9, [], id="pass@2 in words"),
        pytest.param("pass@2", 0.9, [], id="pass@2"),
        pytest.param("pass^7", 0.0, [("clerk 1", None, ""), ("clerk 2", None, "")], id="too few runs for pass^7"),
    ],
)
def test_figures_of_every_version_have_to_reach(name: str, value: float, short: list[tuple[str, Any, str]]) -> None:
    found = shortfalls(BOTH, [Least(name, value)])
    assert [(each.of, each.found) for each in found] == [(of, value) for of, value, _ in short]
    assert all(each.reason for each in found if each.found is None)


def test_what_was_only_reported_is_no_version_that_has_to_reach_anything() -> None:
    reported = {**item("3"), "runs": 0, "left_out": {Unmatched.NO_TRACE.value: 1}}
    unknown = {**item("4"), "runs": 0, "left_out": {NO_OUTCOME: 1}, "pass_hat_k": {}}
    found = shortfalls(document(reliability=[item("1"), reported, unknown]), [Least("pass^1", 0.5)])
    assert [each.of for each in found] == ["clerk 4"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param(document(traces=scored("coherence", 0.5, 0.9, None)), 0.7, id="mean of the traces that have it"),
        pytest.param(document(sessions=scored("coherence", 0.25)), 0.25, id="of sessions"),
        pytest.param(document(traces=scored("coherence", None)), None, id="none has a score"),
        pytest.param(document(traces=scored("other", 1.0)), None, id="a name that nothing has"),
    ],
)  # fmt: skip
def test_scores_have_to_reach_in_the_mean(given: ReplayDocument, found: float | None) -> None:
    (short,) = shortfalls(given, [Least("coherence", 0.95)])
    assert short.found == (None if found is None else pytest.approx(found))
    assert short.reason or found is not None


def test_without_any_run_figures_fall_short() -> None:
    (short,) = shortfalls(document(), [Least("R", 0.1)])
    assert (short.of, short.found, short.reason) == ("every agent", None, "no run counts")


@pytest.mark.parametrize(
    ("text", "least"),
    [
        pytest.param("pass^4=0.5", Least("pass^4", 0.5), id="a figure"),
        pytest.param("coherence = 1", Least("coherence", 1.0), id="with spaces"),
    ],
)
def test_read_least(text: str, least: Least) -> None:
    assert read_least(text) == least


@pytest.mark.parametrize("text", ["R", "R=", "=0.5", "R=high", "R=1.5", "R=-0.1", "R=nan"])
def test_what_is_no_least_value_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is not NAME=VALUE with a value from 0 to 1"):
        read_least(text)


@pytest.mark.parametrize("name", ["R", "pass^3", "pass_at_k:2", "polite", "coherence", "agent_reliability"])
def test_a_figure_that_can_be_there_is_known(name: str) -> None:
    refuse_unknown(document(traces=scored("polite", 1.0)), [Least(name, 0.5)])


@pytest.mark.parametrize("name", ["nonsense", "polite ", "pass^0", "pass"])
def test_a_name_that_no_figure_has_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"called {re.escape(repr(name))}; there are .*coherence.*polite.*R_con"):
        refuse_unknown(document(traces=scored("polite", 1.0)), [Least(name, 0.5)])
