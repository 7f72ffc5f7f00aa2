"""The oracle of tenants: whatever two of them send, each is told what a collector of its own would tell it."""

import itertools
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.app.pipeline import Pipeline, Pipelines
from agenteval_collector.emit.feed import Subscription
from agenteval_collector.model.callers import ANONYMOUS, Caller
from agenteval_collector.model.labels import Label
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.model.runs import RunReport
from agenteval_collector.runtime.errors import Unavailable
from agenteval_collector.runtime.machine import memory_limit
from agenteval_collector.runtime.memory import MemoryGuard
from hypothesis import Phase, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.otlp import START, marked, span, trace_id, traces, turn
from tests.support.running_collector import settings

TENANTS = ("a", "b")
OF_THE_MOMENT = (
    "target_info",
    "agenteval_collector_queue",
    "agenteval_collector_log",
    "agenteval_collector_traces_open",
)
"""Names of series that name the collector, or say how far it is just now."""
TEXTS = ("Where is my order?", "Book a flight.")


@dataclass(frozen=True)
class Turn:
    """A trace, or, where it was sent before, a late span of it. `failing`: its tool fails again and again."""

    trace: int
    session: str
    text: str
    failing: bool


@dataclass(frozen=True)
class Said:
    """What is said of a trace, a session or a run."""

    what: str
    trace: int
    session: str
    value: float


PLACES = {"trace": st.integers(1, 3), "session": st.sampled_from(["s", "t"])}
TURNS = st.builds(Turn, **PLACES, text=st.sampled_from(TEXTS), failing=st.booleans())
SAID = st.builds(Said, **PLACES, what=st.sampled_from(["label", "run", "end"]), value=st.sampled_from([0.0, 1.0]))
HISTORIES = st.lists(TURNS | SAID, min_size=1, max_size=5)


class Served:
    """A tenant's pipeline, and what a watcher of its feed was told."""

    def __init__(self, pipelines: Pipelines, tenant: str) -> None:
        self._pipelines = pipelines
        self._tenant = tenant
        self.pipeline: Pipeline = pipelines.of(tenant)
        self._watching: Subscription = self.pipeline.feed.subscribe()
        self._told: list[str] = []
        self._spans: dict[int, int] = {}

    def do(self, step: Turn | Said, example: int) -> None:
        if isinstance(step, Said):
            self._say(step, example)
            return
        number, known = 100 * example + step.trace, self._spans.get(100 * example + step.trace, 0)
        spans = _spans(step, number, f"{step.session}-{example}", known)
        self._spans[number] = known + len(spans)
        self.pipeline.ingest.take_request(Signal.TRACES, traces(*spans).SerializeToString(), ANONYMOUS)

    def wait(self) -> None:
        """Return once all that was sent is scored, and told."""

        def scored() -> bool:
            documents = (self.pipeline.queries.trace(trace_id(number).hex()) for number in self._spans)
            counts = [document and document["complete"] and document["span_count"] for document in documents]
            return counts == list(self._spans.values())

        eventually(scored, within=60)
        self.pipeline.evaluation.inbox.judge_again([]).result(timeout=60)

    def answers(self) -> dict[str, Any]:
        """All that the tenant can ask for."""
        queries = self.pipeline.queries
        sessions = queries.sessions().items
        problems = queries.problems().items
        page, _ = self._pipelines.render({}, Caller("someone", self._tenant))
        return {
            "traces": {number: queries.trace(trace_id(number).hex()) for number in self._spans},
            "sessions": {each["session_id"]: queries.session(each["session_id"]) for each in sessions},
            "listed": sessions,
            "problems": [queries.problem(each["problem_id"]) for each in problems],
            "agents": queries.agents()["items"],
            "reliability": queries.reliability().items,
            "quality": queries.quality().items,
            "arrivals": queries.arrivals(),
            "told": self._heard(),
            "series": [line for line in page.decode().splitlines() if not any(each in line for each in OF_THE_MOMENT)],
        }

    def _heard(self) -> list[str]:
        while (event := self._watching.get(0.0)) is not None:
            self._told.append(repr(event))
        return sorted(self._told)

    def _say(self, step: Said, example: int) -> None:
        reports, session = self.pipeline.reports, f"{step.session}-{example}"
        if step.what == "label":
            named = trace_id(100 * example + step.trace).hex()
            reports.label(Label(trace_id=named, name="task_completion", value=step.value, author="ann"))
        elif step.what == "run":
            reports.report_run(
                RunReport(
                    task_id="refund", run_id=f"{step.trace}-{example}", condition="baseline",
                    success=bool(step.value), confidence=step.value, agent="planner", reported_at=START,
                )
            )  # fmt: skip
        else:
            reports.end_session(session)


def _spans(step: Turn, number: int, session: str, known: int) -> list[Any]:
    if known:
        return [marked(span(number, known + 1, parent=1, gen_ai__tool__name="late"), known + 1, "p")]
    root = turn(number, step.text, f"{step.text} {session}", session=session, at=START + number * 10**9)
    root.attributes.extend(span(1, 1, user__id="u", agenteval__task__id="refund", agenteval__run__id="1").attributes)
    if not step.failing:
        return [root]
    del root.attributes[-5:-3]  # The marker of a trace with a single span.
    tools = [
        span(
            number, place, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="find",
            gen_ai__tool__call__arguments=json.dumps({"q": step.text}), error__type="timeout",
        )
        for place in (2, 3, 4)
    ]  # fmt: skip
    for tool in tools:
        tool.status.code = Status.STATUS_CODE_ERROR
        tool.start_time_unix_nano = root.start_time_unix_nano + tool.span_id[-1] * 1000
        tool.end_time_unix_nano = tool.start_time_unix_nano + 500
    return [*tools, marked(root, 4, "p")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sequence[Served], Sequence[Served]]]:
    """Both tenants in one collector, and each in one of its own."""
    with ExitStack() as running:

        def pipelines(*tenants: str) -> Pipelines:
            config, clock = settings(Path(tmp_path_factory.mktemp("data"))), ManualClock(START + 10**15)
            made = Pipelines(config, clock, tenants, MemoryGuard(memory_limit(), clock))
            running.callback(made.shutdown)
            made.start()
            return made

        both = pipelines(*TENANTS)
        yield [Served(both, each) for each in TENANTS], [Served(pipelines(each), each) for each in TENANTS]


EXAMPLES = itertools.count(1)


# What was sent before is there in the next example, too: there is nothing to shrink.
@effort(max_examples=6, deadline=None, database=None, phases=(Phase.generate,))
@given(histories=st.tuples(HISTORIES, HISTORIES))
def test_two_tenants_are_told_what_each_would_be_told_alone(
    served: tuple[Sequence[Served], Sequence[Served]], histories: tuple[Sequence[Turn | Said], Sequence[Turn | Said]]
) -> None:
    together, alone = served
    # The ids of an example are its own: what came before stays, and is compared again.
    example = next(EXAMPLES)
    for steps in itertools.zip_longest(*histories):
        for all_of in served:
            for each, step in zip(all_of, steps, strict=True):
                if step is not None:
                    each.do(step, example)
        for each in (*together, *alone):
            each.wait()
    for one, oracle in zip(together, alone, strict=True):
        told, expected = one.answers(), oracle.answers()
        assert {name: told[name] for name in told if told[name] != expected[name]} == {}


def test_a_tenant_whose_first_start_fails_is_served_once_its_store_answers(tmp_path: Path) -> None:
    def pipelines() -> Pipelines:
        clock = ManualClock(START)
        made = Pipelines(settings(tmp_path), clock, (), MemoryGuard(memory_limit(), clock))
        made.start()
        return made

    first = pipelines()
    first.of("shop")
    first.shutdown()
    second = pipelines()
    with closing(sqlite3.connect(tmp_path / "tenants" / "shop" / "agenteval.db", isolation_level=None)) as store:
        store.execute("ALTER TABLE findings RENAME TO away")
        with pytest.raises(Unavailable, match="cannot be used now"):
            second.of("shop")
        store.execute("ALTER TABLE away RENAME TO findings")
    assert second.of("shop").health is None
    second.shutdown()
