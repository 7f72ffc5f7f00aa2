"""The loops of one agent run."""

import re
from collections.abc import Hashable
from dataclasses import replace
from typing import Final, NamedTuple

from otel_agenteval.detectors.fingerprints import MAX_ERROR, Compared, error_fingerprint, is_speech
from otel_agenteval.detectors.repeated_steps import Attempts, Checks, Cycles, Failures, Row, StepFailure
from otel_agenteval.detectors.rules import LoopKind, RepetitionRule, Rules, loop
from otel_agenteval.detectors.steps import Step, StepKind
from otel_agenteval.detectors.tool_names import ToolName, tool_name
from otel_agenteval.detectors.tool_results import Lack, ends_of, is_content, lack_in, reports_failure
from otel_agenteval.finding import Finding
from otel_agenteval.model import Json

PATIENCE: Final = 15_000_000_000
"""Nanoseconds without any step that count as a pause, as between two looks at something slow."""

_WAITED: Final = "it waited in between"

_SLEEPS: Final = re.compile(r"\bsleep[ (]+\d")
# What differs when the same check is done twice: durations, times of day, and addresses in memory.
_VARIES: Final = re.compile(r"(?<!\d)\d+(?:[.:]\d+)+|\b\d+ ?(?:ms|s|seconds?)\b|0x[0-9a-f]+")


class _Call(NamedTuple):
    """A tool call, in the form in which it is compared."""

    step: Step
    tool: ToolName
    arguments: Compared | None
    result: Compared | None
    failure: StepFailure | None
    lack: Lack | None


class AgentRunDetectors:
    """Finds the loops of one agent run, each once: a loop that continues is the same one until it is broken.

    Where a person could call the same steps right or wrong, the loop is in doubt, and is only observed.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._forget_calls()
        self._same_reply = Row()
        self._asked: str | None = None
        self._sent: bytes | None = None
        self._failing_models = Failures()
        self._words: str | None = None
        self._has_called = False
        self._asking: str | None = None
        self._requests = 0
        self._ended_at: int | None = None
        self._pauses = 0

    def observe(self, step: Step) -> tuple[Finding | None, ...]:
        """Return an entry for each rule that applies to `step`, a tool or model call: the loop that it completes, or
        None."""
        is_pause = self._pauses_before(step)
        failure = None if step.error is None else _failure(step.error, step)
        if step.kind is StepKind.MODEL:
            self._pauses += is_pause
            self._hear(step)
            self._asking, self._requests = step.span_id, step.requests
            return self._stormed(self._failing_models, step, None, failure), self._said_again(step)
        if self._requests > 0 and step.asked_by is None:
            # As many calls as a reply asks for are those that it asks for.
            self._requests -= 1
            step = replace(step, asked_by=self._asking)
        self._has_called = True
        tool = tool_name(step.name)
        is_pause = is_pause or _waits(tool, step.arguments)
        self._pauses += is_pause
        self._same_reply.clear()
        lack = lack_in(tool, step.result) if failure is None else None
        call = _Call(step, tool, _compared(step.arguments), _compared(step.result), failure, lack)
        return (
            self._stormed(self._failing_tools, step, call.arguments, failure),
            self._called_again(call),
            self._came_to_the_same(call),
            self._checked_again(call),
            self._went_in_a_cycle(call, _WAITED if is_pause else _doubt(call)),
        )

    def _forget_calls(self) -> None:
        self._same_call = Row()
        self._attempts = Attempts(2 * self._rules.no_progress.repeats)
        self._checks = Checks()
        self._cycles = Cycles()
        self._failing_tools = Failures()

    def _hear(self, step: Step) -> None:
        """Forget all tool calls if the user has answered the newest reply in new words: what follows is for these."""
        # After a call, the model goes on from its result, in whatever role that is written.
        question = None if self._has_called else step.question()
        self._has_called = False
        if question is None or not question.is_users:
            return
        if self._words is not None and question.opening is not None and question.newest != self._words:
            self._forget_calls()
        self._words = question.newest

    def _pauses_before(self, step: Step) -> bool:
        """Return whether a pause lies before `step`, and note when the newest step ended."""
        before = self._ended_at
        if step.ended_at is not None and (before is None or step.ended_at > before):
            self._ended_at = step.ended_at
        return before is not None and step.started_at is not None and step.started_at - before >= PATIENCE

    def _stormed(
        self, failures: Failures, step: Step, arguments: Hashable | None, failure: StepFailure | None
    ) -> Finding | None:
        rule = self._rules.error_storm
        storm = failures.add(arguments, failure, step, self._pauses)
        if storm is None or storm.row.count != rule.repeats:
            return None
        reason = f"{step.name} failed at least {rule.repeats} times in a row"
        doubt = "something else succeeded in between" if storm.between else self._waited(storm.row)
        return _repeated(LoopKind.ERROR_STORM, rule, step, storm.row, reason, doubt)

    def _called_again(self, call: _Call) -> Finding | None:
        rule, row, step = self._rules.identical_call, self._same_call, call.step
        if call.arguments is None or call.failure is not None:
            row.clear()
        elif row.add((step.name, call.arguments, call.result), step, self._pauses) == rule.repeats:
            outcome = "no result recorded" if call.result is None else "the same result"
            reason = (
                f"{step.name} was called at least {rule.repeats} times in a row with the same arguments and {outcome}"
            )
            return _repeated(LoopKind.IDENTICAL_CALL, rule, step, row, reason, _doubt(call) or self._waited(row))
        return None

    def _came_to_the_same(self, call: _Call) -> Finding | None:
        rule, attempts, step = self._rules.no_progress, self._attempts, call.step
        if call.failure is not None:
            return None
        count = attempts.add(_outcome(call), call.arguments, step)
        if count < rule.repeats:
            return None
        tools = [tool for tool, _ in attempts.tried]
        # Several tools are different ways, so more attempts are needed before nothing more is to be expected.
        is_one = len(set(tools[: rule.repeats])) == 1
        enough = rule.repeats if is_one else rule.repeats + rule.repeats // 2
        if count != enough or (call.lack is None and not is_content(call.tool, step.result)):
            return None
        by, what = " and ".join(dict.fromkeys(tools)), _CAME_TO[call.lack]
        reason = f"{by} {what} at least {count} times in a row, with different arguments"
        doubt = "it may be the right answer to each" if call.lack is None and not call.tool.searches else None
        return _repeated(LoopKind.NO_PROGRESS, rule, step, attempts.row, reason, doubt)

    def _checked_again(self, call: _Call) -> Finding | None:
        rule, step = self._rules.no_progress, call.step
        made = None if call.arguments is None else (step.name, call.arguments.letters)
        row = self._checks.add(made, _reported(call), step)
        if row is None or row.count != rule.repeats or not (call.failure or reports_failure(step.result)):
            return None
        reason = f"{step.name} failed in the same way at least {rule.repeats} times, whatever was done in between"
        return _repeated(LoopKind.NO_PROGRESS, rule, step, row, reason)

    def _went_in_a_cycle(self, call: _Call, doubt: str | None) -> Finding | None:
        rule, step = self._rules.cycle, call.step
        # Without recorded arguments nobody knows whether two calls are the same.
        failure = call.failure and call.failure.kind
        key = (step.name, call.arguments, call.result, failure) if call.arguments is not None else None
        cycle = self._cycles.add(key, step.name, step, step, rule.repeats, doubt)
        if cycle is None:
            return None
        reason = (
            f"the same {len(cycle.names)} calls were made at least {rule.repeats} times over: {', '.join(cycle.names)}"
        )
        return loop(LoopKind.CYCLE, rule.mode, step.span_id, reason, cycle.evidence("tools", rule.repeats), cycle.doubt)

    def _said_again(self, step: Step) -> Finding | None:
        rule, row = self._rules.repeated_output, self._same_reply
        if step.error is not None or step.result is None:
            return None
        asked = step.asked()
        said = (asked, Compared(step.result, step.read))
        is_again = row.is_of(said)
        # A reply without text, as with tool calls, neither repeats nor interrupts. Most replies are to another
        # question, so they are not read for it.
        if row.count and not is_again and asked == self._asked and said[1].fingerprint is None:
            return None
        self._asked = asked
        # All that a model is sent is long, so it is looked at only where the same was said again. It is not known for
        # the first time, which then is compared with nothing.
        sent = step.sent() if is_again else None
        if None not in (sent, self._sent) and sent != self._sent:
            row.clear()
        self._sent = sent
        if row.add(said, step, self._pauses) != rule.repeats or not is_speech(step.reply):
            return None
        to_what = "" if asked is None else " to the same"
        doubt = "what it was asked is not recorded" if asked is None else self._waited(row)
        reason = f"the model said the same{to_what} at least {rule.repeats} times, and no tool was called in between"
        return _repeated(LoopKind.REPEATED_OUTPUT, rule, step, row, reason, doubt)

    def _waited(self, row: Row) -> str | None:
        return _WAITED if row.waited(self._pauses) else None


_CAME_TO: Final = {
    None: "gave the same result",
    Lack.REFUSED: "was refused in the same way",
    Lack.NOT_FOUND: "found nothing",
}


def _repeated(
    kind: LoopKind, rule: RepetitionRule, step: Step, row: Row, reason: str, doubt: str | None = None
) -> Finding | None:
    evidence: dict[str, Json] = {step.kind.value: step.name, "repetitions": row.count, "span_ids": [*row.span_ids]}
    return loop(kind, rule.mode, step.span_id, reason, evidence, doubt)


def _outcome(call: _Call) -> Hashable | None:
    """Return a value that is equal for calls with the same outcome. None where the outcome is not known."""
    if call.arguments is None or call.result is None:
        return None
    if call.lack is Lack.REFUSED:
        return call.step.name, call.lack, error_fingerprint(str(call.step.result))
    return (call.step.name, call.result) if call.lack is None else call.lack


def _doubt(call: _Call) -> str | None:
    """Return the reason why the same call with the same result may rightly be made again; None where there is none."""
    if call.failure is not None:
        return None
    if call.result is None:
        return "no results are recorded"
    return "such a step may rightly be made several times" if call.tool.steps and call.lack is None else None


def _waits(tool: ToolName, arguments: Json) -> bool:
    """Return whether a call only lets time pass: by the tool's name, or by a command such as `sleep 30`."""
    commands = arguments.values() if isinstance(arguments, dict) else (arguments,)
    return tool.waits or any(map(_sleeps, commands))


def _sleeps(command: Json) -> bool:
    # The plain search first, because it is far cheaper, and hardly any command has the word.
    return isinstance(command, str) and "sleep" in command and _SLEEPS.search(command[:MAX_ERROR]) is not None


def _compared(content: Json) -> Compared | None:
    if content is None:
        return None
    compared = Compared(content)
    # Decoded content that cannot be written as JSON counts as not recorded.
    return compared if isinstance(content, str) or compared.fingerprint is not None else None


def _failure(error: str, step: Step) -> StepFailure:
    """Return the failure of a step. A failure that only the result tells of is the same where the whole result is."""
    told = _compared(step.result) if step.is_error_read else None
    return StepFailure(told, told) if told is not None else StepFailure(error_fingerprint(error), _without_times(error))


def _reported(call: _Call) -> Hashable | None:
    """Return a value that is equal for calls with the same outcome, whatever times are in it. None if not recorded."""
    if call.failure is not None:
        return call.failure.exact
    result = call.step.result
    return Compared(result, _without_times) if isinstance(result, str) else call.result


def _without_times(text: Json) -> str:
    """Return a report without the parts that differ when the same check is done twice."""
    return _VARIES.sub("#", ends_of(str(text)))
