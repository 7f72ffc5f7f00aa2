"""The real collector, as a user starts it: the console script in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

SCRIPT = Path(sys.executable).parent / "agenteval"


@contextmanager
def collector_process(
    data_dir: Path, environ: Mapping[str, str] | None = None, *, flags: Sequence[str] = ()
) -> Iterator[dict[str, str]]:
    """Run `agenteval collector` on free ports, unless `flags` say otherwise; yields its addresses by name, and ends it
    with SIGTERM."""
    free = [f"--{name}-address=127.0.0.1:0" for name in ("grpc", "http", "web")]
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("AGENTEVAL_", "OPENAI_", "OTEL_"))
    }
    with (data_dir / "collector.log").open("ab") as log:
        process = subprocess.Popen(
            [SCRIPT, "collector", f"--data-dir={data_dir}", *free, *flags],
            stdout=subprocess.PIPE,
            stderr=log,
            env={**clean, **(environ or {})},
            text=True,
        )
    assert process.stdout is not None
    try:
        ready = process.stdout.readline()
        assert ready, (data_dir / "collector.log").read_text()
        yield json.loads(ready)
    finally:
        process.terminate()
        process.stdout.close()
        assert process.wait(20) == 0, (data_dir / "collector.log").read_text()
