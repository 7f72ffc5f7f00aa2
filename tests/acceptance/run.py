"""Run a check of ../shared/acceptance on collectors over Kafka and PostgreSQL, as it stands.

    python -m tests.acceptance.run all|roles SCRIPT [ARGUMENT...] [, SCRIPT ...]

A real broker and a real database are started on free ports. The checks start the `agenteval` that lies beside the
Python that runs them: here that is `tests.acceptance.command`, by way of a folder that has both. Ends with 1 where a
check does.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from tests.support.kafka.broker import Broker, broker
from tests.support.postgres import Server, server

ROOT = Path(__file__).parents[2]
LASTS = 900.0
"""Seconds for a check at most."""
_SHOWN = (
    "import runpy, sys; from pathlib import Path; sys.executable = sys.argv[1]; sys.argv[:2] = []; "
    "sys.path[0] = str(Path(sys.argv[0]).parent); runpy.run_path(sys.argv[0], run_name='__main__')"
)
"""Runs a script as if by another Python."""


@contextmanager
def stand_in(shape: str, kafka: Broker, postgresql: Server) -> Iterator[Path]:
    """Make a folder with a `python` and the `agenteval` of a shape; yields the first's path."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "agenteval")
        words = [sys.executable, "-m", "tests.acceptance.command", shape, kafka.address, postgresql.url]
        quoted = " ".join(f"'{word}'" for word in words)
        path.write_text(f"#!/bin/sh\nPYTHONPATH='{ROOT}' exec {quoted} \"$@\"\n")
        path.chmod(0o755)
        yield Path(name, "python")


def check(python: Path, script: Sequence[str]) -> int:
    """Run a check; return its exit status."""
    begun = time.monotonic()
    command = [sys.executable, "-c", _SHOWN, str(python), *script]
    status = subprocess.run(command, check=False, timeout=LASTS, env={**os.environ}).returncode
    print(f"{Path(script[0]).name}: status {status}, {time.monotonic() - begun:.0f} s", flush=True)
    return status


def main() -> None:
    """Run as a script."""
    shape, *rest = sys.argv[1:]
    scripts = [list(words) for is_end, words in groupby(rest, lambda word: word == ",") if not is_end]
    with broker() as kafka, server() as postgresql, stand_in(shape, kafka, postgresql) as python:
        failed = [script[0] for script in scripts if check(python, script)]
    if failed:
        sys.exit(f"over Kafka and PostgreSQL, {shape}: {', '.join(failed)}")


if __name__ == "__main__":
    main()
