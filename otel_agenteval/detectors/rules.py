"""The rules for loops: what counts as a loop, and how far it goes. docs/loops.md explains the defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from otel_agenteval.finding import Finding, FindingKind, Mode, severity_of
from otel_agenteval.model import Json


class LoopKind(StrEnum):
    """The kinds of loops that the steps of a trace show, each with the heading of its problem."""

    heading: str

    def __new__(cls, name: str, heading: str) -> "LoopKind":
        member = str.__new__(cls, name)
        member._value_, member.heading = name, heading
        return member

    IDENTICAL_CALL = "identical_call", "Keeps making the same call"
    CYCLE = "cycle", "Goes round in a circle of calls"
    NO_PROGRESS = "no_progress", "Keeps getting the same result"
    ERROR_STORM = "error_storm", "Keeps failing"
    REPEATED_OUTPUT = "repeated_output", "Keeps saying the same"
    HUNG_SPAN = "hung_span", "Call hangs"
    BUDGET = "budget", "Uses more than its budget"


LOOP_KINDS: Final = frozenset((*LoopKind, FindingKind.REPEATED_ANSWER))
"""The kinds of findings that are loops. `repeated_answer` shows across the traces of a session."""

LOOP_EVALUATOR: Final = "loop_detection"
"""The evaluator's name that verdicts on loops of any kind have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionRule:
    """The rule for a repetition: the `repeats`-th time is a loop. The first time counts, so `repeats` is at least 2."""

    mode: Mode = Mode.ALARM
    repeats: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HungSpanRule:
    """The rule for a call that hangs: it has been open for `after` seconds, and nothing began or ended inside it."""

    mode: Mode = Mode.ALARM
    after: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRule:
    """The rule for a budget: the calls, tokens and seconds that an agent may use in a trace. None is no bound."""

    mode: Mode = Mode.OFF
    steps: int | None = None
    tokens: int | None = None
    seconds: float | None = None

    @property
    def is_bound(self) -> bool:
        """True if there is any bound."""
        return any(bound is not None for bound in (self.steps, self.tokens, self.seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules for one agent."""

    identical_call: RepetitionRule = RepetitionRule()
    cycle: RepetitionRule = RepetitionRule()
    no_progress: RepetitionRule = RepetitionRule(repeats=4)
    error_storm: RepetitionRule = RepetitionRule()
    repeated_output: RepetitionRule = RepetitionRule()
    hung_span: HungSpanRule = HungSpanRule()
    budget: BudgetRule = BudgetRule()

    @property
    def fewest_repeats(self) -> int:
        """The fewest repetitions that make a loop."""
        repetitions = (self.identical_call, self.cycle, self.no_progress, self.error_storm, self.repeated_output)
        return min(repetition.repeats for repetition in repetitions)

    @property
    def are_off(self) -> bool:
        """True if no kind of loop is looked for."""
        return all(getattr(self, kind).mode is Mode.OFF for kind in LoopKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBook:
    """The rules of every agent: its own, else `default`."""

    default: Rules = Rules()
    agents: Mapping[str, Rules] = field(default_factory=dict)

    @property
    def are_off(self) -> bool:
        """True if no kind of loop is looked for in any agent."""
        return self.default.are_off and all(rules.are_off for rules in self.agents.values())

    @property
    def has_budgets(self) -> bool:
        """True if some agent has a budget."""
        return any(rules.budget.mode is not Mode.OFF for rules in (self.default, *self.agents.values()))

    @property
    def fewest_calls(self) -> int:
        """The fewest tool calls, or else model calls, with which a trace can have a loop.

        One call may exceed a budget. A cycle has at least twice its `repeats` of calls, and so `repeats` of one kind.
        """
        return 1 if self.has_budgets else min(rules.fewest_repeats for rules in (self.default, *self.agents.values()))

    def of(self, agent: str | None) -> Rules:
        """Return the rules for `agent`; None stands for an agent whose name was not recorded."""
        return self.agents.get(agent, self.default) if agent is not None else self.default


def loop(
    kind: str, mode: Mode, span_id: str | None, reason: str, metadata: Mapping[str, Json], doubt: str | None = None
) -> Finding | None:
    """Make the finding of a loop, still without trace, session and agent. None if `mode` is off.

    `metadata` is its evidence. A loop in `doubt` is only observed, and its reason says why.
    """
    if mode is Mode.OFF:
        return None
    if doubt is not None:
        mode, reason, metadata = Mode.OBSERVE, f"{reason}; {doubt}", {**metadata, "doubt": doubt}
    tool = metadata.get("tool")
    return Finding(
        kind=str(kind),
        severity=severity_of(mode),
        mode=mode,
        span_id=span_id,
        reason=reason,
        tool=tool if isinstance(tool, str) else None,
        metadata=metadata,
        trace_id="",
        session_id="",
    )
