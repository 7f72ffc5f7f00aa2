"""A tool call as it is compared, and what its arguments and its result say of what is done."""

import re
from collections.abc import Sequence
from typing import Final

from otel_agenteval.detectors.likeness import (
    MAX_ARGUMENTS,
    Likeness,
    Result,
    call_key,
    leaves,
    likeness,
    likeness_whatever_asked,
    written_json,
)
from otel_agenteval.detectors.steps import Step
from otel_agenteval.detectors.tool_names import ToolName, tool_name
from otel_agenteval.detectors.volatile import VolatileValues
from otel_agenteval.model import CallOutcome

LONG_CALL: Final = 10_000_000_000
"""Nanoseconds that a call takes if it waits itself."""

MIN_CORE: Final = 4
"""Letters and digits that notations of one thing have in common."""

_FAULTS: Final = re.compile(
    r"(?<![\d.])[1-9]\d{0,4} (?:failed|failing|failures?|errors?)\b|^(?:error|fatal): "
    r"|\b(?:ERRORS?|[Ff]ailures?|[Ee]rrors?|FAIL(?:ED|URES?)?)[=:] ?[1-9]",
    re.MULTILINE,
)
_FAULT_WORDS: Final = ("fail", "Fail", "FAIL", "rror", "RROR", "fatal", "problem", "violation")
_LISTED_FAULTS: Final = re.compile(
    r"(?:errors|failures|failed|problems|violations)\W{1,3}:\s{0,3}(?:\[\s{0,3}[^\]\s]|[1-9])"
)
_HAS_MORE: Final = re.compile(r"has_?(?:more|next\w*)\W{1,5}true", re.IGNORECASE)
_SLEEPS: Final = re.compile(r"\bsleep[ (]+\d")
# Values that go through things one by one: numbers, dates, ids, paths, addresses, names with capitals.
_ENUMERATES: Final = re.compile(r"[\W\d_]*|\S*[\d_./@:#]\S*|[A-Z]\S*(?: [A-Z]\S*)*")
# Values that name no target, but a direction or a key: the same step may be made several times.
_DIRECTIONS: Final = frozenset((
    *("up", "down", "left", "right", "north", "south", "east", "west", "next", "previous", "prev", "back", "forward"),
    *("in", "out", "tab", "enter", "return", "space", "escape", "esc", "backspace", "delete", "home", "end", "pageup"),
    *("pagedown", "arrowup", "arrowdown", "arrowleft", "arrowright", "true", "false"),
))  # fmt: skip
_AMOUNTS: Final = re.compile(r"\.(?:by|d[xy]|delta\w*|steps|times|distance|pixels|sides|scroll\w*|clicks)$", re.I)


class Call:
    """A tool call, in the form in which it is compared."""

    __slots__ = ("arguments", "key", "newest", "result", "step", "tool")

    def __init__(self, step: Step, newest: Result | None, volatile: VolatileValues | None = None) -> None:
        """Read a call. `newest` is the result of the newest call of its tool, `volatile` what was learnt of it."""
        self.step = step
        self.tool = tool_name(step.name)
        arguments = None if step.arguments is None else written_json(step.arguments)
        self.key = None if arguments is None else (step.name, call_key(arguments))
        """Equal for the same tool with the same arguments. None if these were not recorded."""
        self.arguments = "" if arguments is None else arguments[:MAX_ARGUMENTS]
        result = step.result if step.error is None or step.is_error_read else step.error
        self.result = None if result is None else Result(result, self.arguments, step.outcome, volatile)
        self.newest = newest

    @property
    def is_like_newest(self) -> bool:
        """True if the newest call of the tool told the same, whatever its arguments were."""
        if self.result is None or self.newest is None:
            return False
        alike = likeness_whatever_asked(self.result, self.newest)
        # Rows of two days may be the same but for their dates.
        return alike is Likeness.SAME or (alike is Likeness.NEAR and not go_one_by_one([self.values], self.tool))

    @property
    def values(self) -> list[str]:
        """The values of the arguments."""
        return [value for _, value in leaves(self.arguments)]

    @property
    def has_failed(self) -> bool:
        return self.step.error is not None

    @property
    def brings_nothing(self) -> bool:
        """True if nothing was found, or the call was refused."""
        return self.step.outcome in (CallOutcome.NOTHING, CallOutcome.REFUSED)

    @property
    def is_silent(self) -> bool:
        """True if nothing was said, by a tool that looks for nothing."""
        return self.result is not None and self.result.is_empty and not (self.tool.searches or self.tool.reads)

    @property
    def is_content(self) -> bool:
        return self.result is not None and self.result.is_content


def changing_values(attempts: Sequence[str]) -> list[list[str]]:
    """Return for each attempt the values of its arguments in which it differs from others."""
    tried = [dict(leaves(arguments)) for arguments in attempts]
    first = tried[0]
    common = {path for path, value in first.items() if all(arguments.get(path) == value for arguments in tried[1:])}
    return [[value for path, value in values.items() if path not in common] for values in tried]


def go_one_by_one(changing: list[list[str]], tool: ToolName) -> bool:
    """Return whether arguments go through things one by one. A search in other words does not, nor does one thing in
    other notations."""
    written = ["".join(filter(str.isalnum, "".join(values))).casefold() for values in changing]
    core = min(written, key=len, default="")
    if len(written) > 1 and len(core) >= MIN_CORE and all(core in other for other in written):
        return False
    return all(
        values and all(_ENUMERATES.fullmatch(value) or (" " not in value and not tool.searches) for value in values)
        for values in changing
    )


def is_step(call: Call) -> bool:
    """Return whether a call names no target, and was only confirmed."""
    is_relative = all(
        value.casefold() in _DIRECTIONS or _AMOUNTS.search(path) for path, value in leaves(call.arguments)
    )
    return is_relative and not call.brings_nothing and (call.result is None or not call.result.is_content)


def finds_faults(call: Call) -> bool:
    """Return whether a result counts failures, or that of a tool that judges lists faults."""
    text = call.result.text if call.result is not None and not call.tool.searches else ""
    # The plain search first, because it is far cheaper.
    if not any(word in text for word in _FAULT_WORDS):
        return False
    return _FAULTS.search(text) is not None or (call.tool.judges and _LISTED_FAULTS.search(text) is not None)


def likeness_of(result: Result | None, earlier: Result | None) -> Likeness:
    """Return how alike two results of the same call are. Two that were not recorded are the same."""
    if result is None or earlier is None:
        return Likeness.SAME if result is earlier else Likeness.OTHER
    return likeness(result, earlier)


def waits(call: Call) -> bool:
    """Return whether a call lets time pass: by its tool's name, by a command such as `sleep 30`, by what it says, or
    because it takes long."""
    step = call.step
    if step.outcome is CallOutcome.NOTHING and call.result is not None and _HAS_MORE.search(call.result.text):
        return True
    if step.outcome is CallOutcome.WAITING or call.tool.waits or _sleeps(call.arguments):
        return True
    # A call that timed out did not look at something slow.
    if step.started_at is None or step.ended_at is None or call.has_failed:
        return False
    return step.ended_at - step.started_at >= LONG_CALL


def _sleeps(arguments: str) -> bool:
    # The plain search first, because it is far cheaper, and hardly any command has the word.
    return "sleep" in arguments and _SLEEPS.search(arguments) is not None
