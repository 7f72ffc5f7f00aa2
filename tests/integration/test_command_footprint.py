"""Commands that ask a collector load nothing of the service, so that they start in a fraction of a second."""

import subprocess
import sys

import pytest

HEAVY = {"grpc", "numpy", "openai", "scipy", "sqlalchemy", "starlette", "uvicorn", "wordllama"} | {
    "opentelemetry.sdk.trace"
}
RUN = """
import sys
from otel_agenteval.command import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
NOBODY = ("--url", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--help",), id="help"),
        pytest.param(("sessions", "--since", "2h", *NOBODY), id="sessions"),
        pytest.param(("session", "s-1", *NOBODY), id="session"),
        pytest.param(("trace", "0" * 32, *NOBODY), id="trace"),
        pytest.param(("why", "0" * 32, *NOBODY), id="why"),
        pytest.param(("reliability", *NOBODY), id="reliability"),
        pytest.param(("agreement", *NOBODY), id="agreement"),
        pytest.param(("config",), id="config"),
        pytest.param(("label", "--next", "task_completion", *NOBODY), id="label"),
    ],
)
def test_commands_that_ask_load_nothing_of_the_service(arguments: tuple[str, ...]) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=False, timeout=30
    )
    *said, modules = shown.stderr.splitlines()
    loaded = set(modules.split())
    assert "otel_agenteval" in loaded, said
    assert not loaded & HEAVY - ({"grpc"} if arguments[0] == "label" else set())
