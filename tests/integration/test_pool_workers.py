"""Workers of process pools deliver what they have, whether they end by themselves or their pool terminates them."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.fake_collector import FakeCollector

TASKS = 12
AGENT = """
    import multiprocessing, sys
    import otel_agenteval
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider()
    provider.add_span_processor(otel_agenteval.AgentEvalSpanProcessor())

    def work(number):
        provider.get_tracer("agent").start_span(f"task {number}").end()

    if __name__ == "__main__":
        way, tasks = sys.argv[1], range(int(sys.argv[2]))
        pool = multiprocessing.get_context(way).Pool(3)
        pool.map(work, tasks)
        getattr(pool, sys.argv[3])()
        pool.join()
"""


@pytest.mark.parametrize("ending", ["close", "terminate"])
@pytest.mark.parametrize("way", ["fork", "forkserver", "spawn"])
def test_a_worker_of_a_pool_delivers_its_spans(tmp_path: Path, way: str, ending: str) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(textwrap.dedent(AGENT))
    with FakeCollector() as collector:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "AGENTEVAL_"))}
        command = [sys.executable, "-W", "ignore::DeprecationWarning", str(agent), way, str(TASKS), ending]
        environ = {**clean, "AGENTEVAL_ENDPOINT": collector.endpoint}
        ended = subprocess.run(command, env=environ, check=False, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
        names = sorted(span.name for span in collector.spans())
    assert names == sorted(f"task {number}" for number in range(TASKS))
