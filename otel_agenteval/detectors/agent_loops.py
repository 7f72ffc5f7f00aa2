"""The loops of one agent run."""

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Final

from otel_agenteval.detectors.calls import (
    Call,
    changing_values,
    finds_faults,
    go_one_by_one,
    is_step,
    likeness_of,
    waits,
)
from otel_agenteval.detectors.fingerprints import Compared, error_fingerprint, is_speech
from otel_agenteval.detectors.likeness import (
    Likeness,
    Result,
    leaves,
    likeness,
    likeness_whatever_asked,
    moves_on,
    without_echoes,
    without_random_ids,
    without_stack,
)
from otel_agenteval.detectors.repeated_steps import (
    MAX_DOINGS,
    PATIENCE,
    Attempts,
    Doing,
    Error,
    Failures,
    Row,
    Storm,
    Streak,
)
from otel_agenteval.detectors.rules import LoopKind, RepetitionRule, Rules, loop
from otel_agenteval.detectors.steps import Step, StepKind
from otel_agenteval.detectors.trace_memory import TraceMemory
from otel_agenteval.detectors.volatile import VolatileValues
from otel_agenteval.finding import Finding, Mode
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.model import CallOutcome, Json

MAX_POLLS: Final = 30
"""Rounds with a pause in each after which waiting is a loop."""
MANY_WAITS: Final = 2
"""Times as many rounds as make a loop after which waiting is observed."""
NEARLY: Final = 2
"""Rounds more that make a loop if results differ a little."""
STALE: Final = 2
"""Calls without anything new for each call that brings something, of an agent that goes round."""
MANY: Final = 10
"""Attempts that make a loop if they go through pages, ids or files one by one."""
HEAD: Final = 32
"""Characters with which results begin that may show the same."""
MAX_RECENT: Final = 12
"""Results and words of the user in which arguments of later calls are searched."""

_WAITED: Final = "it waited in between"
_MAY_ANSWER: Final = "it may be the right answer to each"
_CAME_TO: Final = {
    "nothing": "found nothing",
    "refused": "was refused in the same way",
    "same": "gave the same result",
}


class AgentRunDetectors:
    """Finds the loops of one agent run, each once: a loop that continues is the same one until it is broken.

    If a person could call the same steps right or wrong, the loop is in doubt, and is only observed. It is told
    again, as an alarm, once the doubt is gone.
    """

    def __init__(self, rules: Rules, memory: TraceMemory) -> None:
        """Begin an agent run. `memory` is that of its trace."""
        self._rules = rules
        self._memory = memory
        self._goes_round = False
        self._forget_calls()
        self._same_reply: Row[tuple[str | None, Compared]] = Row()
        self._asked: str | None = None
        self._sent: bytes | None = None
        self._failing_models = Failures()
        self._words: str | None = None
        self._has_called = False
        self._asking: str | None = None
        self._requests = 0
        self._ended_at: int | None = None
        self._pauses = 0
        self._calls = 0
        self._longest_polls: LruMap[str, int] = LruMap(MAX_RECENT)
        # Words of the user, and results with the number of their call, in which later arguments are searched.
        self._user_words: deque[str] = deque(maxlen=4)

    def observe(self, step: Step) -> Sequence[Finding | None]:
        """Return an entry for each rule that applies to `step`, a tool or model call: the loop that it completes, or
        None."""
        is_pause = self._pauses_before(step)
        self._memory.hear(step)
        if step.kind is StepKind.MODEL:
            self._pauses += is_pause
            self._hear(step)
            self._asking, self._requests = step.span_id, step.requests
            return self._model_failed(step), self._said_again(step)
        if self._requests > 0 and step.asked_by is None:
            # As many calls as a reply asks for are those that it asks for.
            self._requests -= 1
            step = replace(step, asked_by=self._asking)
        self._has_called = True
        self._same_reply.count = 0
        self._calls += 1
        call = Call(step, self._newest.get(step.name), self._memory.volatile.get(step.name))
        self._pauses += is_pause or waits(call)
        loops = [self._done_again(call), self._failed(call), self._came_to_the_same(call)]
        self._goes_round = self._goes_round or any(loop.is_alarm for loop in loops if loop is not None)
        if not self._goes_round:
            loops.append(self._comes_back(call) or self._made_again(call))
        if call.result is not None:
            self._recent.append((self._calls, step.name, call.result))
        self._newest_key = call.key
        self._newest[step.name] = call.result
        if len(self._newest) > MAX_RECENT:
            del self._newest[next(iter(self._newest))]
        return loops

    def _forget_calls(self) -> None:
        self._doings: LruMap[Hashable, Doing] = LruMap(MAX_DOINGS)
        self._exact, self._near = Streak(), Streak()
        self._news = self._stale = 0
        self._goes_round = False
        self._attempts = Attempts(MANY)
        self._failing_tools = Failures()
        self._recent: deque[tuple[int, str, Result]] = deque(maxlen=MAX_RECENT)
        self._newest: dict[str, Result | None] = {}
        self._newest_key = None

    def _hear(self, step: Step) -> None:
        """Forget all tool calls if the user has answered the newest reply in new words: what follows is for these."""
        # After a call, the model goes on from its result, in whatever role that is written.
        question = None if self._has_called else step.question()
        self._has_called = False
        if question is None or not question.is_users:
            return
        if question.newest != self._words:
            self._user_words.append(question.newest)
            if self._words is not None and question.opening is not None:
                self._forget_calls()
                self._memory.forget_calls()
        self._words = question.newest

    def _pauses_before(self, step: Step) -> bool:
        """Return whether a pause lies before `step`, and note when the newest step ended."""
        before = self._ended_at
        if step.ended_at is not None and (before is None or step.ended_at > before):
            self._ended_at = step.ended_at
        return before is not None and step.started_at is not None and step.started_at - before >= PATIENCE

    # --- the same call with the same result ---

    def _done_again(self, call: Call) -> Finding | None:
        """Return the loop of calls that were all made before, and tell the same as before."""
        step = call.step
        if call.key is None:
            self._progress(call)
            return None
        doing = self._doings.get(call.key)
        if doing is None:
            self._begin(call)
            self._first_time(call)
            return None
        self._learn(call, doing.results[-1])
        alike = likeness_of(call.result, doing.results[-1])
        if alike is Likeness.OTHER:
            self._longest_polls.put(step.name, max(self._longest_polls.get(step.name) or 0, doing.row.count))
            self._begin(call, doing)
            if not self._is_known(call, doing):
                self._progress(call)
                return None
            # What was told before is nothing new: two mends in turn, each with the failure that it had before.
            self._stale += 1
            self._exact.add(call.key, step.name, step.span_id)
            self._near.add(call.key, step.name, step.span_id)
            return self._repeats(self._exact, call, self._doings.peek(call.key) or doing, 0)
        if not doing.row.go_on(step):
            return None
        self._stale += 1
        if doing.results[-1] is not call.result and alike is Likeness.NEAR:
            doing.results.append(call.result)
        if alike is Likeness.NEAR:
            # A clock always tells another time, which interrupts nothing.
            if call.result is not None and not call.result.is_hollow:
                self._exact.begin(call.key, self._pauses)
        else:
            self._exact.add(call.key, step.name, step.span_id)
        self._near.add(call.key, step.name, step.span_id)
        return self._repeats(self._exact, call, doing, 0) or self._repeats(self._near, call, doing, NEARLY)

    def _is_known(self, call: Call, doing: Doing) -> bool:
        """Return whether a call told the same before what it told last, in words, and others lie in between."""
        if call.result is None or call.result.tells_numbers or self._newest_key == call.key:
            return False
        return any(likeness(call.result, earlier) is Likeness.SAME for earlier in doing.earlier)

    def _begin(self, call: Call, before: Doing | None = None) -> None:
        """Remember a call that is made for the first time, or that tells something else than `before`."""
        doing = Doing.begun(call.step, call.result, self._pauses, self._news, self._stale, before)
        self._doings.put(call.key, doing)

    def _comes_back(self, call: Call) -> Finding | None:
        """Return the loop of a call that tells the same again and again between others, of which hardly any brings
        something."""
        rule, step, doing = self._rules.no_progress, call.step, self._doings.peek(call.key)
        if doing is None or doing.row.count < rule.repeats - 1 or doing.row.span_ids[-1] != step.span_id:
            return None
        brought = not (call.has_failed or call.brings_nothing)
        times, news, stale = doing.row.count, self._news - doing.news - brought, self._stale - doing.stale
        is_alone = news == 0 and stale == times - brought
        hardly_any = news == 0 or (times >= rule.repeats and stale >= STALE * (news + 1))
        # What is only confirmed may have had an effect.
        may_act = brought and not call.is_content
        if is_alone or may_act or not hardly_any or stale < rule.repeats or doing.row.waited(self._pauses):
            return None
        results = [result for result in doing.results if result is not None]
        if moves_on(results) and likeness_whatever_asked(results[-1], results[0]) is Likeness.OTHER:
            return None
        self._goes_round, self._exact.told, self._near.told = True, Mode.ALARM, Mode.ALARM
        reason = f"{step.name} told the same {times} times, and hardly anything new came of the calls in between"
        return _repeated(LoopKind.NO_PROGRESS, rule, step, doing.row, reason)

    def _made_again(self, call: Call) -> Finding | None:
        if call.key is None:
            return None
        is_in_row = self._newest_key == call.key
        return self._memory.returned(call, self._rules.no_progress, self._pauses, is_in_row=is_in_row)

    def _learn(self, call: Call, earlier: Result | None) -> None:
        """Learn from two results of the same call which values of the tool are volatile."""
        if call.result is not None and earlier is not None and call.result.hash != earlier.hash:
            values = earlier.volatile = call.result.volatile = self._memory.volatile.get_or_make(
                call.step.name, VolatileValues
            )
            values.learn(earlier.masked(), call.result.masked())

    def _first_time(self, call: Call) -> None:
        """Note a call that was never made before. It brings something, unless its tool only said what it says to all
        arguments."""
        if call.result is None or call.result.is_empty or call.tool.thinks:
            for streak in (self._exact, self._near):
                streak.mused = True
                streak.pass_over(call.key)
        elif call.result.may_confirm and call.is_like_newest and not call.is_content:
            for streak in (self._exact, self._near):
                streak.acted = True
                streak.pass_over(call.key)
        else:
            self._progress(call)

    def _progress(self, call: Call) -> None:
        """Note a call that tells something new, be it only another failure."""
        if call.has_failed or call.brings_nothing:
            self._stale += 1
        else:
            self._news += 1
        self._exact.begin(call.key, self._pauses)
        self._near.begin(call.key, self._pauses)

    def _repeats(self, streak: Streak, call: Call, doing: Doing, more: int) -> Finding | None:
        """Return the loop of calls that were made over and over. `more`: rounds beyond those of the rule."""
        rules, step, is_one = self._rules, call.step, len(streak.times) == 1
        if more and self._are_settled(streak):
            more = 0
        if streak.acted or streak.mused:
            kind, rule = LoopKind.NO_PROGRESS, rules.no_progress
        else:
            kind, rule = (LoopKind.IDENTICAL_CALL, rules.identical_call) if is_one else (LoopKind.CYCLE, rules.cycle)
        # Failures of one tool are a storm.
        if (
            streak.rounds < rule.repeats + more + streak.came_back
            or (is_one and call.has_failed)
            or streak.told is Mode.ALARM
        ):
            return None
        doubt = self._doubt(streak, call, doing)
        if doubt is not None and (streak.told or (doubt == _WAITED and streak.rounds < MANY_WAITS * rule.repeats)):
            return None
        if more and moves_on(result for result in doing.results if result is not None):
            return None
        if streak.acted and not call.has_failed and not call.is_content:
            return None
        streak.told = Mode.ALARM if doubt is None else Mode.OBSERVE
        self._exact.told = self._near.told = streak.told
        times, alike = streak.rounds, "the same result" if not more else "results that hardly differ"
        if is_one:
            outcome = "no result recorded" if call.result is None else alike
            where = "in a row " if kind is LoopKind.IDENTICAL_CALL else ""
            reason = f"{step.name} was called at least {times} times {where}with the same arguments and {outcome}"
            evidence: dict[str, Json] = {"tool": step.name, "repetitions": times, "span_ids": [*doing.row.span_ids]}
        else:
            names = ", ".join(name for name, _ in streak.names.values())
            reason = f"the same {len(streak.times)} calls were made at least {times} times over: {names}"
            evidence = streak.evidence("tools")
        return loop(kind, rule.mode, step.span_id, reason, evidence, doubt)

    def _are_settled(self, streak: Streak) -> bool:
        """Return whether all results are the same now that more is known of what is volatile."""
        doings = [doing for key in streak.times if (doing := self._doings.peek(key)) is not None]
        return all(
            likeness_of(doing.results[-1], result) is Likeness.SAME for doing in doings for result in doing.results
        )

    def _doubt(self, streak: Streak, call: Call, doing: Doing) -> str | None:
        """Return the reason why the same calls may rightly be made again; None if there is none."""
        if streak.waited(self._pauses):
            longest = self._longest_polls.get(call.step.name)
            if streak.rounds < (max(MANY, 2 * longest) if longest else MAX_POLLS):
                return _WAITED
        if call.result is None and not call.has_failed and not call.tool.thinks:
            return "no results are recorded"
        return None if streak.rounds >= MANY else self._doubt_by_effect(streak, call, doing)

    def _doubt_by_effect(self, streak: Streak, call: Call, doing: Doing) -> str | None:
        is_one = len(streak.times) == 1
        if streak.acted and is_one and streak.rounds < 2 * self._rules.no_progress.repeats:
            return "something else was done in between"
        if streak.came_back and streak.rounds < 2 * self._rules.no_progress.repeats:
            return "what is done and undone may have been asked for"
        if is_one and not call.has_failed and not call.tool.reads and not call.tool.searches and is_step(call):
            return "such a step may rightly be made several times"
        if (
            streak is self._near
            and call.result is not None
            and call.result.tells_numbers
            and not (call.brings_nothing or self._are_settled(streak))
            and len({result.without_ids() for result in doing.results if result is not None}) > 1
        ):
            return "the numbers that differ may be what was asked for"
        return None

    # --- failures ---

    def _failed(self, call: Call) -> Finding | None:
        """Return the storm of failures that a call completes, or the check that goes on failing after every change."""
        step = call.step
        is_verdict = step.outcome is CallOutcome.VERDICT or finds_faults(call)
        if not call.has_failed and not is_verdict:
            # What only thinks, waits or looks has changed nothing that could make others succeed.
            has_result = call.result is not None and not call.result.is_empty
            looks = call.tool.reads or call.tool.searches
            acts = has_result and not looks and not call.tool.waits
            self._failing_tools.end(call.key, step, had_effect=acts, has_looked=has_result and looks)
            return None
        # A failure that only the result tells of is the same if the whole result is.
        is_read = call.result is not None and (step.is_error_read or is_verdict)
        words = call.result.without_ids() if call.result is not None and is_read else step.error or ""
        exact = without_random_ids(call.result.without_times()) if call.result is not None else words
        kind = without_echoes(without_stack(words), call.arguments)
        error = Error(kind if is_read else error_fingerprint(kind), exact)
        storm = self._failing_tools.add(call.key, error, step, self._pauses, self._calls, is_verdict=is_verdict)
        if storm is None:
            return None
        if len(storm.tried) < MANY:
            storm.tried.append(call.arguments)
            words = call.result.text if call.result is not None else ""
            storm.names_items = storm.names_items and any(value in words for _, value in leaves(call.arguments))
        if storm.between or is_verdict:
            rule = self._rules.no_progress
            reason = f"{step.name} failed in the same way at least {rule.repeats} times, whatever was done in between"
            return self._storm(storm, step, LoopKind.NO_PROGRESS, rule, reason)
        return None if self._fails_one_by_one(storm, call) else self._stormed(storm, step)

    def _fails_one_by_one(self, storm: Storm, call: Call) -> bool:
        """Return whether things that are gone through one by one are each not there, which may be all there is to
        say."""
        changing = changing_values(storm.tried)
        if not all(changing) or not storm.names_items or storm.row.count >= MANY:
            return False
        is_look = call.tool.reads or call.tool.searches
        return self._are_given(changing, storm.began_at) or (is_look and go_one_by_one(changing, call.tool))

    def _model_failed(self, step: Step) -> Finding | None:
        if step.error is None:
            self._failing_models.end(None, step, had_effect=False)
            return None
        error = error_fingerprint(step.error)
        storm = self._failing_models.add(None, Error(error, error), step, self._pauses)
        return None if storm is None else self._stormed(storm, step)

    def _stormed(self, storm: Storm, step: Step) -> Finding | None:
        rule = self._rules.error_storm
        reason = f"{step.name} failed at least {max(rule.repeats, storm.row.count)} times in a row"
        return self._storm(storm, step, LoopKind.ERROR_STORM, rule, reason)

    def _storm(self, storm: Storm, step: Step, kind: LoopKind, rule: RepetitionRule, reason: str) -> Finding | None:
        """Return the loop of failures, if there are enough of them and it is not told. One that waited in between is
        told again after `MAX_POLLS`."""
        row = storm.row
        waited = row.waited(self._pauses) or (storm.is_alone and row.backs_off)
        doubt = _WAITED if waited and row.count < MAX_POLLS else None
        enough = rule.repeats if doubt is None else MANY_WAITS * rule.repeats
        if storm.looked and row.count < self._rules.no_progress.repeats:
            doubt = doubt or "something was looked up in between"
        if row.count < enough or storm.told is Mode.ALARM or (storm.told is not None and doubt is not None):
            return None
        storm.told = Mode.ALARM if doubt is None else Mode.OBSERVE
        return _repeated(kind, rule, step, row, reason, doubt)

    # --- new arguments, and nothing new comes of them ---

    def _came_to_the_same(self, call: Call) -> Finding | None:
        rule, attempts, step = self._rules.no_progress, self._attempts, call.step
        if call.has_failed or call.key is None or call.result is None or call.is_silent:
            return None
        outcome, came_to = self._outcome(call)
        if outcome is None:
            attempts.clear()
            return None
        is_more = attempts.add(outcome, call.key, (step.name, call.arguments), step, self._calls)
        if not is_more or attempts.told is Mode.ALARM:
            return None
        tools = list(dict.fromkeys(tool for tool, _ in attempts.tried.values()))
        # Several tools are different ways, so more attempts are needed before nothing more is to be expected.
        more = rule.repeats + rule.repeats // 2
        count = attempts.row.count
        if count < (rule.repeats if len(tools) == 1 else more) or self._is_work(call, came_to):
            return None
        # What several tools show is no answer to any of them, and one page is none to many.
        may_answer = came_to == "same" and len(tools) == 1 and not call.tool.searches
        patience = (rule.repeats, more, MANY)[self._go_one_by_one(call) + (not call.result.is_page)]
        is_doubtful = may_answer and count < patience
        if is_doubtful and attempts.told:
            return None
        attempts.told = Mode.OBSERVE if is_doubtful else Mode.ALARM
        reason = f"{' and '.join(tools)} {_CAME_TO[came_to]} at least {count} times in a row, with different arguments"
        return _repeated(LoopKind.NO_PROGRESS, rule, step, attempts.row, reason, _MAY_ANSWER if is_doubtful else None)

    def _go_one_by_one(self, call: Call) -> bool:
        return go_one_by_one(changing_values([arguments for _, arguments in self._attempts.tried.values()]), call.tool)

    def _is_work(self, call: Call, came_to: str) -> bool:
        """Return whether the attempts may be work: things that are gone through one by one, or confirmations."""
        attempts = self._attempts
        if came_to == "same" and not (call.tool.searches or call.is_content):
            return True
        changing = changing_values([arguments for _, arguments in attempts.tried.values()])
        if self._are_given(changing, attempts.began_at):
            return True
        is_short = call.result is not None and call.result.is_short
        return (came_to != "same" or is_short) and attempts.row.count < MANY and go_one_by_one(changing, call.tool)

    def _outcome(self, call: Call) -> tuple[Hashable | None, str]:
        """Return a value that is equal for calls that came to the same, and what that is. None: something came."""
        step = call.step
        if step.outcome is CallOutcome.NOTHING:
            return "nothing", "nothing"
        if step.outcome is CallOutcome.REFUSED:
            return ("refused", step.name, error_fingerprint(str(step.result))), "refused"
        if call.tool.judges and not call.is_content:
            return None, "same"
        before = self._attempts.row.of
        if isinstance(before, tuple) and before[0] == "same":
            is_tools = before[1] == step.name
            if is_tools and (call.is_like_newest or (call.tool.searches and self._was_all_told(call))):
                return before, "same"
            if not is_tools and self._shows_the_same(call):
                return before, "same"
        return ("same", step.name, self._calls), "same"

    def _shows_the_same(self, call: Call) -> bool:
        """Return whether what was seen after the call before this one, of whatever tool, is seen again."""
        if not self._recent or call.result is None:
            return False
        seen = self._recent[-1][2]
        # The plain comparison first, because it is far cheaper.
        if call.result.text[:HEAD] != seen.text[:HEAD] or not call.is_content:
            return False
        return likeness_whatever_asked(call.result, seen) is not Likeness.OTHER

    def _was_all_told(self, call: Call) -> bool:
        """Return whether earlier results of the tool have all words of this one, in whatever choice and order."""
        earlier = [result for _, tool, result in self._recent if tool == call.step.name]
        return bool(earlier) and call.result is not None and call.result.was_all_told(earlier) and call.is_content

    def _are_given(self, changing: list[list[str]], began_at: int) -> bool:
        """Return whether the arguments stand in the user's words, or in a result from before the attempts."""
        texts = [*self._user_words, *(result.text for number, _, result in self._recent if number < began_at)]
        text = "\n".join(texts).casefold()
        from_user = [any(len(value) > 1 and value.casefold() in text for value in values) for values in changing]
        return bool(from_user) and sum(from_user) >= len(from_user) - 1

    # --- replies ---

    def _said_again(self, step: Step) -> Finding | None:
        rule, row = self._rules.repeated_output, self._same_reply
        if step.error is not None or step.result is None:
            return None
        question = step.asked()
        pair = (question, Compared(step.result, step.read))
        is_again = row.count > 0 and row.of == pair
        # A reply without text, as with tool calls, neither repeats nor interrupts. Most replies are to another
        # question, so they are not read for it.
        if row.count and not is_again and question == self._asked and pair[1].fingerprint is None:
            return None
        self._asked = question
        # All that a model is sent is long, so it is looked at only if the same was said again. It is not known for
        # the first time, which then is compared with nothing.
        sent = step.sent() if is_again else None
        is_other = None not in (sent, self._sent) and sent != self._sent
        self._sent = sent
        if not is_again or is_other:
            row.begin(pair, step, self._pauses)
            return None
        if not row.go_on(step) or row.count != rule.repeats or not is_speech(step.reply):
            return None
        to_what = "" if question is None else " to the same"
        doubt = "what it was asked is not recorded" if question is None else None
        doubt = doubt or (_WAITED if row.waited(self._pauses) else None)
        reason = f"the model said the same{to_what} at least {rule.repeats} times, and no tool was called in between"
        return _repeated(LoopKind.REPEATED_OUTPUT, rule, step, row, reason, doubt)


def _repeated(
    kind: LoopKind, rule: RepetitionRule, step: Step, row: Row[Any], reason: str, doubt: str | None = None
) -> Finding | None:
    evidence: dict[str, Json] = {step.kind.value: step.name, "repetitions": row.count, "span_ids": [*row.span_ids]}
    return loop(kind, rule.mode, step.span_id, reason, evidence, doubt)
