"""Keys that may only write, and send the same ids: none reads, ends or reports what came with another."""

import threading
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from agenteval_collector.ingest.ingest import sender_stamp
from agenteval_collector.model.runs import Unmatched
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from tests.support.eventually import eventually
from tests.support.looping import root_span, tool_span
from tests.support.otlp import START, marked, span, span_id, trace_id, traces
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.databases

OWNERS = tuple(product("ab", (1, 2)))
"""Tenant and number of each key that may only write."""
KEYS = [
    *({"name": f"agent-{n}-{t}", "key": f"w{t}{n}" * 8, "tenant": t, "scopes": ["write"]} for t, n in OWNERS),
    *(
        {"name": f"{scope}-{t}", "key": f"{scope[0]}{t}" * 8, "tenant": t, "scopes": ["read", scope]}
        for t in "ab"
        for scope in ("label", "write")
    ),
]


class Holder:
    """What the holder of a key sends, asks and hears."""

    def __init__(self, collector: RunningCollector, key: str) -> None:
        self._collector = collector
        self._metadata = (("authorization", f"Bearer {key}"),)
        self.stub = EvaluationServiceStub(collector.channel)

    def send(self, *spans: Span, process: str | None = "p", forged: str = "") -> None:
        body = traces(*spans, process=process).SerializeToString() + (sender_stamp(forged) if forged else b"")
        export: Any = self._collector.channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        export(body, timeout=20, metadata=self._metadata)

    def send_over_http(self, *spans: Span, process: str | None = "p") -> None:
        headers = {"content-type": "application/x-protobuf", **dict(self._metadata)}
        url = f"http://{self._collector.addresses['http']}/v1/traces"
        body = traces(*spans, process=process).SerializeToString()
        assert httpx.post(url, content=body, headers=headers, timeout=20, trust_env=False).status_code == 200

    def call(self, method: str, **request: Any) -> Any:
        kind = getattr(pb, f"{method}Request")
        return getattr(self.stub, method)(kind(**request), timeout=20, metadata=self._metadata)

    def get(self, path: str) -> Any:
        url = f"http://{self._collector.addresses['web']}/api/v1/{path}"
        answer = httpx.get(url, headers=dict(self._metadata), timeout=20, trust_env=False)
        return answer.json() if answer.status_code == 200 else None

    def watch(self, process: str = "p", missed_seconds: float = 0.0) -> "Watch":
        request = pb.WatchRequest(process_id=process, missed_seconds=missed_seconds)
        return Watch(self.stub.Watch(request, timeout=120, metadata=self._metadata))


class Watch:
    """The trace ids of the findings that a watcher has heard of."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.trace_ids: set[str] = set()
        call.initial_metadata()
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        try:
            for event in self._call:
                self.trace_ids.add((event.finding or event.outcome).trace_id)
        except grpc.RpcError:
            pass

    def close(self) -> None:
        self._call.cancel()


def looping(number: int, session: str, **said: Any) -> list[Span]:
    """A complete trace in which a tool is called three times with the same arguments, and that names a session."""
    root = root_span(number, session=session)
    root.attributes.extend(span(number, 1, **said).attributes)
    return [*(tool_span(number, at) for at in (2, 3, 4)), marked(root, 4)]


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path_factory.mktemp("data"), server={"keys": KEYS}) as running:
        yield running


def agent(collector: RunningCollector, tenant: str, number: int) -> Holder:
    return Holder(collector, f"w{tenant}{number}" * 8)


def reader(collector: RunningCollector, tenant: str, scope: str = "label") -> Holder:
    return Holder(collector, f"{scope[0]}{tenant}" * 8)


def scored(holder: Holder, number: int) -> Any:
    def look() -> Any:
        document = holder.get(f"traces/{trace_id(number).hex()}")
        return document if document and document["complete"] else None

    return eventually(look, within=30)


def test_a_watcher_hears_of_its_own_traces_whatever_ids_others_send(collector: RunningCollector) -> None:
    watches = {owner: agent(collector, *owner).watch() for owner in OWNERS}
    people = {tenant: reader(collector, tenant).watch() for tenant in "ab"}
    numbers = {owner: 10 + at for at, owner in enumerate(OWNERS)}
    for owner, number in numbers.items():
        agent(collector, *owner).send(*looping(number, "s"))
    for tenant, watch in people.items():
        own = {trace_id(number).hex() for (whose, _), number in numbers.items() if whose == tenant}
        eventually(lambda own=own, watch=watch: watch.trace_ids == own)  # type: ignore[misc]
    for owner, watch in watches.items():
        eventually(lambda owner=owner, watch=watch: watch.trace_ids == {trace_id(numbers[owner]).hex()})  # type: ignore[misc]
    # One that comes back is not told what it missed of others, either.
    again = {owner: agent(collector, *owner).watch(missed_seconds=3600.0) for owner in OWNERS}
    for owner, watch in again.items():
        eventually(lambda owner=owner, watch=watch: watch.trace_ids == {trace_id(numbers[owner]).hex()})  # type: ignore[misc]
    for watch in (*watches.values(), *people.values(), *again.values()):
        watch.close()


def test_a_request_that_names_another_sender_is_still_that_of_its_key(collector: RunningCollector) -> None:
    first, second = (agent(collector, "a", number) for number in (1, 2))
    watches = first.watch("forged"), second.watch("forged")
    second.send(*looping(20, "s-20"), process="forged", forged="agent-1-a")
    eventually(lambda: watches[1].trace_ids == {trace_id(20).hex()})
    assert watches[0].trace_ids == set()
    for watch in watches:
        watch.close()


def test_a_process_that_reports_no_id_is_known_by_its_key(collector: RunningCollector) -> None:
    first, second = (agent(collector, "a", number) for number in (1, 2))
    first.send_over_http(*looping(30, "s-30"), process=None)
    scored(reader(collector, "a"), 30)
    assert not second.call("EndSession", session_id="s-30").known
    assert first.call("EndSession", session_id="s-30").known


def test_a_session_ends_by_its_own_key_or_by_one_that_may_label(collector: RunningCollector) -> None:
    person = reader(collector, "a")
    for number, session in ((40, "s-40"), (41, "s-41")):
        agent(collector, "a", 1).send(*looping(number, session))
        scored(person, number)
        for owner in OWNERS[1:]:
            assert not agent(collector, *owner).call("EndSession", session_id=session).known
        assert person.get(f"sessions/{session}")["status"] == "active"
    assert agent(collector, "a", 1).call("EndSession", session_id="s-40").known
    # The role `label` alone sends nothing; a person's key that may write as well ends what it likes.
    with pytest.raises(grpc.RpcError, match="does not have the scope write"):
        person.call("EndSession", session_id="s-41")
    assert person.get("sessions/s-40")["status"] == "ended"
    assert person.get("sessions/s-41")["status"] == "active"


def test_a_session_that_is_on_the_way_ends_for_the_key_that_has_said_so(collector: RunningCollector) -> None:
    person = reader(collector, "a")
    first, second = (agent(collector, "a", number) for number in (1, 2))
    second.call("EndSession", session_id="s-50")
    first.call("EndSession", session_id="s-51")
    first.send(*looping(50, "s-50"))
    first.send(*looping(51, "s-51"))
    for number in (50, 51):
        scored(person, number)
    eventually(lambda: person.get("sessions/s-51")["status"] == "ended")
    assert person.get("sessions/s-50")["status"] == "active"


def test_open_spans_are_those_of_the_key_that_reported_them(collector: RunningCollector) -> None:
    person = reader(collector, "a")
    first, second = (agent(collector, "a", number) for number in (1, 2))
    start = pb.SpanStart(
        trace_id=trace_id(60).hex(), span_id=span_id(600).hex(), name="invoke_agent", started_at_unix_nano=START
    )
    first.call("ReportStarts", process_id="p-60", starts=[start])
    second.call("ReportStarts", process_id="p-60", all_open=True)
    assert person.get(f"traces/{trace_id(60).hex()}") is not None
    first.call("ReportStarts", process_id="p-60", all_open=True)
    assert person.get(f"traces/{trace_id(60).hex()}") is None


def test_a_run_is_reported_by_its_own_key(collector: RunningCollector) -> None:
    person = reader(collector, "a")
    first, second = (agent(collector, "a", number) for number in (1, 2))
    first.send(*looping(70, "s-70", agenteval__task__id="refund", agenteval__run__id="1"))
    scored(person, 70)
    at = START + 10**12
    for holder, success in ((first, True), (second, False)):
        holder.call("ReportRun", task_id="refund", run_id="1", success=success, reported_at_unix_nano=at)

    def reported() -> Any:
        [item] = person.get("reliability?agent=planner")["items"]
        return item if item["runs"] else None

    item = eventually(reported)
    assert item["pass_at_k"]["1"] == 1.0
    assert item["left_out"] == {Unmatched.OTHER_KEY: 1}


def test_feedback_replaces_that_of_its_own_key(collector: RunningCollector) -> None:
    person = reader(collector, "a")
    first, second = (agent(collector, "a", number) for number in (1, 2))
    first.send(*looping(80, "s-80"))
    scored(person, 80)
    about = {"trace_id": trace_id(80).hex(), "name": "user_feedback", "author": "ann"}
    for holder, value in ((first, 1.0), (second, 0.5), (second, 0.0)):
        holder.call("ReportFeedback", value=value, **about)
    labels = person.get(f"traces/{trace_id(80).hex()}")["labels"]
    assert sorted(label["value"] for label in labels) == [0.0, 1.0]


def test_it_is_known_after_a_restart_whose_a_session_is(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, server={"keys": KEYS}) as running:
        agent(running, "a", 1).send(*looping(1, "s-1"))
        scored(reader(running, "a"), 1)
        # Not complete before the restart: read from the log after it, where it must be of the same process.
        agent(running, "a", 1).send(tool_span(2, 2, session__id="s-2"))
    with RunningCollector(tmp_path, server={"keys": KEYS}) as again:
        first, second = (agent(again, "a", number) for number in (1, 2))
        assert not second.call("EndSession", session_id="s-1").known
        assert first.call("EndSession", session_id="s-1").known
        first.send(marked(root_span(2, session="s-2"), 2))
        assert scored(reader(again, "a"), 2)["closing"]["by"] == "count"
        assert not second.call("EndSession", session_id="s-2").known
        assert first.call("EndSession", session_id="s-2").known


def test_two_services_with_keys_of_their_own_share_a_session(collector: RunningCollector) -> None:
    person = reader(collector, "b")
    for number, sender in ((90, 1), (91, 2)):
        agent(collector, "b", sender).send(*looping(number, "s-90"))
        scored(person, number)
    assert len(person.get("sessions/s-90")["trace_ids"]) == 2
    for sender in (1, 2):
        assert agent(collector, "b", sender).call("EndSession", session_id="s-90").known
