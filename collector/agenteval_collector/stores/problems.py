"""Keep problems: each trace in which one occurs, and what these traces add up to.

What a problem counts follows from the findings and outcomes that are stored: after each change of a trace its
occurrences are read again, and the difference to those that are kept goes into the sums. So the counts are exact
whatever comes late, twice or again, and a problem costs the same at ten occurrences and at a million.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import bindparam, delete, func, literal_column, select, union_all

from agenteval_collector.model.effort import Effort
from agenteval_collector.problems import ProblemKey, problem_of_failure, problem_of_finding
from agenteval_collector.problems.grouping import LAST_RESORT
from agenteval_collector.runtime.json_lists import among
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.finding_rows import worst
from agenteval_collector.stores.problem_sums import Place, add_up
from agenteval_collector.stores.rows import effort_from
from agenteval_collector.stores.schema import facts, findings, outcomes, own, problem_traces, problems, sessions, traces
from otel_agenteval.finding import Severity
from otel_agenteval.outcome import Method, Subject

MOST_SHAPES: Final = 100
"""Problems of one agent, kind and tool; all further errors there are one problem."""
MOST_PROBLEMS: Final = 10_000
"""Problems altogether, but for those that hold further errors; everything beyond is one problem."""


class _Seen(NamedTuple):
    """A finding, or a judged failure, that stands for a problem."""

    key: ProblemKey
    subject_id: str
    trace_id: str | None
    session_id: str
    severity: str
    service_version: str | None
    seen_at: int


def refresh_problems(connection: TenantConnection, subject_ids: Collection[str]) -> None:
    """Bring the problems up to date after findings or outcomes of these traces and sessions may have changed. Locks
    the sums, where there is anything to do."""
    if not subject_ids:
        return
    params = ids(subject_ids)
    seen = [*_found(connection, params), *_judged(connection, params)]
    before = {
        (row["problem_id"], row["subject_id"]): dict(row) for row in connection.execute(_STORED, params).mappings()
    }
    if not seen and not before:
        return
    efforts = {row.subject_id: effort_from(row.effort) for row in connection.execute(_EFFORTS, params)}
    connection.lock_sums()
    keys = _placed(connection, {each.key for each in seen})
    after = _occurrences(seen, keys, efforts)
    added = {place: row for place, row in after.items() if before.get(place) != row}
    removed = {place: row for place, row in before.items() if after.get(place) != row}
    for problem_id, subject_id in removed.keys() - added.keys():
        connection.execute(_FORGET, {"problem": problem_id, "subject": subject_id})
    connection.upsert(problem_traces, added.values())
    add_up(connection, {key.problem_id: key for key in keys.values()}, added, removed)


def _found(connection: TenantConnection, params: Mapping[str, str]) -> Iterator[_Seen]:
    for row in connection.execute(_FINDINGS, params):
        key = problem_of_finding(row.agent, row.kind, row.severity, row.tool, json.loads(row.metadata))
        if key is not None:
            about = row.trace_id, row.trace_id, row.session_id, row.severity, row.service_version, row.found_at
            yield _Seen(key, *about)


def _judged(connection: TenantConnection, params: Mapping[str, str]) -> Iterator[_Seen]:
    for row in connection.execute(_FAILURES, params):
        key = problem_of_failure(row.agent, row.name)
        about = row.subject_id, row.trace_id, row.session_id, Severity.ERROR, row.service_version, row.evaluated_at
        yield _Seen(key, *about)


def _placed(connection: TenantConnection, keys: Collection[ProblemKey]) -> dict[ProblemKey, ProblemKey]:
    """Return, for each key, the problem that has room for it: itself, that of further errors, or the last resort."""
    known = set(connection.execute(_KNOWN, ids(key.problem_id for key in keys)).scalars())
    placed = {key: key for key in keys if key.problem_id in known}
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


def _occurrences(
    seen: Iterable[_Seen], keys: Mapping[ProblemKey, ProblemKey], efforts: Mapping[str, Effort]
) -> dict[Place, dict[str, Any]]:
    """Return the rows of `problem_traces`: of several findings in a trace that are one problem, one."""
    found: dict[Place, dict[str, Any]] = {}
    for each in seen:
        place = keys[each.key].problem_id, each.subject_id
        row = found.get(place)
        if row is None:
            effort = efforts.get(each.subject_id)
            found[place] = {
                "problem_id": place[0],
                "subject_id": each.subject_id,
                "trace_id": each.trace_id,
                "session_id": each.session_id,
                "severity": each.severity,
                "service_version": each.service_version,
                "seen_at": each.seen_at,
                "usd": (effort and effort.usd) or 0.0,
                "seconds": (effort and effort.seconds) or 0.0,
            }
        else:
            row["severity"] = str(worst((row["severity"], each.severity)))
            row["seen_at"] = min(row["seen_at"], each.seen_at)
    return found


_SUBJECTS = problem_traces.c.subject_id
_STORED = select(*facts(problem_traces)).where(own(problem_traces), among(_SUBJECTS, "ids"))
_FINDINGS = select(findings).where(
    own(findings), among(findings.c.trace_id, "ids"), findings.c.counted, findings.c.severity != Severity.INFO
)
_FAILURES = select(outcomes).where(
    own(outcomes),
    # All there are: the primary key leads from there to the ids.
    outcomes.c.subject.in_([literal_column(f"'{subject}'") for subject in Subject]),
    among(outcomes.c.subject_id, "ids"),
    outcomes.c.success.is_(False),
    outcomes.c.method == Method.LLM,
)
# Of a trace and of a session with the same id, the trace's comes last.
_EFFORTS = union_all(
    select(sessions.c.session_id.label("subject_id"), sessions.c.effort).where(
        own(sessions), among(sessions.c.session_id, "ids")
    ),
    select(traces.c.trace_id, traces.c.effort).where(own(traces), among(traces.c.trace_id, "ids")),
)
_KNOWN = select(problems.c.problem_id).where(own(problems), among(problems.c.problem_id, "ids"))
_ALTOGETHER = select(func.count()).select_from(problems).where(own(problems))
_ALIKE = (
    select(func.count())
    .select_from(problems)
    .where(
        own(problems),
        problems.c.kind == bindparam("kind"),
        problems.c.agent.is_not_distinct_from(bindparam("agent")),
        problems.c.tool.is_not_distinct_from(bindparam("tool")),
    )
)
_FORGET = delete(problem_traces).where(
    own(problem_traces),
    problem_traces.c.problem_id == bindparam("problem"),
    problem_traces.c.subject_id == bindparam("subject"),
)
