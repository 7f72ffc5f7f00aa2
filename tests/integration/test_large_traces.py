"""Traces with much text: what is kept of them, how they are listed, and what their answers take of the memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agenteval_collector.runtime.memory import MIB, MemoryGuard
from agenteval_collector.serve.api.queries import MOST_LISTED
from agenteval_collector.stores.trace_json import MOST_CHARACTERS

from tests.support import asking
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.memory_queries import GOOD_TRACE
from tests.support.otlp import span, trace_id, traces, turn
from tests.support.pages import app_of
from tests.support.running_collector import RunningCollector
from tests.support.travel_agent import travel_agent
from tests.support.web_server import serve

TRACES = 14


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    """A collector with traces whose tools returned 3 MiB of text each."""
    with RunningCollector(tmp_path_factory.mktemp("data")) as running:
        for number in range(1, TRACES + 1):
            tool = span(
                number,
                2,
                parent=1,
                gen_ai__operation__name="execute_tool",
                gen_ai__tool__name="read_file",
                gen_ai__tool__call__result="x" * (3 * MIB),
            )
            running.send(traces(turn(number, f"question {number}", "short", session=f"s{number}"), tool))
        eventually(lambda: all(running.scored(trace_id(number).hex()) for number in range(1, TRACES + 1)))
        yield running


def test_the_longest_texts_are_cut_and_say_so(collector: RunningCollector) -> None:
    trace = collector.get(f"/api/v1/traces/{trace_id(1).hex()}")
    [call] = trace["tools_called"]
    assert (trace["input"], trace["output"]) == ("question 1", "short")
    assert call["result"].startswith("x" * (MOST_CHARACTERS - 100))
    assert call["result"].endswith("more characters: see the span)")
    assert len(call["result"]) < MOST_CHARACTERS + 100
    # The span has it whole.
    span_id = call["span_id"]
    whole = collector.get(f"/api/v1/traces/{trace_id(1).hex()}/spans/{span_id}")
    assert "x" * (3 * MIB) in str(whole)


def test_a_page_of_a_listing_ends_early_and_goes_on(collector: RunningCollector) -> None:
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page: Any = collector.get("/api/v1/traces?limit=500" + (f"&cursor={cursor}" if cursor else ""))
        assert sum(len(str(trace["turns"])) for trace in page["items"]) <= MOST_LISTED * 1.1
        found += [trace["trace_id"] for trace in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert sorted(found) == [trace_id(number).hex() for number in range(1, TRACES + 1)]
    assert pages > 1


def test_an_answer_for_which_there_is_no_memory_is_refused(tmp_path: Path) -> None:
    def answered(held: int) -> httpx.Response:
        memory = MemoryGuard(100 * MIB, ManualClock(), resident=lambda: 80 * MIB, give_back=lambda: None)
        with memory.room(held), serve(app_of(travel_agent(), memory=memory)) as url:
            return asking.get_once(f"{url}/api/v1/traces/{GOOD_TRACE}")

    assert answered(MIB).status_code == 200
    refused = answered(5 * MIB)
    assert refused.status_code == 429
    assert "memory" in refused.json()["error"]["message"]
    assert int(refused.headers["retry-after"]) >= 1
