"""Files and folders whose names survive a power failure: a file that is synced may still lose its name."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Have on disk what was made or renamed in a folder."""
    opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner reads, and those above it, where they are missing."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)
