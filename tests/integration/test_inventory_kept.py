"""What the store really holds, column by column, is what the inventory says: while it is kept, once words are
forgotten, and after a deletion."""

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from agenteval_collector.model.callers import ANONYMOUS
from agenteval_collector.model.deletions import DeletionFilter
from agenteval_collector.model.drift import Canary, CanaryAnswer
from agenteval_collector.model.labels import Label
from agenteval_collector.model.runs import RunReport
from agenteval_collector.serve.api.gate import Gate
from agenteval_collector.stores.inventory import INVENTORY, RULES, Erased, Holds
from agenteval_collector.stores.schema import data_columns, metadata
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from sqlalchemy import select

from tests.integration.test_redaction_everywhere import shown
from tests.support.eventually import eventually
from tests.support.judge.completions import Received
from tests.support.judge.filling import fill
from tests.support.judge.judge_server import JudgeServer, Responder
from tests.support.otlp import marked, span, trace_id, traces
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.sqlite

MARKERS: Final = {
    Holds.WORDS: "zwetschge@example.com",
    Holds.NAMES: "quitte@example.com",
    Holds.IDS: "mirabelle@example.com",
    Holds.PERSONS: "renate@example.com",
}
"""Addresses, which `redaction.store` replaces."""
WORD, NAME, ID, PERSON = MARKERS.values()
MAY_QUOTE: Final[Mapping[Holds, set[Holds]]] = {
    Holds.WORDS: {Holds.WORDS, Holds.NAMES, Holds.IDS},
    Holds.NAMES: {Holds.NAMES},
    Holds.IDS: {Holds.IDS},
    Holds.PERSONS: {Holds.PERSONS},
    Holds.KEYS: set(),
    Holds.DIGESTS: set(),
    Holds.OURS: set(),
}
"""By the kind of a column, the markers that may stand in it: a sentence names tools, and a tool is not called what
somebody has said."""
ALSO: Final = {("problem_counts", "value"): {Holds.NAMES}}
"""A column of values of several kinds."""
NOT_FILLED: Final = {
    *(("traces", name) for name in ("died", "revised", "condition")),
    *(("judge_exchanges", name) for name in ("subject_id", "problem", "instructions", "data")),
    *(("deletions", name) for name in ("what", "asked_by")),
    *((table, "subject_id") for table in ("judge_answers", "problem_traces")),
    *(("problem_moves", name) for name in ("agent", "service", "key", "moved_by")),
    *((table, name) for table in ("alarms", "alarm_watches") for name in INVENTORY[table].names.split()),
    ("conversations", "parent"),
    ("findings", "metadata"),
    ("problems", "shape"),
    ("quarantine", "key"),
    ("run_traces", "condition"),
}
"""Columns in which the test has no marker, besides those of trace and span ids, which are numbers. A judge reads no
addresses, and a muted problem raises no alarm (`test_alarms.py` deletes one)."""


def spans(trace: int) -> list[Span]:
    """A trace of a run that failed, with a marker in each kind of field."""
    text = json.dumps([{"role": "user", "parts": [{"type": "text", "content": f"{WORD} please {trace}"}]}])
    root = span(
        trace, 1, gen_ai__operation__name="invoke_agent", gen_ai__agent__name=f"{NAME} planner", user__id=f"u-{ID}",
        gen_ai__input__messages=text, gen_ai__output__messages=text.replace("user", "assistant"),
        gen_ai__conversation__id=f"s-{ID}", agenteval__task__id=f"t-{ID}", agenteval__run__id=f"r-{ID}",
        agenteval__run__success=False,
    )  # fmt: skip
    root.end_time_unix_nano += 1000
    model = span(
        trace, 7, parent=1, gen_ai__operation__name="chat", gen_ai__request__model=f"{NAME} model",
        gen_ai__input__messages=text, gen_ai__output__messages=text.replace("user", "assistant"),
        gen_ai__response__id=f"resp-{trace}",
    )  # fmt: skip
    calls = [
        span(
            trace, number, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name=f"{NAME} search",
            gen_ai__tool__call__arguments=json.dumps({"q": WORD}), gen_ai__tool__call__result=f"[{WORD}]",
        )
        for number in range(2, 7)
    ]  # fmt: skip
    for call in calls:
        call.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=f"no connection to {NAME}"))
    return [model, *calls, marked(root, 7)]


def send(collector: RunningCollector, number: int) -> None:
    request = traces(*spans(number), process="p-1", service=f"{NAME} shop", scope=f"{NAME} lib")
    resource = request.resource_spans[0].resource.attributes
    for key in ("service.version", "deployment.environment.name"):
        resource.add(key=key).value.string_value = f"{NAME} 1"
    collector.send(request)
    collector.scored(trace_id(number).hex())


def filled(received: Received) -> str | None:
    """An answer of the judge that quotes the conversation wherever it says something."""
    if received.schema is None:
        return None
    return json.dumps(_quoting(fill(received.schema, 0.2)))


def _quoting(value: Any) -> Any:
    match value:
        case dict():
            return {key: _quoting(item) if key != "mark" else item for key, item in value.items()}
        case list():
            return [_quoting(item) for item in value]
        case str() if " " in value or value == "":
            return f"{value} {WORD}"
        case _:
            return value


def report(collector: RunningCollector) -> None:
    gate, store = Gate(collector.service.pipeline.reports, ANONYMOUS), collector.service.pipeline.base.store
    trace = trace_id(1).hex()
    gate.label(Label(trace_id=trace, name=f"{NAME} score", value=0.5, note=WORD, author=PERSON))
    gate.feedback(Label(session_id=f"s-{ID}", name=f"{NAME} score", value=0.5, note=WORD, author=PERSON))
    for session in (f"s-{ID}", None):  # Who reports may not know the session.
        gate.report_run(
            RunReport(
                task_id=f"t-{ID}", run_id=f"r-{ID}", agent=f"{NAME} planner", service_version=f"{NAME} 1",
                success=False, session_id=session, reported_at=1 + bool(session),
            )
        )  # fmt: skip
    [problem, *_] = collector.get("/api/v1/problems")["items"]
    gate.resolve_problem(problem["problem_id"], PERSON)
    gate.mute_problem(problem["problem_id"], 2**62, PERSON)
    canary = Canary(trace_id=trace, session_id=f"s-{ID}", revision=1, chosen_at=1)
    answer = CanaryAnswer(
        trace_id=trace, name="coherence", version="1", model="m", threshold=0.5, first=0.5, first_at=1, last=0.5,
        last_at=2**62, reason=f"it says {WORD}",
    )  # fmt: skip
    store.canaries.add_canary(canary, zlib.compress(f"frozen {WORD}".encode()), [answer])


Found = dict[tuple[str, str], set[Holds]]


def marked_columns(collector: RunningCollector) -> Found:
    """The markers that stand in each column, by table and column."""
    found: Found = {}
    with collector.service.pipeline.base.store._pipeline.reading() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(select(*data_columns(table))).mappings():
                for column, value in row.items():
                    text = _text(value)
                    markers = {kind for kind, marker in MARKERS.items() if marker.lower() in text.lower()}
                    found.setdefault((table.name, str(column)), set()).update(markers)
    return found


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        with suppress(zlib.error):
            value = zlib.decompress(value)
        return str(value.decode("utf-8", "replace"))
    return str(value)


@contextmanager
def filled_collector(folder: Path, responder: Responder | None = filled, **settings: Any) -> Iterator[RunningCollector]:
    # Nothing listens at the endpoint, so that events wait.
    export = {"endpoint": "http://127.0.0.1:9", "protocol": "http/protobuf", "interval": 1}
    with (
        JudgeServer(responder=responder) as judge,
        RunningCollector(folder, judge={"base_url": judge.url, "canaries": 0}, export=export, **settings) as running,
    ):
        for number in (1, 2):
            send(running, number)
        for number in (1, 2):
            path = f"/api/v1/traces/{trace_id(number).hex()}"
            eventually(lambda path=path: running.get(path)["status"] != "pending", within=60)  # type: ignore[misc]
        report(running)
        yield running


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    with filled_collector(tmp_path) as running:
        yield running


def kinds() -> dict[tuple[str, str], Holds]:
    return {(table, column): kind for table, row in INVENTORY.items() for column, kind in row.columns().items()}


def test_each_column_holds_what_the_inventory_says(collector: RunningCollector) -> None:
    found = marked_columns(collector)
    more = {at: seen - MAY_QUOTE[kinds()[at]] - ALSO.get(at, set()) for at, seen in found.items()}
    assert {at: seen for at, seen in more.items() if seen} == {}
    # Every column that may hold something of the senders has held it, or the test would show nothing.
    filled = {at for at, kind in kinds().items() if kind in MARKERS and at[1] not in ("trace_id", "span_id")}
    assert {at for at in filled - NOT_FILLED if kinds()[at] not in found[at]} == set()


def test_words_are_forgotten_wherever_the_inventory_has_them(collector: RunningCollector) -> None:
    deletions = collector.service.pipeline.base.store.deletions
    assert deletions.forget_content(2**62, 64) == 2
    left = {at for at, seen in marked_columns(collector).items() if Holds.WORDS in seen}
    allowed = {
        (table, column)
        for table, row in INVENTORY.items()
        for column, kind in row.columns().items()
        if not RULES[kind].is_forgotten or row.words_end is not None
    }
    assert left <= allowed
    assert {kinds()[at] for at in left} <= {Holds.WORDS}


def test_a_deletion_leaves_nothing_in_any_column(collector: RunningCollector) -> None:
    reports = collector.service.pipeline.reports
    receipt = reports.delete(DeletionFilter(session_id=f"s-{ID}"), PERSON)
    eventually(lambda: reports.receipt(receipt.deletion_id).done_at is not None)
    left = {at: seen for at, seen in marked_columns(collector).items() if seen}
    # Who has asked for it is what the receipt is for.
    assert left == {("deletions", "asked_by"): {Holds.PERSONS}}
    assert INVENTORY["deletions"].erased == (Erased.RECEIPT,)


def test_redaction_reaches_each_column_that_the_inventory_says(tmp_path: Path) -> None:
    with filled_collector(tmp_path, None, redaction={"store": "all"}) as collector:
        # The frozen copy is made by the test itself.
        found = {at: seen for at, seen in marked_columns(collector).items() if "canar" not in at[0]}
    replaced = {kind for kind in MARKERS if RULES[kind].is_redacted}
    assert replaced == {Holds.WORDS, Holds.NAMES}
    assert {at for at, seen in found.items() if seen & replaced} == set()
    assert {kinds()[at] for at, seen in found.items() if seen} >= {Holds.IDS, Holds.PERSONS}


def test_what_nobody_may_read_is_in_no_answer(collector: RunningCollector) -> None:
    hidden: set[str] = set()
    with collector.service.pipeline.base.store._pipeline.reading() as connection:
        for table in metadata.sorted_tables:
            for column in (table.c[name] for name in INVENTORY[table.name].columns() if not is_read(table.name, name)):
                hidden.update(_text(value) for value in connection.execute(select(column)).scalars() if value)
    assert len(hidden) > 5
    pages = shown(collector.addresses["web"], session=f"s-{ID}", agent=f"{NAME} planner")
    assert len(pages) > 25
    assert WORD in "".join(pages.values())
    assert {path for path, body in pages.items() if any(value in body for value in hidden)} == set()


def is_read(table: str, column: str) -> bool:
    return RULES[INVENTORY[table].columns()[column]].is_read
