"""Keep problems: each trace in which one occurs, and the sums over these traces.

The counts of a problem follow from the stored findings and outcomes. After each change of a trace its occurrences are
read again, and the difference to the kept ones goes into the sums. So the counts are exact even if something comes
late, twice or again. A problem costs the same at ten occurrences and at a million.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import bindparam, delete, func, literal, literal_column, select, union_all

from agenteval_collector.model.judge_jobs import FAILED_AGENT, FAILED_SPAN
from agenteval_collector.model.kept_findings import worst
from agenteval_collector.model.problem import (
    LAST_RESORT,
    QUIET_FOR,
    ProblemKey,
    problem_of_failure,
    problem_of_finding,
)
from agenteval_collector.model.problem_events import causes_of
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.rows import effort_from, to_json, whose
from agenteval_collector.stores.schema import (
    data_columns,
    findings,
    outcomes,
    own,
    problem_counts,
    problem_moves,
    problem_traces,
    problems,
    sessions,
    traces,
)
from otel_agenteval.finding import Severity
from otel_agenteval.outcome import Method, SubjectKind

MOST_SHAPES: Final = 100
"""The most problems of one agent, kind and tool. All further errors there are one problem."""
MOST_PROBLEMS: Final = 10_000
"""The most problems altogether, apart from those that hold further errors. Everything beyond is one problem."""
HOUR: Final = 3600 * 1_000_000_000
"""Nanoseconds of an hour."""
KEPT_HOURS: Final = 48
"""Hours of a trend that are kept. They are more than are shown, as clocks differ."""

Row: TypeAlias = Mapping[Any, Any]
_Place: TypeAlias = tuple[str, str]
"""A problem, and the trace or session in which it occurs."""
_Count: TypeAlias = tuple[str, str, str]
"""A problem, what is counted, and its value."""


def refresh_problems(connection: TenantConnection, subject_ids: Collection[str]) -> None:
    """Bring the problems up to date after findings or outcomes of these traces and sessions may have changed. Lock the
    sums, if there is anything to do."""
    if not subject_ids:
        return
    params = ids(subject_ids)
    events = _by_hand(connection, [*_found(connection, params), *_judged(connection, params)])
    before = {
        (row["problem_id"], row["subject_id"]): dict(row) for row in connection.execute(_STORED, params).mappings()
    }
    if not events and not before:
        return
    efforts = {row.subject_id: effort_from(row.effort) for row in connection.execute(_EFFORTS, params)}
    connection.lock_sums()
    keys = _placed(connection, {key for key, _ in events})
    after: dict[_Place, dict[str, Any]] = {}
    for key, row in events:
        place = keys[key].problem_id, row["subject_id"]
        effort = efforts.get(place[1])
        took = {"usd": (effort and effort.usd) or 0.0, "seconds": (effort and effort.seconds) or 0.0}
        # Several findings of one problem in a trace are one occurrence.
        row_after = after.setdefault(place, {"problem_id": place[0], **row, **took})
        row_after["severity"] = str(worst((row_after["severity"], row["severity"])))
        row_after["followed"] = _joined(row_after["followed"], row["followed"])
        row_after["seen_at"] = min(row_after["seen_at"], row["seen_at"])
    added = {key: row for key, row in after.items() if before.get(key) != row}
    removed = {key: row for key, row in before.items() if after.get(key) != row}
    gone = removed.keys() - added.keys()
    connection.delete(problem_traces, ({"problem_id": problem, "subject_id": subject} for problem, subject in gone))
    connection.upsert(problem_traces, added.values())
    _add_up(connection, {key.problem_id: key for key in keys.values()}, added, removed)


class _ProblemEvent(NamedTuple):
    """An occurrence of a problem: its reason in words, and its row of `problem_traces` without the money and time that
    the trace took."""

    key: ProblemKey
    text: str
    row: Row


def _found(connection: TenantConnection, params: Row) -> Iterator[_ProblemEvent]:
    """Yield the findings that belong to a problem. What followed from another finding belongs to that one's problem."""
    by_trace: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in connection.execute(_FINDINGS, params).mappings():
        metadata = json.loads(row["metadata"])
        key = problem_of_finding(whose(row), row["kind"], row["severity"], row["tool"], metadata)
        if key is not None:
            by_trace[row["subject_id"]].append({**row, "key": key, "shape": key.shape})
    for found in by_trace.values():
        found.sort(key=_order)
        for finding, index in zip(found, causes_of(found), strict=True):
            cause = found[index]
            kept = {**{name: finding[name] for name in _ABOUT}, "cause": _cause_json(cause)}
            followed = to_json([finding["kind"]] if finding is not cause else [])
            yield _ProblemEvent(cause["key"], cause["reason"], {**kept, "followed": followed})


def _order(finding: Row) -> tuple[float, int, str, str]:
    turn = inf if finding["turn"] is None else finding["turn"]
    return turn, finding["nth"], finding["span_id"], finding["kind"]


def _judged(connection: TenantConnection, params: Row) -> Iterator[_ProblemEvent]:
    """Yield the judged failures that belong to a problem."""
    for row in connection.execute(_FAILURES, params).mappings():
        metadata = json.loads(row["metadata"])
        step = {
            **dict.fromkeys(("turn", "tool")),
            "agent": metadata.get(FAILED_AGENT),
            "span_id": metadata.get(FAILED_SPAN),
            "kind": row["name"],
        }
        kept = {**{name: row[name] for name in _ABOUT}, "cause": _cause_json(step), "followed": to_json([])}
        yield _ProblemEvent(problem_of_failure(whose(row), row["name"], metadata), row["reason"] or "", kept)


def _by_hand(connection: TenantConnection, events: Sequence[_ProblemEvent]) -> list[tuple[ProblemKey, Row]]:
    """Return the occurrences with the problems that they belong to after what people merged and split."""
    moves = _moves(connection, (event.key for event in events))
    if not moves:
        return [(event.key, event.row) for event in events]
    keys = [event.key.exact(event.text) if _is_split(moves, event.key) else event.key for event in events]
    moves |= _moves(connection, set(keys) - {event.key for event in events})
    merged = {problem_id: ProblemKey(*json.loads(move.key)) for problem_id, move in moves.items() if move.into_id}
    return [(merged.get(key.problem_id, key), event.row) for key, event in zip(keys, events, strict=True)]


def has_splits(connection: TenantConnection) -> bool:
    """Return whether a problem was split, so that texts of errors are names of problems."""
    return connection.execute(_SPLITS).first() is not None


def _is_split(moves: Mapping[str, Any], key: ProblemKey) -> bool:
    move = moves.get(key.problem_id)
    return move is not None and move.into_id is None


def _moves(connection: TenantConnection, keys: Iterable[ProblemKey]) -> dict[str, Any]:
    problem_ids = {key.problem_id for key in keys}
    if not problem_ids:
        return {}
    return {row.problem_id: row for row in connection.execute(_MOVES, ids(problem_ids))}


def _cause_json(step: Row) -> str:
    # Without words of the conversation: what went wrong is looked up where it is shown.
    return to_json(
        {
            **{name: step[name] for name in ("turn", "agent", "tool")},
            "span_id": step["span_id"] or None,
            "told_by": step["kind"],
        }
    )


def _joined(kinds: str, more: str) -> str:
    return kinds if kinds == more else to_json(sorted({*json.loads(kinds), *json.loads(more)}))


def _placed(connection: TenantConnection, keys: Collection[ProblemKey]) -> dict[ProblemKey, ProblemKey]:
    """Return the problem under which each key is kept: its own, that of further errors, or the last resort if there are
    too many problems."""
    problem_ids = set(connection.execute(_KNOWN, ids(key.problem_id for key in keys)).scalars())
    placed = {key: key for key in keys if key.problem_id in problem_ids}
    unknown = keys - placed.keys()
    if not unknown:
        return placed
    altogether = connection.execute(_ALTOGETHER).scalar_one()
    alike: Counter[ProblemKey] = Counter()
    for key in sorted(unknown, key=str):
        if key.overflow not in alike:
            alike[key.overflow] = connection.execute(_ALIKE, key.overflow._asdict()).scalar_one()
        if altogether >= MOST_PROBLEMS:
            placed[key] = LAST_RESORT
        elif key.shape and alike[key.overflow] >= MOST_SHAPES:
            placed[key] = key.overflow
        else:
            placed[key] = key
            altogether += 1
            alike[key.overflow] += 1
    return placed


def _add_up(
    connection: TenantConnection,
    keys: Mapping[str, ProblemKey],
    added: Mapping[_Place, Row],
    removed: Mapping[_Place, Row],
) -> None:
    """Take what is `removed` from the sums of its problems, and add what is `added`. A place in both has changed.

    `keys` has the keys of problems that may be new. A problem without a trace is deleted.
    """
    sessions = _count(connection, added.values(), removed.values())
    changed = {problem_id for problem_id, _ in (*added, *removed)}
    stored = {row["problem_id"]: dict(row) for row in connection.execute(_SUMS, ids(changed)).mappings()}
    rows = []
    for problem_id in changed:
        came = [row for key, row in added.items() if key[0] == problem_id]
        went = [row for key, row in removed.items() if key[0] == problem_id]
        fresh = [row["seen_at"] for key, row in added.items() if key[0] == problem_id and key not in removed]
        row = stored.get(problem_id) or _empty(keys[problem_id], came)
        row["traces"] += len(came) - len(went)
        row["sessions"] += sessions[problem_id]
        if not row["traces"]:
            connection.delete(problems, [{"problem_id": problem_id}])
            if ProblemKey(*(row[name] for name in ProblemKey._fields)).split_from:
                # The words of a conversation outlive it nowhere.
                connection.execute(_FORGET_TARGET, {"problem": problem_id})
            continue
        for name in ("usd", "seconds"):
            row[name] += sum(change[name] for change in came) - sum(change[name] for change in went)
        # New occurrences can only make it worse. If one of the worst went, the others are read again.
        severities = [row["severity"], *(change["severity"] for change in came)]
        if row["severity"] in {change["severity"] for change in went} - {*severities[1:]}:
            severities = [*connection.execute(_SEVERITIES, {"problem": problem_id}).scalars()]
        row["severity"] = str(worst(severities))
        _come_back(row, sorted(fresh))
        # New occurrences can only widen the bounds. If one went, they are read again.
        if went:
            row["first_seen"], row["last_seen"] = connection.execute(_BOUNDS, {"problem": problem_id}).one()
        else:
            times = [row["first_seen"], row["last_seen"], *(change["seen_at"] for change in came)]
            row["first_seen"], row["last_seen"] = min(times), max(times)
        rows.append(row)
    connection.upsert(problems, rows)


def hour_of(time: int) -> str:
    """Return the hour of a time (ns) as counts name it. Sorted as texts, hours are in the order of time."""
    return f"{time // HOUR:010d}"


def trim_counts(connection: TenantConnection, now: int) -> None:
    """Forget the counts of hours that no trend shows any more."""
    is_old = problem_counts.c.what == "hour", problem_counts.c.value < hour_of(now - KEPT_HOURS * HOUR)
    connection.execute(delete(problem_counts).where(own(problem_counts), *is_old))


def _empty(key: ProblemKey, came: Iterable[Row]) -> dict[str, Any]:
    begun = min(change["seen_at"] for change in came)
    return {
        **dict.fromkeys(column.name for column in data_columns(problems)),
        **key._asdict(),
        "problem_id": key.problem_id,
        "severity": "info",
        **dict.fromkeys(("first_seen", "last_seen"), begun),
        **dict.fromkeys(("traces", "sessions", "usd", "seconds"), 0),
    }


def _come_back(row: dict[str, Any], fresh: Iterable[int]) -> None:
    """Note that a problem came back, if one of its `fresh` occurrences is after it was resolved, or after a silence of
    `QUIET_FOR`. `fresh` is in order of time."""
    last = row["last_seen"]
    for time in fresh:
        is_resolved = row["resolved_at"] is not None
        if (is_resolved and time > row["resolved_at"]) or (not is_resolved and time - last > QUIET_FOR):
            row |= {"regressed_at": time, "resolved_at": None, "resolved_by": None}
        last = max(last, time)


def _count(connection: TenantConnection, added: Iterable[Row], removed: Iterable[Row]) -> Counter[str]:
    """Count traces by session, version and hour. Return by how many sessions the count of each problem rises."""
    changes: Counter[_Count] = Counter(key for row in added for key in _counted(row))
    changes.subtract(key for row in removed for key in _counted(row))
    changes = Counter({key: change for key, change in changes.items() if change})
    more: Counter[str] = Counter()
    if not changes:
        return more
    problem_ids, values = ({key[at] for key in changes} for at in (0, 2))
    parameters = {**ids(problem_ids), "values": json.dumps([*values])}
    stored = {(row.problem_id, row.what, row.value): row.traces for row in connection.execute(_COUNTS, parameters)}
    rows: list[Row] = []
    gone: list[Row] = []
    for key, change in changes.items():
        problem_id, what, value = key
        before = stored.get(key, 0)
        after = max(0, before + change)
        row = {"problem_id": problem_id, "what": what, "value": value, "traces": after}
        (rows if after else gone).append(row)
        if what == "session":
            more[problem_id] += bool(after) - bool(before)
    connection.delete(problem_counts, gone)
    connection.upsert(problem_counts, rows)
    return more


def _counted(row: Row) -> Iterator[_Count]:
    yield row["problem_id"], "session", row["session_id"]
    yield row["problem_id"], "hour", hour_of(row["seen_at"])
    if row["service_version"] is not None:
        yield row["problem_id"], "version", row["service_version"]
    step = json.loads(row["cause"])
    yield row["problem_id"], "cause", actor_of(step)
    for kind in json.loads(row["followed"]):
        yield row["problem_id"], "followed", kind


def actor_of(step: Row) -> str:
    """Return the agent and the tool of a step, as counts name them."""
    return to_json([step["agent"], step["tool"]])


_STORED = select(*data_columns(problem_traces)).where(own(problem_traces), among(problem_traces.c.subject_id, "ids"))
_ABOUT = ("subject_id", "trace_id", "session_id", "severity", "service_version", "seen_at")
_FINDINGS = select(
    *(
        findings.c[name]
        for name in ("agent", "service", "kind", "tool", "metadata", "turn", "span_id", "nth", "reason")
    ),
    findings.c.trace_id.label("subject_id"),
    *(findings.c[name] for name in ("trace_id", "session_id", "severity", "service_version")),
    findings.c.found_at.label("seen_at"),
).where(own(findings), among(findings.c.trace_id, "ids"), findings.c.counted, findings.c.severity != Severity.INFO)
_FAILURES = select(
    *(outcomes.c[name] for name in ("metadata", "reason", "agent", "service", "name", "subject_id")),
    *(outcomes.c[name] for name in ("trace_id", "session_id", "service_version")),
    literal(str(Severity.ERROR)).label("severity"),
    outcomes.c.evaluated_at.label("seen_at"),
).where(
    own(outcomes),
    # Names every subject, because the primary key leads to the ids by way of the subject.
    outcomes.c.subject.in_([literal_column(f"'{subject}'") for subject in SubjectKind]),
    among(outcomes.c.subject_id, "ids"),
    outcomes.c.success.is_(False),
    outcomes.c.method == Method.LLM,
)
# If a trace and a session have the same id, the trace comes last, and its effort is taken.
_EFFORTS = union_all(
    select(sessions.c.session_id.label("subject_id"), sessions.c.effort).where(
        own(sessions), among(sessions.c.session_id, "ids")
    ),
    select(traces.c.trace_id, traces.c.effort).where(own(traces), among(traces.c.trace_id, "ids")),
)
_MOVES = select(problem_moves).where(own(problem_moves), among(problem_moves.c.problem_id, "ids"))
_SPLITS = select(problem_moves.c.problem_id).where(own(problem_moves), problem_moves.c.into_id.is_(None)).limit(1)
_FORGET_TARGET = delete(problem_moves).where(own(problem_moves), problem_moves.c.into_id == bindparam("problem"))
_KNOWN = select(problems.c.problem_id).where(own(problems), among(problems.c.problem_id, "ids"))
_ALTOGETHER = select(func.count()).select_from(problems).where(own(problems))
_ALIKE = (
    select(func.count())
    .select_from(problems)
    .where(
        own(problems),
        problems.c.kind == bindparam("kind"),
        problems.c.agent.is_not_distinct_from(bindparam("agent")),
        problems.c.service.is_not_distinct_from(bindparam("service")),
        problems.c.tool.is_not_distinct_from(bindparam("tool")),
    )
)
_SUMS = select(*data_columns(problems)).where(own(problems), among(problems.c.problem_id, "ids"))
_SEEN = problem_traces.c.seen_at
_PLACES = own(problem_traces), problem_traces.c.problem_id == bindparam("problem")
# Two queries: SQLite finds one end of an index at once, but reads all of it if both ends are asked for in one.
_BOUNDS = select(
    select(func.min(_SEEN)).where(*_PLACES).scalar_subquery(), select(func.max(_SEEN)).where(*_PLACES).scalar_subquery()
)
_SEVERITIES = select(problem_traces.c.severity).where(*_PLACES).distinct()
_COUNTS = select(problem_counts).where(
    own(problem_counts),
    among(problem_counts.c.problem_id, "ids"),
    # Names every sort of count, because the primary key leads to the values by way of the sort.
    problem_counts.c.what.in_(
        [literal_column(f"'{what}'") for what in ("session", "version", "hour", "cause", "followed")]
    ),
    among(problem_counts.c.value, "values"),
)
