"""The gate that reports and changes pass: what each set of scopes may do, and whose it is."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, combinations
from typing import Final

import pytest
from agenteval_collector.config.settings import QuotaConfig, QuotasConfig
from agenteval_collector.ingest.ingest import Ingest
from agenteval_collector.ingest.quotas import BURST, Quotas
from agenteval_collector.ingest.rejections import RejectionLog
from agenteval_collector.ingest.validity import Limits
from agenteval_collector.model.callers import Caller, Scope, participant_of, process_of, sender_of
from agenteval_collector.model.deletions import DeletionFilter
from agenteval_collector.model.labels import Label, LabelSource
from agenteval_collector.model.logged_requests import Signal
from agenteval_collector.model.running_traces import SpanStart, StartsReport
from agenteval_collector.model.runs import RunReport
from agenteval_collector.runtime.errors import NotAllowed, NotFound, QuotaExceeded
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.serve.api.gate import Gate
from hypothesis import given
from hypothesis import strategies as st

from tests.support.assembling import Counting
from tests.support.clock import ManualClock
from tests.support.memory_queries import MemoryReports
from tests.support.otlp import span, traces
from tests.unit.test_receiver_rejections import Taking

SETS: Final = [frozenset(some) for some in chain.from_iterable(combinations(Scope, size) for size in range(5))]
LABEL: Final = Label(trace_id="0" * 32, name="coherence", value=1.0)
STARTS: Final = StartsReport(process_id="p", service=None, starts=(), findings=())
CALLS: Final[dict[str, tuple[Scope, Callable[[Gate], object]]]] = {
    "report_run": (Scope.WRITE, lambda gate: gate.report_run(RunReport(task_id="t", run_id="1"))),
    "starts": (Scope.WRITE, lambda gate: gate.starts(STARTS)),
    "end_session": (Scope.WRITE, lambda gate: gate.end_session("s")),
    "feedback": (Scope.WRITE, lambda gate: gate.feedback(LABEL)),
    "label": (Scope.LABEL, lambda gate: gate.label(LABEL)),
    "resolve_problem": (Scope.LABEL, lambda gate: gate.resolve_problem("0" * 16, None)),
    "mute_problem": (Scope.LABEL, lambda gate: gate.mute_problem("0" * 16, None, None)),
    "merge_problem": (Scope.LABEL, lambda gate: gate.merge_problem("0" * 16, "1" * 16, None)),
    "split_problem": (Scope.LABEL, lambda gate: gate.split_problem("0" * 16, None, by_text=False)),
    "judge_again": (Scope.LABEL, lambda gate: gate.judge_again(["0" * 32], [], 0)),
    "check_judge": (Scope.LABEL, lambda gate: gate.check_judge()),
    "delete": (Scope.ADMIN, lambda gate: gate.delete(DeletionFilter(session_id="s"), None)),
    "receipt": (Scope.ADMIN, lambda gate: gate.receipt("0" * 32)),
}


def may(scopes: frozenset[Scope], call: Callable[[], object]) -> bool:
    try:
        call()
    except NotAllowed:
        return False
    except NotFound:
        pass
    return True


def test_every_call_of_the_gate_is_listed_here() -> None:
    assert {name for name in vars(Gate) if not name.startswith("_")} - {"reports", "caller"} == CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_a_call_takes_its_scope_and_leaves_nothing_without_it(name: str) -> None:
    needed, call = CALLS[name]
    for scopes in SETS:
        reports = MemoryReports()
        before = repr(vars(reports))
        allowed = may(scopes, lambda: call(Gate(reports, Caller("k", scopes=scopes))))  # noqa: B023
        assert allowed == (needed in scopes or Scope.ADMIN in scopes), scopes
        assert allowed or repr(vars(reports)) == before


def test_telemetry_takes_the_scope_write() -> None:
    clock, taking = ManualClock(), Taking()
    memory, rejections = MemoryGuard(1 << 40, clock), RejectionLog(clock.monotonic)
    limits, quotas = Limits(1 << 20, 1 << 20), Quotas(QuotasConfig(), clock)
    ingest = Ingest(taking, taking, taking, limits, Counting(), memory, rejections, quotas)
    body = traces(span(1, 1)).SerializeToString()
    for scopes in SETS:
        caller = Caller("k", scopes=scopes)
        allowed = Scope.WRITE in scopes or Scope.ADMIN in scopes
        assert may(scopes, lambda: ingest.take_request(Signal.TRACES, body, caller)) == allowed  # noqa: B023
        assert may(scopes, lambda: ingest.take_json(Signal.TRACES, b"{}", caller)) == allowed  # noqa: B023


@pytest.mark.parametrize(
    "scopes",
    [some for some in SETS if Scope.WRITE in some or Scope.ADMIN in some],
    ids=lambda some: "+".join(sorted(some)),
)
def test_who_may_only_write_speaks_of_its_own(scopes: frozenset[Scope]) -> None:
    reports = MemoryReports()
    gate = Gate(reports, Caller("k", scopes=scopes))
    gate.report_run(RunReport(task_id="t", run_id="1", sender="another"))
    gate.feedback(Label(trace_id="0" * 32, name="coherence", value=1.0, sender="another", source=LabelSource.PERSON))
    gate.starts(STARTS)
    is_wide = bool(scopes & {Scope.LABEL, Scope.ADMIN})
    assert {reports.runs[0].sender, reports.labels[0].sender} == {"" if is_wide else "k"}
    assert reports.labels[0].source is LabelSource.USER
    # A process is the key's own, whatever else the key may do.
    assert reports.started[0].process_id == "k/p"


def test_an_end_is_that_of_a_session_that_has_spans_of_the_key() -> None:
    reports = MemoryReports()
    reports.processes["s-42"] = frozenset(["k/p", "other/"])
    for name, known in (("k", True), ("other", True), ("k2", False), ("p", False)):
        gate = Gate(reports, Caller(name, scopes=frozenset([Scope.WRITE])))
        assert gate.end_session("s-42") is known
    assert reports.ended == ["s-42", "s-42"]
    assert reports.awaited == [("s-42", "k2"), ("s-42", "p")]
    assert Gate(reports, Caller("person", scopes=frozenset([Scope.WRITE, Scope.LABEL]))).end_session("s-42")


@pytest.mark.parametrize("name", ["report_run", "end_session", "feedback", "label"])
def test_reports_count_for_the_quotas_with_spans_and_are_refused_beyond_them(name: str) -> None:
    reports, (_, call) = MemoryReports(), CALLS[name]
    quotas = Quotas(QuotasConfig(key=QuotaConfig(spans=1)), ManualClock())
    vars(reports)["quotas"] = quotas
    caller = Caller("k")
    for _ in range(int(BURST) + 1):
        call(Gate(reports, caller))
    kept = repr(vars(reports))
    with pytest.raises(QuotaExceeded, match="quotas"):
        call(Gate(reports, caller))
    assert repr(vars(reports)) == kept
    with pytest.raises(QuotaExceeded):
        quotas.admit(caller)
    call(Gate(reports, Caller("another")))


def test_a_process_that_reports_too_much_is_still_heard_to_live() -> None:
    reports = MemoryReports()
    vars(reports)["quotas"] = Quotas(QuotasConfig(key=QuotaConfig(spans=1)), ManualClock())
    gate = Gate(reports, Caller("k"))
    start = SpanStart(trace_id="0" * 32, span_id="1" * 16, name="call", session_id=None, agent=None, started_at=1)
    many = replace(STARTS, starts=[start] * 100, all_open=True)
    gate.starts(many)
    gate.starts(many)
    first, second = reports.started
    assert (len(first.starts), first.all_open) == (100, True)
    # No span of it is taken for ended because it was left out.
    assert (len(second.starts), second.all_open, second.process_id) == (0, False, "k/p")


NAMES = st.from_regex(r"\A[\w.@-]{1,64}\Z")


@given(one=NAMES, other=NAMES, process=st.text(), same=st.text())
def test_two_keys_have_no_process_in_common_whatever_they_send(one: str, other: str, process: str, same: str) -> None:
    known = participant_of(one, process)
    assert known is not None
    assert (sender_of(known), process_of(known)) == (one, process)
    if one != other:
        assert known != participant_of(other, same)
