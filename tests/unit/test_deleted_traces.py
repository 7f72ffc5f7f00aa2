"""For how long it is known that a trace was deleted."""

import pytest

pytest.importorskip("confluent_kafka", reason="needs the extra [kafka]")

from agenteval_collector.fleet.deleted_traces import DeletedTraces

SECOND = 1_000_000_000
KEPT = 100


@pytest.fixture
def deleted() -> DeletedTraces:
    return DeletedTraces(float(KEPT))


def test_a_trace_is_deleted_as_far_as_it_came_before(deleted: DeletedTraces) -> None:
    deleted.add(["a"], 5 * SECOND)
    assert [deleted.has("a", each * SECOND) for each in (4, 5, 6)] == [True, True, False]
    assert not deleted.has("b", 4 * SECOND)


def test_it_is_known_until_no_topic_has_the_trace_any_more(deleted: DeletedTraces) -> None:
    deleted.know({"late": 60 * SECOND, "early": 10 * SECOND})
    deleted.add(["now"], (10 + KEPT) * SECOND)
    assert deleted.has("early", 0)
    deleted.add([], (11 + KEPT) * SECOND)
    assert [deleted.has(each, 0) for each in ("early", "late", "now")] == [False, True, True]


def test_a_trace_that_is_deleted_again_is_known_from_then_on(deleted: DeletedTraces) -> None:
    for at in (0, 60):
        deleted.add(["a"], at * SECOND)
    deleted.add(["b"], (60 + KEPT) * SECOND)
    assert deleted.has("a", 60 * SECOND)
    deleted.add(["b"], (61 + KEPT) * SECOND)
    assert not deleted.has("a", 0)


def test_it_does_not_grow_with_the_days(deleted: DeletedTraces) -> None:
    for second in range(10 * KEPT):
        deleted.add([str(second)], second * SECOND)
    assert sum(deleted.has(str(each), 0) for each in range(10 * KEPT)) == KEPT + 1
