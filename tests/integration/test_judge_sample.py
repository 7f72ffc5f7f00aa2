"""What the judge looks at of 300 sessions, in a collector with a judge that knows the truth."""

import json
import re
from pathlib import Path
from typing import Any

from agenteval_collector.judge.panel import JUDGED
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.eventually import eventually
from tests.support.judge.completions import Received
from tests.support.judge.filling import fill
from tests.support.judge.judge_server import JudgeServer
from tests.support.otlp import trace_id, traces, turn
from tests.support.running_collector import RunningCollector

SESSIONS = 300
ONLY_CONFIDENCE = {name: {"enabled": False} for name in JUDGED if name != "confidence"}


def is_bad(number: int) -> bool:
    return number % 4 == 0


def conversation(number: int) -> Span:
    """A session of one trace. Most of the bad ones have an error, and some of the others."""
    said = f"Nobody knows where order {number} is." if is_bad(number) else f"Order {number} arrives on Friday."
    root = turn(number, f"Where is order {number}?", said, session=f"customer-{number}")
    if number % 8 == 0 or number % 10 == 1:
        root.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message="timeout"))
    return root


def true_verdict(asked: Received) -> str:
    assert asked.schema is not None
    return json.dumps(fill(asked.schema, 0.1 if "Nobody knows" in asked.text else 0.9))


def outcome(running: RunningCollector, number: int) -> Any:
    """The outcome of confidence, once it is settled."""

    def look() -> Any:
        document = running.get(f"/api/v1/traces/{trace_id(number).hex()}")
        found = [each for each in document["outcomes"] if each["name"] == "confidence"] if document else []
        return found[0] if found and found[0]["status"] != "pending" else None

    return eventually(look, within=60)


def counted(running: RunningCollector, part: str, label: str) -> int:
    """Judged outcomes of the part with this label."""
    lines = re.findall(r"agenteval_evaluation_outcomes_total\{(.*)\} (\S+)", running.get("/metrics"))
    wanted = ('name="confidence"', f'agenteval_part="{part}"', f'label="{label}"')
    return round(sum(float(value) for labels, value in lines if all(each in labels for each in wanted)))


def plain(running: RunningCollector, name: str) -> int:
    [value] = re.findall(rf"^{name} (\S+)", running.get("/metrics"), re.MULTILINE)
    return round(float(value))


def test_a_tenth_is_drawn_at_random_and_at_most_a_tenth_escalated_apart_from_it(tmp_path: Path) -> None:
    with JudgeServer(responder=true_verdict) as judge:
        config = {"base_url": judge.url, "sample": 0.1, "escalate": 0.1}
        with RunningCollector(tmp_path, judge=config, evaluators=ONLY_CONFIDENCE) as running:
            for number in range(1, SESSIONS + 1):
                running.send(traces(conversation(number)))
            found = {number: outcome(running, number) for number in range(1, SESSIONS + 1)}
            drawn = {number for number, each in found.items() if each["part"] == "random"}
            escalated = {number for number, each in found.items() if each["part"] == "escalated"}

            assert 0.05 * SESSIONS <= len(drawn) <= 0.15 * SESSIONS
            assert 0 < len(escalated) <= 0.1 * SESSIONS
            assert {each["status"] for number, each in found.items() if number not in drawn | escalated} == {
                "sampled_out"
            }
            assert len(judge.requests) == len(drawn) + len(escalated)

            assert {found[number]["metadata"]["probability"] for number in drawn} == {0.1}
            assert all("probability" not in found[number]["metadata"] for number in escalated)

            bad = sum(map(is_bad, drawn))
            assert (counted(running, "random", "fail"), counted(running, "random", "pass")) == (bad, len(drawn) - bad)
            assert plain(running, "agenteval_collector_sessions_escalated_total") == len(escalated)
            assert plain(running, "agenteval_collector_sessions_not_escalated_total") > 0
