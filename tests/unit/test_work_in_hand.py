"""What is noted of work under way, and what the next process makes of it.

A process that is killed leaves its file, so a second one on the same folder is what comes after a kill.
"""

import os
import threading
from pathlib import Path

import pytest
from agenteval_collector.runtime.work_in_hand import FILE, MOST_SUSPECTS, WorkInHand, WorkInput

from tests.support.dying_work import die_on, opened


class Refused(Exception):
    """Work that is not done."""


def deaths(hand: WorkInHand, tenant: str = "default") -> dict[str, int]:
    return {suspect.key: count for suspect, count in hand.deaths(tenant).items()}


def test_what_was_in_hand_is_suspected_and_nothing_else(tmp_path: Path) -> None:
    with opened(tmp_path).hold("default", "trace", ["done"]):
        pass
    die_on(tmp_path, "trace", ["a", "b"])
    die_on(tmp_path, "request", ["7"], tenant="shop")
    later = opened(tmp_path)
    assert deaths(later) == {"a": 1, "b": 1}
    assert later.deaths("shop") == {WorkInput("shop", "request", "7"): 1}
    assert later.is_suspected("default", "trace", "a")
    assert not later.is_suspected("default", "request", "a")


def test_a_death_with_nothing_in_hand_says_nothing(tmp_path: Path) -> None:
    die_on(tmp_path, "trace", ["a"])
    opened(tmp_path)
    assert deaths(opened(tmp_path)) == {"a": 1}


def test_each_death_on_the_same_input_counts(tmp_path: Path) -> None:
    for count in range(1, 4):
        die_on(tmp_path, "trace", ["a"])
        assert deaths(opened(tmp_path)) == {"a": count}


def test_input_that_was_worked_off_is_suspected_no_longer(tmp_path: Path) -> None:
    die_on(tmp_path, "trace", ["a", "b"])
    hand = opened(tmp_path)
    with hand.hold("default", "trace", ["a"]):
        pass
    with pytest.raises(Refused), hand.hold("default", "trace", ["b"]):
        raise Refused
    assert deaths(opened(tmp_path)) == {"b": 1}


def test_an_end_in_order_forgets_everything(tmp_path: Path) -> None:
    die_on(tmp_path, "trace", ["a"])
    hand = opened(tmp_path)
    hand.close()
    hand.close()
    with hand.hold("default", "trace", ["b"]):
        pass
    assert not (tmp_path / FILE).exists()
    assert deaths(opened(tmp_path)) == {}


def test_suspected_input_is_worked_on_alone(tmp_path: Path) -> None:
    die_on(tmp_path, "trace", ["a"])
    hand = opened(tmp_path)
    events: list[str] = []
    begun = threading.Event()

    def suspected() -> None:
        begun.set()
        with hand.hold("default", "trace", ["a"]):
            events.append("alone begins")
            other.start()
            other.join(0.2)
            events.append("alone ends")

    def harmless() -> None:
        with hand.hold("shop", "request", ["1"]):
            events.append("other")

    alone, other = threading.Thread(target=suspected), threading.Thread(target=harmless)
    with hand.hold("default", "request", ["2"]):
        alone.start()
        assert begun.wait(10)
        alone.join(0.2)
        events.append("first ends")
    alone.join(10)
    other.join(10)
    assert events == ["first ends", "alone begins", "alone ends", "other"]


def test_the_suspects_are_bounded(tmp_path: Path) -> None:
    for start in range(0, MOST_SUSPECTS + 100, 50):
        die_on(tmp_path, "request", [str(number) for number in range(start, start + 50)])
    assert len(deaths(opened(tmp_path))) == MOST_SUSPECTS


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe\x00" * 200_000, id="damaged"),
        pytest.param(b"2 default trace\nx default trace a\n", id="torn"),
    ],
)
def test_a_file_that_makes_no_sense_suspects_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    assert deaths(opened(tmp_path)) == {}


def test_where_the_disk_refuses_work_goes_on_without_notes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).mkdir()
    hand = opened(tmp_path)
    for _ in range(2):
        with hand.hold("default", "trace", ["a"]):
            pass
    hand.close()
    assert caplog.text.count("what is worked on is not noted") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_holds_no_work_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hand = opened(tmp_path)
    full = os.open("/dev/full", os.O_RDWR)
    assert hand._file is not None
    os.dup2(full, hand._file)
    os.close(full)
    for _ in range(2):
        with hand.hold("default", "trace", ["a"]):
            pass
    assert caplog.text.count("No space left on device") == 1
