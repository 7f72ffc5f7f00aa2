"""How many files and connections this process may have open."""

import resource
from typing import Final

_ENOUGH: Final = 65_536


def open_files() -> int:
    """Raise the limit of open files to what this process is allowed, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft
