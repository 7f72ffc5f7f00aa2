"""What several processes show to Prometheus: counters add up, and what is so for all of them is shown once."""

import re

import pytest

from tests.support.eventually import eventually
from tests.support.otlp import traces, turn
from tests.support.roles import Start, completed
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.distributed

SHARED = ("agenteval_sessions_active", "agenteval_problems", "agenteval_agent_pass_rate", "agenteval_reliability")
TRACES = 24


def test_counters_add_up_and_facts_are_shown_once(start_role: Start) -> None:
    receiver, _, *evaluators = (start_role(role) for role in ("receive", "assemble", "evaluate", "evaluate"))
    server = start_role("serve")
    eventually(lambda: [len(lags(each)) for each in evaluators] == [2, 2], within=60)
    for number in range(1, TRACES + 1):
        receiver.send(traces(turn(number, f"ask {number}", f"say {number}", session=f"s{number % 8}")))
    for number in range(1, TRACES + 1):
        completed(server, number, within=60)

    def outcomes() -> list[float]:
        labels = {"gen_ai_evaluation_name": "coherence", "agenteval_subject": "trace"}
        everybody = [*evaluators, receiver, server]
        return [sum(series(each, "agenteval_evaluation_outcomes_total", **labels).values()) for each in everybody]

    eventually(lambda: sum(outcomes()) == TRACES, within=30)
    first, second, *others = outcomes()
    assert first > 0, "both have a share"
    assert second > 0
    assert others == [0, 0]
    assert [*series(receiver, "agenteval_collector_spans_received_total").values()] == [TRACES]
    # All sessions go on, whichever process has them in memory.
    eventually(lambda: active(server) == 8, within=30)
    for each in (receiver, *evaluators):
        shown = each.get("/metrics")
        assert not [gauge for gauge in SHARED if gauge in shown]


def test_the_lag_of_each_partition_is_shown_where_it_is_read(start_role: Start) -> None:
    receiver, assembler = start_role("receive"), start_role("assemble")
    for number in range(1, 21):
        receiver.send(traces(turn(number, "a", "b", session=f"s{number}")))
    # Nobody evaluates, so nothing is done with.
    eventually(lambda: sum(lags(assembler)) == 20, within=60)
    evaluator = start_role("evaluate")
    eventually(lambda: [lags(each) for each in (assembler, evaluator)] == [[0.0] * 4] * 2, within=60)
    assert not lags(receiver)


def lags(collector: RunningCollector) -> list[float]:
    return [*series(collector, "agenteval_collector_partition_lag").values()]


def active(collector: RunningCollector) -> float:
    """Sessions that go on, of all agents."""
    found = series(collector, "agenteval_sessions_active")
    return sum(value for labels, value in found.items() if "gen_ai_evaluation_name" not in labels)


def series(collector: RunningCollector, name: str, **labels: str) -> dict[str, float]:
    """The series of that name with these labels, by all their labels."""
    lines = (re.fullmatch(rf"{name}(\{{.*\}})? ([^ ]+)", line) for line in collector.get("/metrics").splitlines())
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    return {line[1] or "": float(line[2]) for line in lines if line and all(each in (line[1] or "") for each in wanted)}
