"""Runs of agents, as they are told apart beside the agent, in an open trace and in a complete one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
from agenteval_collector.live.live_loops import LiveLoops
from agenteval_collector.model.logged_requests import Arrival, Origin
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Span

from otel_agenteval.conventions.identity import BY_CONVENTION
from otel_agenteval.conventions.spans import SpanRecord, span_record
from otel_agenteval.conventions.trace_reader import read_trace
from otel_agenteval.detectors.agent_runs import MAX_RUNS
from otel_agenteval.detectors.rules import BudgetRule, RuleBook, Rules
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import Step, StepKind, steps_of
from otel_agenteval.finding import Mode
from otel_agenteval.model import AgentRun
from tests.support.agent_runs import Message, Stage
from tests.support.clock import ManualClock
from tests.support.looping import found_live
from tests.support.spans import answer, asks, chat, told, user
from tests.support.watched import Watched

TASK: list[Message] = [("system", "Answer well."), ("user", "May I give it back?")]
SAID: list[Message] = [*TASK, ("assistant", "I will search."), ("tool", "3 hits")]
NOT_RELEVANT = "This document is not relevant to it."
AGAIN = "I will look into the documents again."


def sub_agents_side_by_side(stage: Stage) -> None:
    with stage.running("chief") as chief:
        runs = [stage.run("reader", chief) for _ in range(4)]
        for run in runs:
            stage.ask(run, TASK)
            stage.call(run)
        for run in runs:
            stage.end(run)


def agents_side_by_side_that_nobody_called(stage: Stage) -> None:
    with stage.inside("batch", None) as batch:
        runs = [stage.run("reader", batch) for _ in range(4)]
        for _ in range(2):
            for run in runs:
                stage.call(run)
        for run in runs:
            stage.end(run)


def agents_without_names_side_by_side(stage: Stage) -> None:
    with stage.inside("batch", None) as batch:
        runs = [stage.run(None, batch) for _ in range(4)]
        for run in runs:
            stage.call(run)
        for run in runs:
            stage.end(run)


def a_sub_agent_again_and_again(stage: Stage) -> None:
    with stage.running("chief") as chief:
        for number in range(4):
            with stage.running("reader", chief) as run:
                stage.ask(run, [("user", f"Read chapter {number}.")])
                stage.call(run)


def a_sub_agent_again_and_again_whose_questions_are_not_recorded(stage: Stage) -> None:
    with stage.running("chief") as chief:
        for _ in range(4):
            with stage.running("reader", chief) as run:
                stage.call(run)


def a_sub_agent_as_a_tool_with_other_tasks(stage: Stage) -> None:
    with stage.running("chief") as chief:
        for number in range(4):
            with (
                stage.inside(
                    "execute_tool ask_reader",
                    chief,
                    gen_ai__operation__name="execute_tool",
                    gen_ai__tool__name="ask_reader",
                    gen_ai__tool__call__arguments=f'{{"chapter": {number}}}',
                    gen_ai__tool__call__result=f"chapter {number} is long",
                ) as tool,
                stage.running("reader", tool) as run,
            ):
                stage.call(run)


def one_document_after_the_other(stage: Stage) -> None:
    with stage.inside("batch", None) as batch:
        for number in range(4):
            with stage.running("reader", batch) as run:
                stage.ask(run, [("user", f"Read document {number}.")])
                stage.call(run, "get_guidelines", None, "Be brief.")


def one_document_after_the_other_looked_up_before_it_is_read(stage: Stage) -> None:
    with stage.inside("batch", None) as batch:
        for number in range(4):
            with stage.running("reader", batch) as run:
                stage.call(run, "get_guidelines", None, "Be brief.")
                stage.ask(run, [("user", f"Read document {number}.")], f"It is about {number} whales in the sea.")


def a_supervisor_that_hands_over(stage: Stage) -> None:
    with stage.running("chief") as chief:
        for _ in range(4):
            stage.call(chief, "transfer_to_reader", None, "Successfully transferred to reader")
            with stage.running("reader", chief) as run:
                stage.call(run)


def a_grader_of_documents(stage: Stage) -> None:
    with stage.running("grader") as run:
        for number in range(4):
            stage.ask(run, [("system", "Grade."), ("user", f"Document {number}: {'x' * 5000}")], NOT_RELEVANT)


def a_grader_of_documents_in_its_instructions(stage: Stage) -> None:
    with stage.running("grader") as run:
        for number in range(4):
            stage.ask(run, [("system", f"Document {number}"), ("user", "Is it relevant?")], NOT_RELEVANT)


def a_grader_of_documents_in_the_middle_of_a_prompt(stage: Stage) -> None:
    with stage.running("grader") as run:
        for number in range(4):
            stage.ask(run, [("user", f"{'x' * 5000}{number}{'x' * 5000}")], NOT_RELEVANT)


def a_grader_that_is_called_for_each_document(stage: Stage) -> None:
    with stage.running("chief") as chief:
        for number in range(4):
            with stage.running("grader", chief) as run:
                stage.ask(run, [("user", f"Document {number}")], NOT_RELEVANT)


def an_answer_to_other_questions(stage: Stage) -> None:
    asked: list[Message] = []
    with stage.running("clerk") as run:
        for number in range(4):
            asked += [("user", f"And is there {number}?")]
            stage.ask(run, asked, "I am sorry, but I cannot help you with that.")
            asked += [("assistant", "I am sorry, but I cannot help you with that.")]


def a_supervisor_calls_the_same(stage: Stage) -> None:
    with stage.running("chief") as chief:
        for _ in range(3):
            with (
                stage.inside(
                    "execute_tool ask_reader",
                    chief,
                    gen_ai__operation__name="execute_tool",
                    gen_ai__tool__name="ask_reader",
                    gen_ai__tool__call__arguments='{"chapter": 1}',
                    gen_ai__tool__call__result="chapter 1 is long",
                ) as tool,
                stage.running("reader", tool) as run,
            ):
                stage.call(run)


def a_transfer_of_money(stage: Stage) -> None:
    with stage.running("clerk") as run:
        for _ in range(3):
            stage.call(run, "transfer_to_savings", 100, "Balance too low")


def a_run_for_every_turn(stage: Stage) -> None:
    with stage.inside("loop", None) as loop:
        for _ in range(3):
            with stage.running("reader", loop) as run:
                stage.call(run)


def a_run_for_every_turn_of_a_conversation(stage: Stage) -> None:
    with stage.running("loop agent") as loop:
        asked = list(TASK)
        for _ in range(3):
            with stage.running("reader", loop) as run:
                stage.ask(run, asked)
                stage.call(run)
            asked += [("assistant", "I will search."), ("tool", "3 hits")]


def a_run_inside_the_run_for_every_turn(stage: Stage) -> None:
    with stage.running("reader") as around:
        for _ in range(3):
            with stage.running("reader", around) as run:
                stage.call(run)


def a_step_of_a_framework_around_every_turn(stage: Stage) -> None:
    with stage.running("reader") as run:
        for _ in range(3):
            with stage.inside("turn", run) as turn:
                stage.call(turn)


def one_of_several_side_by_side(stage: Stage) -> None:
    with stage.running("chief") as chief:
        runs = [stage.run("reader", chief) for _ in range(3)]
        for number in range(3):
            stage.call(runs[0], arguments=number, result=f"{number} hits")
            stage.call(runs[1])
        for run in runs:
            stage.end(run)


def words_that_are_said_again_to_the_same(stage: Stage) -> None:
    asked = list(TASK)
    with stage.running("clerk") as run:
        for _ in range(3):
            stage.ask(run, asked, AGAIN)
            asked += [("assistant", AGAIN)]


def words_that_are_said_again_to_the_same_result(stage: Stage) -> None:
    asked = list(SAID)
    with stage.running("clerk") as run:
        for _ in range(3):
            stage.ask(run, asked, AGAIN)
            asked += [("assistant", AGAIN), ("tool", "3 hits")]


def words_that_are_said_again_to_what_is_not_recorded(stage: Stage) -> None:
    with stage.running("clerk") as run:
        for _ in range(3):
            stage.ask(run, reply=AGAIN)


def calls_of_one_reply_one_after_the_other(stage: Stage) -> None:
    with stage.running("reader") as run:
        stage.ask(run, TASK, tools=["refund", "refund", "refund"])
        for _ in range(3):
            stage.call(run)
        stage.ask(run, SAID, AGAIN)


def asked_three_times(stage: Stage, parent: Span, words: Sequence[str], *, in_runs: bool) -> None:
    said: list[Message] = []
    for number, word in enumerate(words):
        said += [("user", word)]
        with stage.running("clerk", parent) if in_runs else nullcontext(parent) as run:
            stage.ask(run, said, tools=["order 7"])
            stage.call(run, arguments="order 7", result="shipped")
            stage.ask(run, [*said, ("assistant", "I will look."), ("tool", "shipped")], f"It is on its way ({number}).")
        said += [("assistant", f"It is on its way ({number}).")]


def a_run_for_every_question_of_the_user(stage: Stage) -> None:
    with stage.inside("script", None) as script:
        asked_three_times(stage, script, ["Any update?", "And now?", "Look again!"], in_runs=True)


def one_run_for_all_questions_of_the_user(stage: Stage) -> None:
    with stage.running("clerk") as run:
        asked_three_times(stage, run, ["Any update?", "And now?", "Look again!"], in_runs=False)


LEGITIMATE = [
    sub_agents_side_by_side,
    agents_side_by_side_that_nobody_called,
    agents_without_names_side_by_side,
    a_sub_agent_again_and_again,
    a_sub_agent_again_and_again_whose_questions_are_not_recorded,
    a_sub_agent_as_a_tool_with_other_tasks,
    one_document_after_the_other,
    one_document_after_the_other_looked_up_before_it_is_read,
    a_supervisor_that_hands_over,
    a_grader_of_documents,
    a_grader_of_documents_in_its_instructions,
    a_grader_of_documents_in_the_middle_of_a_prompt,
    a_grader_that_is_called_for_each_document,
    an_answer_to_other_questions,
    calls_of_one_reply_one_after_the_other,
    a_run_for_every_question_of_the_user,
    one_run_for_all_questions_of_the_user,
]


def a_program_that_asks_in_the_same_words(stage: Stage) -> None:
    with stage.running("clerk") as run:
        asked_three_times(stage, run, ["Go on.", "Go on.", "Go on."], in_runs=False)


def results_in_the_words_of_the_user(stage: Stage) -> None:
    asked = list(TASK)
    with stage.running("reader") as run:
        for number in range(3):
            stage.ask(run, asked, tools=["refund"])
            stage.call(run)
            asked += [("assistant", "I will search."), ("user", f"Observation {number}: 3 hits")]


def a_plan_in_other_words_before_every_call(stage: Stage) -> None:
    with stage.running("reader") as run:
        for number in range(3):
            stage.ask(run, [("user", f"Plan step {number}.")], f"In step {number} I will search for it.")
            stage.ask(run, [("user", f"Do step {number}.")], tools=["refund"])
            stage.call(run)


def two_calls_of_each_reply(stage: Stage) -> None:
    with stage.running("reader") as run:
        for _ in range(3):
            stage.ask(run, SAID, tools=["refund", "refund"])
            for _ in range(2):
                stage.call(run)


# With what is found, and whether it is found before the trace is complete.
LOOPING = [
    (a_supervisor_calls_the_same, "identical_call", True),
    (a_transfer_of_money, "identical_call", True),
    (a_run_for_every_turn, "identical_call", False),
    (a_run_for_every_turn_of_a_conversation, "identical_call", False),
    (a_run_inside_the_run_for_every_turn, "identical_call", False),
    (a_step_of_a_framework_around_every_turn, "identical_call", False),
    (one_of_several_side_by_side, "identical_call", True),
    (a_program_that_asks_in_the_same_words, "identical_call", True),
    (results_in_the_words_of_the_user, "identical_call", True),
    (a_plan_in_other_words_before_every_call, "identical_call", True),
    (two_calls_of_each_reply, "identical_call", True),
    (words_that_are_said_again_to_the_same, "repeated_output", True),
    (words_that_are_said_again_to_the_same_result, "repeated_output", True),
    (words_that_are_said_again_to_what_is_not_recorded, "repeated_output", True),
]


def found(act: Callable[[Stage], None]) -> tuple[list[str], list[str], list[str]]:
    """What is found beside the agent, in the open trace and in the complete one."""
    watched = Watched()
    act(Stage(watched.tracer))
    spans = list(messages([each.span for each in watched.ended]))
    live = LiveLoops(RuleBook(), BY_CONVENTION, ManualClock())
    told = found_live(live, *([Arrival(span, Origin(b"", "lib", None))] for span in spans))
    return watched.kinds(), [each.kind for each in told], complete(spans)


def messages(spans: list[ReadableSpan]) -> Iterator[SpanMessage]:
    for of_resource in encode_spans(spans).resource_spans:
        for of_scope in of_resource.scope_spans:
            yield from of_scope.spans


def complete(spans: list[SpanMessage]) -> list[str]:
    return in_records([span_record(span, {}, "lib") for span in spans])


def in_records(spans: Sequence[SpanRecord]) -> list[str]:
    detectors = Detectors("s-1", "t-1", RuleBook())
    trace = read_trace("t-1", spans)
    return [loop.kind for step in steps_of(trace) for loop in detectors.observe(step)]


@pytest.mark.parametrize("act", LEGITIMATE, ids=lambda act: act.__name__)
def test_other_runs_are_no_repetition(act: Callable[[Stage], None]) -> None:
    assert found(act) == ([], [], [])


@pytest.mark.parametrize(("act", "kind", "is_live"), LOOPING, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_loop_is_found_whatever_is_made_a_run_of(act: Callable[[Stage], None], kind: str, is_live: bool) -> None:
    assert found(act) == ([kind], [kind] if is_live else [], [kind])


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (["Any update?", "And now?", "Look again!"], []),
        (["Go on.", "Go on.", "Go on."], ["identical_call"]),
    ],
)
def test_calls_without_spans_are_for_the_words_they_follow(words: list[str], kinds: list[str]) -> None:
    spans, said = list[SpanRecord](), list[Any]()
    for number, word in enumerate(words):
        request, result = asks("get_order", {"id": 7}, f"c{number}"), told("shipped", f"c{number}")
        said += [user(word)]
        spans += [chat(f"a{number}", said, [request], at=100 * number)]
        said += [request, result]
        spans += [chat(f"b{number}", said, [answer(f"It is on its way ({number}).")], at=100 * number + 50)]
        said += [answer(f"It is on its way ({number}).")]
    assert in_records(spans) == kinds


@pytest.mark.parametrize(("tool", "count", "result"), [("reserve", 3, "reserved"), ("search", 4, "[]")])
def test_calls_without_spans_that_one_reply_asks_for_are_one_step(tool: str, count: int, result: str) -> None:
    requests = [asks(tool, {"of": tool == "search" and number}, f"c{number}") for number in range(count)]
    results = [told(result, f"c{number}") for number in range(count)]
    spans = [
        chat("a", [user("?")], requests, at=1),
        chat("b", [user("?"), *requests, *results], [answer("Done.")], at=20),
    ]
    assert in_records(spans) == []


def in_run(number: int, span_id: int) -> Step:
    return Step(
        kind=StepKind.TOOL,
        name="search",
        span_id=str(span_id),
        agent="reader",
        agent_run=AgentRun(str(number), is_called=True),
        arguments="{}",
        result="3 hits",
        started_at=span_id,
        ended_at=span_id + 1,
    )


def test_runs_that_did_nothing_for_longest_are_forgotten() -> None:
    detectors = Detectors("s-1", "t-1", RuleBook())
    for number in range(10 * MAX_RUNS):
        assert detectors.observe(in_run(number, 2 * number)) == []
    oldest, newest = 9 * MAX_RUNS - 1, 10 * MAX_RUNS - 1
    told = [detectors.observe(in_run(newest, 20 * MAX_RUNS + again)) for again in range(2)]
    assert [[loop.kind for loop in each] for each in told] == [[], ["identical_call"]]
    assert not any(detectors.observe(in_run(oldest, 30 * MAX_RUNS + again)) for again in range(2))


def test_a_budget_is_that_of_all_runs_of_an_agent() -> None:
    rules = Rules(budget=BudgetRule(mode=Mode.ALARM, steps=3))
    detectors = Detectors("s-1", "t-1", RuleBook(agents={"reader": rules}))
    told = [detectors.observe(in_run(number, number)) for number in range(6)]
    assert [[loop.kind for loop in each] for each in told] == [[], [], [], ["budget"], [], []]
