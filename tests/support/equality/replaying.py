"""Replay recordings by the command of the tree that Python finds.

    python replaying.py FOLDER

Each line of stdin is `[NAME, ARGUMENT, ...]`; what is printed with these arguments goes to the file NAME in FOLDER. It
is a script, so that it runs with the packages of any tree. One process replays many recordings: a start takes seconds.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

from otel_agenteval.command import main


def replay(arguments: list[str]) -> str:
    """Return what the command prints, or how it failed."""
    out, errors = io.StringIO(), io.StringIO()
    sys.argv = ["agenteval", "replay", "--json", *arguments]
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            main()
        except SystemExit as exited:
            code = exited.code
    return out.getvalue() if not code else json.dumps({"exit": code, "stderr": errors.getvalue()})


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for line in sys.stdin:
        name, *given = json.loads(line)
        (folder / name).write_text(replay(given), encoding="utf-8")
