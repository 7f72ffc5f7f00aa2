import asyncio
import threading

import pytest
from agenteval_collector.runtime.errors import Overloaded, Unavailable
from agenteval_collector.serve.api.threads import BoundedThreads


async def read_beyond_the_bound(threads: BoundedThreads) -> None:
    release = threading.Event()

    def blocked() -> str:
        release.wait(30)
        return "late"

    taken = [asyncio.create_task(threads.run(blocked)) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await threads.run(lambda: "too many")
    release.set()
    assert await asyncio.gather(*taken) == ["late"] * 3
    assert await threads.run(lambda: "again") == "again"


def test_reads_beyond_the_bound_are_refused_and_counted() -> None:
    threads = BoundedThreads("test", threads=1, waiting=3, timeout=30)
    asyncio.run(read_beyond_the_bound(threads))
    threads.close()
    assert (threads.refused, threads.timed_out) == (1, 0)


def test_an_abandoned_read_keeps_its_place_until_it_returns() -> None:
    threads = BoundedThreads("test", threads=1, waiting=0, timeout=0.01)
    release, ended = threading.Event(), threading.Event()

    def stuck() -> None:
        release.wait(30)
        ended.set()

    with pytest.raises(Unavailable, match="no answer from the store within"):
        asyncio.run(threads.run(stuck))
    with pytest.raises(Overloaded):
        asyncio.run(threads.run(lambda: None))
    release.set()
    assert ended.wait(30)
    threads.close()
    assert (threads.refused, threads.timed_out) == (1, 1)


def test_what_a_read_raises_is_raised() -> None:
    threads = BoundedThreads("test", threads=1, waiting=0, timeout=30)

    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(threads.run(fail))
    threads.close()


def test_a_closed_pool_is_unavailable() -> None:
    threads = BoundedThreads("test", threads=1, waiting=0, timeout=30)
    threads.close()
    threads.close()
    for _ in range(2):
        with pytest.raises(Unavailable, match="stopping"):
            asyncio.run(threads.run(lambda: None))
