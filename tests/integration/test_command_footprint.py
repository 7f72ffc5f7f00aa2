"""Commands that ask a collector load nothing of the service, so that they start in a fraction of a second."""

import json
import subprocess
import sys

HEAVY = {"grpc", "numpy", "openai", "psycopg", "scipy", "sqlalchemy", "starlette", "uvicorn", "wordllama"} | {
    "opentelemetry.sdk.trace"
}
RUN = """
import json, sys
from otel_agenteval.command import main
loaded = {}
for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit:
        loaded[arguments[0]] = [*sys.modules]
print(json.dumps(loaded))
"""
NOBODY = ("--url", "http://127.0.0.1:9")


COMMANDS = (
    ("--help",),
    ("sessions", "--since", "2h", *NOBODY),
    ("session", "s-1", *NOBODY),
    ("trace", "0" * 32, *NOBODY),
    ("why", "0" * 32, *NOBODY),
    ("reliability", *NOBODY),
    ("agreement", *NOBODY),
    ("config",),
    ("label", "--next", "task_completion", *NOBODY),
    ("judge", "0" * 32, *NOBODY),
    ("resolve", "0" * 16, *NOBODY),
)


def test_commands_that_ask_load_nothing_of_the_service() -> None:
    """One after the other in one process: the first that loads too much is named, and all behind it."""
    command = [sys.executable, "-c", RUN, json.dumps(COMMANDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert {name: HEAVY.intersection(modules) for name, modules in loaded.items()} == {
        arguments[0]: set() for arguments in COMMANDS
    }
