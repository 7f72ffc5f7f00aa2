import threading

from agenteval_collector.runtime.inbox import Inbox


def test_items_come_out_in_the_order_they_went_in() -> None:
    inbox: Inbox[str] = Inbox(3)
    assert [inbox.put(item) for item in "abc"] == [True, True, True]
    assert inbox.take(2, 0) == ["a", "b"]
    assert inbox.take(2, 0) == ["c"]


def test_what_does_not_fit_is_refused_and_fits_after_a_take() -> None:
    inbox: Inbox[str] = Inbox(10)
    assert inbox.put("a", 6)
    assert not inbox.put("b", 5)
    assert inbox.weight == 6
    inbox.take(1, 0)
    assert inbox.put("b", 5)


def test_one_item_heavier_than_the_capacity_fits_alone() -> None:
    inbox: Inbox[str] = Inbox(1)
    assert inbox.put("huge", 100)
    assert inbox.full
    assert not inbox.put("next", 1)


def test_a_waiting_writer_gets_the_place_a_reader_makes() -> None:
    inbox: Inbox[str] = Inbox(1)
    inbox.put("a")
    done = threading.Event()
    writer = threading.Thread(target=lambda: inbox.put("b", timeout=10) and done.set())
    writer.start()
    assert inbox.take(1, 10) == ["a"]
    assert inbox.take(1, 10) == ["b"]
    assert done.wait(10)
    writer.join(10)


def test_a_closed_inbox_refuses_writers_and_gives_what_it_has() -> None:
    inbox: Inbox[str] = Inbox(5)
    inbox.put("a")
    inbox.close()
    assert not inbox.put("b")
    assert inbox.take(5, None) == ["a"]
    assert inbox.take(5, None) == []


def test_admitted_items_go_in_over_the_capacity() -> None:
    inbox: Inbox[str] = Inbox(1)
    inbox.put_regardless("a", 5)
    inbox.put_regardless("b", 5)
    assert inbox.weight == 10
    assert inbox.take(9, 0) == ["a", "b"]


def test_nothing_more_is_taken_once_there_is_weight_enough() -> None:
    inbox: Inbox[str] = Inbox(100)
    for item, weight in (("a", 3), ("b", 4), ("c", 50), ("d", 1)):
        assert inbox.put(item, weight)
    assert inbox.take(9, 0.0, weight=5) == ["a", "b"]
    assert inbox.take(9, 0.0, weight=5) == ["c"]
    assert (inbox.take(9, 0.0, weight=5), inbox.weight) == (["d"], 0)
