"""The shipped configuration with all its durations shorter by one factor, so that a test can wait for hours and weeks.

A rule that is scaled is the shipped rule but for its clock: windows, offsets, `for`, and seconds, which rules write as
minutes times 60. What counts (shares, numbers of traces) stays. A scrape may take two seconds.
"""

import re
from collections.abc import Mapping
from typing import Any

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_OF_CONFIGURATION = re.compile(r"(.+_)?(interval|timeout|wait)")


def seconds(duration: str) -> float:
    """Return the seconds of a duration such as `5m`."""
    return int(duration[:-1]) * SECONDS[duration[-1]]


def shorter(duration: str, factor: float) -> str:
    """Return a duration divided by the factor, in milliseconds."""
    return f"{round(1000 * seconds(duration) / factor)}ms"


def scaled_rules(rules: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return a file of rules with all durations divided by the factor."""
    return {"groups": [_group(group, factor) for group in rules["groups"]]}


def _group(group: Mapping[str, Any], factor: float) -> dict[str, Any]:
    return {**group, "rules": [_rule(rule, factor) for rule in group["rules"]]}


def _rule(rule: Mapping[str, Any], factor: float) -> dict[str, Any]:
    expression = re.sub(r"\b\d+[smhdw]\b", lambda found: shorter(found[0], factor), rule["expr"])
    expression = re.sub(r"\* 60\b(?! \*)", f"* {60 / factor:g}", expression)
    waits = {key: shorter(rule[key], factor) for key in ("for", "keep_firing_for") if key in rule}
    return {**rule, "expr": expression, **waits}


def scaled(configuration: Any, factor: float) -> Any:
    """Return the configuration of a server with all intervals, timeouts and waits divided by the factor."""
    if isinstance(configuration, list):
        return [scaled(each, factor) for each in configuration]
    if not isinstance(configuration, dict):
        return configuration
    return {
        key: shorter(value, factor) if _OF_CONFIGURATION.fullmatch(key) else scaled(value, factor)
        for key, value in configuration.items()
    }
