"""What is volatile in a tool's results is learnt from equal calls, and progress is not."""

from itertools import pairwise

import pytest

from otel_agenteval.detectors.volatile import MAX_SLOTS, VolatileValues, without
from otel_agenteval.finding import Finding
from tests.support.wire import GenAI, Stage

PAGE = "The harbour of the town is closed to ships of more than ninety feet until the new pier is built."


def learnt(*results: str) -> frozenset[str]:
    values = VolatileValues()
    for before, after in pairwise(results):
        values.learn(before, after)
    return values.known


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        (['{"zq": "a81fc3"}', '{"zq": "b7720e"}', '{"zq": "09cd1a"}'], {"zq"}),
        (["stempel a81fc3", "stempel b7720e", "stempel 09cd1a"], {"stempel"}),
        (["charge=77", "charge=9000", "charge=12", "charge=512"], {"charge"}),
        # Two numbers that rise may be progress, and so may four.
        (["done 10", "done 20", "done 30", "done 90"], set()),
        # What was measured does not jump.
        (["celsius 20.1", "celsius 20.4", "celsius 20.2", "celsius 21.0"], set()),
        (["lines 1-40", "lines 41-80", "lines 81-120", "lines 121-160"], set()),
        # One that stayed once is none, and a mark of the next page is news.
        (['{"zq": "a81fc3"}', '{"zq": "b7720e"}', '{"zq": "b7720e"}', '{"zq": "c0ffee1"}'], set()),
        (['{"next_cursor": "a81fc3"}', '{"next_cursor": "b7720e"}', '{"next_cursor": "09cd1a"}'], set()),
    ],
)
def test_values_that_differ_in_every_equal_call_are_volatile(results: list[str], expected: set[str]) -> None:
    assert learnt(*results) == expected


def test_as_many_words_are_remembered_as_there_is_room_for() -> None:
    result = [" ".join(f"word{chr(97 + n // 26)}{chr(97 + n % 26)} x{n}{k}0000" for n in range(200)) for k in range(4)]
    assert len(learnt(*result)) == MAX_SLOTS


def test_only_what_stands_behind_the_word_is_hidden() -> None:
    assert without("zq a81fc3, page 7, zq: b7720e", frozenset({"zq"})) == "zq ¤, page 7, zq: ¤"


def found(results: list[object]) -> list[Finding]:
    stage = Stage(GenAI())
    stage.converse([("calls", "look", {"at": "harbour"}, result) for result in results])
    found = stage.told_in_the_agent()
    assert [each.kind for each in found] == [each.kind for each in stage.told_when_complete()]
    return found


def test_a_page_that_only_differs_in_an_unknown_number_is_the_same_page() -> None:
    lots = (77, 9000, 12, 512, 88)
    assert [each.is_alarm for each in found([{"page": PAGE, "charge": lot} for lot in lots])] == [True]


def test_a_result_that_is_nothing_but_volatile_is_still_what_was_asked_for() -> None:
    coupons = ("1EC42DE2", "B09EFEAB", "B502B586", "D80D080B")
    assert not any(each.is_alarm for each in found([{"coupon": coupon} for coupon in coupons]))


def test_tools_learn_by_themselves() -> None:
    stage = Stage(GenAI())
    jumps = (77, 9000, 12, 512)
    stage.converse([("calls", "look", {}, {"page": PAGE, "charge": lot}) for lot in jumps])
    stage.converse([("calls", "price", {"of": lot}, {"page": PAGE, "charge": lot * 2}) for lot in jumps])
    assert {each.tool for each in stage.told_in_the_agent()} == {"look"}
