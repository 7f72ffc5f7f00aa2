"""Which traces and reports of the same ids are one run."""

import random
from typing import Any

import pytest
from agenteval_collector.figures.counting import grouped, reported_run
from agenteval_collector.model.runs import RunReport
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_reliability_runs import trace

OLD: dict[str, Any] = {"service_version": "1.4"}
NEW: dict[str, Any] = {"service_version": "1.5"}


def owners(*traces: Any) -> list[tuple[str | None, str | None, list[int]]]:
    return [(run.whose.agent, run.whose.version, [each.started_at for each in run.traces]) for run in grouped(traces)]


@pytest.mark.parametrize(
    ("traces", "expected"),
    [
        pytest.param(
            [trace(1), trace(2, agent="other"), trace(3)],
            [("clerk", "1", [1, 3]), ("other", "1", [2])],
            id="another agent is another run",
        ),
        pytest.param(
            [trace(1), trace(2, service="bank"), trace(3)],
            [("clerk", "1", [1, 3]), ("clerk", "1", [2])],
            id="another service's agent of the same name is another run",
        ),
        pytest.param(
            [trace(1, **OLD), trace(2, **OLD), trace(3, **NEW)],
            [("clerk", "1.4", [1, 2]), ("clerk", "1.5", [3])],
            id="another version is another run",
        ),
        pytest.param(
            [trace(1, agent=None, **NEW), trace(2, **OLD), trace(3, **NEW)],
            [("clerk", "1.4", [2]), ("clerk", "1.5", [1, 3])],
            id="without an agent it joins the run of its version",
        ),
        pytest.param(
            [trace(2, **OLD), trace(3, agent=None, service_version=None), trace(4, **NEW)],
            [("clerk", "1.4", [2, 3]), ("clerk", "1.5", [4])],
            id="else the one that had begun last",
        ),
        pytest.param(
            [trace(1, agent=None, service_version=None), trace(4, **NEW)],
            [("clerk", "1.5", [1, 4])],
            id="else the first to begin",
        ),
        pytest.param(
            [trace(1, agent=None, **OLD), trace(2, agent=None, **NEW)],
            [(None, "1.4", [1]), (None, "1.5", [2])],
            id="without any agent, by version",
        ),
    ],
)
def test_traces_of_one_agents_version_are_a_run(traces: list[Any], expected: Any) -> None:
    assert owners(*traces) == expected
    assert owners(*reversed(traces)) == expected


@pytest.mark.parametrize(
    ("report", "version"),
    [
        pytest.param({"reported_at": 15}, "1.4", id="of the run that had begun"),
        pytest.param({"reported_at": 20}, "1.5", id="of the newest that had begun"),
        pytest.param({"reported_at": 5}, "1.4", id="before any had begun, of the first"),
        pytest.param({"reported_at": 99, "service_version": "1.4"}, "1.4", id="of the version it names"),
        pytest.param({"reported_at": 1, "service_version": "1.5"}, "1.5", id="though it had not begun"),
        pytest.param({"reported_at": 15, "service_version": "driver 2"}, "1.5", id="of a service that took part"),
        pytest.param({"reported_at": 15, "service_version": "1.6"}, None, id="of a version that is not there"),
        pytest.param({"reported_at": 15, "agent": "nobody"}, None, id="of an agent that is not there"),
    ],
)
def test_a_report_is_of_the_run_it_names_and_else_of_the_newest_begun(
    report: dict[str, Any], version: str | None
) -> None:
    runs = grouped([trace(10, **OLD), trace(20, versions=("1.5", "driver 2"), **NEW)])
    found = reported_run(runs, RunReport(task_id="refund", run_id="1", success=True, **report))
    assert (found.whose.version if found else None) == version


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.sampled_from(["a", "b", None]),
            st.sampled_from(["shop", "bank", None]),
            st.sampled_from(["1", "2", None]),
        )
    ),
    st.randoms(use_true_random=False),
)
def test_every_trace_is_in_one_run_whatever_the_order(facts: list[Any], shuffle: random.Random) -> None:
    traces = [
        trace(number, started_at=start, agent=agent, service=service, service_version=version)
        for number, (start, agent, service, version) in enumerate(facts)
    ]
    runs = grouped(traces)
    assert sorted(each.trace_id for run in runs for each in run.traces) == [each.trace_id for each in traces]
    assert len({run.whose for run in runs}) == len(runs)
    assert [run.began for run in runs] == sorted(run.began for run in runs)
    shuffle.shuffle(traces)
    assert grouped(traces) == runs
