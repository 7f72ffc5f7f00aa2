import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from agenteval_collector.judge.cache import Cache
from hypothesis import given
from hypothesis import strategies as st


class Search:
    """Counts how often a value was looked for; finds it once `found` is set."""

    def __init__(self, value: str = "v", error: Exception | None = None) -> None:
        self.started = 0
        self.cancelled = 0
        self.found = asyncio.Event()
        self._value = value
        self._error = error

    async def __call__(self) -> str:
        self.started += 1
        try:
            await self.found.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self._error is not None:
            raise self._error
        return self._value


def found(value: str) -> Callable[[], Coroutine[Any, Any, str]]:
    async def find() -> str:
        return value

    return find


def cache(capacity: int = 100) -> Cache[str]:
    return Cache(capacity=capacity, weigh=len)


async def all_wait(*tasks: asyncio.Task[Any]) -> None:
    """Let every task run until it waits for something."""
    for _ in range(10 * len(tasks)):
        await asyncio.sleep(0)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a search goes on for nobody"

    asyncio.run(main())


def test_equal_questions_at_once_are_one_search() -> None:
    async def scenario() -> None:
        kept, search = cache(), Search()
        tasks = [asyncio.create_task(kept.get("k", search)) for _ in range(5)]
        await all_wait(*tasks)
        search.found.set()
        assert await asyncio.gather(*tasks) == [("v", False), *[("v", True)] * 4]
        assert await kept.get("k", search) == ("v", True)
        assert search.started == 1

    run(scenario)


def test_an_error_goes_to_everyone_who_waits_and_is_not_kept() -> None:
    async def scenario() -> None:
        kept, search = cache(), Search(error=ValueError("no"))
        tasks = [asyncio.create_task(kept.get("k", search)) for _ in range(3)]
        await all_wait(*tasks)
        search.found.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(result) for result in results] == ["no"] * 3
        assert await kept.get("k", found("later")) == ("later", False)

    run(scenario)


@pytest.mark.parametrize("cancelled", [0, 1, 2], ids=["the first", "the second", "the last"])
def test_who_is_cancelled_takes_nothing_from_the_others(cancelled: int) -> None:
    async def scenario() -> None:
        kept, search = cache(), Search()
        tasks = [asyncio.create_task(kept.get("k", search)) for _ in range(3)]
        await all_wait(*tasks)
        tasks[cancelled].cancel()
        await all_wait(*tasks)
        search.found.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results.pop(cancelled), asyncio.CancelledError)
        assert [result[0] for result in results if isinstance(result, tuple)] == ["v", "v"]
        assert await kept.get("k", search) == ("v", True)
        assert (search.started, search.cancelled) == (1, 0)

    run(scenario)


def test_a_search_that_nobody_waits_for_ends_and_the_next_begins_anew() -> None:
    async def scenario() -> None:
        kept, search = cache(), Search()
        tasks = [asyncio.create_task(kept.get("k", search)) for _ in range(2)]
        await all_wait(*tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await kept.get("k", found("again")) == ("again", False)
        await all_wait(*tasks)
        assert search.cancelled == 1

    run(scenario)


def test_what_several_wait_for_is_kept_once() -> None:
    async def scenario() -> None:
        kept, search = cache(capacity=2), Search()
        tasks = [asyncio.create_task(kept.get("k", search)) for _ in range(5)]
        await all_wait(*tasks)
        search.found.set()
        await asyncio.gather(*tasks)
        await kept.get("l", found("l"))
        assert await kept.get("k", search) == ("v", True)

    run(scenario)


def test_what_is_too_heavy_to_keep_is_still_given() -> None:
    async def scenario() -> None:
        kept = cache(capacity=3)
        assert await kept.get("k", found("long")) == ("long", False)
        assert await kept.get("k", found("long")) == ("long", False)

    run(scenario)


@given(
    asked=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=5, max_size=60),
    capacity=st.integers(3, 12),
)
def test_it_keeps_what_was_used_last(asked: list[tuple[int, int]], capacity: int) -> None:
    async def scenario() -> None:
        kept = cache(capacity)
        oracle: dict[str, str] = {}  # In order of use, the oldest first.
        for number, size in asked:
            key, value = str(number), str(number) * size
            before = oracle.pop(key, None)
            assert await kept.get(key, found(value)) == (before or value, before is not None)
            if before or len(value) <= capacity:
                oracle[key] = before or value
            while sum(map(len, oracle.values())) > capacity:
                del oracle[next(iter(oracle))]

    run(scenario)
