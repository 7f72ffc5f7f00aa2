"""Traces of senders that count nothing: complete when their root and all parents have come, as it is learned."""

from random import Random
from typing import Any

import pytest
from agenteval_collector.config.settings import SenderConfig
from agenteval_collector.model.assembled_trace import AssembledTrace, ClosedBy
from agenteval_collector.model.logged_requests import OFFSET_BYTES, SPAN_BYTES, TRACE_BYTES
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.assembling import SETTLE, SETTLE_LOGS, SILENCE, Bench, spans_of
from tests.support.inputs import inputs
from tests.support.otlp import log, logs, marked, span, trace_id, traces

LOCAL, REMOTE = 0x101, 0x301
MAX_AGE = 600.0


def agent(trace: int, number: int = 1, *, parent: int = 0, flags: int = LOCAL, **attributes: Any) -> Span:
    return named(span(trace, number, parent=parent, gen_ai__operation__name="invoke_agent", **attributes), flags)


def chat(trace: int, number: int, *, parent: int = 1, flags: int = LOCAL, failed: bool = False) -> Span:
    """A model call that has its content with it."""
    return bare(trace, number, parent=parent, flags=flags, failed=failed, gen_ai__input__messages="[]")


def bare(
    trace: int, number: int, *, parent: int = 1, flags: int = LOCAL, failed: bool = False, **attributes: Any
) -> Span:
    """A model call without content."""
    made = named(span(trace, number, parent=parent, gen_ai__operation__name="chat", **attributes), flags)
    made.status.code = 2 if failed else 0  # type: ignore[assignment]
    return made


def named(made: Span, flags: int) -> Span:
    made.flags = flags
    made.name = next(a.value.string_value for a in made.attributes if a.key == "gen_ai.operation.name") + " x"
    return made


def closed(completed: list[AssembledTrace]) -> list[tuple[ClosedBy, list[int]]]:
    """What closed each trace, and the numbers of its spans."""
    assert all(trace.closing is not None for trace in completed)
    return [(trace.closing.by, spans_of(trace)) for trace in completed if trace.closing]


def learn_parents_come(bench: Bench, trace: int = 99) -> None:
    bench.send(traces(chat(trace, 2)), traces(agent(trace)))
    assert closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [1, 2])]
    bench.score()


def learn_agents_are_outermost(bench: Bench) -> None:
    for trace in (98, 99):
        bench.send(traces(chat(trace, 2)), traces(agent(trace, parent=7)))
        assert closed(bench.advance(SILENCE)) == [(ClosedBy.SILENCE, [1, 2])]
        bench.score()


def test_a_missing_parent_keeps_the_trace_of_a_known_sender_open_however_long_its_calls_take() -> None:
    bench = Bench()
    learn_parents_come(bench)
    bench.send(traces(chat(1, 2)))
    assert bench.advance(300) == []
    bench.send(traces(chat(1, 3)))
    assert bench.advance(299) == []
    bench.send(traces(agent(1)))
    assert bench.advance(SETTLE - 0.01) == []
    assert closed(bench.advance(0.01)) == [(ClosedBy.ROOT, [1, 2, 3])]


def test_a_sender_that_dies_is_waited_for_until_max_age_and_what_came_is_partial() -> None:
    bench = Bench()
    learn_parents_come(bench)
    bench.send(traces(chat(1, 2)))
    assert bench.advance(MAX_AGE - 1) == []
    [trace] = bench.advance(1)
    assert trace.closing is not None
    assert (trace.closing.by, trace.closing.partial) == (ClosedBy.MAX_AGE, True)
    assert trace.closing.senders == ["the local parent of chat spans of shop (lib) comes: it came in its last trace"]


def test_one_death_does_not_shorten_the_patience_with_a_sender_whose_parents_come() -> None:
    bench = Bench()
    for number in range(90, 94):
        learn_parents_come(bench, number)
    bench.send(traces(chat(1, 2)))
    bench.advance(MAX_AGE)
    bench.send(traces(chat(2, 2)))
    assert bench.advance(MAX_AGE - 1) == []


def test_of_an_unknown_sender_a_missing_parent_is_waited_for_until_a_long_silence() -> None:
    bench = Bench()
    bench.send(traces(chat(1, 2)))
    assert bench.advance(SILENCE - 1) == []
    bench.send(traces(chat(1, 3)))
    assert bench.advance(SILENCE - 1) == []
    [trace] = bench.advance(1)
    assert trace.closing is not None
    assert (trace.closing.by, trace.closing.partial) == (ClosedBy.SILENCE, True)
    assert bench.telemetry.counts["traces.released_early"] == 1


def test_spans_whose_parents_never_came_are_roots_after_a_few_traces_and_over_a_restart() -> None:
    bench = Bench()
    learn_agents_are_outermost(bench)
    bench.save_checkpoint()
    bench.crash()
    bench.send(traces(chat(1, 2)))
    assert bench.advance(SILENCE * 2) == [], "the parents of its chats come"
    bench.send(traces(agent(1, parent=7)))
    [trace] = bench.advance(SETTLE)
    assert trace.closing is not None
    assert (trace.closing.by, trace.closing.partial) == (ClosedBy.ROOT, False)


def test_what_is_learned_holds_for_its_sender_alone() -> None:
    bench = Bench()
    learn_agents_are_outermost(bench)
    bench.send(traces(agent(1, parent=7), service="bank"), traces(agent(2, parent=7), scope="other"))
    assert bench.advance(SILENCE - 1) == []


def test_a_root_that_comes_after_a_silence_makes_a_revision_and_is_learned_from() -> None:
    bench = Bench(max_recent_bytes=1 << 20)
    bench.send(traces(chat(1, 2)))
    bench.advance(SILENCE)
    bench.score()
    bench.send(traces(agent(1)))
    assert [(trace.revision, spans_of(trace)) for trace in bench.advance(SETTLE)] == [(2, [1, 2])]
    bench.score()
    bench.send(traces(chat(2, 2)))
    assert bench.advance(SILENCE * 5) == [], "its parents come, only slowly"


def test_a_parent_that_comes_after_all_is_learned_from_when_the_trace_was_read_from_the_log_again() -> None:
    bench = Bench()
    bench.send(traces(chat(1, 2)))
    bench.advance(SILENCE)
    bench.score()
    bench.send(traces(agent(1)))
    bench.advance(SETTLE)
    bench.score()
    assert bench.reloaded == 1
    assert list(bench.learned.values()) == ["+"]


def test_a_sender_that_sends_both_is_waited_for_until_a_silence() -> None:
    bench = Bench()
    for trace in (80, 81):
        learn_parents_come(bench, trace)
        bench.send(traces(chat(trace + 10, 2)))
        bench.advance(MAX_AGE)
        bench.score()
    bench.send(traces(chat(1, 2)))
    assert bench.advance(SILENCE - 1) == []
    assert closed(bench.advance(1)) == [(ClosedBy.SILENCE, [2])]


def test_the_parent_of_a_failure_is_not_waited_for_longer_than_a_silence() -> None:
    bench = Bench()
    learn_parents_come(bench)
    bench.send(traces(chat(1, 2, failed=True)))
    assert bench.advance(SILENCE - 1) == []
    assert closed(bench.advance(1)) == [(ClosedBy.SILENCE, [2])]


@pytest.mark.parametrize(
    ("flags", "kind", "waited"),
    [
        pytest.param(LOCAL, Span.SPAN_KIND_SERVER, True, id="flags outrank the kind: a local parent"),
        pytest.param(REMOTE, Span.SPAN_KIND_INTERNAL, False, id="flags outrank the kind: a remote parent"),
        pytest.param(0, Span.SPAN_KIND_SERVER, False, id="without flags, a server's parent is remote"),
        pytest.param(0, Span.SPAN_KIND_CONSUMER, False, id="without flags, a consumer's parent is remote"),
        pytest.param(0, Span.SPAN_KIND_CLIENT, True, id="without flags, a client's parent is local"),
        pytest.param(0x01, Span.SPAN_KIND_INTERNAL, True, id="flags that say nothing of the parent"),
    ],
)
def test_a_parent_is_remote_by_its_flags_or_else_by_the_kind_of_its_span(flags: int, kind: int, waited: bool) -> None:
    bench = Bench()
    made = agent(1, parent=7, flags=flags)
    made.kind = kind  # type: ignore[assignment]
    bench.send(traces(made))
    assert (bench.advance(SETTLE) == []) is waited


def test_two_services_make_one_trace_once_it_is_known_that_the_caller_reports_here_too() -> None:
    bench = Bench(max_recent_bytes=1 << 20)
    bench.send(traces(agent(1, 2, parent=1, flags=REMOTE), service="callee"))
    assert closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [2])]
    bench.score()
    bench.send(traces(agent(1, 1), service="caller"))
    assert closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [1, 2])]
    bench.score()
    bench.send(traces(agent(2, 2, parent=1, flags=REMOTE), service="callee"))
    assert bench.advance(300) == []
    bench.send(traces(agent(2, 1), service="caller"))
    assert [(t.revision, spans_of(t)) for t in bench.advance(SETTLE)] == [(1, [1, 2])]


def test_a_process_that_counts_waits_for_a_caller_that_is_known_to_report_here() -> None:
    bench = Bench(rules={"callee": SenderConfig(remote_parents="wait")})
    counted = agent(1, 2, parent=1, flags=REMOTE)
    counted.attributes.add(key="agenteval.trace.span_count").value.int_value = 1
    assert bench.send(traces(counted, process="p", service="callee")) == []
    assert bench.advance(300) == []
    bench.send(traces(agent(1, 1), service="caller"))
    assert closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [1, 2])]


@pytest.mark.parametrize(
    ("rules", "made", "closes"),
    [
        pytest.param(SenderConfig(outermost=("invoke_agent",)), LOCAL, True, id="outermost"),
        pytest.param(SenderConfig(outermost=("chat",)), LOCAL, False, id="outermost, but of other spans"),
        pytest.param(SenderConfig(remote_parents="wait"), REMOTE, False, id="remote parents are waited for"),
        pytest.param(SenderConfig(remote_parents="ignore"), REMOTE, True, id="remote parents are ignored"),
    ],
)
def test_what_is_set_by_hand_needs_no_learning(rules: SenderConfig, made: int, closes: bool) -> None:
    bench = Bench(rules={"shop": rules})
    bench.send(traces(agent(1, parent=7, flags=made)))
    assert (closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [1])]) is closes


ANSWER = {"gen_ai__event": "gen_ai.choice"}
OPENAI = "opentelemetry.instrumentation.openai_v2"


def test_log_records_of_a_scope_that_is_known_to_write_them_are_waited_for() -> None:
    bench = Bench()
    bench.send(traces(chat(1, 2), agent(1), scope=OPENAI))
    assert bench.advance(SETTLE_LOGS - 0.1) == []
    bench.send(logs(log(1, 2, gen_ai__event="gen_ai.user.message")))
    assert bench.advance(SETTLE) == [], "the question is not the answer"
    bench.send(logs(log(1, 2, **ANSWER)))
    assert closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [1, 2])]


@pytest.mark.parametrize("scope", ["lib", OPENAI])
def test_log_records_that_do_not_come_are_waited_for_in_a_few_traces_and_then_no_more(scope: str) -> None:
    bench = Bench()
    for number in (1, 2):
        bench.send(traces(bare(number, 2), agent(number), scope=scope))
        assert bench.advance(SETTLE_LOGS - 0.1) == []
        assert closed(bench.advance(0.1)) == [(ClosedBy.LOGS, [1, 2])]
    bench.send(traces(bare(3, 2), agent(3), scope=scope))
    assert closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [1, 2])]


def test_the_first_traces_of_a_sender_wait_for_content_in_log_records_even_where_they_come_at_once() -> None:
    bench = Bench()
    for number in range(1, 21):
        bench.send(traces(bare(number, 2), agent(number)))
    assert bench.advance(1) == []
    for number in range(1, 21):
        bench.send(logs(log(number, 2, **ANSWER)))
    assert [(t.revision, len(t.logs)) for t in bench.advance(SETTLE)] == [(1, 1)] * 20


@pytest.mark.parametrize(
    ("made", "process"),
    [
        pytest.param(chat(1, 2), None, id="a call that has its content with it"),
        pytest.param(bare(1, 2, gen_ai__prompt__0__content="hi"), None, id="content by an older convention"),
        pytest.param(bare(1, 2, failed=True), None, id="a call that failed has no answer"),
        pytest.param(agent(1, 2, parent=1), None, id="no model call"),
        pytest.param(bare(1, 2), "p", id="of a process that counts"),
    ],
)
def test_of_an_unknown_sender_no_log_records_are_waited_for_but_for_calls_without_content(
    made: Span, process: str | None
) -> None:
    bench = Bench()
    bench.send(traces(made, agent(1), process=process))
    assert closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [1, 2])]


def test_who_had_content_on_a_span_is_not_waited_for_where_another_has_none() -> None:
    bench = Bench()
    bench.send(traces(chat(1, 2), agent(1)))
    assert closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [1, 2])]
    bench.send(traces(bare(2, 2), agent(2)))
    assert closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [1, 2])]


def test_who_had_content_on_a_span_is_waited_for_once_log_records_have_it() -> None:
    bench = Bench(max_recent_bytes=1 << 20)
    bench.send(traces(chat(1, 2), agent(1)))
    assert closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [1, 2])]
    bench.score()
    bench.send(logs(log(1, 2, **ANSWER)))
    assert [trace.revision for trace in bench.advance(SETTLE)] == [2]
    bench.score()
    bench.send(traces(bare(2, 2), agent(2)))
    assert bench.advance(SETTLE_LOGS - 1) == []


def test_content_in_an_event_of_the_call_needs_no_log_records() -> None:
    bench = Bench()
    made = bare(1, 2)
    made.events.add(name="gen_ai.choice")
    bench.send(traces(made, agent(1)))
    assert closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [1, 2])]


def test_who_had_content_in_log_records_is_waited_for_by_the_spans_that_had_it() -> None:
    bench = Bench(max_recent_bytes=1 << 20)
    bench.send(traces(bare(1, 2), agent(1)))
    assert closed(bench.advance(SETTLE_LOGS)) == [(ClosedBy.LOGS, [1, 2])]
    bench.score()
    bench.send(logs(log(1, 2, **ANSWER)))
    assert [trace.revision for trace in bench.advance(SETTLE)] == [2]
    bench.score()
    bench.send(traces(bare(2, 2), agent(2)), traces(agent(3)))
    assert closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [1])], "an agent's span has no such records"
    assert bench.advance(SETTLE_LOGS - 1) == []
    bench.send(logs(log(2, 2, **ANSWER)))
    assert closed(bench.advance(SETTLE)) == [(ClosedBy.ROOT, [1, 2])]


def test_what_comes_late_for_a_trace_in_memory_needs_no_log() -> None:
    bench = Bench(max_recent_bytes=1 << 20)
    bench.send(traces(agent(1)))
    bench.advance(SETTLE)
    bench.score()
    bench.log.clear()
    for number in range(2, 130):
        assert bench.send(traces(chat(1, number))) == []
        bench.clock.advance(0.001)
    assert [(t.revision, len(t.spans)) for t in bench.advance(SETTLE)] == [(2, 129)], "a burst makes one revision"
    assert bench.reloaded == 0


def test_what_is_sent_again_for_a_trace_in_memory_opens_nothing() -> None:
    bench = Bench(max_recent_bytes=1 << 20)
    request = traces(agent(1))
    bench.send(request)
    bench.advance(SETTLE)
    bench.score()
    assert bench.send(request) == []
    assert (bench.assembler.open_traces, bench.reloaded, bench.assembler.checkpoints()) == (0, 0, {0: 3})


def test_traces_are_kept_in_memory_up_to_a_bound_the_last_ones() -> None:
    size = TRACE_BYTES + OFFSET_BYTES + SPAN_BYTES + agent(1).ByteSize()
    bench = Bench(max_recent_bytes=2 * size)
    for trace in (1, 2, 3):
        bench.send(traces(agent(trace)))
        bench.advance(SETTLE)
        bench.score()
    for trace, reloaded in ((3, 0), (2, 0), (1, 1)):
        bench.send(traces(chat(trace, 2)))
        assert bench.reloaded == reloaded


def test_a_replay_waits_by_the_times_of_receipt_and_not_by_the_clock() -> None:
    bench = Bench()
    bench.send(traces(agent(1), chat(1, 2)), traces(chat(2, 2)), traces(agent(3, parent=7, flags=REMOTE)))
    bench.clock.advance(SILENCE)
    bench.send(traces(agent(4)))
    bench.crash()
    assert sorted(closed(bench.assembler.quiet())) == [
        (ClosedBy.ROOT, [1]), (ClosedBy.ROOT, [1, 2]), (ClosedBy.SILENCE, [2])
    ]  # fmt: skip


@settings(max_examples=inputs(1.5))
@given(
    parents=st.lists(st.integers(0, 6), min_size=1, max_size=12),
    size=st.integers(1, 4),
    seed=st.integers(0, 1 << 16),
    memory=st.sampled_from([0, 1 << 20]),
)
def test_batches_in_any_order_and_at_any_time_come_to_the_same(
    parents: list[int], size: int, seed: int, memory: int
) -> None:
    """Span 1 is the root; span n + 2 is below span `parents[n]`, or one that never comes."""
    spans = [agent(1), *(chat(1, n + 2, parent=1 + parent) for n, parent in enumerate(parents))]
    requests = [traces(*spans[first : first + size]) for first in range(0, len(spans), size)]
    random = Random(seed)
    shuffled = random.sample(requests, len(requests))
    results = []
    for order in (requests, shuffled):
        bench = Bench(max_recent_bytes=memory)
        for request in order:
            bench.send(request)
            bench.advance(random.choice([0, 0.1, 1, 100]))
            bench.score()
        bench.advance(MAX_AGE)
        bench.score()
        [trace] = bench.store.values()
        results.append((spans_of(trace), trace.complete, sorted(raw for raw, _ in trace.spans)))
        assert bench.assembler.open_traces == 0
    assert results[0] == results[1]
    assert len(results[0][0]) == len(spans)


def waits_for(bench: Bench, trace: int = 1) -> list[str]:
    looked_at = bench.assembler.peek(trace_id(trace).hex())
    assert looked_at is not None
    return list(looked_at.waits_for)


def test_an_open_trace_tells_which_parents_and_log_records_it_waits_for_the_longest_first() -> None:
    bench = Bench(rules={"callee": SenderConfig(remote_parents="wait")})
    bench.send(traces(bare(1, 2)), traces(agent(1, 5, parent=4, flags=REMOTE), service="callee"), traces(agent(2, 1)))
    assert waits_for(bench) == [
        "the remote parent of invoke_agent spans of callee (lib), until it is 600 s old; "
        "it comes: so assembly.senders says",
        "the local parent of chat spans of shop (lib), until nothing has come for 60 s; "
        "it is not known whether it comes: none of its traces was complete before",
        "the log records of chat spans of shop (lib), until nothing has come for 5 s; "
        "it is not known whether they come: none of its traces was complete before",
    ]
    assert waits_for(bench, 2) == []


def test_an_open_trace_tells_that_spans_are_missing_or_open() -> None:
    bench = Bench()
    bench.send(
        traces(marked(span(1, 1), 3), process="p"), logs(log(2, 1, gen_ai__x="y")), traces(span(3, 1, ended=False))
    )
    assert waits_for(bench) == ["2 more of the spans that were counted, until nothing has come for 5 s"]
    assert waits_for(bench, 2) == ["spans: only log records of it have come"]
    assert waits_for(bench, 3) == ["the end of a span that is open, until it is 600 s old"]


def test_no_wait_is_shorter_than_the_settling_time_and_what_is_told_says_so() -> None:
    bench = Bench(settle=90.0)
    bench.send(traces(marked(span(1, 1), 3), process="p"), traces(span(2, 1, parent=9)))
    assert waits_for(bench) == ["2 more of the spans that were counted, until nothing has come for 90 s"]
    assert "until nothing has come for 90 s" in waits_for(bench, 2)[0]
    assert bench.advance(89.0) == []
    assert closed(bench.advance(1.0)) == [(ClosedBy.SHORT, [1]), (ClosedBy.SILENCE, [1])]


def test_a_remote_parent_that_was_waited_for_is_told_of_though_it_came() -> None:
    bench = Bench()
    told = []
    for number in (1, 2):
        bench.send(traces(agent(number, 2, parent=1, flags=REMOTE), service="callee"))
        bench.send(traces(agent(number, 1), service="caller"))
        [trace] = bench.advance(SETTLE)
        assert trace.closing is not None
        told.append(list(trace.closing.senders))
    assert told == [[], ["the remote parent of invoke_agent spans of callee (lib) comes: it came in its last trace"]]
