"""The states of a problem, and how long each lasts."""

from enum import StrEnum
from typing import Final

_DAY: Final = 24 * 3600 * 1_000_000_000

NEW_FOR: Final = _DAY
"""Nanoseconds for which a problem that began, or came back, counts as new, or regressed."""
QUIET_FOR: Final = 7 * _DAY
"""Nanoseconds without an occurrence after which a problem counts as resolved."""


class ProblemState(StrEnum):
    """The state of a problem."""

    NEW = "new"
    """It occurred for the first time less than `NEW_FOR` ago."""
    ONGOING = "ongoing"
    """It has occurred for longer."""
    REGRESSED = "regressed"
    """It was resolved, and came back less than `NEW_FOR` ago."""
    MUTED = "muted"
    """Somebody does not want to hear of it for a time."""
    RESOLVED = "resolved"
    """Somebody said so and it has not occurred since, or it has not occurred for `QUIET_FOR`."""
