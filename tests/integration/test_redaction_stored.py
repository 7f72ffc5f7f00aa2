"""What is kept, shown and sent on where `redaction.store` is set: real gRPC, real files, a real judge over HTTP."""

import json
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.config.sources import ConfigError
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from tests.support.eventually import eventually
from tests.support.judge.judge_server import JudgeServer
from tests.support.kept_bytes import all_kept_bytes
from tests.support.otlp import START, log, logs, marked, span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector, settings

SECRETS = [f"Zq{number}kw7-hTr{number}" for number in range(14)]
ADDRESS = "ann.lee@example.com"


def seeded(number: int) -> list[Span]:
    """A trace with a secret in each field that holds text, and an e-mail address."""
    s = iter(SECRETS)
    root = turn(number, f"My password is {next(s)}, write to {ADDRESS}", f"Done: api_key={next(s)}", session="s")
    del root.attributes[-1]
    root.events.add(name=f"token={next(s)}").attributes.add(key="note").value.string_value = f"password={next(s)}"
    root.links.add(trace_id=trace_id(99), span_id=b"12345678").attributes.add(key="DB_PASS").value.string_value = next(
        s
    )
    root.attributes.add(key="gen_ai.system_instructions").value.string_value = json.dumps(
        [{"type": "text", "content": f"The service password is {next(s)}."}]
    )
    tool = span(
        number, 3, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="find_order",
        gen_ai__tool__call__id="c1",
        gen_ai__tool__call__arguments=json.dumps({"name": "password", "value": next(s)}),
        gen_ai__tool__call__result=f"curl -u admin:{next(s)}",
        other__kept=f"login --password {next(s)}",
    )  # fmt: skip
    tool.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=f"no login for bob:// password={next(s)}"))
    tool.name = f"execute_tool find_order token={next(s)}"
    tool.attributes.add(key="raw").value.bytes_value = f"secret={next(s)}".encode()
    tool.start_time_unix_nano, tool.end_time_unix_nano = root.start_time_unix_nano + 1, root.start_time_unix_nano + 2
    return [tool, marked(root, 2, "p1")]


def kept(folder: Path) -> bytes:
    return b"".join(all_kept_bytes(folder).values())


def left(secrets: list[str], *texts: bytes | str) -> list[str]:
    whole = b"".join(each.encode() if isinstance(each, str) else each for each in texts)
    return [each for each in secrets if each.encode() in whole]


@pytest.mark.parametrize(("store", "address_stays"), [("secrets", True), ("all", False)])
def test_no_secret_is_kept_shown_or_sent_on(
    tmp_path: Path, store: str, address_stays: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        JudgeServer() as judge,
        RunningCollector(tmp_path, redaction={"store": store}, judge={"base_url": judge.url}) as collector,
    ):
        spans = seeded(1)
        collector.send(traces(*spans))
        collector.send_logs(logs(log(1, 1, body=f"Authorization: Bearer {SECRETS[12]}", password=SECRETS[13])))
        path = f"/api/v1/traces/{trace_id(1).hex()}"
        collector.scored(trace_id(1).hex())
        judged = lambda: "pending" not in {each["status"] for each in collector.get(path)["outcomes"]}  # noqa: E731
        eventually(lambda: judge.requests and judged())
        document = collector.get(path)
        shown = json.dumps([document, collector.get(f"/api/v1/traces/{trace_id(1).hex()}/judgements")])
        asked = json.dumps([each.body for each in judge.requests])
    assert judge.requests
    assert left(SECRETS, kept(tmp_path), shown, asked, caplog.text) == []
    assert (ADDRESS.encode() in kept(tmp_path)) is address_stays
    assert ADDRESS not in asked


def test_nothing_is_replaced_unless_asked_for(tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        collector.send(traces(*seeded(1)))
    assert len(left(SECRETS, kept(tmp_path))) >= 12
    assert not (tmp_path / "redaction.key").exists()


def test_placeholders_tell_values_apart_and_stay_the_same_after_a_restart(tmp_path: Path) -> None:
    def asked(number: int, address: str) -> str:
        with RunningCollector(tmp_path, redaction={"store": "all"}) as collector:
            collector.send(traces(turn(number, f"I am {address}", "Hello", session=address)))
            document = collector.scored(trace_id(number).hex())
        assert document["session_id"] == address
        return str(document["input"])

    ann, bob, again = asked(1, "ann@example.com"), asked(2, "bob@example.com"), asked(3, "Ann@example.com")
    assert ann == again != bob
    assert ann.startswith("I am [EMAIL_")
    assert (tmp_path / "redaction.key").stat().st_mode & 0o777 == 0o600


def test_a_pattern_of_ones_own_is_replaced_everywhere(tmp_path: Path) -> None:
    patterns = [{"name": "staff_id", "pattern": r"E-\d{6}"}]
    with (
        JudgeServer() as judge,
        RunningCollector(tmp_path, redaction={"patterns": patterns}, judge={"base_url": judge.url}) as collector,
    ):
        collector.send(traces(turn(1, "I am E-123456", "Hello E-123456")))
        eventually(lambda: len(judge.requests) > 0)
        asked = json.dumps([each.body for each in judge.requests])
    assert "E-123456" not in asked
    assert "[STAFF_ID_1]" in asked


def test_what_one_message_announces_and_the_next_one_says_reaches_no_judge(tmp_path: Path) -> None:
    with JudgeServer() as judge, RunningCollector(tmp_path, judge={"base_url": judge.url}) as collector:
        collector.send(traces(turn(1, "I need in.", "What is your password?", session="s")))
        collector.scored(trace_id(1).hex())
        collector.send(traces(turn(2, "fluffy2019", "Thanks. What was the old password?", session="s")))
        collector.scored(trace_id(2).hex())
        collector.send(traces(turn(3, "wooly2018", "Thank you.", session="s")))
        path = f"/api/v1/traces/{trace_id(3).hex()}"
        collector.scored(trace_id(3).hex())
        eventually(lambda: "pending" not in {each["status"] for each in collector.get(path)["outcomes"]})
        asked = [each.text for each in judge.requests]
    assert any("old password" in each for each in asked)
    assert [each for each in asked if "wooly2018" in each and "old password" in each] == []


@pytest.mark.parametrize(
    ("redaction", "says"),
    [
        ({"patterns": [{"name": "x", "pattern": "(a"}]}, "missing"),
        ({"patterns": [{"name": "x", "pattern": r"(a)\1"}]}, "backreferences"),
        ({"patterns": [{"name": "x", "pattern": "a*"}]}, "matches where nothing is"),
        ({"patterns": [{"name": "email", "pattern": "a"}]}, "another name"),
        ({"patterns": [{"name": "no name", "pattern": "a"}]}, "is no name of a pattern"),
        ({"patterns": [{"name": "x", "pattern": "a"}, {"name": "X", "pattern": "b"}]}, "two patterns are called X"),
        ({"store": "some"}, "redaction.store"),
    ],
)
def test_a_setting_that_cannot_be_meant_says_what_is_wrong(
    tmp_path: Path, redaction: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        settings(tmp_path, redaction=redaction)


def test_a_bare_off_in_yaml_is_off(tmp_path: Path) -> None:
    assert settings(tmp_path, redaction={"store": False}).redaction.store == "off"


def test_what_a_process_reports_of_its_open_spans_is_redacted_as_well(tmp_path: Path) -> None:
    secret, name = SECRETS[0], f"execute_tool mail to {ADDRESS}"
    ids: dict[str, Any] = {"trace_id": trace_id(7).hex(), "span_id": b"12345678".hex(), "session_id": "s"}
    start = pb.SpanStart(name=name, agent="planner", started_at_unix_nano=START, **ids)
    found = pb.Finding(
        kind="hung_span",
        severity="error",
        reason=f"mail was called 3 times with {ADDRESS} and password={secret}",
        tool="mail",
        mode="alarm",
        **ids,
        metadata_json=json.dumps(
            {"arguments": {"to": ADDRESS, "password": secret}, "span_ids": [b"12345678".hex()]}
        ).encode(),
    )
    with RunningCollector(tmp_path, redaction={"store": "all"}) as collector:
        EvaluationServiceStub(collector.channel).ReportStarts(
            pb.ReportStartsRequest(process_id="p1", service="shop", starts=[start], findings=[found]), timeout=20
        )
        path = f"/api/v1/traces/{trace_id(7).hex()}"
        document = eventually(lambda: collector.get(path))
        shown = json.dumps([document, collector.get("/api/v1/sessions/s")])
    [finding] = document["findings"]
    assert finding["metadata"]["span_ids"] == [b"12345678".hex()]
    assert left([secret, ADDRESS], kept(tmp_path), shown) == []
