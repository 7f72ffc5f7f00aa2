"""`agenteval` in a process whose time of day is shifted: python -m tests.faults.shifted FILE COMMAND...

FILE holds the shift in seconds, eight bytes with a sign, and may change at any time.
"""

import mmap
import sys
import time
from pathlib import Path

from otel_agenteval.command import main

NANOSECONDS = 1_000_000_000


def write_shift(file: Path, seconds: int) -> None:
    """Shift the time of all who read this file."""
    with file.open("r+b" if file.exists() else "w+b") as opened:
        opened.write(seconds.to_bytes(8, "little", signed=True))


def shift_time(file: Path) -> None:
    """Shift what Python tells of the time of day, here and in every library, by the seconds in `file`."""
    with file.open("rb") as opened:
        shift = mmap.mmap(opened.fileno(), 8, access=mmap.ACCESS_READ)  # needs no descriptor later
    real = time.time_ns

    def shifted() -> int:
        return real() + int.from_bytes(shift[:], "little", signed=True) * NANOSECONDS

    time.time_ns = shifted
    time.time = lambda: shifted() / NANOSECONDS


if __name__ == "__main__":
    shift_time(Path(sys.argv.pop(1)))
    main()
