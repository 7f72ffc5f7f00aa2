"""The paired tests of a judge with itself."""

import random
from math import comb

import pytest
from agenteval_collector.judge.drift import LEVEL, TOGETHER, find_drifts
from agenteval_collector.model.drift import CanaryAnswer, Drift


def answer(number: int, first: float | None, last: float | None, **changes: object) -> CanaryAnswer:
    """A canary's answers of two days."""
    fields: dict[str, object] = {
        "trace_id": f"t{number:03}", "name": "confidence", "version": "1",
        "model": "m", "threshold": 0.5, "first": first, "first_at": 1, "last": last, "last_at": 2, "reason": "so",
    }  # fmt: skip
    return CanaryAnswer(**{**fields, **changes})  # type: ignore[arg-type]


def only(*answers: CanaryAnswer) -> Drift:
    [found] = find_drifts(answers)
    return found


def two_sided(one: int, other: int) -> float:
    """The binomial test by its definition: all that is no more likely than what was found."""
    chances = [comb(one + other, k) / 2 ** (one + other) for k in range(one + other + 1)]
    return sum(chance for chance in chances if chance <= chances[one] * (1 + 1e-9))


@pytest.mark.parametrize(("up", "down", "same"), [(0, 0, 5), (1, 0, 3), (7, 2, 4), (0, 9, 1), (12, 12, 0)])
def test_the_p_value_of_flips_is_that_of_the_binomial_test(up: int, down: int, same: int) -> None:
    scores = [(0.2, 0.8)] * up + [(0.8, 0.2)] * down + [(0.8, 0.8)] * same
    found = only(*(answer(number, *pair) for number, pair in enumerate(scores)))
    assert found.p_value == pytest.approx(min(1.0, 2 * two_sided(up, down)))
    assert (found.higher, found.lower, len(found.flips), found.traces) == (up, down, up + down, len(scores))


def test_scores_that_all_fall_are_a_drift_without_a_single_flip() -> None:
    found = only(*(answer(number, 0.9, 0.8) for number in range(12)))
    assert (found.drifted, found.flips) == (True, ())


def test_a_judge_that_only_wavers_has_not_drifted_but_for_the_level() -> None:
    told = 0
    for seed in range(400):
        chance = random.Random(seed)
        pairs = [(chance.gauss(0.5, 0.1), chance.gauss(0.5, 0.1)) for _ in range(30)]
        told += only(*(answer(number, *pair) for number, pair in enumerate(pairs))).drifted
    assert told <= 3 * LEVEL * 400


def test_the_first_answer_after_a_change_is_compared_with_the_last_before() -> None:
    before = answer(1, 0.9, 0.2, last_at=5)
    found = only(before, answer(1, 0.8, 0.8, model="n", first_at=9, last_at=9))
    [flip] = found.flips
    assert (flip.before, flip.after, found.was, found.model) == (0.2, 0.8, "m, version 1", "n")


def test_answers_that_a_change_divides_do_not_count_beside_those_asked_for_in_one_way() -> None:
    changed = [answer(number, 0.9, 0.9) for number in range(1, 12)]
    changed += [answer(number, 0.1, 0.1, model="n", first_at=9, last_at=9) for number in range(1, 12)]
    assert (only(*changed).drifted, only(*changed).traces) == (True, 11)
    found = only(*changed, answer(12, 0.1, 0.1, model="n", first_at=9, last_at=10))
    assert (found.was, found.traces, found.drifted) == ("n, version 1", 1, False)


def test_of_answers_before_a_change_only_those_asked_for_in_one_way_count() -> None:
    older, newer = answer(1, 0.9, 0.9, last_at=3, model="k"), answer(2, 0.9, 0.9, last_at=5)
    now = [answer(number, 0.1, 0.1, model="n", first_at=9, last_at=9) for number in (1, 2)]
    assert (only(older, newer, *now).was, only(older, newer, *now).traces) == ("m, version 1", 1)


def test_answers_that_wait_to_be_asked_for_in_the_new_way_do_not_count() -> None:
    waiting = answer(1, 0.9, 0.1, last_at=8)
    assert only(waiting, answer(2, 0.9, 0.9, first_at=7, last_at=9, model="n")).traces == 1


def test_a_drift_is_over_when_the_judge_says_again_what_it_said_first() -> None:
    assert only(*(answer(number, 0.9, 0.1) for number in range(12))).drifted
    assert not only(*(answer(number, 0.9, 0.9, last_at=3) for number in range(12))).drifted


def test_an_answer_without_a_score_is_compared_with_nothing() -> None:
    assert only(answer(1, None, 0.9), answer(2, 0.9, None)).p_value is None


def test_old_answers_of_traces_that_are_gone_do_not_count_for_ever() -> None:
    old, new = answer(1, 0.9, 0.1, last_at=2), answer(2, 0.9, 0.9, last_at=3 + TOGETHER)
    assert only(old, new).traces == 1


def test_evaluators_are_apart() -> None:
    found = find_drifts([answer(1, 0.9, 0.1), answer(1, 0.9, 0.9, name="politeness")])
    assert [(each.name, len(each.flips)) for each in found] == [("confidence", 1), ("politeness", 0)]
    assert find_drifts([]) == ()
