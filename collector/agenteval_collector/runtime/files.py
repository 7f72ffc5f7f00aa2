"""Files and folders that survive a power failure. A file on disk may still lose its name: that is in its folder."""

import os
from pathlib import Path
from typing import Final

_OURS: Final = ("*.db", "*.db-wal", "*.key")


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can read, and the missing folders above it."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in missing:
        sync(each.parent)


def sync_data(folder: Path) -> None:
    """Sync the files of a data folder to disk. Whoever copied them there may not have, and the next writes rely on it.

    Nobody may have the files open: closing a descriptor of one ends SQLite's locks on it in this process.
    """
    for pattern in _OURS:
        for file in folder.glob(pattern):
            sync(file)
    sync(folder)
    sync(folder.parent)


def sync(path: Path) -> None:
    """Sync a file to disk, or the names in a folder."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
