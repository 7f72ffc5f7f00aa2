"""The reader is fuzzed for a minute, beginning with recordings; an input that breaks it is kept and named."""

import importlib.util
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.recordings import DATA, read_requests

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("atheris") is None,
        reason="atheris is not installed (pip install atheris, where it has a wheel)",
    ),
]

ROOT = Path(__file__).parents[2]
SECONDS = int(os.environ.get("FUZZ_SECONDS", "60"))
LONGEST = 16_384


def sow(folder: Path) -> None:
    """Write inputs to begin with: requests of recordings, and choices for the property test."""
    for path in sorted((DATA / "corpus").glob("*.otlp.pb")):
        of_logs = ".logs." in path.name
        request = next(read_requests(path, ExportLogsServiceRequest if of_logs else ExportTraceServiceRequest))
        content = (b"l" if of_logs else b"s") + request.SerializeToString()
        if len(content) < LONGEST:
            (folder / path.name).write_bytes(content)
    for number in range(100):
        (folder / f"choices-{number}").write_bytes(b"p" + random.Random(number).randbytes(4_000))


def test_no_input_raises_or_takes_long_or_much_memory(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    sow(seeds)
    limits = [f"-max_total_time={SECONDS}", "-timeout=10", "-rss_limit_mb=1024", f"-max_len={LONGEST}"]
    command = [sys.executable, "-m", "tests.slow.fuzz_reader", *limits, f"-artifact_prefix={tmp_path}/", str(seeds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS + 120, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
