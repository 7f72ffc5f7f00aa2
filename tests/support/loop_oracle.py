"""Loops found by looking at all that an agent has done, over and over: slow, and plain to see."""

from collections.abc import Callable, Sequence
from itertools import takewhile

from otel_agenteval.detectors.fingerprints import error_fingerprint, fingerprint, is_speech
from otel_agenteval.detectors.repeated_steps import MAX_PERIOD, NEAR
from otel_agenteval.detectors.rules import LoopKind
from otel_agenteval.detectors.steps import Step, StepKind
from otel_agenteval.detectors.tool_names import tool_name
from otel_agenteval.detectors.tool_results import Lack, is_content, lack_in

ROUNDS = 3
ATTEMPTS = 4
MIXED_ATTEMPTS = 6


def loops(history: Sequence[Step]) -> set[str]:
    """The kinds of loops that the last step of one agent's `history` completes, under the default rules."""
    rules: dict[LoopKind, Callable[[Sequence[Step]], bool]] = {
        LoopKind.IDENTICAL_CALL: _identical_call,
        LoopKind.NO_PROGRESS: _no_progress,
        LoopKind.ERROR_STORM: _error_storm,
        LoopKind.CYCLE: _cycle,
        LoopKind.REPEATED_OUTPUT: _repeated_output,
    }
    return {kind.value for kind, is_completed in rules.items() if is_completed(history)}


def _identical_call(history: Sequence[Step]) -> bool:
    def same(step: Step) -> bool:
        return step.error is None and step.arguments is not None and _call(step) == _call(history[-1])

    row = _last(_tools(history), same)
    return _is_tool(history[-1]) and _completes(row, ROUNDS)


def _no_progress(history: Sequence[Step]) -> bool:
    return _is_tool(history[-1]) and (_same_result(history) or _found_nothing(history) or _failing_check(history))


def _same_result(history: Sequence[Step]) -> bool:
    last = history[-1]

    def same(step: Step) -> bool:
        known = step.arguments is not None and step.result is not None and _lack(step) is not Lack.NOT_FOUND
        return known and _lack(step) == _lack(last) and _outcome(step) == _outcome(last)

    ways = _ways(_last([step for step in _tools(history) if step.error is None], same))
    is_said = _lack(last) is Lack.REFUSED or is_content(tool_name(last.name), last.result)
    return last.error is None and is_said and len(ways) == ATTEMPTS and ways[-1] is last


def _found_nothing(history: Sequence[Step]) -> bool:
    tried = [step for step in _tools(history) if step.error is None]
    ways = _ways(_last(tried, lambda step: step.arguments is not None and _lack(step) is Lack.NOT_FOUND))
    is_one = len({step.name for step in ways[:ATTEMPTS]}) == 1
    return len(ways) == (ATTEMPTS if is_one else MIXED_ATTEMPTS) and ways[-1] is history[-1]


def _failing_check(history: Sequence[Step]) -> bool:
    calls, last = _tools(history), history[-1]
    counted: list[Step] = []
    before = -1
    for at, step in enumerate(calls):
        if (step.name, step.arguments) != (last.name, last.arguments) or step.arguments is None:
            continue
        is_same = before >= 0 and at - before <= NEAR + 1 and step.error is not None
        if not is_same or _exact(step) != _exact(calls[before]):
            counted = [step] if step.error is not None else []
        elif before < at - 1 and _is_after(step, counted):
            counted.append(step)
        before = at
    return len(counted) == ATTEMPTS and counted[-1] is last


def _ways(row: Sequence[Step]) -> list[Step]:
    """The steps of a row that tried what was not tried before, each after the one before was over."""
    counted: list[Step] = []
    for step in row:
        tried = [(each.name, fingerprint(each.arguments)) for each in counted]
        if (step.name, fingerprint(step.arguments)) not in tried and _is_after(step, counted):
            counted.append(step)
    return counted


def _lack(step: Step) -> Lack | None:
    return lack_in(tool_name(step.name), step.result)


def _exact(step: Step) -> object:
    return ("read", fingerprint(step.result)) if step.is_error_read else step.error


def _error_storm(history: Sequence[Step]) -> bool:
    last = history[-1]
    row: list[Step] = []
    before: tuple[int, Step] | None = None
    history_of_kind = [each for each in history if each.kind is last.kind]
    for index, step in enumerate(history_of_kind):
        if step.name != last.name:
            continue
        if step.error is None:
            before = None
            continue
        between = history_of_kind[before[0] + 1 : index] if before else []
        if before is None or index - before[0] > NEAR + 1 or not _fail_alike(before[1], step, between):
            row = []
        before = index, step
        if _is_after(step, row):
            row.append(step)
    return last.error is not None and len(row) == ROUNDS and row[-1] is last


def _cycle(history: Sequence[Step]) -> bool:
    calls = _tools(history)
    return _is_tool(history[-1]) and any(
        _again(calls, period) == period * (ROUNDS - 1) and _is_primitive([_call(each) for each in calls[-period:]])
        for period in range(2, MAX_PERIOD + 1)
    )


def _repeated_output(history: Sequence[Step]) -> bool:
    last = history[-1]
    said = [step for step in history if _is_tool(step) or (step.error is None and step.result is not None)]
    row = _last(said, lambda step: not _is_tool(step) and _reply(step) == _reply(last))
    row = row[_last_other_sent(row) :]
    return last.error is None and is_speech(last.result) and _completes(row, ROUNDS) and row[-1] is last


def _last_other_sent(row: Sequence[Step]) -> int:
    """Where in a row of replies the last one stands whose model was sent something else than the time before.

    What was sent the first time is taken for the same.
    """
    sent = [step.sent() for step in row]
    others = [at for at in range(2, len(row)) if None not in sent[at - 1 : at + 1] and sent[at] != sent[at - 1]]
    return max(others, default=0)


def _again(calls: Sequence[Step], period: int) -> int:
    """How many of the last calls are the same as those `period` calls before them, which were over."""

    def again(index: int) -> bool:
        step, earlier = calls[index], calls[index - period]
        return step.arguments is not None and _call(step) == _call(earlier) and _is_after(step, [earlier])

    return len(list(takewhile(again, range(len(calls) - 1, period - 1, -1))))


def _is_primitive(calls: list[object]) -> bool:
    period = len(calls)
    parts = [part for part in range(1, period) if period % part == 0]
    return all(calls != calls[:part] * (period // part) for part in parts)


def _completes(row: Sequence[Step], times: int) -> bool:
    counted: list[Step] = []
    for step in row:
        if _is_after(step, counted):
            counted.append(step)
    return len(counted) == times and counted[-1] is row[-1]


def _is_after(step: Step, counted: Sequence[Step]) -> bool:
    return not counted or step.follows(counted[-1].ended_at, counted[-1].asked_by)


def _fail_alike(one: Step, other: Step, between: Sequence[Step]) -> bool:
    same_call = one.arguments is not None and fingerprint(one.arguments) == fingerprint(other.arguments)
    if same_call and any(step.error is None and step.result for step in between):
        return _exact(one) == _exact(other)
    return same_call or _failure(one) == _failure(other)


def _failure(step: Step) -> object:
    return ("read", fingerprint(step.result)) if step.is_error_read else error_fingerprint(step.error)


def _last(steps: Sequence[Step], matches: Callable[[Step], bool]) -> list[Step]:
    """The longest row of matching steps at the end."""
    return list(takewhile(matches, reversed(steps)))[::-1]


def _tools(history: Sequence[Step]) -> list[Step]:
    return [step for step in history if _is_tool(step)]


def _is_tool(step: Step) -> bool:
    return step.kind is StepKind.TOOL


def _outcome(step: Step) -> object:
    return step.name, fingerprint(step.result)


def _reply(step: Step) -> object:
    return step.asked(), fingerprint(step.result)


def _call(step: Step) -> object:
    return step.name, fingerprint(step.arguments), fingerprint(step.result), _failure(step)
