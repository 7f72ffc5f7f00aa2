"""Nesting and values of settings, which come from files, variables and options."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

AGENTS: Final = "agents"
"""The setting whose keys are the names of agents."""

_UNITS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def nested(variables: Iterable[tuple[str, str, Any]]) -> dict[str, Any]:
    """Nest the values of variables by the levels in their names (`A__B`). An agent's name keeps its case.

    Each variable comes as its full name, its name below the prefix, and its value. Raises ValueError for a variable
    that has a value and levels below it.
    """
    values: dict[str, Any] = {}
    for variable, name, value in sorted(variables, key=lambda variable: variable[0]):
        written = name.split("__")
        levels = [level.lower() for level in written]
        if AGENTS in levels[:-1]:
            agent = levels.index(AGENTS) + 1
            levels[agent] = written[agent]
        level_values = values
        for level in levels[:-1]:
            level_values = level_values.setdefault(level, {})
            if not isinstance(level_values, dict):
                raise ValueError(f"{variable}: {level} is set as a value of its own as well")
        level_values[levels[-1]] = value
    return values


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Join settings at every level. If both have a value, that of `above` counts."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = merge(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged


def seconds(value: Any) -> float:
    """Read a time, such as `2`, `"500ms"`, `"15 min"` or `"1h"`, as seconds. Raises ValueError for anything else, and
    for 0."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match:
        found = float(match[1]) * _UNITS.get(match[2].lower(), math.nan)
    else:
        found = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not 0 < found < math.inf:
        raise ValueError("give a number of seconds above 0, or one with ms, s, min, h or d")
    return found
