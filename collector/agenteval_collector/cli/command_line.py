"""The program `agenteval`.

It imports a command only when the command is called, because most commands need little of what the collector needs.
"""

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Final

import typer

_MODULES: Final = {
    "collector": ("collector",),
    "demo": ("demo",),
    "replay": ("replay",),
    "read": ("sessions", "session", "trace", "why", "quality", "agreement", "reliability"),
    "agents": ("agents", "compare"),
    "alarms": ("alarms",),
    "problems": ("problems", "resolve", "mute", "merge", "split"),
    "label": ("label",),
    "judge": ("judge",),
    "delete": ("delete",),
    "export": ("export",),
    "regression_set": ("dataset",),
    "mcp": ("mcp",),
    "data": ("backup", "check", "repair"),
    "settings": ("config", "key"),
}
COMMANDS: Final = {name: module for module, names in _MODULES.items() for name in names}
"""The module of each command. The client (`otel_agenteval.command`) carries out one more, `run`."""


def command_line(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the application with these commands."""
    app = typer.Typer(
        name="agenteval",
        help="Live evaluation of LLM agents on OpenTelemetry.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_show_locals=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    # Without a callback, typer takes a single command for the whole application, and expects no name before it.
    app.callback()(_nothing)
    for name in names:
        module = import_module(f"{__package__}.{COMMANDS[name]}")
        app.command(name)(getattr(module, name))
    return app


def main() -> None:
    """Run the command that the arguments name. This is the entry point of the console script."""
    # All commands are imported if the first argument names none of them, as with `--help`.
    command_line(COMMANDS.keys() & set(sys.argv[1:2]) or COMMANDS)()


def _nothing() -> None:
    """Live evaluation of LLM agents on OpenTelemetry."""
