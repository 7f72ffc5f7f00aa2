"""What is refused and released as the process takes more memory, and where its limit comes from."""

import os
from pathlib import Path

import pytest
from agenteval_collector.runtime.errors import Overloaded
from agenteval_collector.runtime.machine import SHARE_OF_RAM, memory_limit, resident_bytes
from agenteval_collector.runtime.memory import MEASURED_EVERY, MemoryGuard

from tests.support.clock import ManualClock

LIMIT = 1000


class Process:
    """A process that takes `used` bytes, of which `held` wait in its parts."""

    def __init__(self, used: int, held: int) -> None:
        self.used, self.held, self.given_back = used, held, 0
        self.clock = ManualClock()
        self.guard = MemoryGuard(LIMIT, self.clock, resident=lambda: self.used, give_back=self.give_back)
        self.guard.watch(self)

    def give_back(self) -> None:
        self.given_back += 1


@pytest.mark.parametrize(
    ("used", "held", "size", "refused"),
    [
        pytest.param(500, 400, 300, False, id="room"),
        pytest.param(500, 400, 400, True, id="too large for now"),
        pytest.param(860, 400, 0, True, id="near the limit"),
        pytest.param(990, 50, 100, False, id="near the limit, but of memory that was freed"),
        pytest.param(500, 0, 5000, False, id="more than the limit, alone"),
    ],
)
def test_requests_are_refused_near_the_limit(used: int, held: int, size: int, refused: bool) -> None:
    process = Process(used, held)
    if refused:
        with pytest.raises(Overloaded, match=r"server\.memory_limit"), process.guard.room(size):
            pass
    else:
        with process.guard.room(size):
            pass


def test_what_is_under_way_counts_until_it_is_done() -> None:
    process = Process(100, 0)
    with process.guard.room(5000), pytest.raises(Overloaded), process.guard.room(1):
        pass
    with process.guard.room(1):
        pass


def test_it_is_not_ready_while_it_refuses() -> None:
    process = Process(860, 400)
    assert process.guard.health == "the collector takes 0 of 0 MiB of memory (server.memory_limit)"
    process.used = 800
    process.clock.advance(MEASURED_EVERY)
    assert [process.guard.health] == [None]


@pytest.mark.parametrize(("used", "held", "excess"), [(910, 400, 0), (950, 400, 30), (950, 50, 0)])
def test_what_is_over_the_upper_mark_has_to_be_released(used: int, held: int, excess: int) -> None:
    assert Process(used, held).guard.excess == excess


def test_freed_memory_is_given_back_now_and_then_near_the_limit() -> None:
    process = Process(900, 400)
    for _ in range(5):
        process.clock.advance(0.3)
        assert process.guard.used == 900
    assert process.given_back == 2
    process.used = 10
    process.clock.advance(10)
    assert process.guard.used == 10
    assert process.given_back == 2


def test_a_look_is_good_for_a_moment() -> None:
    process = Process(10, 0)
    assert process.guard.used == 10
    process.used = 20
    process.clock.advance(MEASURED_EVERY / 2)
    assert process.guard.used == 10
    process.clock.advance(MEASURED_EVERY)
    assert process.guard.used == 20


def test_this_process_takes_memory() -> None:
    assert 1 << 20 < resident_bytes() < 1 << 40


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        pytest.param("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "5000"}, 5000, id="of the group above"),
        pytest.param("0::/a/b", {"a/b/memory.max": "4000", "a/memory.max": "5000"}, 4000, id="of its own"),
        pytest.param("0::/", {"memory.max": "3000"}, 3000, id="in a container"),
        pytest.param("0::/of/the/host", {"memory.max": "3000"}, 3000, id="in a container that sees the host's names"),
        pytest.param("4:cpu:/x\n7:memory:/a", {"memory/a/memory.limit_in_bytes": "2000"}, 2000, id="version 1"),
        pytest.param("7:memory:/a", {"memory/a/memory.limit_in_bytes": str(2**63 - 4096)}, None, id="1, without"),
        pytest.param("0::/", {"memory.max": "max"}, None, id="2, without"),
        pytest.param("", {}, None, id="no groups"),
    ],
)
def test_the_limit_is_that_of_the_control_group(
    tmp_path: Path, groups: str, files: dict[str, str], limit: int | None
) -> None:
    for name, text in {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{key}": files[key] for key in files}}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    no_limit = round(SHARE_OF_RAM * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    found = memory_limit(tmp_path)
    assert found == (no_limit if limit is None else limit)
