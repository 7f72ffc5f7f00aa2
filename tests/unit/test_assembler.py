from collections import defaultdict
from typing import Any

import pytest
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.logged_requests import OFFSET_BYTES, SPAN_BYTES, TRACE_BYTES, LogLag
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.assembling import SETTLE, SETTLE_LOGS, SILENCE, Bench, spans_of
from tests.support.inputs import inputs
from tests.support.otlp import START, log, logged, logs, marked, span, trace_id, traces


def numbers(completed: list[AssembledTrace]) -> list[tuple[int, int, list[int]]]:
    """Trace number, revision and span numbers of what completed."""
    return [(int(trace.trace_id, 16), trace.revision, spans_of(trace)) for trace in completed]


def test_the_marker_completes_a_trace_at_once() -> None:
    bench = Bench()
    assert bench.send(traces(span(1, 1, parent=2), process="p")) == []
    assert numbers(bench.send(traces(marked(span(1, 2), 2), process="p"))) == [(1, 1, [1, 2])]
    assert bench.advance(60) == []


def test_a_marker_that_arrives_before_the_spans_it_counts_waits_for_them() -> None:
    bench = Bench()
    assert bench.send(traces(marked(span(1, 2), 2), process="p")) == []
    assert numbers(bench.send(traces(span(1, 1, parent=2), process="p"))) == [(1, 1, [1, 2])]


def test_a_trace_over_two_processes_waits_for_both() -> None:
    bench = Bench()
    assert bench.send(traces(span(1, 3, parent=2), process="b")) == []
    assert bench.send(traces(marked(span(1, 4, parent=3), 3), process="b")) == []
    assert bench.send(traces(marked(span(1, 1), 1), process="a")) == []
    assert numbers(bench.send(traces(span(1, 5, parent=3), process="b"))) == [(1, 1, [1, 3, 4, 5])]


def test_counts_are_cumulative_and_the_highest_holds() -> None:
    bench = Bench()
    assert bench.send(traces(marked(span(1, 1), 3), process="p")) == []
    assert bench.send(traces(marked(span(1, 2), 2), process="p")) == []
    assert numbers(bench.send(traces(span(1, 3), process="p"))) == [(1, 1, [1, 2, 3])]


def test_spans_that_name_no_process_count_for_a_process_known_from_its_marker_only() -> None:
    bench = Bench()
    assert bench.send(traces(span(1, 1, parent=2))) == []
    assert numbers(bench.send(traces(marked(span(1, 2), 2, process="p")))) == [(1, 1, [1, 2])]


def test_spans_that_name_no_process_do_not_stand_in_for_those_of_one_that_names_itself() -> None:
    bench = Bench()
    bench.send(traces(span(1, 1)))
    assert bench.send(traces(marked(span(1, 2), 2), process="p")) == []
    assert bench.advance(SETTLE_LOGS - 0.1) == []
    assert numbers(bench.advance(0.1)) == [(1, 1, [1, 2])]


def test_without_marker_a_trace_is_complete_when_nothing_more_came_for_the_settling_time() -> None:
    bench = Bench()
    bench.send(traces(span(1, 1)))
    bench.advance(0.2)
    bench.send(traces(span(1, 2, parent=1)))
    assert bench.advance(0.2) == []
    assert numbers(bench.advance(0.05)) == [(1, 1, [1, 2])]


@pytest.mark.parametrize(
    "spans",
    [
        pytest.param([span(1, 3, parent=2), span(1, 2, parent=1), span(1, 1)], id="children before parents"),
        pytest.param([span(1, 1), span(1, 2), span(1, 3)], id="several roots"),
        pytest.param([span(1, 1, parent=2), span(1, 2, parent=1)], id="each the parent of the other"),
    ],
)
def test_completion_does_not_depend_on_the_shape_of_the_tree(spans: list[Span]) -> None:
    bench = Bench()
    for each in spans:
        assert bench.send(traces(each)) == []
    [completed] = bench.advance(SETTLE)
    assert len(completed.spans) == len(spans)


def test_a_span_that_has_not_ended_holds_its_trace_until_it_has() -> None:
    bench = Bench()
    bench.send(traces(span(1, 1, ended=False), span(1, 2, parent=1)))
    assert bench.advance(100) == []
    bench.send(traces(span(1, 1)))
    assert numbers(bench.advance(SETTLE)) == [(1, 1, [1, 2])]


def test_a_parent_that_a_counting_process_has_open_holds_its_trace_however_long_a_call_takes() -> None:
    bench = Bench()
    bench.send(traces(span(1, 3, parent=2), process="p"))
    assert bench.advance(100) == []
    bench.send(traces(span(1, 2, parent=1), process="p"))
    assert bench.advance(100) == []
    assert numbers(bench.send(traces(marked(span(1, 1), 3), process="p"))) == [(1, 1, [1, 2, 3])]


def test_a_parent_of_another_process_holds_nothing_once_all_that_was_counted_has_come() -> None:
    bench = Bench()
    assert numbers(bench.send(traces(marked(span(1, 2, parent=1), 1), process="p"))) == [(1, 1, [2])]
    bench.send(traces(span(1, 3, parent=1)))
    assert bench.advance(SILENCE - 1) == []
    assert numbers(bench.advance(1)) == [(1, 2, [2, 3])]


def test_spans_that_are_never_ended_below_a_root_that_has_come_hold_nothing() -> None:
    bench = Bench()
    bench.send(traces(span(1, 2, parent=1), process="p"))
    bench.send(traces(span(1, 1), process="p"))
    assert numbers(bench.advance(SETTLE)) == [(1, 1, [1, 2])]


def test_a_marker_does_not_complete_a_trace_with_a_span_that_has_not_ended() -> None:
    bench = Bench()
    assert bench.send(traces(span(1, 1, ended=False), marked(span(1, 2), 2), process="p")) == []
    assert numbers(bench.send(traces(span(1, 1), process="p"))) == [(1, 1, [1, 2])]


def test_at_max_age_a_trace_is_scored_as_it_stands_and_counted() -> None:
    bench = Bench(max_age=10)
    bench.send(traces(span(1, 1, ended=False)))
    assert bench.advance(9.9) == []
    assert numbers(bench.advance(0.1)) == [(1, 1, [1])]
    assert bench.telemetry.counts["traces.released_early"] == 1


def test_a_trace_that_was_complete_long_before_anybody_looked_is_not_counted_as_early() -> None:
    bench = Bench(max_age=10)
    bench.send(traces(span(1, 1)))
    assert numbers(bench.advance(60)) == [(1, 1, [1])]
    assert bench.telemetry.counts["traces.released_early"] == 0


def test_max_age_comes_for_a_trace_that_is_never_quiet() -> None:
    bench = Bench(max_age=1.25)
    completed = []
    for number in range(1, 12):
        completed += bench.send(traces(span(1, number)))
        completed += bench.advance(0.125)
    assert numbers(completed) == [(1, 1, list(range(1, 11)))]
    assert bench.telemetry.counts["traces.released_early"] == 1


def test_repetitions_make_no_revision_before_during_and_after_scoring() -> None:
    bench = Bench()
    request = traces(marked(span(1, 1), 1), process="p")
    bench.send(traces(span(2, 1)), traces(span(2, 1)))
    assert numbers(bench.advance(SETTLE)) == [(2, 1, [1])]
    assert len(bench.send(request)) == 1
    assert bench.send(request) == []
    bench.score()
    assert bench.send(request) == []
    assert bench.advance(700) == []
    assert {trace.revision for trace in bench.store.values()} == {1}


def test_a_repetition_while_scoring_does_not_let_the_checkpoint_pass() -> None:
    bench = Bench()
    request = traces(marked(span(1, 1), 1), process="p")
    bench.send(request)
    bench.send(request)
    assert bench.advance(SETTLE) == []
    assert bench.assembler.checkpoints() == {0: 1}
    bench.score()
    assert bench.assembler.checkpoints() == {0: 3}


def test_a_late_span_while_scoring_makes_the_next_revision() -> None:
    bench = Bench()
    bench.send(traces(marked(span(1, 1), 1), process="p"))
    assert bench.send(traces(marked(span(1, 2), 2), process="p")) == []
    assert numbers(bench.advance(SETTLE)) == [(1, 2, [1, 2])]
    assert bench.telemetry.counts["spans.late"] == 1
    bench.score(1)
    assert bench.assembler.checkpoints() == {0: 2}
    bench.score()
    assert bench.assembler.checkpoints() == {0: 3}


def test_a_late_span_after_scoring_brings_the_trace_back_from_the_log() -> None:
    bench = Bench()
    bench.send(traces(span(1, 1), span(7, 1)))
    bench.advance(SETTLE)
    bench.score()
    bench.send(traces(span(1, 2)))
    assert bench.assembler.checkpoints() == {0: 2}
    assert numbers(bench.advance(SETTLE)) == [(1, 2, [1, 2])]
    bench.score()
    assert bench.store[trace_id(1).hex()].offsets == [1, 2]
    assert bench.assembler.checkpoints() == {0: 3}


def test_a_late_span_after_the_log_was_trimmed_leaves_the_whole_revision_in_place() -> None:
    bench = Bench()
    bench.send(traces(span(1, 1)))
    bench.advance(SETTLE)
    bench.score()
    del bench.log[1]
    bench.send(traces(span(1, 2), span(1, 3)))
    assert bench.advance(700) == []
    assert spans_of(bench.store[trace_id(1).hex()]) == [1]
    assert bench.telemetry.counts["spans.late"] == 2
    assert bench.assembler.checkpoints() == {0: 3}


def test_the_oldest_traces_are_released_early_when_memory_is_short() -> None:
    size = TRACE_BYTES + OFFSET_BYTES + SPAN_BYTES + span(1, 1, text="x" * 100).ByteSize()
    bench = Bench(max_open_bytes=2 * size)
    assert bench.send(traces(span(1, 1, text="x" * 100)), traces(span(2, 1, text="x" * 100))) == []
    assert numbers(bench.send(traces(span(3, 1, text="x" * 100)))) == [(1, 1, [1])]
    assert bench.telemetry.counts["traces.released_early"] == 1
    bench.score()
    assert bench.assembler.held == 2 * size


def test_memory_that_is_counted_is_memory_that_is_held() -> None:
    bench = Bench()
    bench.send(traces(span(1, 1, ended=False), span(2, 1)), logs(log(1, 1, gen_ai__x="y")))
    bench.send(traces(span(1, 1), span(2, 1)))
    held = sum(_peeked(bench, trace).size for trace in (1, 2))
    assert bench.assembler.held == held
    bench.advance(SETTLE)
    assert bench.assembler.open_traces == 0
    assert bench.assembler.held == held
    bench.score()
    assert bench.assembler.held == 0


def _peeked(bench: Bench, trace: int) -> AssembledTrace:
    peeked = bench.assembler.peek(trace_id(trace).hex())
    assert peeked is not None
    return peeked


def test_log_records_join_their_trace_whichever_comes_first() -> None:
    bench = Bench()
    bench.send(logs(log(1, 1, gen_ai__prompt="hi")), traces(span(1, 1)), logs(log(1, 1, gen_ai__choice="ho")))
    [completed] = bench.advance(SETTLE)
    assert (len(completed.spans), len(completed.logs), completed.offsets) == (1, 2, [1, 2, 3])


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(log(1, 1, body="user logged in"), id="an application's own record"),
        pytest.param(log(0, 0, gen_ai__prompt="hi"), id="a record of no trace"),
    ],
)
def test_log_records_without_genai_content_or_trace_are_passed_over(record: Any) -> None:
    bench = Bench()
    bench.send(logs(record))
    assert bench.assembler.open_traces == 0
    assert bench.assembler.checkpoints() == {0: 2}


def test_log_records_alone_wait_for_their_spans() -> None:
    bench = Bench(max_age=60)
    bench.send(logs(log(1, 1, gen_ai__prompt="hi")))
    assert bench.advance(59) == []
    [completed] = bench.advance(1)
    assert (len(completed.spans), len(completed.logs)) == (0, 1)


def test_the_checkpoint_never_passes_what_is_not_scored() -> None:
    bench = Bench()
    assert bench.assembler.checkpoints() == {}
    bench.send(traces(span(1, 1)))
    bench.send(traces(marked(span(2, 1), 1), process="p"))
    bench.score()
    assert bench.assembler.checkpoints() == {0: 1}
    bench.advance(SETTLE)
    assert bench.assembler.checkpoints() == {0: 1}
    bench.score()
    assert bench.assembler.checkpoints() == {0: 3}


def test_the_age_of_what_is_not_scored_is_counted_from_its_receipt_also_after_a_crash() -> None:
    bench = Bench()
    assert bench.assembler.lag() == LogLag(requests=0, oldest_age=0.0)
    bench.send(traces(marked(span(1, 1), 1), process="p"))
    bench.clock.advance(30)
    bench.send(traces(marked(span(2, 1), 1), process="p"))
    assert bench.assembler.lag() == LogLag(requests=2, oldest_age=30.0)
    bench.clock.advance(60)
    bench.crash()
    assert bench.assembler.lag() == LogLag(requests=2, oldest_age=90.0)
    bench.score(1)
    assert bench.assembler.lag() == LogLag(requests=1, oldest_age=60.0)
    bench.score()
    assert bench.assembler.lag() == LogLag(requests=0, oldest_age=0.0)


def test_a_replay_knows_from_the_times_of_receipt_what_was_quiet() -> None:
    bench = Bench()
    bench.send(traces(span(1, 1, parent=2)), traces(span(2, 1, ended=False)))
    bench.clock.advance(1)
    bench.send(traces(span(1, 2)), traces(span(3, 1)))
    bench.clock.advance(2)
    bench.send(traces(span(4, 1)))
    assert bench.crash() == []
    quiet = bench.assembler.quiet()
    assert numbers(quiet) == [(1, 1, [1, 2]), (3, 1, [1])]
    assert {trace.received_at - START for trace in quiet} == {10**9}
    assert bench.assembler.quiet() == []


def test_a_replay_skips_what_a_scored_revision_has() -> None:
    bench = Bench()
    bench.send(traces(span(1, 1)))
    bench.send(traces(marked(span(2, 1), 1), process="p"))
    bench.score()
    bench.save_checkpoint()
    assert bench.crash() == []
    assert bench.assembler.open_traces == 1
    assert numbers(bench.advance(SETTLE)) == [(1, 1, [1])]


def test_a_look_at_a_trace_says_what_is_there_and_of_which_revision() -> None:
    bench = Bench()
    assert bench.assembler.peek(trace_id(1).hex()) is None
    request = traces(marked(span(1, 1), 1), process="p")
    bench.send(request)
    assert (_peeked(bench, 1).revision, _peeked(bench, 1).complete) == (1, False)
    bench.send(request)
    assert _peeked(bench, 1).revision == 1, "a repetition is nothing new"
    bench.send(traces(span(1, 2)))
    assert (_peeked(bench, 1).revision, spans_of(_peeked(bench, 1))) == (2, [1, 2])


def test_a_look_up_that_fails_can_be_tried_again_without_loss() -> None:
    bench = Bench()
    bench.send(traces(marked(span(1, 1), 1), process="p"))
    bench.score()
    kept, bench.log = bench.log, _Broken()
    batch = [traces(marked(span(2, 1), 1), process="p"), traces(marked(span(1, 2), 2), process="p")]
    requests = [kept[1], *(_logged(kept, request) for request in batch)]
    with pytest.raises(ConnectionError):
        bench.assembler.take_requests(requests[1:])
    bench.log = kept
    assert sorted(numbers(bench.assembler.take_requests(requests[1:]))) == [(1, 2, [1, 2]), (2, 1, [1])]


class _Broken(dict[int, Any]):
    def __contains__(self, offset: object) -> bool:
        raise ConnectionError


def _logged(kept: dict[int, Any], request: Any) -> Any:
    kept[len(kept) + 1] = logged(len(kept) + 1, request)
    return kept[len(kept)]


# What happens to a collector in its life: the numbers say how much of it.
HAPPENINGS = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 4)),
    st.tuples(st.just("send again"), st.integers(0, 30)),
    st.tuples(st.just("advance"), st.sampled_from([0.1, 1.0, 2.0, 5.0, 60.0])),
    st.tuples(st.just("score"), st.integers(1, 3)),
    st.tuples(st.just("commit, and crash before it is known"), st.just(0)),
    st.tuples(st.just("save the checkpoint"), st.just(0)),
    st.tuples(st.just("crash"), st.just(0)),
)


@st.composite
def lives(draw: st.DrawFn) -> Any:
    """Spans of several traces over several processes, in any order, and what happens between."""
    spans: list[tuple[str | None, Span]] = []
    for trace in range(1, draw(st.integers(1, 3)) + 1):
        for process in draw(st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=3, unique=True)):
            count = draw(st.integers(1, 4))
            marks = process is not None and draw(st.booleans())
            for index in range(count):
                number = 1 + len(spans)
                item = span(trace, number)
                spans.append((process, marked(item, count) if marks and index == count - 1 else item))
    return draw(st.permutations(spans)), draw(st.lists(HAPPENINGS, max_size=40))


@settings(max_examples=inputs(2))
@given(life=lives(), memory=st.sampled_from([1 << 30, 3000]))
def test_every_span_is_in_exactly_one_latest_revision_whatever_happens(life: Any, memory: int) -> None:
    spans, happenings = life
    bench = Bench(max_open_bytes=memory)
    waiting, sent = list(spans), []
    expected: dict[str, set[int]] = defaultdict(set)

    def send(some: Any) -> None:
        sent.extend(some)
        for _, each in some:
            expected[each.trace_id.hex()].add(int.from_bytes(each.span_id, "big"))
        bench.send(*(traces(each, process=process) for process, each in some))

    for what, much in [*happenings, ("send", len(waiting))]:
        if what == "send":
            some, waiting[:much] = waiting[:much], []
            send(some)
        elif what == "send again" and sent:
            send([sent[much % len(sent)]])
        elif what == "advance":
            bench.advance(much)
        elif what == "score":
            bench.score(much)
        elif what.startswith("commit"):
            if bench.handed:
                bench.commit(bench.handed.popleft())
            bench.crash()
        elif what == "save the checkpoint":
            bench.save_checkpoint()
        elif what == "crash":
            bench.crash()
    while bench.assembler.open_traces or bench.handed:
        bench.advance(600)
        bench.score()
    bench.save_checkpoint()

    assert {key: spans_of(trace) for key, trace in bench.store.items()} == {
        key: sorted(numbers) for key, numbers in expected.items()
    }
    assert bench.checkpoint == max(bench.log, default=-1) + 1 or not bench.log
    assert bench.crash() == []
    assert bench.assembler.open_traces == 0
