"""The loops of one run of an agent."""

from collections.abc import Iterator
from typing import NamedTuple

from otel_agenteval.detectors.content import Compared, Fingerprint, error_fingerprint, is_speech
from otel_agenteval.detectors.loop import loop
from otel_agenteval.detectors.repetition import Attempts, Cycles, Failures, Row
from otel_agenteval.detectors.results import is_answer
from otel_agenteval.detectors.rules import Kind, Repetition, Rules
from otel_agenteval.detectors.steps import Step, StepKind
from otel_agenteval.finding import Finding, Mode
from otel_agenteval.model import Json

_Failure = Fingerprint | Compared


class _Call(NamedTuple):
    """A tool call, and what of it is compared."""

    step: Step
    arguments: Compared | None
    result: Compared | None
    failure: _Failure | None


class RunDetectors:
    """Finds loops in what an agent does in a run, each once: a loop that goes on is the same one until it is broken."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._same_call = Row()
        self._same_result = Attempts(rules.no_progress.repeats)
        self._same_reply = Row()
        self._asked: str | None = None
        self._sent: bytes | None = None
        self._cycles = Cycles()
        self._failures = {StepKind.TOOL: Failures(), StepKind.MODEL: Failures()}

    def observe(self, step: Step) -> Iterator[Finding]:
        """The loops that `step`, a tool or model call, completes."""
        arguments, failure = _compared(step.arguments), _failure(step)
        yield from self._failed_again(step, arguments, failure)
        if step.kind is StepKind.TOOL:
            self._same_reply.clear()
            call = _Call(step, arguments, _compared(step.result), failure)
            yield from self._called_again(call)
            yield from self._came_to_the_same(call)
            yield from self._went_in_a_cycle(call)
        else:
            yield from self._said_again(step)

    def _called_again(self, call: _Call) -> Iterator[Finding]:
        rule, row, step = self._rules.identical_call, self._same_call, call.step
        if call.arguments is None or call.failure is not None:
            row.clear()
        elif row.add((step.name, call.arguments, call.result), step) and row.count == rule.repeats:
            outcome = "no result recorded" if call.result is None else "the same result"
            reason = f"{step.name} was called {rule.repeats} times in a row with the same arguments and {outcome}"
            yield from _repeated(Kind.IDENTICAL_CALL, rule, step, row, reason)

    def _came_to_the_same(self, call: _Call) -> Iterator[Finding]:
        rule, attempts, step = self._rules.no_progress, self._same_result, call.step
        known = call.arguments is not None and call.result is not None
        if not known or call.failure is not None:
            attempts.clear()
        elif (
            attempts.add((step.name, call.result), call.arguments, step)
            and attempts.row.count == rule.repeats
            and is_answer(step.name, step.result)
        ):
            reason = f"{step.name} gave the same result {rule.repeats} times in a row, with different arguments"
            yield from _repeated(Kind.NO_PROGRESS, rule, step, attempts.row, reason)

    def _went_in_a_cycle(self, call: _Call) -> Iterator[Finding]:
        rule, step = self._rules.cycle, call.step
        # Whether two calls are the same is not known where their arguments are not.
        key = None if call.arguments is None else (step.name, call.arguments, call.result, call.failure)
        cycle = self._cycles.add(key, step, rule.repeats)
        if cycle is not None and rule.mode is not Mode.OFF:
            count, rounds = len(cycle.names), rule.repeats
            yield loop(
                kind=Kind.CYCLE,
                mode=rule.mode,
                span_id=step.span_id,
                reason=f"the same {count} calls were made {rounds} times over: {', '.join(cycle.names)}",
                metadata={"tools": [*cycle.names], "repetitions": rounds, "span_ids": [*cycle.span_ids]},
            )

    def _said_again(self, step: Step) -> Iterator[Finding]:
        rule, row = self._rules.repeated_output, self._same_reply
        if step.error is not None or step.result is None:
            return
        asked = step.asked()
        # The question first: most replies are to another one, and then they need not be read.
        said = (asked, Compared(step.result, step.read))
        if row.count and asked == self._asked and not row.is_of(said) and said[1].fingerprint is None:
            return
        self._asked = asked
        self._compare_all_sent(step, is_again=row.is_of(said))
        if row.add(said, step) and row.count == rule.repeats and is_speech(step.reply):
            to_what = "" if asked is None else " to the same"
            reason = f"the model said the same{to_what} {rule.repeats} times, and no tool was called in between"
            yield from _repeated(Kind.REPEATED_OUTPUT, rule, step, row, reason)

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

    def _failed_again(self, step: Step, arguments: Compared | None, failure: _Failure | None) -> Iterator[Finding]:
        rule = self._rules.error_storm
        row = self._failures[step.kind].add(arguments, failure, step)
        if row is not None and row.count == rule.repeats:
            reason = f"{step.name} failed {rule.repeats} times in a row"
            yield from _repeated(Kind.ERROR_STORM, rule, step, row, reason)


def _compared(content: Json) -> Compared | None:
    if content is None:
        return None
    compared = Compared(content)
    # Decoded content that cannot be written is as good as not recorded.
    return compared if isinstance(content, str) or compared.fingerprint is not None else None


def _failure(step: Step) -> _Failure | None:
    """What is the same where a step fails in the same way; None where it does not fail.

    A failure that is only read out of a result may be what was asked about, as a line of a log: it is the same where
    the whole result is.
    """
    told = _compared(step.result) if step.is_error_read else None
    return error_fingerprint(step.error) if told is None else told


def _repeated(kind: Kind, rule: Repetition, step: Step, row: Row, reason: str) -> Iterator[Finding]:
    if rule.mode is not Mode.OFF:
        yield loop(
            kind=kind,
            mode=rule.mode,
            span_id=step.span_id,
            reason=reason,
            metadata={step.kind.value: step.name, "repetitions": row.count, "span_ids": [*row.span_ids]},
        )
