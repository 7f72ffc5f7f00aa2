"""Values that were of use lately, against a list that is searched from its end."""

from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.internal.lru import LruMap

CALLS = st.lists(st.tuples(st.sampled_from(["get", "put", "pop"]), st.sampled_from("abcdef"), st.integers(1, 6)))


@given(calls=CALLS, capacity=st.integers(1, 12))
def test_what_was_used_last_is_kept_as_far_as_it_fits(calls: list[tuple[str, str, int]], capacity: int) -> None:
    recent: LruMap[str, int] = LruMap(capacity, lambda value: value)
    oracle: list[tuple[str, int]] = []
    for call, key, value in calls:
        known = next((held for name, held in oracle if name == key), None)
        if call == "get":
            assert recent.get(key) == known
            oracle.sort(key=lambda each: each[0] == key)
        else:
            oracle = [each for each in oracle if each[0] != key]
            if call == "pop":
                assert recent.pop(key) == known
            else:
                oracle += [(key, value)] if value <= capacity else []
                gone = []
                while sum(held for _, held in oracle) > capacity:
                    gone.append(oracle.pop(0)[0])
                assert recent.put(key, value) == gone
        assert list(recent.newest_first()) == [held for _, held in reversed(oracle)]
        assert recent.items() == oracle
        assert all(recent.peek(name) == held for name, held in oracle)
        assert recent.weight == sum(held for _, held in oracle)
        assert all((name in recent) is any(name == each for each, _ in oracle) for name in "abcdef")


def test_without_weights_the_number_counts() -> None:
    recent: LruMap[int, str] = LruMap(2)
    for key in range(3):
        recent.put(key, str(key))
    assert list(recent.newest_first()) == ["2", "1"]
    recent.clear()
    assert (recent.weight, recent.get(2)) == (0, None)
