"""The limits that the machine sets to the process: memory, by its control group, and open files."""

import ctypes
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

SHARE_OF_RAM: Final = 0.6
"""The share of the machine's memory that the process may take if no limit is set."""

MOST_WORKERS: Final = 8
"""Worker processes at most if the settings name no number: what one process of the front keeps busy."""
GARBAGE_THRESHOLDS: Final = (10_000, 10, 10)
"""Thresholds of Python's garbage collector: new objects until it looks at the newest, and looks until it goes on to
older ones.

With Python's default of 700 it walks all kept objects every few seconds. Under load that takes a tenth of the CPU, and
each time a pause of up to 0.4 s.
"""

_ENOUGH_FILES: Final = 65_536
"""The most open files that are asked for: many more than all ports have connections."""
_M_ARENA_MAX: Final = -8
"""M_ARENA_MAX of malloc.h."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes; its peak if the system tells only that."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * _PAGE
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def share_arenas() -> None:
    """Let all threads share two arenas of the GNU C library's allocator. Otherwise each of many threads keeps freed
    memory that no other thread can use."""
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_ARENA_MAX, 2)


def open_files() -> int:
    """Raise the limit of open files as far as this process is allowed to, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return _ENOUGH_FILES if soft == resource.RLIM_INFINITY else soft


def limit_growth(size: int) -> None:
    """Let this process take at most `size` bytes more than now, if the system can tell and limit that. Beyond that
    MemoryError is raised."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            data = int(statm.read().split()[5]) * _PAGE
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (data + size, hard))
    except (OSError, ValueError):
        return


def cores(root: Path = Path("/")) -> int:
    """Return the number of cores that the process may use: what its control group allows, of those that it may run
    on."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = (root / "sys/fs/cgroup/cpu.max").read_text().split()
        allowed = min(allowed, max(1, round(int(quota) / int(period))))
    return allowed


def memory_limit(root: Path = Path("/")) -> int:
    """Return the bytes that the process may take: the limit of its control group, else a share of the machine's."""
    ram = os.sysconf("SC_PHYS_PAGES") * _PAGE
    # Control groups of version 1 show a number beyond any machine if there is no limit.
    return min((limit for limit in _cgroup_limits(root) if limit < ram), default=round(SHARE_OF_RAM * ram))


def _cgroup_limits(root: Path) -> Iterator[int]:
    """Yield the limits of the process's control group and of the groups above it, in version 2 and 1."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, named = line.partition(":")
        controllers, _, path = named.partition(":")
        if controllers == "":
            mounted, file = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mounted, file = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        group = mounted / path.lstrip("/")
        # In a container the path may be the host's. Then the mounted group is the container's.
        for folder in (group, *group.parents):
            with suppress(OSError, ValueError):  # No such group here, or `max`.
                yield int((folder / file).read_text())
            if folder == mounted:
                break
