"""Reliability over runs agrees with values that the authors' own code gave, and with what they published."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from otel_agenteval.metrics import RELIABILITY_METRICS, Run, reliability_report
from otel_agenteval.metrics.consistency import CONSISTENCY, Variant
from tests.support.vectors import published, vectors

DATASETS = {dataset["id"]: dataset for dataset in vectors("reliability_over_runs.json")["datasets"]}
KEYS: Mapping[Variant, str] = {"page": "page_era", "2026-06": "head"}

OUT_OF_RANGE = "edge_conf_out_of_range"
"""Its confidences are refused."""
DERIVED = ("edge_cost_from_tokens", "edge_parsed_score_only")
"""Their costs and confidences are derived from something else, before any metric."""

THEIR_SEVERITIES = {"low": 0.25, "medium": 0.5, "high": 1.0, "critical": 0.5}
"""The authors' code has no weight of its own for a critical violation."""

ACCEPTED = [name for name in DATASETS if name not in (*DERIVED, OUT_OF_RANGE)]


def resources(recorded: Mapping[str, Any]) -> dict[str, float]:
    """Of one run: calls are summed up, latencies averaged."""
    latencies = recorded["call_latencies_ms"]
    measured = {name: recorded[name] for name in ("cost", "time", "num_actions", "num_errors")}
    if recorded["api_calls"]:
        measured["api_calls"] = sum(recorded["api_calls"])
    if latencies:
        measured["call_latency"] = sum(latencies) / len(latencies)
    return {name: amount for name, amount in measured.items() if amount is not None}


def runs(dataset: Mapping[str, Any]) -> Iterator[Run]:
    for each in dataset["input"]["baseline"]:
        found = each["violations"]
        yield Run(
            task_id=each["task"],
            run_id=str(each["run"]),
            success=bool(int(each["reward"])),
            actions=each["actions"],
            confidence=each["confidence"],
            resources=resources(each["resources"]) if each.get("resources") else {},
            violations=None if found is None else [(one["constraint"], one["severity"]) for one in found],
        )
    for condition, perturbed in (dataset["input"]["perturbed"] or {}).items():
        for each in perturbed:
            for number, score in enumerate(each.get("variation_scores", [each.get("reward")])):
                yield Run(each["task"], f"{each['run']}-{number}", score > 0, condition, (), each.get("confidence"))


@pytest.mark.parametrize("variant", KEYS)
@pytest.mark.parametrize("name", ACCEPTED)
def test_every_figure_agrees_with_the_authors_code(name: str, variant: Variant) -> None:
    report = reliability_report(runs(DATASETS[name]), variant, THEIR_SEVERITIES)
    expected = {**DATASETS[name]["expected"]["common"], **DATASETS[name]["expected"][KEYS[variant]]}
    expected["R"] = expected["R_overall"]
    assert list(report.metrics) == list(RELIABILITY_METRICS)
    for metric, value in report.metrics.items():
        if metric == "P_rc":
            assert_between(value, expected.get("P_rc_ties_failure_first"), expected.get("P_rc_ties_success_first"))
        else:
            assert value == pytest.approx(expected[metric], abs=1e-9), metric
        assert (metric in report.reasons) == (value is None)


def assert_between(value: float | None, low: float | None, high: float | None) -> None:
    if low is None or high is None:
        assert value is None
    else:
        assert value is not None
        assert low - 1e-9 <= value <= high + 1e-9


@pytest.mark.parametrize("variant", KEYS)
@pytest.mark.parametrize("name", ACCEPTED)
def test_every_task_agrees_with_the_authors_code(name: str, variant: Variant) -> None:
    report = reliability_report(runs(DATASETS[name]), variant, THEIR_SEVERITIES)
    for task_id, theirs in (DATASETS[name]["expected"]["per_task"] or {}).items():
        expected = {**theirs, **theirs[KEYS[variant]]}
        found = report.by_task[task_id]
        assert found["runs"] == expected["n_runs"]
        assert found["success_rate"] == pytest.approx(expected["success_rate"])
        for metric in CONSISTENCY:
            assert found[metric] == pytest.approx(expected[metric], abs=1e-9), (task_id, metric)


def test_confidences_outside_the_unit_interval_are_refused() -> None:
    with pytest.raises(ValueError, match=r"confidence of run '0' of task 't0' is 1\.2, not a number in \[0, 1\]"):
        list(runs(DATASETS[OUT_OF_RANGE]))


def real_data() -> Any:
    return published("vectors/reliability_over_runs.json")["published_real_data"]


def test_the_published_table_is_reproduced() -> None:
    for row in real_data()["rows"]:
        confidences = [(True, each) for each in row["correct_confidences"]]
        confidences += [(False, each) for each in row["incorrect_confidences"]]
        report = reliability_report(
            Run(f"t{number}", "0", success, confidence=confidence)
            for number, (success, confidence) in enumerate(confidences)
        )
        for metric in ("P_cal", "P_auroc", "P_brier"):
            assert report.metrics[metric] == pytest.approx(row["published"][metric], abs=1e-9), row["agent"]
        assert_between(report.metrics["P_rc"], *row["P_rc_tie_band"])


@pytest.mark.parametrize(("variant", "key"), [("page", "published_C_out"), ("2026-06", "C_out_head_formula")])
def test_the_published_outcome_consistency_is_reproduced(variant: Variant, key: str) -> None:
    for row in real_data()["outcome_rates"]:
        report = reliability_report(
            [
                Run(f"t{task}", str(run), run < round(rate * row["K"]))
                for task, rate in enumerate(row["task_success_rates"])
                for run in range(row["K"])
            ],
            variant,
        )
        assert report.metrics["C_out"] == pytest.approx(row[key], abs=1e-9), row["model"]


def test_the_pass_hat_k_of_published_conversations_is_reproduced() -> None:
    """25 tasks of the airline domain of tau-bench, gpt-4o, four trials each."""
    report = reliability_report(
        Run(str(each["task_id"]), str(each["trial"]), each["reward"] == 1)
        for each in published("taubench/gpt-4o-airline-tasks-00-24.json")
    )
    assert report.pass_hat_k == pytest.approx({1: 0.31, 2: 0.193333, 3: 0.17, 4: 0.16}, abs=1e-6)
