"""Files and folders that survive a power failure. A file on disk may still lose its name: that is in its folder."""

import os
from pathlib import Path
from typing import Final

_OURS: Final = ("*.db", "*.db-wal", "*.key")


class HeldFile:
    """A file that is open. Tells whether its name still leads to it: who writes on into a file that was deleted writes
    into nowhere."""

    def __init__(self, path: Path) -> None:
        """Raises OSError if there is no such file."""
        self._path = path
        self._identity = _identity(path)

    @property
    def trouble(self) -> str | None:
        """Why nothing may be written to it any more; None while its name leads to it."""
        try:
            if _identity(self._path) == self._identity:
                return None
        except OSError:
            return (
                f"{self._path} was deleted while it was in use; what is sent now would be lost: restart the collector"
            )
        return f"{self._path} was replaced while it was in use; what is sent now would be lost: restart the collector"


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can read, and the missing folders above it."""
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in missing:
        sync(name.parent)


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


def folder_bytes(folder: Path) -> int:
    """Return the bytes of disk that the files in a folder and below it take."""
    total = 0
    for path in folder.rglob("*"):
        try:
            # A file of SQLite may go while it is looked at.
            total += path.lstat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total
