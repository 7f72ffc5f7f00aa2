"""The order of an agent's sessions: known failures first, then what is likely to have failed, learnt for each agent."""

import random
from typing import Any

import pytest
from agenteval_collector.figures.attention import ENOUGH_ENDS, Ranking, SessionFacts, ranked

NOTHING = SessionFacts("", None, None, None, None, None, None, None, 0, 0, 0, judged_failed=False, failed=None)


def session(number: int, steps: float | None, **facts: Any) -> SessionFacts:
    return NOTHING._replace(session_id=f"s{number:04d}", steps=steps, **facts)


def auroc(ranking: Ranking, failed: set[str]) -> float:
    """The share of pairs in which the session that failed comes first, by counting them."""
    order = list(ranking.order)
    pairs = [(a, b) for a in order if a in failed for b in order if b not in failed]
    return sum(order.index(a) < order.index(b) for a, b in pairs) / len(pairs)


def test_without_known_ends_most_steps_and_errors_come_first() -> None:
    ranking = ranked([session(1, 3), session(2, 30), session(3, 10), session(4, 30, errors=1)])
    assert ranking.order == ["s0004", "s0002", "s0003", "s0001"]
    assert (ranking.learnt_from, ranking.auroc, ranking.precision_at_20) == (0, None, None)
    assert ranking.reasons[0].startswith(("more steps than", "1 finding of severity error"))


def test_known_failures_come_first_and_known_successes_last() -> None:
    facts = [
        session(1, 100, failed=False),
        session(2, 1, failed=True),
        session(3, 5),
        session(4, 1, judged_failed=True),
    ]
    ranking = ranked(facts)
    assert ranking.order[-1] == "s0001"
    assert set(ranking.order[:2]) == {"s0002", "s0004"}
    assert ranking.reasons[-1] == "it is known to have succeeded"


@pytest.mark.parametrize("sign", [1, -1], ids=["long ones fail", "short ones fail"])
def test_what_fails_is_learnt_for_each_agent(sign: int) -> None:
    draw = random.Random(3)
    facts, failed = [], set()
    for number in range(400):
        steps = draw.randrange(5, 50)
        fails = draw.random() < (0.8 if sign * (steps - 27) > 0 else 0.2)
        known = number % 2 == 0
        facts.append(session(number, steps, failed=fails if known else None, seconds=draw.random()))
        if fails and not known:
            failed.add(f"s{number:04d}")
    ranking = ranked(facts)
    assert ranking.learnt_from == 200
    assert ranking.auroc is not None
    assert ranking.auroc > 0.7
    unknown = {each.session_id for each in facts if each.failed is None}
    order = [each for each in ranking.order if each in unknown]
    assert auroc(Ranking(order, ()), failed) > 0.7


@pytest.mark.parametrize("sign", [1, -1], ids=["long last answers fail", "short ones fail"])
def test_what_says_nothing_by_itself_is_learnt(sign: int) -> None:
    draw = random.Random(5)
    facts, failed = [], set()
    for number in range(200):
        answered = draw.randrange(1000)
        fails = draw.random() < (0.8 if sign * (answered - 500) > 0 else 0.2)
        known = number % 2 == 0
        facts.append(session(number, draw.randrange(50), answered=answered, failed=fails if known else None))
        if fails and not known:
            failed.add(f"s{number:04d}")
    ranking = ranked(facts)
    unknown = {each.session_id for each in facts if each.failed is None}
    assert auroc(Ranking([each for each in ranking.order if each in unknown], ()), failed) > 0.7
    first = next(reason for each, reason in zip(ranking.order, ranking.reasons, strict=True) if each in unknown)
    assert ("a longer last answer than" if sign > 0 else "a shorter last answer than") in first


def test_nothing_is_learnt_from_few_ends_or_from_ends_of_one_kind() -> None:
    few = [session(number, number, failed=bool(number % 2)) for number in range(ENOUGH_ENDS - 1)]
    assert ranked(few).learnt_from == 0
    assert ranked([session(number, number, failed=True) for number in range(ENOUGH_ENDS)]).learnt_from == 0


def test_measures_that_nobody_knows_do_no_harm() -> None:
    assert ranked([]).order == ()
    ranking = ranked([session(1, None), session(2, None)])
    assert set(ranking.order) == {"s0001", "s0002"}
    assert set(ranking.reasons) == {"nothing about it stands out"}
