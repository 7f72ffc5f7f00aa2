"""Write a commit of the evaluation: first the rows of its traces and sessions alone, then the sums that all commits add
to.

It also decides which outcomes the instruments count: each once, whatever its revisions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter

from sqlalchemy import ColumnElement, bindparam, delete, literal_column, select, update

from agenteval_collector.model.commit import Commit, ScoredTrace
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
from agenteval_collector.stores.unasked import column_of, parted, read_unasked
from otel_agenteval.outcome import Evaluation, Method, Status, SubjectKind


def written_by(commit: Commit) -> set[str]:
    """Return the traces and sessions that a commit writes, except the sessions that its traces leave or join."""
    findings = [*commit.findings, *(finding for trace in commit.traces for finding in trace.findings)]
    traces = [(trace.trace_id, trace.session_id) for trace in commit.traces]
    traces += [(turn.trace_id, turn.session_id) for turn in commit.revised_turns]
    traces += [(trace.trace_id, trace.session_id) for trace in findings]
    traces += [(judgement.job.trace_id, judgement.job.session_id) for judgement in commit.judgements]
    traces += [(evaluation.subject_id, evaluation.session_id) for evaluation in _evaluations(commit)]
    others = {*commit.sessions, *commit.links, *(trace.trace_id for trace in commit.same)}
    return others.union(*traces)


def is_independent(commit: Commit) -> bool:
    """Return whether a commit may write beside others. It touches only the sessions that its traces are in, as far as
    is known now. It joins no traces to conversations that other processes may join traces to."""
    return not (commit.unsettled or commit.emptied or commit.joins)


def write_commit(connection: TenantConnection, commit: Commit, outbox: OutboxStore, now: int) -> News:
    """Keep all of `commit`, and its events. `now` is in nanoseconds since the Unix epoch."""
    evaluations = _evaluations(commit)
    # These two look at the rows as they are before the commit changes them.
    counted_keys = counted_before(connection, evaluations)
    sums = AgentSums(connection, changed_by(commit))
    with_rows, unasked = parted(evaluations, commit.traces)
    _write_traces(connection, commit, with_rows, unasked, counted_keys)
    finding_news = write_findings(
        connection, commit.traces, compared=commit.findings, revised_turns=commit.revised_turns
    )
    _write_sessions(connection, commit, finding_news)
    write_links(connection, commit.links.values(), now)
    write_moves(connection, commit.moves.values())
    write_sums(connection, commit)
    for judgement in commit.judgements:
        write_exchanges(connection, judgement)
    waited = {*commit.sessions, *(judgement.job.session_id for judgement in commit.judgements)}
    final = count_sessions(connection, list(waited)) if commit.judgements else []
    news = News(
        evaluations=[*with_counts(evaluations, counted_keys), *final],
        to_tell=finding_news.to_tell,
        counted=finding_news.counted,
        traces=finding_news.traces,
        work=[trace.work for trace in commit.traces if trace.work is not None],
    )
    outbox.write(connection, news)
    sums.update_hours()
    # Last, because other transactions wait from here on.
    refresh_problems(connection, finding_news.changed | _judged_otherwise(commit))
    sums.update_times()
    return news


def _evaluations(commit: Commit) -> list[Evaluation]:
    return [*commit.evaluations, *(evaluation for of in commit.sessions.values() for evaluation in of.evaluations)]


def _write_traces(
    connection: TenantConnection,
    commit: Commit,
    evaluations: Iterable[Evaluation],
    unasked: Mapping[tuple[str, int], Sequence[Evaluation]],
    counted_keys: Collection[tuple[str, ...]],
) -> None:
    # First: the same commit may have a later revision of one of these, which has to win.
    for same in commit.same:
        _write_same(connection, same)
    connection.upsert(traces, map(trace_row, commit.traces))
    views = ((trace, unasked.get((trace.trace_id, trace.revision), ())) for trace in commit.traces)
    connection.upsert(trace_views, (view_row(trace, column_of(evaluations)) for trace, evaluations in views))
    write_run_traces(connection, commit.traces)
    rows = (outcome_row(row, was_counted=_identity(row) in counted_keys) for row in evaluations)
    connection.upsert(outcomes, rows)
    for trace in commit.traces:
        _forget_older_outcomes(connection, trace)


def _write_sessions(connection: TenantConnection, commit: Commit, finding_news: FindingNews) -> None:
    states = [session.state for session in commit.sessions.values()]
    columns = count_findings(connection, commit.sessions.keys())
    connection.upsert(sessions, (session_row(state, columns[state.session_id]) for state in states))
    judged = {evaluation.session_id for evaluation in commit.evaluations if evaluation.method is Method.LLM}
    refresh_sessions(connection, (finding_news.sessions | judged) - commit.sessions.keys())
    for session_id in commit.emptied:
        _forget_session(connection, session_id)


def _judged_otherwise(commit: Commit) -> set[str]:
    """Return the traces and sessions whose judged failures may have changed with the commit, or may be in another
    session now."""
    judged = {evaluation.subject_id for evaluation in commit.evaluations if evaluation.method is Method.LLM}
    return judged | commit.emptied | {*commit.moves} | {trace.trace_id for trace in commit.traces if trace.revision > 1}


def _write_same(connection: TenantConnection, trace: ScoredTrace) -> None:
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
    subjects = ids({evaluation.subject_id for evaluation in evaluations})
    unasked = read_unasked(connection, [among(traces.c.trace_id, "ids")], (), subjects)
    return {tuple(row) for row in connection.execute(_COUNTED, subjects)} | {*map(_identity, unasked)}


def with_counts(evaluations: Sequence[Evaluation], counted_keys: set[tuple[str, ...]]) -> list[CommittedEvaluation]:
    """Return the evaluations, each with whether instruments count it now. Those in `counted_keys` were counted before;
    those that count now are added to it."""
    committed = []
    for stored in evaluations:
        identity = _identity(stored)
        counts = counts_at_once(stored) and identity not in counted_keys
        committed.append(CommittedEvaluation(evaluation=stored, first=counts))
        if counts:
            counted_keys.add(identity)
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
    scores = [
        evaluation
        for evaluation in uncounted
        if evaluation.outcome.status is not Status.PENDING or evaluation.method is not Method.LLM
    ]
    waiting = {score.subject_id for score in scores if waits_for_judge(score.outcome)}
    counted = [score for score in scores if score.subject_id not in waiting or score.method is Method.LLM]
    for counted_evaluation in counted:
        connection.execute(
            _COUNT_SESSION, {"session": counted_evaluation.subject_id, "evaluator": counted_evaluation.name}
        )
    return [
        CommittedEvaluation(evaluation=counted_evaluation, first=False, final=True) for counted_evaluation in counted
    ]
