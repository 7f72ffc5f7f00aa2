"""Leave in a data folder what a process leaves that died while it worked on something."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from agenteval_collector.runtime.work_in_hand import WorkInHand

_UNDER_WAY: list[AbstractContextManager[None]] = []
"""Keeps the work, which would end with its last reference."""


def opened(folder: Path) -> WorkInHand:
    """What the next process makes of the folder."""
    hand = WorkInHand(folder)
    hand.open()
    return hand


def die_on(folder: Path, kind: str, keys: Sequence[str], *, tenant: str = "default", times: int = 1) -> None:
    """Take up work that never ends, so many times."""
    for _ in range(times):
        work = opened(folder).hold(tenant, kind, keys)
        work.__enter__()
        _UNDER_WAY.append(work)
