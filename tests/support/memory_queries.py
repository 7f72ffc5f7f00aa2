"""`Queries` and `Reports` over dictionaries, and the makers of documents to fill them with."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from agenteval_collector.model.agents import Range
from agenteval_collector.model.alarms import EVERY_ALARM, AlarmFilter
from agenteval_collector.model.assembled_trace import AssembledTrace
from agenteval_collector.model.cursors import Page
from agenteval_collector.model.deletions import DeletionFilter, Receipt
from agenteval_collector.model.judge_jobs import Rejudging
from agenteval_collector.model.labels import Label
from agenteval_collector.model.pass_rates import Rated
from agenteval_collector.model.problem import EVERY_PROBLEM, ProblemFilter
from agenteval_collector.model.running_traces import StartsReport
from agenteval_collector.model.runs import RunReport
from agenteval_collector.model.session_filter import EVERY_SESSION, Order, SessionFilter, TraceFilter
from agenteval_collector.runtime.errors import InvalidRequest, NotFound
from agenteval_collector.runtime.times import in_calendar
from agenteval_collector.serve.api.answers import QuarantineDocument
from agenteval_collector.serve.api.figure_documents import (
    AgreementDocument,
    AlarmDocument,
    CommonDocument,
    ComparisonDocument,
    DrawDocument,
    DriftDocument,
    OverviewDocument,
    ProblemDocument,
    QualityDocument,
    ReliabilityDocument,
    TrafficDocument,
)
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.serve.api.reports import Reports
from agenteval_collector.serve.api.spans import SpanQueries
from agenteval_collector.serve.api.trace_documents import (
    AttentionDocument,
    CallDocument,
    ExchangeDocument,
    FindingDocument,
    FoundDocument,
    HitRateDocument,
    LabelDocument,
    OutcomeDocument,
    SeenDocument,
    SessionDocument,
    SessionItem,
    TraceDocument,
    TurnDocument,
)

from otel_agenteval.finding import Severity
from tests.support.no_spans import unpriced

REVIEWED = "task_completion"
GOOD_TRACE = "5b8efff798038103d269b633813fc60c"
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
NOW = int((START + timedelta(minutes=4)).timestamp()) * 1_000_000_000


class MemoryQueries(Queries):
    """Holds documents as they are; the newest session is the one seen last."""

    def __init__(self) -> None:
        self.all_traces: dict[str, TraceDocument] = {}
        self.all_sessions: dict[str, SessionDocument] = {}
        self.asked: dict[str, list[ExchangeDocument]] = {}
        self.asked_of_sessions: dict[str, list[ExchangeDocument]] = {}
        self.drifted: list[DriftDocument] = []
        self.agreements: list[AgreementDocument] = []
        self.hit_rates: dict[str, HitRateDocument] = {}
        self.wanted: list[SessionFilter] = []
        self.recurring: list[ProblemDocument] = []
        self.told: list[AlarmDocument] = []
        self.assembled: dict[str, AssembledTrace] = {}
        """Traces whose spans are kept."""
        self.spans = SpanQueries(self.assembled.get, unpriced)
        self.judged: list[str] = []
        """Traces whose task_completion was judged; they are drawn in this order."""

    def add(self, session: SessionDocument, *traces: TraceDocument) -> None:
        self.all_sessions[session["session_id"]] = session
        self.all_traces.update((trace["trace_id"], trace) for trace in traces)

    def trace(self, trace_id: str) -> TraceDocument | None:
        return self.all_traces.get(trace_id)

    def traces(self, trace_ids: Sequence[str]) -> dict[str, TraceDocument]:
        return {each: self.all_traces[each] for each in trace_ids if each in self.all_traces}

    def judgements(self, trace_id: str) -> list[ExchangeDocument] | None:
        return self.asked.get(trace_id, []) if trace_id in self.all_traces else None

    def session_judgements(self, session_id: str) -> list[ExchangeDocument] | None:
        return self.asked_of_sessions.get(session_id, []) if session_id in self.all_sessions else None

    def drifts(self) -> list[DriftDocument]:
        return self.drifted

    def agreement(self, *, name: str | None = None) -> list[AgreementDocument]:
        return [item for item in self.agreements if name is None or item["name"] == name]

    def alarms(
        self, wanted: AlarmFilter = EVERY_ALARM, *, limit: int = 50, cursor: str | None = None
    ) -> Page[AlarmDocument]:
        return Page(items=self.told[:limit], next_cursor=None)

    def environments(self) -> list[str]:
        return []

    def overview(self, chosen: Range = Range.DAY, *, environment: str | None = None) -> OverviewDocument:
        traces = len(self.all_traces)
        done: TrafficDocument = {
            "traces": traces,
            "sessions": len(self.all_sessions),
            "errors": {"traces": traces, "count": 0, "rate": 0.0 if traces else None},
            "usd": None,
            "unpriced": traces,
        }
        return {
            **done,
            "range": chosen.value,
            "since": in_calendar(chosen.since(NOW)),
            "step_seconds": chosen.step * 3600,
            "environment": environment,
            "environments": [],
            "seconds": {"p50": None, "p95": None},
            "points": [{**done, "at": in_calendar(NOW)}],
            "deploys": [],
        }

    def quarantine(self) -> list[QuarantineDocument]:
        return []

    def problems(
        self, wanted: ProblemFilter = EVERY_PROBLEM, *, limit: int = 50, cursor: str | None = None
    ) -> Page[ProblemDocument]:
        return Page(items=self.recurring[:limit], next_cursor=None)

    def problem(self, problem_id: str) -> ProblemDocument | None:
        return next((each for each in self.recurring if each["problem_id"] == problem_id), None)

    def common_traits(self, problem: ProblemDocument) -> CommonDocument:
        return {"sessions": 0, "others": 0, "items": []}

    def listed_traces(self, wanted: TraceFilter, *, limit: int = 50, cursor: str | None = None) -> Page[TraceDocument]:
        shown = next((each["examples"] for each in self.recurring if each["problem_id"] == wanted.problem), [])
        return Page(items=list(self.traces(shown).values()), next_cursor=None)

    def rated(self) -> list[Rated]:
        return [Rated(None, None, None, REVIEWED)] if self.judged else []

    def next_to_label(self, name: str, *, skip: Collection[str] = (), **wanted: str | None) -> DrawDocument | None:
        waiting = [each for each in self.judged if each not in skip]
        if name != REVIEWED or not waiting:
            return None
        counts = {"probability": 0.5, "judged": len(self.judged), "labelled": 0}
        whose = {"agent": None, "service": None, "version": None}
        return cast("DrawDocument", {"trace_id": waiting[0], "name": name, **whose, **counts})

    def quality(self, *, limit: int = 50, cursor: str | None = None, **wanted: str | None) -> Page[QualityDocument]:
        return Page(items=[], next_cursor=None)

    def reliability(
        self, *, limit: int = 50, cursor: str | None = None, **wanted: str | None
    ) -> Page[ReliabilityDocument]:
        return Page(items=[], next_cursor=None)

    def reliability_comparison(self, before: str, after: str, **wanted: str | None) -> ComparisonDocument:
        raise NotFound(f"a run of version {before!r} is not known to this collector")

    def session(self, session_id: str) -> SessionDocument | None:
        return self.all_sessions.get(session_id)

    def hit_rate(self, agent: str, service: str | None = None) -> HitRateDocument | None:
        return self.hit_rates.get(agent)

    def attention(self, wanted: SessionFilter) -> AttentionDocument:
        return {"learnt_from": 0, "auroc": None, "precision_at_20": None}

    def sessions(
        self, wanted: SessionFilter = EVERY_SESSION, *, limit: int = 50, cursor: str | None = None
    ) -> Page[SessionItem]:
        self.wanted.append(wanted)
        if cursor is not None and not cursor.removeprefix("after-").isdecimal():
            raise InvalidRequest(f"cursor is {cursor!r}, not one that this API gave")
        start = int(cursor.removeprefix("after-")) if cursor else 0
        found = [each for each in self.all_sessions.values() if _is_wanted(each, wanted)]
        found.sort(key=lambda session: session["last_seen_at"] or "", reverse=True)
        if wanted.order is Order.ATTENTION:
            found.sort(key=lambda session: _WORST.index(session["worst"]))
        items = [_list_item(session) for session in found[start : start + limit]]
        return Page(items=items, next_cursor=f"after-{start + limit}" if start + limit < len(found) else None)


_WORST = ("error", "warning", "info", "none")


def _is_wanted(session: SessionDocument, wanted: SessionFilter) -> bool:
    """As far as the tests ask: by agent, kind and severity."""
    return (
        wanted.agent in (None, session["agent"])
        and (wanted.finding is None or any(each["kind"] == wanted.finding for each in session["findings"]))
        and (wanted.severity is None or any(each["severity"] == wanted.severity for each in session["findings"]))
    )


KNOWN_PROBLEM = "0123456789abcdef"


RECEIPT = Receipt(
    deletion_id="d" * 32,
    asked_by="ann",
    asked_at=1_700_000_000_000_000_000,
    done_at=1_700_000_001_000_000_000,
    removed={"traces": 2, "spans": 12, "bytes": 4096},
)
"""Of every deletion."""


class MemoryReports(Reports):
    """Keeps what was reported."""

    def __init__(self, *, problem_id: str = KNOWN_PROBLEM) -> None:
        self._problem_id = problem_id
        self.runs: list[RunReport] = []
        self.ended: list[str] = []
        self.awaited: list[tuple[str, str]] = []
        self.processes: dict[str, frozenset[str]] = {}
        self.labels: list[Label] = []
        self.marked: list[tuple[str, int | str | None, str | None]] = []
        self.again: list[tuple[tuple[str, ...], tuple[str, ...], int]] = []
        self.started: list[StartsReport] = []
        self.deleted: list[tuple[DeletionFilter, str | None]] = []

    def report_run(self, report: RunReport) -> None:
        self.runs.append(report)

    def starts(self, report: StartsReport) -> None:
        self.started.append(report)

    def end_session(self, session_id: str) -> bool:
        self.ended.append(session_id)
        return session_id == "s-42"

    def await_end(self, session_id: str, sender: str) -> bool:
        self.awaited.append((session_id, sender))
        return False

    def processes_in(self, session_id: str) -> frozenset[str]:
        return self.processes.get(session_id, frozenset())

    def label(self, label: Label) -> None:
        self.labels.append(label)

    def resolve_problem(self, problem_id: str, by: str | None) -> bool:
        self.marked.append((problem_id, "resolved", by))
        return problem_id == self._problem_id

    def mute_problem(self, problem_id: str, until: int | None, by: str | None) -> bool:
        self.marked.append((problem_id, until, by))
        return problem_id == self._problem_id

    def merge_problem(self, problem_id: str, into_id: str, by: str | None) -> None:
        self.marked.append((problem_id, into_id, by))

    def split_problem(self, problem_id: str, by: str | None, *, by_text: bool) -> None:
        self.marked.append((problem_id, "split by text" if by_text else "split", by))

    def check_judge(self) -> str | None:
        return None

    def delete(self, wanted: DeletionFilter, by: str | None) -> Receipt:
        self.deleted.append((wanted, by))
        return RECEIPT

    def receipt(self, deletion_id: str) -> Receipt:
        if deletion_id != RECEIPT.deletion_id:
            raise NotFound(f"deletion {deletion_id} is not known to this collector")
        return RECEIPT

    def judge_again(self, trace_ids: Sequence[str], session_ids: Sequence[str], failed_since: int) -> Rejudging:
        self.again.append((tuple(trace_ids), tuple(session_ids), failed_since))
        return Rejudging(traces=len(trace_ids) + len(session_ids), more=bool(failed_since))


def _list_item(session: SessionDocument) -> SessionItem:
    whole = ("trace_ids", "turn_traces", "cause", "signals", "labels", "trend", "interactions")
    item = {name: value for name, value in session.items() if name not in whole}
    return cast("SessionItem", {**item, "trace_count": len(session["trace_ids"]), "attention": None})


def at(seconds: float) -> str:
    """A time so many seconds after the first session began."""
    return (START + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def problem(title: str, **changes: Any) -> ProblemDocument:
    """A problem of an agent that fails since an hour, but for `changes`."""
    document = {
        "problem_id": KNOWN_PROBLEM,
        "agent": "travel_agent",
        "service": "travel",
        "title": title,
        "kind": "tool_failed",
        "severity": "warning",
        "tool": "search",
        "state": "new",
        "first_seen": at(0),
        "last_seen": at(60),
        "traces": 3,
        "sessions": 2,
        "versions": {"1.2.0": 3},
        "first_version": "1.2.0",
        "cause": None,
        "followed": [],
        "merged": [],
        "split_from": None,
        "usd": 0.25,
        "seconds": 12.0,
        "trend": [0] * 21 + [1, 0, 2],
        "examples": [GOOD_TRACE],
        **dict.fromkeys(("resolved_at", "resolved_by", "muted_until", "muted_by")),
    }
    return cast("ProblemDocument", {**document, **changes})


def call(
    name: str, arguments: Any = None, result: Any = None, error: str | None = None, span_id: str | None = None
) -> CallDocument:
    return {
        "name": name,
        "agent": None,
        "arguments": arguments,
        "result": result,
        "error": error,
        "outcome": "failed" if error is not None else "unknown" if result is None else "worked",
        "told_by": None,
        "span_id": span_id,
    }


def turn(input_: str | None, output: str | None, *calls: CallDocument, error: str | None = None) -> TurnDocument:
    return {"input": input_, "output": output, "tools_called": list(calls), "error": error}


def outcome(name: str, score: float | None, reason: str, **changes: Any) -> OutcomeDocument:
    threshold = changes.pop("threshold", None)
    document = {
        "name": name,
        "status": "not_applicable" if score is None else "scored",
        "score": score,
        "success": None if score is None or threshold is None else score >= threshold,
        "threshold": threshold,
        "reason": reason,
        "method": "embedding",
        "coverage": None,
        "evaluator_version": "1",
        "error_type": None,
        "model": None,
        "part": None,
        "metadata": {},
    }
    return cast("OutcomeDocument", {**document, **changes})


def trace(trace_id: str, session_id: str | None, *turns: TurnDocument, began: float, **changes: Any) -> TraceDocument:
    document: dict[str, Any] = {
        "trace_id": trace_id,
        "session_id": session_id,
        "user_id": "u-7",
        "service": "travel",
        "agent": "travel_agent",
        "agents": ["travel_agent"],
        "input": turns[0]["input"] if turns else None,
        "output": turns[-1]["output"] if turns else None,
        "turns": list(turns),
        "complete": True,
        "partial": False,
        "closing": None,
        "waits_for": [],
        "revision": 1,
        "status": "scored",
        "started_at": at(began),
        "ended_at": at(began + 2.37),
        "span_count": 3 + 2 * sum(len(turn["tools_called"]) for turn in turns),
        "tools_called": [call for turn in turns for call in turn["tools_called"]],
        "available_tools": [{"name": "get_weather"}, {"name": "search_flights"}, {"name": "book_flight"}],
        "model_calls": sum(1 + len(turn["tools_called"]) for turn in turns),
        "effort": {"steps": 3, "tokens": 2140, "seconds": 2.37, "usd": 0.0213},
        "outcomes": [],
        "labels": [],
        "findings": [],
        "seen": seen(),
        "open_spans": [],
        "status_reason": None,
        "cause": None,
        "names_session": True,
        "continues_turn": False,
        "turn_goes_on": False,
        "not_understood": [],
    }
    document |= changes
    return cast("TraceDocument", {**found(*document["findings"]), **document})


def found(*findings: FindingDocument) -> FoundDocument:
    """The fields of a document that say that these were found."""
    counts = {severity.value: sum(each["severity"] == severity for each in findings) for severity in Severity}
    worst = next((severity for severity, count in counts.items() if count), "none")
    return cast("FoundDocument", {"findings": list(findings), "findings_count": counts, "worst": worst})


def seen(**changes: str | None) -> SeenDocument:
    """What could be seen of a trace: all, but for `changes`."""
    facts = dict.fromkeys(("answers", "arguments", "results", "finish_reasons", "history"), "all")
    return cast("SeenDocument", {**facts, **changes})


def finding(kind: str = "identical_call", severity: str = "error", **changes: Any) -> FindingDocument:
    """A finding, a loop where nothing else is said, but for `changes`."""
    document = {
        "kind": kind,
        "severity": severity,
        "turn": 0,
        "span_id": "b7ad6b7169203331",
        "agent": "travel_agent",
        "tool": "get_weather",
        "reason": "get_weather was called at least 3 times in a row with the same arguments and the same result",
        "metadata": {"repetitions": 3},
        "found_at": at(30),
        "mode": "alarm" if kind == "identical_call" else None,
        "trace_id": GOOD_TRACE,
    }
    return cast("FindingDocument", {**document, **changes})


def label(name: str, value: float, author: str | None = None, note: str | None = None) -> LabelDocument:
    return {"name": name, "value": value, "source": "person", "author": author, "note": note, "labelled_at": at(300)}


def exchange(**changes: Any) -> ExchangeDocument:
    """A question about whether a task was completed, but for `changes`."""
    document = {
        "question": "completion",
        "version": "1",
        "model": "gpt-4o-mini",
        "asked_at": at(240),
        "instructions": "Say how far the outcome completes the task.",
        "data": '{"task": "tell the weather", "outcome": "the service could not be reached"}',
        "reply": '{"verdict": 0.25, "reason": "the weather was not told"}',
        "problem": None,
        "input_tokens": 420,
        "output_tokens": 31,
        "usd": 0.00012,
        "seconds": 1.3,
        "cached": False,
    }
    return cast("ExchangeDocument", {**document, **changes})


def agreement(name: str, labels: int, **changes: Any) -> AgreementDocument:
    """Agreement of the judge with `labels` labels, but for `changes`."""
    half = {
        "labels": labels // 2,
        "first": at(0),
        "last": at(60),
        "mean_score": 0.5,
        "mean_label": 0.75,
    }
    document = {
        "name": name,
        "method": "llm",
        "evaluator_version": "1",
        "model": "gpt-4o-mini",
        "source": "person",
        "labels": labels,
        "labelled_by": [{"author": "ann", "labels": labels}],
        "metrics": {
            "kappa": 0.62,
            "sensitivity": 0.9,
            "specificity": 0.8,
            "pearson": 0.7,
            "spearman": 0.68,
            "mean_absolute_difference": 0.12,
        },
        "intervals": {
            "kappa": [0.41, 0.8],
            "pearson": [0.5, 0.82],
            "spearman": [0.47, 0.8],
            "mean_absolute_difference": [0.09, 0.16],
        },
        "reasons": {},
        "older": half,
        "newer": {**half, "mean_score": 0.9},
    }
    return cast("AgreementDocument", {**document, **changes})


def session(
    session_id: str, *traces: TraceDocument, outcomes: list[OutcomeDocument], **changes: Any
) -> SessionDocument:
    document: dict[str, Any] = {
        "session_id": session_id,
        "user_id": "u-7",
        "agent": "travel_agent",
        "service": "travel",
        "services": ["travel"],
        "versions": [],
        "effort": {"steps": 9, "tokens": 6420, "seconds": 7.1, "usd": 0.0639},
        "blind": False,
        "status": "active",
        "started_at": min(trace["started_at"] or "" for trace in traces),
        "last_seen_at": max(trace["ended_at"] or "" for trace in traces),
        "trace_ids": [trace["trace_id"] for trace in traces],
        "turn_traces": [[trace["trace_id"]] for trace in traces],
        "cause": None,
        "outcomes": outcomes,
        "signals": {
            trace["trace_id"]: {o["name"]: o["score"] for o in trace["outcomes"] if o["score"] is not None}
            for trace in traces
        },
        "status_reason": None,
        "running_traces": [],
        "findings": [finding for trace in traces for finding in trace["findings"]],
        "judged_failures": sum(
            outcome["method"] == "llm" and outcome["success"] is False
            for trace in traces
            for outcome in trace["outcomes"]
        ),
        "labels": [],
        "trend": {
            "stalled": None,
            "regressed": None,
            "best": None,
            "last": None,
            "evaluated": 0,
            "skipped": len(traces),
            "reason": "no scored trace",
        },
        "interactions": None,
    }
    document |= changes
    flagged = {each["trace_id"] for each in document["findings"] if each["severity"] == "error"}
    derived = {
        **found(*document["findings"]),
        "flagged_traces": [trace_id for trace_id in document["trace_ids"] if trace_id in flagged],
    }
    return cast("SessionDocument", {**derived, **document})


def session_outcomes(reliability: float | None, coverage: float) -> list[OutcomeDocument]:
    """Scores of a session; without one for want of a judge."""
    exact: dict[str, Any] = {"method": "exact", "threshold": 0.5, "coverage": coverage}
    reason = "confidence and tool_correctness take a judge"
    scored = outcome("agent_reliability", reliability, "mean risk of the worst", **exact)
    return [
        scored if reliability is not None else outcome("agent_reliability", None, reason, status="no_judge", **exact),
        outcome("agent_consistency", None, reason, status="no_judge", **exact),
    ]


JUDGED = ("task_completion", "tool_correctness", "argument_correctness", "step_efficiency", "confidence")


def unjudged(*names: str) -> list[OutcomeDocument]:
    """Outcomes of evaluators that ask a judge, where there is none."""
    return [outcome(each, None, "there is no judge", status="no_judge", method="llm") for each in names or JUDGED]
