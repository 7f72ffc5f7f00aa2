"""A recording replayed with ground truth: the figures of the live collector, and a gate for builds."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from agenteval_collector.cli.command_line import command_line
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from typer.testing import CliRunner, Result

from benchmarks.workload import generator
from benchmarks.workload.conversation import Conversation
from benchmarks.workload.otlp import requests
from otel_agenteval.proto.v1.evaluation_pb2 import ReportRunRequest
from otel_agenteval.proto.v1.evaluation_pb2_grpc import EvaluationServiceStub
from tests.support.collector_process import SCRIPT
from tests.support.eventually import eventually
from tests.support.running_collector import RunningCollector

STARTED_AT = 1_700_000_000_000_000_000


@pytest.fixture(scope="module")
def conversations() -> list[Conversation]:
    return list(generator.generate(24))


@pytest.fixture(scope="module")
def recording(conversations: Sequence[Conversation], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("recorded") / "runs.otlp.pb"
    bodies = requests(conversations, started_at=STARTED_AT)
    file.write_bytes(b"".join(_varint(len(body)) + body for body in bodies))
    return file


@pytest.fixture(scope="module")
def dataset(conversations: Sequence[Conversation], recording: Path) -> Path:
    file = recording.with_name("truth.jsonl")
    lines = [{"task_id": c.task_id, "run_id": c.run_id, "success": c.success} for c in conversations]
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


def agenteval(*arguments: object) -> Result:
    return CliRunner().invoke(command_line(), [str(each) for each in arguments])


def test_a_replay_gives_the_figures_of_the_live_collector_bit_for_bit(
    conversations: Sequence[Conversation], recording: Path, dataset: Path, tmp_path: Path
) -> None:
    with RunningCollector(tmp_path) as collector:
        for body in requests(conversations, started_at=STARTED_AT):
            collector.send(ExportTraceServiceRequest.FromString(body))
        service = EvaluationServiceStub(collector.channel)
        for each in reversed(conversations):
            report = ReportRunRequest(task_id=each.task_id, run_id=each.run_id, success=each.success)
            service.ReportRun(report, timeout=10)
        command = [str(SCRIPT), "replay", str(recording), "--dataset", str(dataset), "--json"]
        replayed = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
        offline = json.loads(replayed.stdout)["reliability"]
        assert [item["runs"] for item in offline] == [len(conversations)]
        eventually(lambda: collector.get("/api/v1/reliability")["items"] == offline, within=30.0, every=0.2)


def test_without_ground_truth_outcomes_are_estimated_because_every_session_is_over(recording: Path) -> None:
    replayed = agenteval("replay", recording, "--json")
    (item,) = json.loads(replayed.stdout)["reliability"]
    assert item["runs"] + sum(item["left_out"].values()) == 24
    assert item["estimated"]["outcomes"] == item["runs"]


def test_a_gate_that_is_passed(recording: Path, dataset: Path) -> None:
    passed = agenteval("replay", recording, "--dataset", dataset, "--fail-under", "pass^1=0")
    assert (passed.exit_code, passed.stderr.strip()) == (0, "")
    assert "reliability" in passed.stdout


def test_runs_of_the_dataset_that_have_no_trace_are_named(recording: Path, tmp_path: Path) -> None:
    misspelt = tmp_path / "truth.jsonl"
    misspelt.write_text('{"task_id": "no such task", "run_id": "1", "success": true}')
    told = agenteval("replay", recording, "--dataset", misspelt, "--json")
    assert told.exit_code == 0
    missing = [{"task_id": "no such task", "run_id": "1", "condition": "baseline"}]
    assert json.loads(told.stdout)["reports_without_traces"] == missing
    assert "1 runs of the dataset have no trace in the recordings, as run '1' of task 'no such task'" in told.stderr


def test_a_gate_that_falls_short_says_by_how_much_and_what_is_undefined(recording: Path, dataset: Path) -> None:
    gates = ("pass^1=1", "R_rob=0.5", "loop_detection=0.1", "agent_consistency=1")
    short = agenteval(
        "replay",
        recording,
        "--dataset",
        dataset,
        "--json",
        *(part for gate in gates for part in ("--fail-under", gate)),
    )
    assert short.exit_code == 1
    assert json.loads(short.stdout)["reliability"]
    told = " ".join(short.stderr.split())
    for said in ("pass^1 airline", "R_rob airline", "undefined: none of R_fault", "agent_consistency"):
        assert said in told
    assert "mean of" not in told, "loop_detection reaches its least value"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--fail-under", "R"), "--fail-under 'R' is not NAME=VALUE", id="no value"),
        pytest.param(("--fail-under", "coherance=0.1"), "nothing is called 'coherance'", id="a misspelt figure"),
        pytest.param(("--dataset", "absent.jsonl"), "absent.jsonl: cannot be read", id="no dataset"),
        pytest.param(
            ("--endpoint", "http://127.0.0.1:1", "--fail-under", "R=1"),
            "leave out --endpoint",
            id="nothing is evaluated",
        ),
        pytest.param(("--endpoint", "http://h:1/v1/traces"), "give http://host:port (plain)", id="no gRPC address"),
    ],
)
def test_what_cannot_be_done_is_said(recording: Path, arguments: Sequence[str], message: str) -> None:
    refused = agenteval("replay", recording, *arguments)
    assert refused.exit_code == 1
    assert message in refused.stderr


def _varint(size: int) -> bytes:
    prefix = bytearray()
    while size >= 0x80:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*prefix, size])


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_a_recording_is_sent(recording: Path, tmp_path: Path, scheme: str) -> None:
    with RunningCollector(tmp_path) as collector:
        sent = agenteval("replay", recording, "--endpoint", f"{scheme}{collector.addresses['grpc']}")
        assert sent.exit_code == 0, sent.stderr
        assert eventually(lambda: collector.get("/api/v1/sessions")["items"])


def test_an_address_of_https_is_called_with_tls(recording: Path, tmp_path: Path) -> None:
    with RunningCollector(tmp_path) as collector:
        refused = agenteval("replay", recording, "--endpoint", f"https://{collector.addresses['grpc']}")
    assert refused.exit_code == 1
    assert "this port has no TLS: use http:// instead of https://" in " ".join(refused.stderr.split())
