"""What a store's sums have to be, added up slowly from the rows of its traces, outcomes and findings."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any, TypeAlias

from agenteval_collector.model.agents import HOUR, step_of
from agenteval_collector.model.problem import ProblemKey, problem_of_failure, problem_of_finding
from agenteval_collector.model.problem_events import causes_of
from agenteval_collector.stores.problems import hour_of
from agenteval_collector.stores.rows import whose
from agenteval_collector.stores.schema import (
    agent_hours,
    agent_times,
    findings,
    outcomes,
    problem_counts,
    problems,
    sessions,
    traces,
)
from agenteval_collector.stores.store import Store
from sqlalchemy import Table, select

Row: TypeAlias = Mapping[Any, Any]
Sums: TypeAlias = Mapping[str, Mapping[Any, Any]]


def kept_sums(store: Store) -> Sums:
    """The sums that the store keeps, without those of nothing."""
    hours = {
        tuple(row[name] for name in ("agent", "service", "hour", "name", "version", "session_id")): [
            row["traces"],
            row["hits"],
            round(row["usd"], 6),
            row["priced"],
        ]
        for row in _rows(store, agent_hours)
        if row["traces"]
    }
    times = {
        (row["agent"], row["service"], row["version"], row["hour"], row["step"]): row["traces"]
        for row in _rows(store, agent_times)
        if row["traces"]
    }
    return {
        "hours": hours,
        "times": times,
        "problems": {
            row["problem_id"]: [
                row["traces"],
                row["sessions"],
                row["first_seen"],
                row["last_seen"],
                round(row["usd"], 6),
            ]
            for row in _rows(store, problems)
        },
        "counts": {
            (row["problem_id"], row["what"], row["value"]): row["traces"]
            for row in _rows(store, problem_counts)
            if row["what"] not in ("cause", "followed")  # Of one event, which its traces alone do not show here.
        },
        "sessions": {
            row["session_id"]: [row["errors"], row["warnings"], row["infos"]] for row in _rows(store, sessions)
        },
    }


def added_up(store: Store) -> Sums:
    """The same, added up; of problems of which none is turned away for want of room."""
    of_trace = {row["trace_id"]: row for row in _rows(store, traces)}
    found, judged = _rows(store, findings), _rows(store, outcomes)
    return {
        **_agents(of_trace, found, judged),
        **_problems(of_trace, found, judged),
        "sessions": _sessions(store, found),
    }


def _rows(store: Store, table: Table) -> list[Row]:
    with store.outside.engine.connect() as connection:
        return [*connection.execute(select(table)).mappings()]


def _agents(of_trace: Mapping[str, Row], found: Iterable[Row], judged: Iterable[Row]) -> Sums:
    failed = {row["trace_id"] for row in found if row["severity"] == "error"}
    hours: dict[tuple[Any, ...], list[Any]] = defaultdict(lambda: [0, 0, 0.0, 0])
    times: Counter[tuple[Any, ...]] = Counter()

    def count(trace: Row, name: str, hit: bool, usd: float | None) -> None:
        hour, version = trace["started_at"] // HOUR, trace["service_version"] or ""
        key = trace["agent"], trace["service"] or "", hour, name, version, trace["session_id"]
        traces, hits, money, priced = hours[key]
        hours[key] = [traces + 1, hits + hit, round(money + (usd or 0.0), 6), priced + (usd is not None)]

    for trace in of_trace.values():
        effort = json.loads(trace["effort"])
        count(trace, "", trace["trace_id"] in failed, effort["usd"])
        step = step_of(effort["seconds"])
        hour, version = trace["started_at"] // HOUR, trace["service_version"] or ""
        times[trace["agent"], trace["service"] or "", version, hour, step] += 1
    for row in judged:
        if (
            row["subject"] == "trace"
            and row["part"] == "random"
            and row["method"] == "llm"
            and row["success"] is not None
        ):
            count(of_trace[row["subject_id"]], row["name"], bool(row["success"]), None)
    return {"hours": hours, "times": times}


def _problems(of_trace: Mapping[str, Row], found: Iterable[Row], judged: Iterable[Row]) -> Sums:
    seen: dict[tuple[str, str], list[Any]] = {}
    for row, key in _events(found):
        place = key.problem_id, row["trace_id"]
        at = min(row["found_at"], seen[place][1]) if place in seen else row["found_at"]
        seen[place] = [row["session_id"], at, row["service_version"]]
    for row in judged:
        if row["method"] == "llm" and row["success"] is False:
            about = [row["session_id"], row["evaluated_at"], row["service_version"]]
            key = problem_of_failure(whose(row), row["name"], json.loads(row["metadata"]))
            seen[key.problem_id, row["subject_id"]] = about
    sums: dict[str, list[Any]] = {}
    members: defaultdict[str, set[str]] = defaultdict(set)
    counts: Counter[tuple[str, str, str]] = Counter()
    for (problem_id, subject_id), (session_id, at, version) in seen.items():
        usd = json.loads(of_trace[subject_id]["effort"])["usd"] if subject_id in of_trace else None
        number, _, first, last, money = sums.get(problem_id, [0, 0, at, at, 0.0])
        members[problem_id].add(session_id)
        sums[problem_id] = [
            number + 1,
            len(members[problem_id]),
            min(first, at),
            max(last, at),
            round(money + (usd or 0.0), 6),
        ]
        counts.update((problem_id, what, value) for what, value in (("session", session_id), ("hour", hour_of(at))))
        if version is not None:
            counts[problem_id, "version", version] += 1
    return {"problems": sums, "counts": counts}


def _events(found: Iterable[Row]) -> Iterator[tuple[Row, ProblemKey]]:
    """The findings that belong to a problem, each with the problem of what it followed from."""
    by_trace: defaultdict[str, list[Any]] = defaultdict(list)
    for row in found:
        key = problem_of_finding(whose(row), row["kind"], row["severity"], row["tool"], json.loads(row["metadata"]))
        if row["counted"] and key is not None:
            by_trace[row["trace_id"]].append({**row, "key": key, "shape": key.shape})
    for rows in by_trace.values():
        rows.sort(
            key=lambda row: (inf if row["turn"] is None else row["turn"], row["nth"], row["span_id"], row["kind"])
        )
        yield from ((row, rows[index]["key"]) for row, index in zip(rows, causes_of(rows), strict=True))


def _sessions(store: Store, found: Iterable[Row]) -> Mapping[str, list[int]]:
    counts = Counter((row["session_id"], row["severity"]) for row in found)
    ids = [row["session_id"] for row in _rows(store, sessions)]
    return {each: [counts[each, severity] for severity in ("error", "warning", "info")] for each in ids}
