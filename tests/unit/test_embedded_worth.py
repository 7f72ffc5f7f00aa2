"""The figures on what evaluators are worth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.embedded_worth import BEGIN, END, PAGE, auroc, worth
from benchmarks.workload.conversation import Conversation


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=20))
def test_auroc_is_the_share_of_pairs_in_order(scored: list[tuple[int, bool]]) -> None:
    successes = [value for value, success in scored if success]
    failures = [value for value, success in scored if not success]
    pairs = [(s > f) + (s == f) / 2 for s in successes for f in failures]
    alike = len({value for value, _ in scored}) == 1
    expected = None if alike or not pairs else pytest.approx(sum(pairs) / len(pairs))
    values, positive = np.array([v for v, _ in scored], dtype=float), np.array([s for _, s in scored])
    assert auroc(values, positive) == expected


def conversation(task: int, run: int, *, success: bool) -> Conversation:
    return Conversation(session_id=f"{task}-{run}", task_id=str(task), run_id=str(run), success=success, turns=())


def test_the_interval_is_wider_where_the_trials_of_a_task_are_alike() -> None:
    alike = [conversation(task, run, success=task % 2 == 0) for task in range(10) for run in range(10)]
    mixed = [conversation(task, run, success=run % 2 == 0) for task in range(10) for run in range(10)]
    by_task = {each.session_id: float(int(each.task_id) % 3) for each in alike}
    by_run = {each.session_id: float(int(each.run_id) % 3) for each in mixed}
    of_tasks, of_runs = worth(by_task, alike), worth(by_run, mixed)
    assert of_tasks.n == of_runs.n == 100
    assert of_tasks.auroc == of_runs.auroc
    assert of_tasks.high - of_tasks.low > 0.3
    assert of_runs.high - of_runs.low == pytest.approx(0)


def test_conversations_without_a_score_are_left_out() -> None:
    known = [conversation(0, 0, success=True), conversation(1, 0, success=False), conversation(2, 0, success=True)]
    assert worth({"0-0": 0.9, "1-0": 0.1}, known).n == 2


def test_the_page_has_a_place_for_the_figures() -> None:
    page = PAGE.read_text("utf-8")
    assert page.index(BEGIN) < page.index(END)
