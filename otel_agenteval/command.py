"""The console script `agenteval`. `run` and `doctor` need the client only, other commands the collector's packages."""

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NoReturn

from otel_agenteval.config import AGENTEVAL_ATTACH, AGENTEVAL_ENDPOINT, check_endpoint

_COMMANDS: Final = {
    "collector": "receive spans, score them, serve metrics, API and page",
    "demo": "start a collector with a few sample agents and show their scores",
    "run": "run a command with its Python processes attached, without a change to their code",
    "doctor": "find out why nothing is shown: ports, instrumentation, content, sessions, versions",
    "replay": "evaluate recorded traces",
    "sessions": "list sessions and their scores",
    "session": "show a session with its traces",
    "trace": "show a trace with its outcomes",
    "why": "explain the findings and scores of a trace or a session",
    "label": "say what a score of a trace should have been, or label traces that are drawn at random",
    "agents": "show how each agent does: pass rate, errors, cost, time, versions",
    "compare": "set two versions of an agent side by side",
    "alarms": "show what goes wrong now, and what did",
    "problems": "list what goes wrong again and again, each failure once",
    "resolve": "mark a problem as resolved: its next occurrence is a regression",
    "mute": "let a problem raise no alert for a time",
    "merge": "say that two problems are one",
    "split": "take problems apart that were merged, or each text of one",
    "quality": "show which share of traces pass, with error bars",
    "judge": "have the judge score what failed, or what it left out",
    "agreement": "compare scores with the labels that people gave",
    "reliability": "show figures over repeated runs of tasks, or compare two versions",
    "export": "write traces, sessions, labels or outcomes to a file",
    "dataset": "add failing traces to a set of cases that must not fail again",
    "mcp": "let a coding agent ask the collector (Model Context Protocol)",
    "delete": "delete a session, a user's sessions, or what is old, for good",
    "backup": "copy the data of a collector, which may run",
    "check": "find out whether a collector's files are whole",
    "repair": "save what can be read of damaged files",
    "config": "print the effective settings",
    "key": "make a key for server.keys, with a name and scopes",
}
_USAGE: Final = (
    "usage: agenteval COMMAND [OPTIONS]\n\ncommands:\n"
    + "".join(f"  {name:<12}{text}\n" for name, text in _COMMANDS.items())
    + "\n`agenteval COMMAND --help` tells more of a command, `agenteval --version` which release this is.\n"
)
_RUN_USAGE: Final = f"""usage: agenteval run [--endpoint URL] -- COMMAND [ARGUMENT ...]

Runs COMMAND; each Python process below it streams its spans to the collector. Nothing changes in its code.

options:
  --endpoint URL  the collector, as http://host:port (default: {AGENTEVAL_ENDPOINT}, else as `attach()` finds it)
"""
_AUTOLOAD: Final = Path(__file__).parent / "_autoload"
_NOT_RUNNABLE: Final = 126
_NOT_FOUND: Final = 127


def main() -> None:
    """Run the command line of this process. Raises SystemExit, unless the process becomes the command that `run`
    names."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(_USAGE)
        raise SystemExit(0 if arguments else 2)
    command = arguments[0]
    if command == "--version":
        sys.stdout.write(f"agenteval {importlib.metadata.version('otel-agenteval')}\n")
        raise SystemExit(0)
    if command == "run":
        _run(arguments[1:])
    if command == "doctor":
        # Imported here, because it loads gRPC, which other commands need not wait for.
        from otel_agenteval.doctor.command import main as doctor  # noqa: PLC0415

        doctor(arguments[1:])
    if not command.startswith("-") and command not in _COMMANDS:
        close = get_close_matches(command, _COMMANDS, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        _fail(f"there is no command {command!r}: {meant}`agenteval --help` lists them")
    try:
        from agenteval_collector.cli import main as collector_main  # noqa: PLC0415
    except ModuleNotFoundError as error:
        _fail(f"`agenteval {command}` needs {error.name}: run pip install '.[collector]' in a clone of otel-agenteval")
    collector_main()


def _run(arguments: Sequence[str]) -> None:
    """Replace this process by a command, with an environment in which Python imports our `sitecustomize`."""
    endpoint, command = _parse_run(list(arguments))
    environ = dict(os.environ)
    if endpoint is not None:
        environ[AGENTEVAL_ENDPOINT] = endpoint
    environ[AGENTEVAL_ATTACH] = "1"
    paths = [str(_AUTOLOAD), *filter(None, [environ.get("PYTHONPATH")])]
    environ["PYTHONPATH"] = os.pathsep.join(paths)
    program = shutil.which(command[0])
    if program is None:
        _fail(f"there is no program {command[0]!r}", _NOT_FOUND)
    try:
        os.execve(program, command, environ)
    except OSError as error:
        _fail(f"cannot run {program!r}: {error.strerror}", _NOT_RUNNABLE)


def _parse_run(arguments: list[str]) -> tuple[str | None, list[str]]:
    endpoint = None
    while arguments and arguments[0].startswith("-"):
        option, _, value = arguments.pop(0).partition("=")
        if option == "--":
            break
        if option in ("-h", "--help"):
            sys.stdout.write(_RUN_USAGE)
            raise SystemExit(0)
        if option != "--endpoint":
            _fail(f"`agenteval run` has no option {option!r}: `agenteval run --help` lists them")
        endpoint = value or (arguments.pop(0) if arguments else "")
        if not endpoint:
            _fail("--endpoint needs a URL, such as http://127.0.0.1:4317")
        try:
            check_endpoint("--endpoint", endpoint)
        except ValueError as error:
            _fail(str(error))
    if not arguments:
        _fail("`agenteval run` needs a command: agenteval run -- python app.py")
    return endpoint, arguments


def _fail(message: str, code: int = 2) -> NoReturn:
    sys.stderr.write(f"agenteval: {message}\n")
    raise SystemExit(code)
