"""The console script without the collector's packages, and what it says when misused."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest
from agenteval_collector.cli.command_line import COMMANDS

REFERENCE = Path(__file__).parents[2] / "docs" / "commands.md"
WITHOUT_EXTRAS = (
    "import sys; sys.modules['agenteval_collector'] = None; sys.argv[0] = 'agenteval'; "
    "from otel_agenteval.command import main; main()"
)


def agenteval(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, *arguments], capture_output=True, text=True, check=False, timeout=30
    )


def test_help_and_the_reference_list_the_commands_there_are() -> None:
    shown = agenteval("--help")
    assert shown.returncode == 0
    assert set(re.findall(r"^  ([a-z]+) ", shown.stdout, re.MULTILINE)) == {*COMMANDS, "run", "doctor"}
    table = re.findall(r"^\| `agenteval .*? \|", REFERENCE.read_text(), re.MULTILINE)
    assert set(re.findall(r"`(?:agenteval )?([a-z]+)", "".join(table))) == {*COMMANDS, "run", "doctor"}


def test_version_is_that_of_the_installed_distribution() -> None:
    shown = agenteval("--version")
    assert (shown.returncode, shown.stdout) == (0, f"agenteval {importlib.metadata.version('otel-agenteval')}\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param(("sessions", "--json"), 2, "pip install '.[collector]'", id="a command that needs the extras"),
        pytest.param(("sesions",), 2, "no command 'sesions': did you mean 'sessions'? ", id="a misspelt command"),
        pytest.param(("xyz",), 2, "no command 'xyz': `agenteval --help` lists them", id="a command unlike any"),
        pytest.param(("run",), 2, "needs a command", id="run without a command"),
        pytest.param(("run", "--endpiont", "x", "--", "true"), 2, "no option '--endpiont'", id="a misspelt option"),
        pytest.param(("run", "--endpoint"), 2, "needs a URL", id="an endpoint without a value"),
        pytest.param(
            ("run", "--endpoint", "foo:bar", "--", "true"), 2, "--endpoint is 'foo:bar': give http://", id="no endpoint"
        ),
        pytest.param(("run", "--", "no-such-program"), 127, "no program 'no-such-program'", id="an unknown program"),
    ],
)
def test_misuse_is_named_in_one_sentence(arguments: tuple[str, ...], code: int, message: str) -> None:
    shown = agenteval(*arguments)
    assert shown.returncode == code
    assert message in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


def test_run_needs_no_separator_and_passes_options_of_the_program_on() -> None:
    shown = agenteval("run", sys.executable, "-c", "import sys; print(sys.argv[1:])", "--help")
    assert shown.stdout == "['--help']\n"
