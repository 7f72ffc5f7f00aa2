"""The rules of the loop detectors in the agent's process: the `loops` settings, as the collector has them.

They stand in the environment (`AGENTEVAL_LOOPS__IDENTICAL_CALL__REPEATS=5`) or are given to `attach(loops=...)`:
`{"identical_call": {"mode": "observe", "repeats": 5}, "agents": {"poller": {"identical_call": {"mode": "off"}}}}`.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from otel_agenteval.detectors import Budget, Mode, RuleBook, Rules

AGENTEVAL_LOOPS: Final = "AGENTEVAL_LOOPS"
PREFIX: Final = f"{AGENTEVAL_LOOPS}__"

ONE_BY_ONE: Final = f"give each setting in a variable of its own, as {PREFIX}IDENTICAL_CALL__REPEATS=5"
"""What to do in place of all settings in one variable."""

_GIVE_KINDS: Final = 'give a mapping of kinds of loops to their rules, as {"identical_call": {"repeats": 5}}'
_KINDS: Final = tuple(field.name for field in fields(Rules))
# It shows across traces, so the collector alone looks for it.
_ELSEWHERE: Final = "repeated_answer"
_AGENTS: Final = "agents"
_UNITS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


@dataclass(frozen=True)
class _Elsewhere:
    mode: Mode = Mode.ALARM


def rule_book(loops: Mapping[str, Any] | None, environ: Mapping[str, str]) -> RuleBook:
    """The rules by `loops`, where it says nothing by `environ`, else the defaults.

    Raises ValueError naming the setting that cannot be meant.
    """
    if loops is not None and not isinstance(loops, Mapping):
        raise ValueError(f"loops is {loops!r}: {_GIVE_KINDS}")
    given = _merged(_from_environment(environ), loops or {})
    agents = given.pop(_AGENTS, {})
    if not isinstance(agents, Mapping):
        raise ValueError(f"loops.agents is {agents!r}: give a mapping of agents' names to their rules")
    default = _rules("loops", Rules(), given)
    named = {str(agent): _rules(f"loops.agents.{agent}", default, own) for agent, own in agents.items()}
    return RuleBook(default=default, agents=named)


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    if AGENTEVAL_LOOPS in environ:
        raise ValueError(f"{AGENTEVAL_LOOPS} is set: {ONE_BY_ONE}")
    values: dict[str, Any] = {}
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX):
            continue
        *levels, last = _levels(variable.removeprefix(PREFIX))
        place = values
        for level in levels:
            place = place.setdefault(level, {})
            if not isinstance(place, dict):
                raise ValueError(f"{variable}: {level} is set as a value of its own as well")
        place[last] = text
    return values


def _levels(name: str) -> list[str]:
    """The levels that a variable's name writes; an agent's name is a key, and means what it says."""
    levels = name.split("__")
    keep = 1 if levels[0].lower() == _AGENTS else None
    return [level if index == keep else level.lower() for index, level in enumerate(levels)]


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def _rules(where: str, rules: Rules, given: Any) -> Rules:
    if not isinstance(given, Mapping):
        raise ValueError(f"{where} is {given!r}: {_GIVE_KINDS}")
    for kind, changes in given.items():
        if kind == _ELSEWHERE and where == "loops":
            _rule(f"{where}.{kind}", _Elsewhere(), changes)
            continue
        if kind not in _KINDS:
            raise ValueError(f"{where}.{kind} is no kind of loop: give one of {', '.join(_KINDS)}")
        rules = replace(rules, **{kind: _rule(f"{where}.{kind}", getattr(rules, kind), changes)})
    return rules


def _rule(where: str, rule: Any, changes: Any) -> Any:
    known = [field.name for field in fields(rule)]
    if not isinstance(changes, Mapping):
        raise ValueError(f"{where} is {changes!r}: give a mapping with {', '.join(known)}")
    read = {}
    for name, value in changes.items():
        if name not in known:
            raise ValueError(f"{where}.{name} is no setting: give one of {', '.join(known)}")
        read[name] = _READERS[name](f"{where}.{name}", value)
    changed = replace(rule, **read)
    if isinstance(changed, Budget) and changed.mode is not Mode.OFF and not changed.is_bound:
        raise ValueError(f"{where}.mode is {changed.mode}, but nothing is bounded: give steps, tokens or seconds")
    return changed


def _mode(where: str, value: Any) -> Mode:
    # YAML, in which the same settings are written elsewhere, reads `off` as false.
    text = "off" if value is False else str(value).strip().lower()
    if text not in tuple(Mode):
        raise ValueError(f"{where} is {value!r}: give one of {', '.join(Mode)}")
    return Mode(text)


def _count(least: int) -> Callable[[str, Any], int]:
    def read(where: str, value: Any) -> int:
        text = str(value).strip()
        if isinstance(value, bool) or not text.isascii() or not text.isdigit() or int(text) < least:
            raise ValueError(f"{where} is {value!r}: give a whole number of at least {least}")
        return int(text)

    return read


def _seconds(where: str, value: Any) -> float:
    match = _DURATION.fullmatch(str(value).lower())
    seconds = float(match[1]) * _UNITS.get(match[2], math.nan) if match and not isinstance(value, bool) else math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"{where} is {value!r}: give a number of seconds above 0, or one with ms, s, min, h or d")
    return seconds


_READERS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "mode": _mode,
    "repeats": _count(2),
    "after": _seconds,
    "steps": _count(1),
    "tokens": _count(1),
    "seconds": _seconds,
}
