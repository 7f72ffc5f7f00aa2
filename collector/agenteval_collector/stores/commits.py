"""Write a commit of the evaluation: first the rows of its traces and sessions alone, then the sums that all commits add
to.

It also decides which outcomes the instruments count: each once, whatever its revisions.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from sqlalchemy import ColumnElement, bindparam, delete, literal_column, select, update

from agenteval_collector.model.commit import Commit, SameTrace, ScoredTrace
from agenteval_collector.model.judge_jobs import waits_for_judge
from agenteval_collector.model.news import CommittedEvaluation, News
from agenteval_collector.stores.access import TenantConnection, ids
from agenteval_collector.stores.agents import AgentSums, changed_by
from agenteval_collector.stores.conversations import write_links, write_moves
from agenteval_collector.stores.findings import FindingNews, count_findings, refresh_sessions, write_findings
from agenteval_collector.stores.json_lists import among
from agenteval_collector.stores.judge_exchanges import forget_exchanges, write_exchanges
from agenteval_collector.stores.outbox import OutboxStore
from agenteval_collector.stores.pipeline_reads import write_sums
from agenteval_collector.stores.problems import refresh_problems
from agenteval_collector.stores.rows import counts_at_once, evaluation_of, outcome_row, session_row, to_json, trace_row
from agenteval_collector.stores.runs import write_run_traces
from agenteval_collector.stores.schema import matching, outcomes, own, sessions, trace_views, traces
from agenteval_collector.stores.trace_json import revision_json, view_row
from otel_agenteval.outcome import Evaluation, Method, Status, SubjectKind


def written_by(commit: Commit) -> set[str]:
    """Return the traces and sessions that a commit writes, except the sessions that its traces leave or join."""
    found = [*commit.findings, *(each for trace in commit.traces for each in trace.findings)]
    told = [(each.trace_id, each.session_id) for each in commit.traces]
    told += [(each.trace_id, each.session_id) for each in commit.revised_turns]
    told += [(each.trace_id, each.session_id) for each in found]
    told += [(each.job.trace_id, each.job.session_id) for each in commit.judgements]
    told += [(each.subject_id, each.session_id) for each in _evaluations(commit)]
    others = {*commit.sessions, *commit.links, *(each.trace_id for each in commit.same)}
    return others.union(*told)


def is_independent(commit: Commit) -> bool:
    """Return whether a commit may write beside others. It touches only the sessions that its traces are in, as far as
    is known now. It joins no traces to conversations that other processes may join traces to."""
    return not (commit.unsettled or commit.emptied or commit.joins)


def write_commit(connection: TenantConnection, commit: Commit, outbox: OutboxStore, now: int) -> News:
    """Keep all of `commit`, and its events. `now` is in nanoseconds since the Unix epoch."""
    evaluations = _evaluations(commit)
    # These two look at the rows as they are before the commit changes them.
    known = counted_before(connection, evaluations)
    sums = AgentSums(connection, changed_by(commit))
    _write_traces(connection, commit, evaluations)
    found = write_findings(connection, commit.traces, compared=commit.findings, revised_turns=commit.revised_turns)
    _write_sessions(connection, commit, found)
    write_links(connection, commit.links.values(), now)
    write_moves(connection, commit.moves.values())
    write_sums(connection, commit)
    for judgement in commit.judgements:
        write_exchanges(connection, judgement)
    waited = {*commit.sessions, *(judgement.job.session_id for judgement in commit.judgements)}
    final = count_sessions(connection, list(waited)) if commit.judgements else []
    news = News(
        evaluations=[*with_counts(evaluations, known), *final],
        to_tell=found.to_tell,
        counted=found.counted,
        traces=found.traces,
        work=[each.work for each in commit.traces if each.work is not None],
    )
    outbox.write(connection, news)
    sums.update_hours()
    # Last, because other transactions wait from here on.
    refresh_problems(connection, found.changed | _judged_otherwise(commit))
    sums.update_times()
    return news


def _evaluations(commit: Commit) -> list[Evaluation]:
    return [*commit.evaluations, *(each for of in commit.sessions.values() for each in of.evaluations)]


def _write_traces(connection: TenantConnection, commit: Commit, evaluations: Iterable[Evaluation]) -> None:
    # First: the same commit may have a later revision of one of these, which has to win.
    for same in commit.same:
        _write_same(connection, same)
    connection.upsert(traces, map(trace_row, commit.traces))
    connection.upsert(trace_views, map(view_row, commit.traces))
    write_run_traces(connection, commit.traces)
    connection.upsert(outcomes, map(outcome_row, evaluations))
    for trace in commit.traces:
        _forget_older_outcomes(connection, trace)


def _write_sessions(connection: TenantConnection, commit: Commit, found: FindingNews) -> None:
    states = [session.state for session in commit.sessions.values()]
    columns = count_findings(connection, commit.sessions.keys())
    connection.upsert(sessions, (session_row(each, columns[each.session_id]) for each in states))
    judged = {each.session_id for each in commit.evaluations if each.method is Method.LLM}
    refresh_sessions(connection, (found.sessions | judged) - commit.sessions.keys())
    for session_id in commit.emptied:
        _forget_session(connection, session_id)


def _judged_otherwise(commit: Commit) -> set[str]:
    """Return the traces and sessions whose judged failures may have changed with the commit, or may be in another
    session now."""
    judged = {each.subject_id for each in commit.evaluations if each.method is Method.LLM}
    return judged | commit.emptied | {*commit.moves} | {each.trace_id for each in commit.traces if each.revision > 1}


def _write_same(connection: TenantConnection, trace: SameTrace) -> None:
    """Keep a newer revision that says the same. The outcomes stay, and belong to the newer revision from now on."""
    changed = {
        "revision": trace.revision,
        "revised": revision_json(trace.view),
        "offsets": to_json(trace.offsets),
        "processes": to_json(trace.processes),
    }
    connection.execute(update(traces).where(own(traces), traces.c.trace_id == trace.trace_id).values(changed))
    connection.execute(update(outcomes).where(*_of_trace(trace.trace_id)).values(revision=trace.revision))


def _forget_older_outcomes(connection: TenantConnection, trace: ScoredTrace) -> None:
    """Forget the outcomes that only an earlier revision has, because the settings have changed since."""
    if trace.revision > 1:
        older = outcomes.c.revision < trace.revision
        connection.execute(delete(outcomes).where(*_of_trace(trace.trace_id), older))


def _of_trace(trace_id: str) -> tuple[ColumnElement[bool], ...]:
    return own(outcomes), outcomes.c.subject == SubjectKind.TRACE, outcomes.c.subject_id == trace_id


def _forget_session(connection: TenantConnection, session_id: str) -> None:
    connection.execute(delete(sessions).where(own(sessions), sessions.c.session_id == session_id))
    forget_exchanges(connection, SubjectKind.SESSION, session_id)
    connection.execute(
        delete(outcomes).where(
            own(outcomes), outcomes.c.subject == SubjectKind.SESSION, outcomes.c.subject_id == session_id
        )
    )


_COUNTED = select(
    outcomes.c.subject, outcomes.c.subject_id, outcomes.c.name, outcomes.c.method, outcomes.c.version
).where(
    own(outcomes),
    # Names every subject, because the primary key leads to the ids by way of the subject.
    outcomes.c.subject.in_([literal_column(f"'{subject}'") for subject in SubjectKind]),
    among(outcomes.c.subject_id, "ids"),
    outcomes.c.counted,
)


_identity = attrgetter("subject", "subject_id", "name", "method", "version")
"""Return the fields that tell an outcome from others: the key of its row."""


def counted_before(connection: TenantConnection, evaluations: Sequence[Evaluation]) -> set[tuple[str, ...]]:
    """Return the identities of those of `evaluations` that instruments have counted already."""
    if not evaluations:
        return set()
    rows = connection.execute(_COUNTED, ids({each.subject_id for each in evaluations}))
    return {tuple(row) for row in rows}


def with_counts(evaluations: Sequence[Evaluation], known: set[tuple[str, ...]]) -> list[CommittedEvaluation]:
    """Return the evaluations, each with whether instruments count it now. Those in `known` were counted before; those
    that count now are added to it."""
    committed = []
    for each in evaluations:
        identity = _identity(each)
        counts = counts_at_once(each) and identity not in known
        committed.append(CommittedEvaluation(evaluation=each, first=counts))
        if counts:
            known.add(identity)
    return committed


_OF_SESSION = own(outcomes), outcomes.c.subject == literal_column(f"'{SubjectKind.SESSION}'")
_UNCOUNTED_SESSIONS = (
    select(outcomes)
    .join(sessions, matching(sessions, outcomes, "session_id", "subject_id"))
    .where(*_OF_SESSION, among(outcomes.c.subject_id, "ids"), ~outcomes.c.counted, sessions.c.finalized_at.is_not(None))
)
_COUNT_SESSION = (
    update(outcomes)
    .where(*_OF_SESSION, outcomes.c.subject_id == bindparam("session"), outcomes.c.name == bindparam("evaluator"))
    .values(counted=True)
)


def count_sessions(connection: TenantConnection, session_ids: Sequence[str]) -> list[CommittedEvaluation]:
    """Mark as counted the scores of those sessions that are over and wait for no judgement. Return those that were not
    counted before."""
    uncounted = [*map(evaluation_of, connection.execute(_UNCOUNTED_SESSIONS, ids(session_ids)).mappings())]
    # An outcome that the judge itself has still to make holds up no other outcome of its session.
    scores = [each for each in uncounted if each.outcome.status is not Status.PENDING or each.method is not Method.LLM]
    waiting = {each.subject_id for each in scores if waits_for_judge(each.outcome)}
    counted = [each for each in scores if each.subject_id not in waiting or each.method is Method.LLM]
    for each in counted:
        connection.execute(_COUNT_SESSION, {"session": each.subject_id, "evaluator": each.name})
    return [CommittedEvaluation(evaluation=each, first=False, final=True) for each in counted]
