"""Agents in processes of their own, for what can only be seen from outside: start, fork, exit."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence


def run_agent(
    code: str, *, environ: Mapping[str, str] | None = None, command: Sequence[str] = (), check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run Python code to its end, below `command` where one is given; `environ` has all OTEL and AGENTEVAL settings."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "AGENTEVAL_"))}
    return subprocess.run(
        [*command, sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code)],
        env={**clean, **(environ or {})},
        check=check,
        capture_output=True,
        text=True,
        timeout=60,
    )
