"""The sums of a problem: what the traces in which it occurs add up to, kept up to date by what comes and goes."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from sqlalchemy import bindparam, delete, func, literal_column, select

from agenteval_collector.problems import QUIET_FOR, ProblemKey
from agenteval_collector.runtime.json_lists import among
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.finding_rows import worst
from agenteval_collector.stores.schema import facts, own, problem_counts, problem_traces, problems

HOUR: Final = 3600 * 1_000_000_000
"""Nanoseconds."""
KEPT_HOURS: Final = 48
"""Hours of a trend that are kept: more than are shown, as clocks differ."""

Row: TypeAlias = Mapping[Any, Any]
Place: TypeAlias = tuple[str, str]
"""A problem, and the trace (or the session) in which it occurs."""
_Count: TypeAlias = tuple[str, str, str]
"""A problem, what is counted, and its value."""


def add_up(
    connection: TenantConnection,
    keys: Mapping[str, ProblemKey],
    added: Mapping[Place, Row],
    removed: Mapping[Place, Row],
) -> None:
    """Take what is `removed` from the sums of its problems, and add what is `added`; a place in both has changed.

    `keys` has the keys of problems that may be new. A problem without a trace is forgotten.
    """
    sessions = _count(connection, added.values(), removed.values())
    changed = {problem_id for problem_id, _ in (*added, *removed)}
    stored = {row["problem_id"]: dict(row) for row in connection.execute(_STORED, ids(changed)).mappings()}
    rows = []
    for problem_id in changed:
        came = [row for place, row in added.items() if place[0] == problem_id]
        went = [row for place, row in removed.items() if place[0] == problem_id]
        fresh = [row["seen_at"] for place, row in added.items() if place[0] == problem_id and place not in removed]
        row = stored.get(problem_id) or _empty(keys[problem_id], came)
        row["traces"] += len(came) - len(went)
        row["sessions"] += sessions[problem_id]
        if not row["traces"]:
            connection.execute(_FORGET, {"problem": problem_id})
            continue
        for name in ("usd", "seconds"):
            row[name] += sum(each[name] for each in came) - sum(each[name] for each in went)
        row["severity"] = str(worst((row["severity"], *(each["severity"] for each in came))))
        _come_back(row, sorted(fresh))
        if went:
            row["first_seen"], row["last_seen"] = connection.execute(_BOUNDS, {"problem": problem_id}).one()
        else:
            times = [row["first_seen"], row["last_seen"], *(each["seen_at"] for each in came)]
            row["first_seen"], row["last_seen"] = min(times), max(times)
        rows.append(row)
    connection.upsert(problems, rows)


def hour_of(time: int) -> str:
    """Return the hour of a time (ns), as counts name it: in the order of time, and of the text."""
    return f"{time // HOUR:010d}"


def trim_counts(connection: TenantConnection, now: int) -> None:
    """Forget the counts of hours that no trend shows any more."""
    is_old = problem_counts.c.what == "hour", problem_counts.c.value < hour_of(now - KEPT_HOURS * HOUR)
    connection.execute(delete(problem_counts).where(own(problem_counts), *is_old))


def _empty(key: ProblemKey, came: Iterable[Row]) -> dict[str, Any]:
    begun = min(each["seen_at"] for each in came)
    return {
        **dict.fromkeys(column.name for column in facts(problems)),
        **key._asdict(),
        "problem_id": key.problem_id,
        "severity": "info",
        "first_seen": begun,
        "last_seen": begun,
        "traces": 0,
        "sessions": 0,
        "usd": 0.0,
        "seconds": 0.0,
    }


def _come_back(row: dict[str, Any], fresh: Iterable[int]) -> None:
    """Note that a problem came back, if one of its `fresh` occurrences, in order of time, is after it was resolved."""
    last = row["last_seen"]
    for time in fresh:
        is_resolved = row["resolved_at"] is not None
        if (is_resolved and time > row["resolved_at"]) or (not is_resolved and time - last > QUIET_FOR):
            row |= {"regressed_at": time, "resolved_at": None, "resolved_by": None}
        last = max(last, time)


def _count(connection: TenantConnection, added: Iterable[Row], removed: Iterable[Row]) -> Counter[str]:
    """Count traces by session, version and hour. Returns by how many sessions each problem has more."""
    changes: Counter[_Count] = Counter(key for row in added for key in _counted(row))
    changes.subtract(key for row in removed for key in _counted(row))
    changes = Counter({key: change for key, change in changes.items() if change})
    more: Counter[str] = Counter()
    if not changes:
        return more
    problem_ids, values = ({key[at] for key in changes} for at in (0, 2))
    asked = {**ids(problem_ids), "values": json.dumps([*values])}
    stored = {(row.problem_id, row.what, row.value): row.traces for row in connection.execute(_COUNTS, asked)}
    kept = []
    for key, change in changes.items():
        problem_id, what, value = key
        before = stored.get(key, 0)
        after = max(0, before + change)
        if after:
            kept.append({"problem_id": problem_id, "what": what, "value": value, "traces": after})
        else:
            connection.execute(_FORGET_COUNT, {"problem": problem_id, "what": what, "value": value})
        if what == "session":
            more[problem_id] += bool(after) - bool(before)
    connection.upsert(problem_counts, kept)
    return more


def _counted(row: Row) -> Iterator[_Count]:
    yield row["problem_id"], "session", row["session_id"]
    yield row["problem_id"], "hour", hour_of(row["seen_at"])
    if row["service_version"] is not None:
        yield row["problem_id"], "version", row["service_version"]


_STORED = select(*facts(problems)).where(own(problems), among(problems.c.problem_id, "ids"))
_SEEN = problem_traces.c.seen_at
_PLACES = own(problem_traces), problem_traces.c.problem_id == bindparam("problem")
# Each by itself: SQLite finds one end of an index at once, and both in one query by looking at all of it.
_BOUNDS = select(
    select(func.min(_SEEN)).where(*_PLACES).scalar_subquery(), select(func.max(_SEEN)).where(*_PLACES).scalar_subquery()
)
_COUNTS = select(problem_counts).where(
    own(problem_counts),
    among(problem_counts.c.problem_id, "ids"),
    # All there are: the primary key leads from there to the values.
    problem_counts.c.what.in_([literal_column(f"'{what}'") for what in ("session", "version", "hour")]),
    among(problem_counts.c.value, "values"),
)
_FORGET = delete(problems).where(own(problems), problems.c.problem_id == bindparam("problem"))
_FORGET_COUNT = delete(problem_counts).where(
    own(problem_counts),
    problem_counts.c.problem_id == bindparam("problem"),
    problem_counts.c.what == bindparam("what"),
    problem_counts.c.value == bindparam("value"),
)
