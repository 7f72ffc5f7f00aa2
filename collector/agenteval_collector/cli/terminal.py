"""Output of commands. It keeps recorded content from moving the cursor, changing colours, or reordering text."""

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from otel_agenteval.internal.text import visible

PIPE_WIDTH = 200


def clean(text: str) -> str:
    """Return `text` with every unsafe character spelled out, such as `\\u001b`."""
    return visible(text, keep="\t\n")


def content(text: str, style: str = "", *, lines: bool = False) -> Text:
    """Return recorded content, cleaned and free of markup. It keeps its line breaks only if `lines` is True: with
    one, an id or a name in a table could forge a row."""
    return Text(clean(text) if lines else visible(text, keep="\t"), style)


def table(*columns: str | Text, right: Collection[str] = (), whole: Collection[str] = ()) -> Table:
    """Return a table without lines. Columns in `right` are aligned to the right; those in `whole` never break."""
    grid = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in columns:
        grid.add_column(
            name, justify="right" if str(name) in right else "left", overflow="fold", no_wrap=str(name) in whole
        )
    return grid


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output, or on standard error. It ignores markup: `Text` objects carry the styles."""
    # A pipe has no width. Rich would take 80 columns and fold ids, and then grep would not find them.
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, width=width)


def fail(message: str) -> NoReturn:
    """End the command with a sentence on stderr and exit code 1."""
    typer.echo(f"agenteval: {message}", err=True)
    raise typer.Exit(1)


@contextmanager
def failing_on(*errors: type[Exception]) -> Iterator[None]:
    """End the command as `fail` does if one of these errors is raised. Their messages are sentences."""
    try:
        yield
    except errors as error:
        fail(clean(str(error)))
