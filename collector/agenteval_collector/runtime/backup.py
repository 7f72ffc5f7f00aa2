"""Copy database files while they are written to."""

import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path


def back_up(first: Path, others: Sequence[Path], folder: Path) -> None:
    """Copy files, as they are at one moment, into an empty folder. `first` is the file that refers to the others' rows.

    Nobody can write to the first file while the reading of the others begins. So the copies of the others hold at least
    the rows that the first one refers to. Raises sqlite3.Error and OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as opened:
        sources = [opened.enter_context(_opened(path)) for path in (first, *others)]
        with _opened(first) as writer:
            writer.execute("BEGIN IMMEDIATE")
            for source in sources:
                source.execute("BEGIN")
                # SQLite takes the snapshot at the first read, not at BEGIN.
                source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            writer.execute("ROLLBACK")
        for path, source in zip((first, *others), sources, strict=True):
            copy = folder / path.name
            copy.touch(mode=0o600, exist_ok=False)
            with closing(sqlite3.connect(copy)) as target:
                source.backup(target)


def _opened(path: Path) -> "closing[sqlite3.Connection]":
    # As a URI: a missing file is an error then, and is not created.
    return closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=10.0))
