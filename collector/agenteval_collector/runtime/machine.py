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
