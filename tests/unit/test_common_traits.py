"""What traces with a problem have in common: what stands out does so by more than chance, and sessions count once."""

import random
from collections.abc import Iterable

import pytest
from agenteval_collector.figures.common_traits import common_traits
from agenteval_collector.model.traits import CommonTrait, TracedTraits, Trait


def traced(session: str, *values: str) -> TracedTraits:
    return TracedTraits(session, frozenset(Trait("version", value) for value in values))


def standing_out(found: Iterable[CommonTrait]) -> list[str]:
    return [each.trait.value for each in found if each.stands_out]


def test_what_is_more_frequent_with_the_problem_stands_out_and_comes_first() -> None:
    those = [traced(f"p-{n}", "all", "bad" if n < 18 else "good") for n in range(20)]
    others = [traced(f"o-{n}", "all", "bad" if n < 4 else "good") for n in range(40)]
    found = common_traits(those, others)
    assert (found.sessions, found.others) == (20, 40)
    assert [(each.trait.value, each.sessions, each.others) for each in found.traits] == [("bad", 18, 4)]
    assert standing_out(found.traits) == ["bad"]


def test_a_session_counts_once_however_many_traces_it_has() -> None:
    those = [traced("one", "bad")] * 50
    others = [traced(f"o-{n}", "good") for n in range(5)]
    found = common_traits(those, others)
    assert (found.sessions, standing_out(found.traits)) == (1, [])


def test_a_session_with_the_problem_is_none_of_the_others() -> None:
    found = common_traits([traced("one", "bad")], [traced("one", "bad"), traced("two", "good")])
    assert (found.sessions, found.others) == (1, 1)


def test_without_others_nothing_stands_out_and_all_is_shown() -> None:
    found = common_traits([traced("one", "a"), traced("two", "a")], [])
    assert [(each.trait.value, each.stands_out) for each in found.traits] == [("a", False)]
    assert common_traits([], []).traits == []


@pytest.mark.parametrize("values", [2, 40])
def test_chance_makes_something_stand_out_rarely(values: int) -> None:
    """Of 400 problems that have nothing to do with any trait, at most 5 % and what is within chance of that."""
    chance = random.Random(5)

    def drawn(group: str) -> list[TracedTraits]:
        return [
            traced(f"{group}-{n}", f"v{chance.randrange(values)}", f"u{chance.randrange(values)}") for n in range(60)
        ]

    wrong = sum(bool(standing_out(common_traits(drawn("p"), drawn("o")).traits)) for _ in range(400))
    assert wrong <= 400 * 0.05 + 3 * (400 * 0.05 * 0.95) ** 0.5
