"""What holds of the detectors whatever agents do."""

import itertools
import pickle
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from otel_agenteval.detectors.agent_runs import MAX_RUNS
from otel_agenteval.detectors.rules import RuleBook
from otel_agenteval.detectors.running_trace import MAX_OPEN, Detectors
from otel_agenteval.detectors.steps import Step, StepKind, StepStarted, not_recorded
from otel_agenteval.finding import Finding
from otel_agenteval.model import Json

WORDS = [
    "".join(pair)
    for pair in itertools.product(
        ("bar", "cel", "dom", "fin", "gul", "hep", "jas"), ("ton", "mer", "lis", "vak", "rud", "pon")
    )
]

CALLS = st.builds(
    Step,
    kind=st.just(StepKind.TOOL),
    name=st.sampled_from(["search", "book"]),
    span_id=st.just(""),
    arguments=st.sampled_from(['{"a": 1}', '{"a": 2}', '{"a": 3}', '{"a": 4}', None]),
    result=st.sampled_from(["no results", "sent", None]),
    error=st.sampled_from([None, None, "timeout 1", "timeout 2", "refused"]),
)
TOLD_FAILURES = st.builds(
    Step,
    kind=st.just(StepKind.TOOL),
    name=st.sampled_from(["search", "book"]),
    span_id=st.just(""),
    arguments=st.sampled_from(['{"a": 1}', '{"a": 2}', None]),
    result=st.sampled_from(["Error: timeout 1", "Error: timeout 2"]),
    error=st.just("timeout 1"),
    is_error_read=st.just(True),
)
REPLIES = st.builds(
    Step,
    kind=st.just(StepKind.MODEL),
    name=st.just("gpt"),
    span_id=st.just(""),
    asked=st.sampled_from([not_recorded, partial(str, "Can you help me?"), partial(str, "And now?")]),
    sent=st.sampled_from([not_recorded, partial(str.encode, "May"), partial(str.encode, "June")]),
    result=st.sampled_from(["Could you tell me your name again?", "Let me look that up for you.", "yes", None]),
    error=st.sampled_from([None, None, None, "overloaded"]),
)
ROUNDS = st.builds(list.__mul__, st.lists(CALLS | TOLD_FAILURES | REPLIES, min_size=1, max_size=4), st.integers(1, 5))
SWEEPS = st.builds(
    lambda call, ways: [replace(call, arguments=f'{{"a": {way}}}', result="no results", error=None) for way in ways],
    CALLS,
    st.lists(st.integers(1, 6), min_size=3, max_size=7),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """What one agent did, once, over and over, or in several ways; some steps begin before the last ones are over."""
    steps = [step for part in draw(st.lists(ROUNDS | SWEEPS, max_size=8)) for step in part]
    early = draw(st.lists(st.sampled_from([0, 0, 0, 1, 2, 4]), min_size=len(steps), max_size=len(steps)))
    # Calls in a row with the same number are those of one reply.
    asked_by = draw(st.lists(st.sampled_from([None, None, "m1", "m2"]), min_size=len(steps), max_size=len(steps)))
    return [
        replace(step, span_id=f"{index:016x}", started_at=index - overlap, ended_at=index + 1, asked_by=asking)
        for index, (step, overlap, asking) in enumerate(zip(steps, early, asked_by, strict=True))
    ]


def observe(steps: Sequence[Step]) -> list[list[Finding]]:
    detectors = Detectors("s-1", "t-1", RuleBook())
    return [detectors.observe(step) for step in steps]


@given(histories(), st.sampled_from(["3 hits", "no results", '{"rows": []}', "the long text of a page " * 40]))
def test_three_equal_calls_in_a_row_are_told_whatever_was_done_before(history: list[Step], result: str) -> None:
    at = len(history) + 9
    again = [
        Step(
            kind=StepKind.TOOL,
            name="look_up",
            span_id=f"{index:016x}",
            arguments='{"q": "refund"}',
            result=result,
            started_at=index,
            ended_at=index + 1,
        )
        for index in range(at, at + 3)
    ]
    *_, found = observe([*history, *again])
    assert [(loop.kind, loop.is_alarm) for loop in found] == [("identical_call", True)]


@given(st.lists(st.tuples(st.sampled_from(["search", "book", "read_page"]), st.booleans()), max_size=40))
def test_calls_that_each_tell_something_new_are_no_loop(made: list[tuple[str, bool]]) -> None:
    steps = [
        Step(
            kind=StepKind.TOOL,
            name=tool,
            span_id=f"{index:016x}",
            arguments=f'{{"q": "{WORDS[index] if asks_anew else "the same"}"}}',
            result=f"The {WORDS[index]} is a thing of which {WORDS[-index - 1]} is told",
            started_at=index,
            ended_at=index + 1,
        )
        for index, (tool, asks_anew) in enumerate(made)
    ]
    assert not any(observe(steps))


@given(histories(), st.lists(st.integers(1, 2), min_size=1))
def test_replies_that_are_read_when_needed_loop_at_the_same_steps(history: list[Step], ids: list[int]) -> None:
    unread = [
        replace(step, result=[ids[index % len(ids)], step.result], read=second, asked=not_recorded)
        if step.kind is StepKind.MODEL and index % 3
        else replace(
            step, result=f"{ids[index % len(ids)]} {step.result or ''}", read=behind_the_id, asked=not_recorded
        )
        if step.kind is StepKind.MODEL
        else step
        for index, step in enumerate(history)
    ]
    assert observe(unread) == observe([replace(step, asked=not_recorded) for step in history])


@given(histories(), st.lists(st.integers(2, 4), min_size=1))
def test_calls_are_of_one_reply_whether_counted_or_named(history: list[Step], requests: list[int]) -> None:
    counted: list[Step] = []
    named: list[Step] = []
    asking, left = None, 0
    for index, step in enumerate(history):
        if step.kind is StepKind.MODEL:
            asking, left = step.span_id, requests[index % len(requests)]
            counted.append(replace(step, requests=left))
            named.append(step)
        else:
            counted.append(replace(step, asked_by=None))
            named.append(replace(step, asked_by=asking if left else None))
            left = max(0, left - 1)
    assert observe(counted) == observe(named)


def second(content: Json) -> Json:
    assert isinstance(content, list)
    return content[1]


def behind_the_id(content: Json) -> Json:
    assert isinstance(content, str)
    return content[2:] or None


@given(histories(), histories(), st.randoms())
def test_agents_do_not_disturb_each_other(one: list[Step], other: list[Step], chance: random.Random) -> None:
    apart = [
        [replace(step, agent=agent, span_id=agent + step.span_id) for step in steps]
        for agent, steps in (("ann", one), ("bob", other))
    ]
    expected = [loop for steps in apart for found_then in observe(steps) for loop in found_then]
    waiting = [iter(steps) for steps in apart]
    order = [index for index, steps in enumerate(apart) for _ in steps]
    chance.shuffle(order)
    found = [loop for found_then in observe([next(waiting[index]) for index in order]) for loop in found_then]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


@given(histories())
def test_every_loop_names_the_span_that_completed_it_and_its_evidence(history: list[Step]) -> None:
    for step, found_then in zip(history, observe(history), strict=True):
        for loop in found_then:
            span_ids = loop.metadata["span_ids"]
            assert isinstance(span_ids, list)
            assert loop.span_id == step.span_id == span_ids[-1]
            assert set(span_ids) <= {each.span_id for each in history}


def test_memory_does_not_grow_with_the_trace() -> None:
    detectors = Detectors("s-1", "t-1", RuleBook())
    sizes = []
    for index in range(4 * MAX_OPEN):
        name, span_id = f"{index:08}" * 100, f"{index:016x}"
        detectors.observe(StepStarted(kind=StepKind.TOOL, name=name, span_id=span_id, at=index))
        step = Step(
            kind=StepKind.TOOL,
            name=name,
            span_id=f"never opened {span_id}",
            agent=f"{index % (2 * MAX_RUNS):08}" * 100,
            arguments=f"{index:08}" * 1000,
            result=f"{index:08}" * 1000,
            error=f"{index:08}" * 1000 if index % 3 else None,
        )
        detectors.observe(step)
        sizes.append(len(pickle.dumps(detectors)) if index % MAX_OPEN == MAX_OPEN - 1 else 0)
    after_one, *_, after_four = filter(None, sizes)
    assert after_four <= 1.01 * after_one
    assert after_four < 600_000
