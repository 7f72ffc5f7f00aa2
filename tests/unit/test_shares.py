"""How much of what is shared one caller gets."""

from collections import Counter

import pytest
from agenteval_collector.ingest.shares import Shares, sharer_of
from agenteval_collector.model.callers import ANONYMOUS, Caller
from hypothesis import given
from hypothesis import strategies as st


def taken(shares: Shares, who: str) -> int:
    """How many places somebody gets who takes all that can be had."""
    count = 0
    while shares.take(who):
        count += 1
    return count


@pytest.mark.parametrize(("total", "most"), [(512, 384), (384, 288), (8, 6), (4, 3), (3, 2), (1, 1), (0, 0)])
def test_a_caller_alone_gets_three_quarters(total: int, most: int) -> None:
    assert taken(Shares(total), "shop") == most


def test_there_is_room_for_who_comes_next() -> None:
    shares = Shares(512)
    assert [taken(shares, who) for who in "abcdef"] == [384, 96, 24, 6, 1, 1]
    shares.give_back("a", 384)
    assert taken(shares, "g") == 288


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.booleans())))
def test_no_more_is_taken_than_there_is_and_who_holds_nothing_gets_what_is_free(
    steps: list[tuple[str, int, bool]],
) -> None:
    shares, held = Shares(100), Counter[str]()
    for who, size, takes in steps:
        if takes:
            free = 100 - held.total()
            got = shares.take(who, size)
            assert got is (size <= free and (not held[who] or held[who] + size <= 3 * (free - size)))
            held[who] += size * got
        else:
            given_back = min(size, held[who])
            shares.give_back(who, given_back)
            held[who] -= given_back


def test_a_key_is_one_caller_wherever_it_is_used_and_without_keys_an_address_is() -> None:
    shop = Caller("shop")
    assert sharer_of(shop, "10.0.0.1") == sharer_of(shop, "10.0.0.2") != sharer_of(Caller("bank"), "10.0.0.1")
    assert sharer_of(ANONYMOUS, "10.0.0.1") != sharer_of(ANONYMOUS, "10.0.0.2")
