"""What is deleted is in no file any more, does not come back, and nothing else has changed."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agenteval_collector.cli.client import post
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.cli.delete import DELETE_PATH
from agenteval_collector.model.deletions import DeletionFilter, Receipt
from agenteval_collector.model.labels import Label
from agenteval_collector.model.runs import RunReport
from agenteval_collector.stores.schema import agent_hours, agent_times, problem_counts
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from sqlalchemy import select
from typer.testing import CliRunner

from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from otel_agenteval.reader import ApiError
from tests.support.eventually import eventually
from tests.support.kept_bytes import all_kept_bytes
from tests.support.otlp import log, logs, span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.databases

WORD = "Zwetschge"
"""Part of everything that is recorded of a session that is deleted."""


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[RunningCollector]:
    # What has no root stays open, however busy the machine is.
    with RunningCollector(tmp_path, assembly={"silence": 60.0}) as collector:
        yield collector


def spans(trace: int, session: str, word: str, user: str | None = None) -> list[Span]:
    """A trace with `word` in every kind of field, and findings on it."""
    of_user: dict[str, Any] = {} if user is None else {"user__id": user}
    text = f'[{{"role": "user", "parts": [{{"type": "text", "content": "{word} please {trace}"}}]}}]'
    root = span(
        trace, 1, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="planner", note=f"{word} attribute",
        gen_ai__input__messages=text, gen_ai__output__messages=text.replace("user", "assistant"),
        gen_ai__conversation__id=session, **of_user,
    )  # fmt: skip
    root.end_time_unix_nano += 1000
    calls = [
        span(
            trace, number, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="search",
            gen_ai__tool__call__arguments=f'{{"q": "{word}"}}', gen_ai__tool__call__result=f"[{word}]",
        )
        for number in range(2, 7)
    ]  # fmt: skip
    for call in calls:
        call.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=f"no connection to {word}"))
        call.events.add(name=f"{word} event", time_unix_nano=call.start_time_unix_nano)
    return [root, *calls]


def files_with(data_dir: Path, word: str) -> list[str]:
    return [name for name, kept in all_kept_bytes(data_dir).items() if word.encode() in kept]


def delete(collector: RunningCollector, by: str | None = None, **doomed: Any) -> Receipt:
    return done(collector, collector.service.pipeline.reports.delete(DeletionFilter(**doomed), by).deletion_id)


def done(collector: RunningCollector, deletion_id: str) -> Receipt:
    """The receipt of a deletion, once it is done."""
    eventually(lambda: collector.service.pipeline.reports.receipt(deletion_id).done_at is not None)
    return collector.service.pipeline.reports.receipt(deletion_id)


def everything(collector: RunningCollector, session: str) -> Any:
    """All that is shown of a session: of an agent, the sums of all sessions are something else."""
    document = collector.get(f"/api/v1/sessions/{session}")
    return document, [collector.get(f"/api/v1/traces/{each}") for each in document["trace_ids"]]


def test_nothing_of_a_deleted_session_is_left_in_any_file(collector: RunningCollector, tmp_path: Path) -> None:
    collector.send(traces(*spans(1, "gone", WORD), *spans(2, "stays", "Apfel"), *spans(3, "gone", WORD)))
    collector.send(traces(*spans(1, "gone", WORD)))  # Sent again: the store does not know of this request.
    collector.send_logs(logs(log(1, 1, body=f"gen_ai. {WORD}"), log(2, 1, body="gen_ai. Apfel")))
    for number in (1, 2, 3):
        collector.scored(trace_id(number).hex())
    reports = collector.service.pipeline.reports
    reports.label(Label(session_id="gone", name="x", value=1.0, note=f"{WORD} note", author="ann"))
    reports.label(Label(trace_id=trace_id(1).hex(), name="x", value=0.5, note=f"{WORD} too"))
    reports.report_run(RunReport(task_id=WORD, run_id="1", success=True, session_id="gone"))
    collector.send(traces(*spans(4, "gone", WORD)[1:], span(4, 9, gen_ai__conversation__id="gone")))
    eventually(lambda: any(each["trace_id"] == trace_id(4).hex() for each in running(collector)))
    before = everything(collector, "stays")
    assert files_with(tmp_path, WORD)
    receipt = delete(collector, by="ann", session_id="gone")
    assert files_with(tmp_path, WORD) == []
    assert receipt.asked_by == "ann"
    assert (receipt.removed["traces"], receipt.removed["sessions"], receipt.removed["spans"]) == (2, 1, 24)
    assert (receipt.removed["log_records"], receipt.removed["labels"]) == (1, 2)
    assert receipt.removed["bytes"] > 1000
    assert collector.get("/api/v1/sessions/gone") is None
    assert collector.get(f"/api/v1/traces/{trace_id(1).hex()}") is None
    assert everything(collector, "stays") == before
    assert collector.get("/api/v1/sessions?text=Apfel")["items"][0]["session_id"] == "stays"


def test_an_id_with_a_nul_is_found_and_deleted_as_it_is_kept(collector: RunningCollector) -> None:
    collector.send(traces(turn(1, "hi", "hello", session="a\0b")))
    assert collector.scored(trace_id(1).hex())["session_id"] == "a?b"
    for asked in ("a%00b", "a%3Fb"):
        assert collector.get(f"/api/v1/sessions/{asked}")["trace_ids"] == [trace_id(1).hex()]
        assert "a?b" in collector.get(f"/sessions/{asked}")
    assert collector.get("/api/v1/agents/a%00b") is None
    receipt = post(f"http://{collector.addresses['web']}", DELETE_PATH, {"session_id": "a\0b"}, None)
    assert done(collector, receipt["deletion_id"]).removed["traces"] == 1


@pytest.mark.parametrize("listing", ["sessions", "agents", "problems"])
@pytest.mark.parametrize("text", ["\\ud800", "a\\u0000"])
def test_a_cursor_that_no_store_can_compare_with_is_refused(
    collector: RunningCollector, listing: str, text: str
) -> None:
    url = f"http://{collector.addresses['web']}/api/v1/{listing}"
    numbers = {"sessions": "1, ", "problems": "1, ", "agents": ""}
    cursor = base64.urlsafe_b64encode(f'[{numbers[listing]}"{text}"]'.encode()).decode()
    answer = httpx.get(url, params={"cursor": cursor}, trust_env=False, timeout=20)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_argument")


def running(collector: RunningCollector) -> Any:
    return [{"trace_id": each.trace_id} for each in collector.service.pipeline.assembly.assembler.newest(10)]


def test_a_deleted_session_does_not_come_back_and_begins_anew(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(*spans(1, "s", WORD), turn(2, "hi", "ho", session="t")))
        for number in (1, 2):
            collector.scored(trace_id(number).hex())
        delete(collector, session_id="s")
    with RunningCollector(tmp_path) as collector:
        assert collector.get("/api/v1/sessions/s") is None
        assert collector.get("/api/v1/sessions/t")["trace_ids"] == [trace_id(2).hex()]
        collector.send(traces(turn(1, "again", "yes", session="s")))
        assert collector.scored(trace_id(1).hex())["revision"] == 1
        assert collector.get("/api/v1/sessions/s")["trace_ids"] == [trace_id(1).hex()]
    assert files_with(tmp_path, WORD) == []


def test_all_sessions_go_in_which_a_user_took_part(collector: RunningCollector, tmp_path: Path) -> None:
    collector.send(traces(*spans(1, "a", WORD, user="ann"), *spans(2, "b", "Apfel", user="bob")))
    collector.send(traces(*spans(3, "c", WORD, user="carl"), *spans(4, "c", WORD, user="ann")))
    for number in (1, 2, 3, 4):
        collector.scored(trace_id(number).hex())
    delete(collector, user_id="ann")
    assert [each["session_id"] for each in collector.get("/api/v1/sessions")["items"]] == ["b"]
    assert files_with(tmp_path, WORD) == []


def test_what_was_scored_before_a_time_goes(collector: RunningCollector, tmp_path: Path) -> None:
    collector.send(traces(*spans(1, "a", WORD), *spans(2, "both", WORD)))
    for number in (1, 2):
        collector.scored(trace_id(number).hex())
    before = collector.service.pipeline.base.clock.now()
    collector.send(traces(turn(3, "hi", "ho", session="both")))
    collector.scored(trace_id(3).hex())
    receipt = delete(collector, before=before)
    assert (receipt.removed["traces"], receipt.removed["sessions"]) == (2, 1)
    [left] = collector.get("/api/v1/sessions")["items"]
    assert (left["session_id"], left["trace_count"]) == ("both", 1)
    assert files_with(tmp_path, WORD) == []


def test_sums_are_as_if_the_session_had_never_been(tmp_path: Path) -> None:
    def shown(*deleted: str) -> Any:
        folder = tmp_path / ("with" if deleted else "without")
        with RunningCollector(folder) as collector:
            collector.send(traces(*spans(2, "stays", "Apfel")))
            numbers = [2]
            if deleted:
                collector.send(traces(*spans(1, "gone", "Apfel"), *spans(3, "gone", "Birne")))
                numbers += [1, 3]
            for number in numbers:
                collector.scored(trace_id(number).hex())
            for session_id in deleted:
                delete(collector, session_id=session_id)
            problems = collector.get("/api/v1/problems")["items"]
            store = collector.service.pipeline.base.store
            with store.outside.reading() as connection:
                sums = [
                    [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
                    for table in (agent_hours, agent_times, problem_counts)
                ]
        times = ("first_seen", "last_seen", "trend")
        return [{key: each[key] for key in each if key not in times} for each in problems], sums

    assert shown("gone") == shown()


def test_a_deletion_that_was_cut_off_goes_on_at_the_next_start(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(*spans(1, "s", WORD), *spans(2, "t", "Apfel")))
        for number in (1, 2):
            collector.scored(trace_id(number).hex())
        deletions = collector.service.pipeline.base.store.deletions
        collector.service.pipeline.retention.shutdown()
        # As after a crash between the store and the log: the checkpoint may be behind, so that all is replayed.
        deletion_id = deletions.add("d1", DeletionFilter(session_id="s"), "ann")
        deletions.erase(
            [trace_id(1).hex()], ["s"], deletion_id, collector.service.pipeline.assembly.assembler.last_offset
        )
        collector.service.pipeline.base.store.save_checkpoint(0)
        collector.service.pipeline.assembly.stage._checkpoints = {0: 10**9}
    assert files_with(tmp_path, WORD)
    with RunningCollector(tmp_path) as collector:
        receipt = done(collector, deletion_id)
        assert receipt.removed["spans"] == 6
        assert collector.get("/api/v1/sessions/s") is None
        assert collector.get("/api/v1/sessions/t") is not None
    assert files_with(tmp_path, WORD) == []


def test_the_log_of_an_earlier_process_is_erased_before_anything_new_arrives(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(*spans(1, "s", WORD)))
        collector.scored(trace_id(1).hex())
        storage = collector.service.pipeline.base.storage
        # Then nothing is read again at the next start.
        eventually(lambda: storage.store.checkpoint() > storage.requests.last_offset())
    with RunningCollector(tmp_path) as collector:
        assert delete(collector, session_id="s").removed["spans"] == 6
    assert files_with(tmp_path, WORD) == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "give one of session_id, user_id, before and deletion_id"),
        ({"session_id": "s", "user_id": "u"}, "give one of"),
        ({"session_id": ""}, "session_id"),
        ({"before": "yesterday"}, "before"),
        ({"deletion_id": "1"}, "32 hexadecimal digits"),
        ({"deletion_id": "f" * 32}, "not known"),
    ],
)
def test_a_request_that_is_wrong_deletes_nothing(collector: RunningCollector, body: Any, says: str) -> None:
    with pytest.raises(ApiError, match=says):
        post(f"http://{collector.addresses['web']}", DELETE_PATH, body, None)


def test_the_command_over_http_and_the_call_over_grpc_delete(collector: RunningCollector, tmp_path: Path) -> None:
    collector.send(traces(*spans(1, "a", WORD), *spans(2, "b", WORD)))
    for number in (1, 2):
        collector.scored(trace_id(number).hex())
    url = f"http://{collector.addresses['web']}"
    command = CliRunner().invoke(command_line(), ["delete", "--session", "a", "--by", "ann", "--url", url, "--json"])
    assert (command.exit_code, command.stderr) == (1, "agenteval: nobody is there to agree: give --yes\n")
    arguments = ["delete", "--session", "a", "--by", "ann", "--yes", "--url", url, "--json"]
    receipt = json.loads(CliRunner().invoke(command_line(), arguments).stdout)
    assert (receipt["asked_by"], receipt["removed"]["traces"], receipt["removed"]["spans"]) == ("ann", 1, 6)
    again = CliRunner().invoke(command_line(), arguments[:-1])
    assert (again.exit_code, again.stdout[:40]) == (1, "Nothing of session a was found (receipt ")
    none_so_old = ["delete", "--before", "90d", "--yes", "--url", url, "--json"]
    assert CliRunner().invoke(command_line(), none_so_old).exit_code == 0
    said = CliRunner().invoke(command_line(), none_so_old[:-1]).stdout
    assert said.startswith("Nothing from before 90d was found (receipt ")
    stub = EvaluationServiceStub(collector.channel)
    asked = stub.Delete(pb.DeleteRequest(session_id="b"), timeout=20)
    done(collector, json.loads(asked.json)["deletion_id"])
    assert collector.get("/api/v1/sessions")["items"] == []
    assert files_with(tmp_path, WORD) == []
