"""What the judge is asked about beside its sample: what a guess of its verdict is least certain of."""

from collections.abc import Sequence

import pytest
from agenteval_collector.judge.uncertain import UncertainAsking
from agenteval_collector.model.pass_rates import JudgeRate, Rated, VersionRate
from agenteval_collector.runtime.errors import Unavailable

from otel_agenteval.metrics.pass_rate import JudgedTrace, judged_rate, pass_rate

SUBJECTS = [JudgedTrace(str(number), 0.5, number % 2 == 0, 1.0) for number in range(20)]


def rate(name: str = "task_completion", *uncertain: str, beside: int = 0, guessed: int = 80) -> VersionRate:
    """The rate of 20 judged subjects."""
    by_judge = JudgeRate(judged_rate(SUBJECTS), 20, guessed, 0.7, uncertain, beside)
    return VersionRate(Rated("planner", "shop", "1", name), pass_rate(SUBJECTS), (), 0, by_judge)


class Asked:
    """The rates as they are at a look, and what is asked."""

    def __init__(self, *rates: VersionRate, share: float = 0.1, on_duty: bool = True) -> None:
        self.asked: list[tuple[Sequence[str], Sequence[str]]] = []
        self.stage = UncertainAsking(lambda: rates, self.ask, share, lambda: on_duty)

    def ask(self, traces: Sequence[str], sessions: Sequence[str]) -> None:
        self.asked.append((traces, sessions))


def test_traces_and_sessions_are_asked_about_as_their_rate_names_them() -> None:
    found = Asked(rate("task_completion", "t1", "t2"), rate("goal_success", "s1"), rate("safety", "t2", "t3"))
    found.stage.step()
    assert found.asked == [(["t1", "t2", "t3"], ["s1"])]


@pytest.mark.parametrize(("beside", "asked"), [(0, 10), (7, 3), (10, 0), (30, 0)])
def test_what_was_judged_for_findings_or_before_leaves_the_rest_of_the_share(beside: int, asked: int) -> None:
    names = [f"t{number}" for number in range(20)]
    found = Asked(rate("task_completion", *names, beside=beside))
    found.stage.step()
    assert found.asked == ([(names[:asked], [])] if asked else [])


def test_nothing_is_asked_where_nothing_is_guessed_and_off_duty() -> None:
    nothing = VersionRate(Rated("planner", "shop", "1", "safety"), pass_rate(SUBJECTS), (), 0)
    for found in (Asked(nothing), Asked(rate("task_completion")), Asked(rate("safety", "t"), on_duty=False)):
        found.stage.step()
        assert found.asked == []


def test_a_refusal_is_tried_again_at_the_next_look() -> None:
    found, refused = Asked(rate("task_completion", "t1")), [Unavailable("not now")]

    def ask(traces: Sequence[str], sessions: Sequence[str]) -> None:
        if refused:
            raise refused.pop()
        found.ask(traces, sessions)

    stage = UncertainAsking(lambda: [rate("task_completion", "t1")], ask, 0.1, lambda: True)
    stage.step()
    assert found.asked == []
    stage.step()
    assert found.asked == [(["t1"], [])]
