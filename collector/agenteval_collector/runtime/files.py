"""Files and folders that survive a power failure: a file that is synced may still lose its name."""

import os
from pathlib import Path
from typing import Final

_OURS: Final = ("*.db", "*.db-wal", "*.key")


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner reads, and those above it, where they are missing."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in missing:
        sync(each.parent)


def sync_data(folder: Path) -> None:
    """Have on disk what a data folder holds. Whoever put it there may not have waited for that, and what is written
    next needs it. Nobody may have the files open: closing a descriptor of one ends SQLite's locks in this process."""
    for pattern in _OURS:
        for file in folder.glob(pattern):
            sync(file)
    sync(folder)
    sync(folder.parent)


def sync(path: Path) -> None:
    """Have a file on disk, or the names in a folder."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
