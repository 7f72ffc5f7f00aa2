"""The schema of the `loops` settings. It is the same in the collector's file, in variables and in `attach(loops=...)`.

`{"identical_call": {"mode": "observe", "repeats": 5}, "agents": {"poller": {"identical_call": {"mode": "off"}}}}`
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeVar

from otel_agenteval.detectors.rules import BudgetRule, RuleBook, Rules
from otel_agenteval.finding import Mode
from otel_agenteval.loops.setting_values import AGENTS, merge, nested, seconds

AGENTEVAL_LOOPS: Final = "AGENTEVAL_LOOPS"
PREFIX: Final = f"{AGENTEVAL_LOOPS}__"
MAX_REPEATS: Final = 1000
"""The highest value of `repeats`: detectors remember no more repetitions."""

_ONE_BY_ONE: Final = f"give each setting in a variable of its own, as {PREFIX}IDENTICAL_CALL__REPEATS=5"
_GIVE_KINDS: Final = 'give a mapping of kinds of loops to their rules, as {"identical_call": {"repeats": 5}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedAnswerRule:
    """Answers that restate one another across the turns of a session. The collector alone looks for these."""

    mode: Mode = Mode.ALARM


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings(Rules):
    """The rules for all agents, and in `agents` the complete rules of those that have their own."""

    repeated_answer: RepeatedAnswerRule = RepeatedAnswerRule()
    agents: Mapping[str, Rules] = field(default_factory=dict)

    @property
    def rule_book(self) -> RuleBook:
        """The rules that the detectors work by."""
        default = Rules(**{kind.name: getattr(self, kind.name) for kind in fields(Rules)})
        return RuleBook(default=default, agents=self.agents)


class LoopSettingsError(ValueError):
    """Invalid settings. `problems` has the path of each, and advice."""

    def __init__(self, problems: list[tuple[tuple[str, ...], str]]) -> None:
        super().__init__("\n".join(problem for _, problem in problems))
        self.problems = problems


def loop_settings(raw: Any) -> LoopSettings:
    """Read settings from mappings. Raises LoopSettingsError, which names everything in them that is invalid."""
    reader = _SettingReader()
    if not isinstance(raw, Mapping):
        reader.problem((), f"is {raw!r}: {_GIVE_KINDS}")
        raw = {}
    agents = raw.get(AGENTS, {})
    if not isinstance(agents, Mapping):
        reader.problem((AGENTS,), f"is {agents!r}: give a mapping of agents' names to their rules")
        agents = {}
    settings = reader.rules((), LoopSettings(), {kind: rule for kind, rule in raw.items() if kind != AGENTS})
    common = settings.rule_book.default
    named = {str(agent): reader.rules((AGENTS, str(agent)), common, own) for agent, own in agents.items()}
    if reader.problems:
        raise LoopSettingsError(reader.problems)
    return replace(settings, agents=named)


def client_rules(loops: Mapping[str, Any] | None, environ: Mapping[str, str]) -> RuleBook:
    """Read the rules of this process: `loops` first, then `environ`, then the defaults. Raises as `loop_settings`
    does."""
    under = loops_in(environ)
    raw = merge(under, loops) if isinstance(loops, Mapping) else under if loops is None else loops
    return loop_settings(raw).rule_book


def loops_in(environ: Mapping[str, str]) -> dict[str, Any]:
    """Collect the settings in variables, as text. Raises ValueError, which names a variable that is invalid."""
    if AGENTEVAL_LOOPS in environ:
        raise ValueError(f"{AGENTEVAL_LOOPS} is set: {_ONE_BY_ONE}")
    return nested((key, key.removeprefix(PREFIX), text) for key, text in environ.items() if key.startswith(PREFIX))


def _mode(value: Any) -> Mode:
    # YAML reads `off` as false.
    text = "off" if value is False else str(value).strip().lower()
    if text not in tuple(Mode):
        raise ValueError(f"give one of {', '.join(Mode)}")
    return Mode(text)


def _count(least: int, most: float = math.inf) -> Callable[[Any], int]:
    bounds = f"of at least {least}" if most == math.inf else f"from {least} to {most}"

    def read(value: Any) -> int:
        text = str(value).strip()
        # A number of so many digits is a mistake, and Python refuses to read one of some thousands.
        is_number = text.isascii() and text.isdigit() and len(text) < 20 and not isinstance(value, bool)
        if not is_number or not least <= int(text) <= most:
            raise ValueError(f"give a whole number {bounds}")
        return int(text)

    return read


def _unless_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "mode": _mode,
    "repeats": _count(2, MAX_REPEATS),
    "after": seconds,
    "steps": _unless_none(_count(1)),
    "tokens": _unless_none(_count(1)),
    "seconds": _unless_none(seconds),
}


_Rules = TypeVar("_Rules", bound=Rules)


class _SettingReader:
    """Reads rules, and collects what is invalid in them."""

    def __init__(self) -> None:
        self.problems: list[tuple[tuple[str, ...], str]] = []

    def problem(self, path: tuple[str, ...], problem: str) -> None:
        """Note a problem, which follows the name of the setting."""
        self.problems.append((path, f"{'.'.join(('loops', *path))} {problem}"))

    def rules(self, path: tuple[str, ...], rules: _Rules, raw: Any) -> _Rules:
        """Return `rules` with the changes in `raw`."""
        kinds = [field.name for field in fields(rules) if field.name != AGENTS]
        changed = self._known(path, raw, kinds, _GIVE_KINDS, "kind of loop")
        return replace(rules, **{kind: self._rule((*path, kind), getattr(rules, kind), own) for kind, own in changed})

    def _rule(self, path: tuple[str, ...], rule: Any, raw: Any) -> Any:
        names = [field.name for field in fields(rule)]
        read = {}
        for name, value in self._known(path, raw, names, f"give a mapping with {', '.join(names)}", "setting"):
            try:
                read[name] = _READERS[name](value)
            except ValueError as error:
                self.problem((*path, name), f"is {value!r}: {error}")
        changed = replace(rule, **read)
        if isinstance(changed, BudgetRule) and changed.mode is not Mode.OFF and not changed.is_bound:
            unbound = f"is {changed.mode}, but nothing is bounded: give steps, tokens or seconds"
            self.problem((*path, "mode"), unbound)
        return changed

    def _known(
        self, path: tuple[str, ...], raw: Any, names: list[str], advice: str, sort: str
    ) -> list[tuple[str, Any]]:
        """Return the entries of `raw` that have one of the `names`, and note every other one as a problem."""
        if not isinstance(raw, Mapping):
            self.problem(path, f"is {raw!r}: {advice}")
            return []
        for name in raw:
            if name not in names:
                self.problem((*path, str(name)), f"is no {sort}: give one of {', '.join(names)}")
        return [(name, value) for name, value in raw.items() if name in names]
