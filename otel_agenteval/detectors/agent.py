"""The loops of one run of an agent."""

import re
from collections.abc import Hashable
from typing import Final, NamedTuple

from otel_agenteval.detectors.content import MAX_ERROR, Compared, error_fingerprint, is_speech, written
from otel_agenteval.detectors.loop import loop
from otel_agenteval.detectors.repetition import Attempts, Checks, Cycle, Cycles, Failure, Failures, Row, Storm
from otel_agenteval.detectors.results import Lack, is_content, lack_in, reports_failure
from otel_agenteval.detectors.rules import Kind, Repetition, Rules
from otel_agenteval.detectors.steps import Step, StepKind
from otel_agenteval.finding import Finding, Mode
from otel_agenteval.model import Json
from otel_agenteval.tool_names import ToolName, tool_name

PATIENCE: Final = 15_000_000_000
"""Nanoseconds without any step that are a pause, as between two looks at something that takes its time."""

_WAITED: Final = "it waited in between"
_STEPS: Final = "such a step may rightly be made several times"
_UNKNOWN_RESULT: Final = "no results are recorded"
_UNKNOWN_QUESTION: Final = "what it was asked is not recorded"
_OTHERS_BETWEEN: Final = "something else succeeded in between"
_SAME_CONTENT: Final = "it may be the right answer to each"

_SLEEPS: Final = re.compile(r"\bsleep[ (]+\d")
# What differs between two runs of the same check: how long it took, when, and where things lay in memory.
_VARIES: Final = re.compile(r"(?<!\d)\d+(?:[.:]\d+)+|\b\d+ ?(?:ms|s|seconds?)\b|0x[0-9a-f]+")


class _Call(NamedTuple):
    """A tool call, and what of it is compared."""

    step: Step
    tool: ToolName
    arguments: Compared | None
    result: Compared | None
    failure: Failure | None
    lack: Lack | None


class RunDetectors:
    """Finds loops in what an agent does in a run, each once: a loop that goes on is the same one until it is broken.

    What a person could see either way is in doubt, and no more than observed.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._same_call = Row()
        self._same_result = Attempts(rules.no_progress.repeats)
        self._not_found = Attempts(2 * rules.no_progress.repeats)
        self._checks = Checks()
        self._same_reply = Row()
        self._asked: str | None = None
        self._sent: bytes | None = None
        self._cycles = Cycles()
        self._failing_tools = Failures()
        self._failing_models = Failures()
        self._ended_at: int | None = None
        self._pauses = 0

    def observe(self, step: Step) -> list[Finding]:
        """The loops that `step`, a tool or model call, completes."""
        failure = None if step.error is None else _failure(step.error, step)
        is_pause = self._pauses_before(step)
        if step.kind is StepKind.MODEL:
            self._pauses += is_pause
            storm = self._failing_models.add(None, failure, step, self._pauses)
            found = (self._stormed(step, storm), self._said_again(step))
            return [each for each in found if each is not None] if any(found) else []
        tool = tool_name(step.name)
        is_pause = is_pause or _waits(tool, step.arguments)
        self._pauses += is_pause
        self._same_reply.clear()
        lack = lack_in(tool, step.result) if failure is None else None
        call = _Call(step, tool, _compared(step.arguments), _compared(step.result), failure, lack)
        loops = (
            self._stormed(step, self._failing_tools.add(call.arguments, failure, step, self._pauses)),
            self._called_again(call),
            self._came_to_the_same(call),
            self._found_nothing(call),
            self._checked_again(call),
            self._went_in_a_cycle(call, is_pause),
        )
        return [each for each in loops if each is not None] if any(loops) else []

    def _pauses_before(self, step: Step) -> bool:
        """Whether nothing has happened for a while when `step` begins."""
        idle = 0 if step.started_at is None or self._ended_at is None else step.started_at - self._ended_at
        if step.ended_at is not None and (self._ended_at is None or step.ended_at > self._ended_at):
            self._ended_at = step.ended_at
        return idle >= PATIENCE

    def _called_again(self, call: _Call) -> Finding | None:
        rule, row, step = self._rules.identical_call, self._same_call, call.step
        if call.arguments is None or call.failure is not None:
            row.clear()
        elif row.add((step.name, call.arguments, call.result), step, self._pauses) and row.count == rule.repeats:
            outcome = "no result recorded" if call.result is None else "the same result"
            reason = f"{step.name} was called {rule.repeats} times in a row with the same arguments and {outcome}"
            return _repeated(Kind.IDENTICAL_CALL, rule, step, row, reason, _doubt(call) or self._waited(row))
        return None

    def _came_to_the_same(self, call: _Call) -> Finding | None:
        rule, attempts, step = self._rules.no_progress, self._same_result, call.step
        known = call.arguments is not None and call.result is not None
        if call.failure is not None:
            return None
        if not known or call.lack is Lack.NOT_FOUND:
            attempts.clear()
            return None
        is_refused = call.lack is Lack.REFUSED
        outcome = error_fingerprint(str(step.result)) if is_refused else call.result
        if (
            attempts.add((step.name, is_refused, outcome), call.arguments, step)
            and attempts.row.count == rule.repeats
            and (is_refused or is_content(call.tool, step.result))
        ):
            what = "was refused in the same way" if is_refused else "gave the same result"
            reason = f"{step.name} {what} {rule.repeats} times in a row, with different arguments"
            doubt = None if is_refused or call.tool.searches else _SAME_CONTENT
            return _repeated(Kind.NO_PROGRESS, rule, step, attempts.row, reason, doubt)
        return None

    def _found_nothing(self, call: _Call) -> Finding | None:
        rule, attempts, step = self._rules.no_progress, self._not_found, call.step
        if call.failure is not None or call.tool.waits:
            return None
        if call.lack is not Lack.NOT_FOUND or call.arguments is None:
            attempts.clear()
            return None
        if not attempts.add(Lack.NOT_FOUND, call.arguments, step):
            return None
        tools = attempts.tools()
        # Several tools are several ways; but who has tried all of them more than once finds nothing either.
        is_one = len(set(tools[: rule.repeats])) == 1
        enough = rule.repeats if is_one else rule.repeats + rule.repeats // 2
        if len(tools) == enough:
            by = " and ".join(dict.fromkeys(tools))
            reason = f"{by} found nothing {enough} times in a row, with different arguments"
            return _repeated(Kind.NO_PROGRESS, rule, step, attempts.row, reason)
        return None

    def _checked_again(self, call: _Call) -> Finding | None:
        rule, step = self._rules.no_progress, call.step
        key = hash((step.name, written(step.arguments))) if call.arguments is not None else None
        outcome = _digest(step.result) ^ hash(step.error)
        if self._checks.is_first(key, outcome, step):
            return None
        row = self._checks.again(key, outcome, step, _how_it_failed(call))
        if row is not None and row.count == rule.repeats:
            reason = f"{step.name} failed in the same way {rule.repeats} times, whatever was done in between"
            return _repeated(Kind.NO_PROGRESS, rule, step, row, reason)
        return None

    def _went_in_a_cycle(self, call: _Call, is_pause: bool) -> Finding | None:
        rule, step = self._rules.cycle, call.step
        # Whether two calls are the same is not known where their arguments are not.
        known = call.arguments is not None
        failure = call.failure.kind if call.failure is not None else None
        key = (step.name, call.arguments, call.result, failure) if known else None
        cycle = self._cycles.add(key, step, rule.repeats, _WAITED if is_pause else _doubt(call))
        if cycle is not None:
            count, rounds = len(cycle.names), rule.repeats
            reason = f"the same {count} calls were made {rounds} times over: {', '.join(cycle.names)}"
            return cycle_of("tools", rule, step, cycle, reason)
        return None

    def _said_again(self, step: Step) -> Finding | None:
        rule, row = self._rules.repeated_output, self._same_reply
        if step.error is not None or step.result is None:
            return None
        asked = step.asked()
        # The question first: most replies are to another one, and then they need not be read.
        said = (asked, Compared(step.result, step.read))
        if row.count and asked == self._asked and not row.is_of(said) and said[1].fingerprint is None:
            return None
        self._asked = asked
        self._compare_all_sent(step, is_again=row.is_of(said))
        if row.add(said, step, self._pauses) and row.count == rule.repeats and is_speech(step.reply):
            to_what = "" if asked is None else " to the same"
            reason = f"the model said the same{to_what} {rule.repeats} times, and no tool was called in between"
            doubt = _UNKNOWN_QUESTION if asked is None else self._waited(row)
            return _repeated(Kind.REPEATED_OUTPUT, rule, step, row, reason, doubt)
        return None

    def _compare_all_sent(self, step: Step, *, is_again: bool) -> None:
        """Begin anew where the model was sent something else than the time before, which its newest message hides.

        All that it was sent is long, and it is looked at only where the same was said again; what was sent the first
        time is not known then, and taken for the same, unless the second time is enough for a loop.
        """
        is_needed = is_again or self._rules.repeated_output.repeats == 2
        sent = step.sent() if is_needed else None
        if is_again and None not in (sent, self._sent) and sent != self._sent:
            self._same_reply.clear()
        self._sent = sent

    def _stormed(self, step: Step, storm: Storm | None) -> Finding | None:
        rule = self._rules.error_storm
        if storm is not None and storm.row.count == rule.repeats:
            reason = f"{step.name} failed {rule.repeats} times in a row"
            doubt = _OTHERS_BETWEEN if storm.between else self._waited(storm.row)
            return _repeated(Kind.ERROR_STORM, rule, step, storm.row, reason, doubt)
        return None

    def _waited(self, row: Row) -> str | None:
        return _WAITED if row.waited(self._pauses) else None


def cycle_of(whose: str, rule: Repetition, step: Step, cycle: Cycle, reason: str) -> Finding | None:
    """The loop that a cycle of `whose` ("tools" or "agents") is."""
    evidence: dict[str, Json] = {whose: [*cycle.names], "repetitions": rule.repeats, "span_ids": [*cycle.span_ids]}
    return _loop(Kind.CYCLE, rule, step, reason, evidence, next(iter(cycle.doubts), None))


def _repeated(
    kind: Kind, rule: Repetition, step: Step, row: Row, reason: str, doubt: str | None = None
) -> Finding | None:
    evidence: dict[str, Json] = {
        step.kind.value: step.name,
        "repetitions": row.count,
        "span_ids": [*row.span_ids],
    }
    return _loop(kind, rule, step, reason, evidence, doubt)


def _loop(
    kind: Kind, rule: Repetition, step: Step, reason: str, evidence: dict[str, Json], doubt: str | None
) -> Finding | None:
    """A loop, unless it is not looked for; one in doubt is only observed, and says why."""
    if rule.mode is Mode.OFF:
        return None
    if doubt is not None:
        reason, evidence = f"{reason}; {doubt}", {**evidence, "doubt": doubt}
    mode = rule.mode if doubt is None else Mode.OBSERVE
    return loop(kind=kind, mode=mode, span_id=step.span_id, reason=reason, metadata=evidence)


def _doubt(call: _Call) -> str | None:
    """Why the same call with the same result may rightly be made again."""
    if call.failure is not None:
        return None
    if call.result is None:
        return _UNKNOWN_RESULT
    return _STEPS if call.tool.steps and call.lack is None else None


def _waits(tool: ToolName, arguments: Json) -> bool:
    """Whether a call lets time pass, by its name, or by the command that it runs."""
    if isinstance(arguments, dict):
        return tool.waits or any(map(_commands_sleep, arguments.values()))
    return tool.waits or _commands_sleep(arguments)


def _commands_sleep(command: Json) -> bool:
    # The word first: searching it is far cheaper, and hardly any command has it.
    return isinstance(command, str) and "sleep" in command and _SLEEPS.search(command[:MAX_ERROR]) is not None


def _compared(content: Json) -> Compared | None:
    if content is None:
        return None
    compared = Compared(content)
    # Decoded content that cannot be written is as good as not recorded.
    return compared if isinstance(content, str) or compared.fingerprint is not None else None


def _failure(error: str, step: Step) -> Failure:
    """What is the same where a step fails in the same way.

    A failure that is only read out of a result may be what was asked about, as a line of a log: it is the same where
    the whole result is.
    """
    told = _compared(step.result) if step.is_error_read else None
    if told is not None:
        return Failure(told, told)
    return Failure(error_fingerprint(error), _without_times(error))


def _how_it_failed(call: _Call) -> Hashable | None:
    """Equal for calls that fail, or report of something that fails, in the same way; None for those that do not."""
    if call.failure is not None:
        return call.failure.exact
    return _without_times(str(call.step.result)) if reports_failure(call.step.result) else None


def _digest(content: Json) -> int:
    """Equal for the same content, and for hardly any other; not all of a long text is looked at."""
    return hash((len(content), content[-80:])) if isinstance(content, str) else written(content)


def _without_times(text: str) -> str:
    """The beginning of a text without what differs between two runs of one check."""
    return _VARIES.sub("#", text[:MAX_ERROR])
