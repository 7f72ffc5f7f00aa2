"""What each column of the store holds. From it follows who takes it away, what is redacted, and who may read it.

A column that is not listed here fails a test, and a table is not erased by what is not named here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Holds(StrEnum):
    """The kind of what a column holds. `RULES` says what follows."""

    WORDS = "words"
    """What was said, asked, called and returned, and sentences about that."""
    NAMES = "names"
    """Names from telemetry and reports: of agents, tools, services, versions, scores; the shape of an error."""
    IDS = "ids"
    """Ids that senders choose or the collector is asked by: of traces, spans, sessions, users, tasks, runs."""
    PERSONS = "persons"
    """Names of people who labelled, resolved, muted or deleted."""
    KEYS = "keys"
    """Names of keys, alone or before the ids of processes."""
    DIGESTS = "digests"
    """Digests of words or names: they tell whether a guess is right, and nothing else."""
    OURS = "ours"
    """The collector's own words and numbers: figures, times, kinds, states, evaluators, models."""


@dataclass(frozen=True, slots=True)
class KindRule:
    """What follows from the kind of a column.

    `is_redacted`: `redaction.store` replaces secrets and personal data in it before it is kept. `is_forgotten`: it is
    emptied `retention.content` after the trace was scored. `is_read`: callers with the scope `read` are shown it;
    nobody is shown any other column. Callers without that scope are shown nothing of the store.
    """

    is_redacted: bool
    is_forgotten: bool
    is_read: bool


RULES: Final[Mapping[Holds, KindRule]] = {
    Holds.WORDS: KindRule(is_redacted=True, is_forgotten=True, is_read=True),
    Holds.NAMES: KindRule(is_redacted=True, is_forgotten=False, is_read=True),
    # In the clear: deletions, reports and verdicts find sessions, users and runs by them.
    Holds.IDS: KindRule(is_redacted=False, is_forgotten=False, is_read=True),
    Holds.PERSONS: KindRule(is_redacted=False, is_forgotten=False, is_read=True),
    Holds.KEYS: KindRule(is_redacted=False, is_forgotten=False, is_read=False),
    Holds.DIGESTS: KindRule(is_redacted=False, is_forgotten=False, is_read=False),
    Holds.OURS: KindRule(is_redacted=False, is_forgotten=False, is_read=True),
}


class Erased(StrEnum):
    """How a deletion takes away the rows of a table."""

    TRACE = "trace_id"
    """Those that name a deleted trace in this column."""
    SESSION = "session_id"
    """Those that name a deleted session in this column."""
    SUBJECT = "subject_id"
    """Those whose subject is a deleted trace or session."""
    RUN = "run"
    """Those of runs of which no trace is left."""
    SUMS = "sums"
    """The shares of deleted traces are taken out of sums; a row without any goes."""
    AGENT = "agent"
    """Those of agents of which no trace is left. An alarm also goes with the last trace that is its example."""
    RECEIPT = "receipt"
    """It is the deletion's own: what was deleted is forgotten once that is done."""
    NOTHING = "nothing"
    """No deletion does: nothing in it is of a trace."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The columns of a table by kind, in words separated by spaces, without `tenant`; and what erases its rows.

    `words_end` says when words end that have an end of their own, instead of `retention.content`.
    """

    erased: Sequence[Erased]
    ours: str = ""
    words: str = ""
    names: str = ""
    ids: str = ""
    persons: str = ""
    keys: str = ""
    digests: str = ""
    words_end: str | None = None

    def columns(self) -> dict[str, Holds]:
        """Return the kinds of all columns, by name. Raises ValueError if a column stands twice."""
        named = [(column, kind) for kind in Holds for column in getattr(self, kind).split()]
        kinds = dict(named)
        if len(kinds) < len(named):
            raise ValueError(f"a column has two kinds: {sorted(column for column, _ in named)}")
        return kinds


_BY_BOTH: Final = (Erased.TRACE, Erased.SESSION)

INVENTORY: Final[Mapping[str, Inventory]] = {
    # Rows of the session of a trace are found by the trace, so traces and what hangs on them are not looked for twice.
    "traces": Inventory(
        (Erased.TRACE,),
        ours="started_at scored_at continues_turn turn_goes_on revision offsets effort has_content",
        words="said",
        names="agent service service_version condition died revised",
        ids="trace_id session_id task_id run_id",
        keys="processes",
    ),
    "trace_views": Inventory((Erased.TRACE,), words="view", names="unasked", ids="trace_id"),
    "outcomes": Inventory(
        (Erased.SUBJECT,),
        ours="subject name method version status part model revision evaluated_at score threshold coverage success "
        "counted error_type",
        words="reason metadata",
        names="agent service service_version environment",
        ids="subject_id session_id trace_id span_id",
    ),
    "sessions": Inventory(
        (Erased.SESSION,),
        ours="started_at last_seen_at trace_count revision effort is_blind finalized_at ended_at errors warnings infos "
        "attention",
        names="agent service environment services versions",
        ids="session_id user_id",
    ),
    "session_sums": Inventory((Erased.SESSION,), ours="risks", names="sums", ids="session_id"),
    "run_reports": Inventory(
        (Erased.SESSION, Erased.RUN),
        ours="condition reported_at success confidence",
        names="agent service_version",
        ids="task_id run_id session_id",
        keys="sender",
    ),
    "run_traces": Inventory(
        (Erased.TRACE,),
        ours="started_at success",
        names="condition agent service service_version facts",
        ids="trace_id task_id run_id session_id",
        keys="senders",
    ),
    # What was learned of a sender's spans outlives their deletion, so it is kept without their names.
    "sender_habits": Inventory((Erased.NOTHING,), ours="history", digests="digest"),
    "progress": Inventory((Erased.NOTHING,), ours="checkpoint"),
    "claims": Inventory((Erased.NOTHING,), ours="partition generation"),
    "deletions": Inventory(
        (Erased.RECEIPT,), ours="deletion_id asked_at done_at removed", ids="what", persons="asked_by"
    ),
    "erasures": Inventory((Erased.RECEIPT,), ours="deletion_id last", ids="trace_id"),
    "quarantine": Inventory((Erased.TRACE,), ours="item_id kind since size reason is_retried", ids="key trace_id"),
    "judge_ledger": Inventory((Erased.NOTHING,), ours="hour model requests input_tokens output_tokens usd"),
    "judge_exchanges": Inventory(
        (Erased.SUBJECT,),
        ours="subject question version model revision position asked_at input_tokens output_tokens usd seconds cached",
        words="instructions data reply problem",
        ids="subject_id",
    ),
    "judge_answers": Inventory(
        (Erased.SUBJECT,), ours="subject model kept_at temperature", words="reply", ids="subject_id", digests="key"
    ),
    "judge_canaries": Inventory(
        _BY_BOTH,
        ours="revision chosen_at",
        words="frozen",
        ids="trace_id session_id",
        words_end="60 days after the judge was asked first",
    ),
    "canary_answers": Inventory(
        (Erased.TRACE,),
        ours="name version model threshold first first_at last last_at",
        words="reason",
        ids="trace_id",
        words_end="60 days after the judge answered last",
    ),
    "labels": Inventory(
        _BY_BOTH,
        ours="value source drawn labelled_at",
        words="note",
        names="name",
        ids="trace_id session_id",
        persons="author",
        keys="sender",
    ),
    "conversations": Inventory(
        (Erased.TRACE,),
        ours="started_at ended_at kept_at answered",
        names="service",
        ids="trace_id session_id named parent",
        digests="follows said reply calls",
    ),
    "findings": Inventory(
        _BY_BOTH,
        ours="kind nth turn severity mode found_at counted",
        words="reason metadata",
        names="agent tool service service_version environment",
        ids="trace_id span_id session_id",
    ),
    "outbox": Inventory(
        _BY_BOTH,
        ours="event_id at",
        words="attributes",
        ids="session_id trace_id span_id",
        words_end="the endpoint has taken the event, or there are too many",
    ),
    "problems": Inventory(
        (Erased.SUMS,),
        ours="problem_id kind severity first_seen last_seen traces sessions usd seconds regressed_at resolved_at "
        "muted_until",
        names="agent service tool shape",
        persons="resolved_by muted_by",
    ),
    "problem_traces": Inventory(
        (Erased.SUMS,),
        ours="problem_id severity seen_at usd seconds followed",
        names="service_version cause",
        ids="subject_id trace_id session_id",
    ),
    # A value is the id of a session, a version, an hour, a kind of finding, or an agent and a tool.
    "problem_counts": Inventory((Erased.SUMS,), ours="problem_id what traces", ids="value"),
    # The key is that of the problem which takes in what is merged, or which is split.
    "problem_moves": Inventory(
        (Erased.SUMS, Erased.AGENT),
        ours="problem_id into_id moved_at split_from",
        names="key agent service",
        persons="moved_by",
    ),
    "agent_hours": Inventory(
        (Erased.SUMS,), ours="hour name traces hits usd priced", names="agent service version", ids="session_id"
    ),
    "agent_times": Inventory((Erased.SUMS,), ours="hour step traces", names="agent service version"),
    "alarms": Inventory(
        (Erased.AGENT,),
        ours="alarm_id kind severity state problem_id since until notice",
        names="environment service agent owner what title evidence",
    ),
    "alarm_examples": Inventory((Erased.TRACE,), ours="alarm_id seen_at", ids="trace_id"),
    "alarm_watches": Inventory((Erased.AGENT,), ours="seen_at", names="environment service agent learnt"),
    "alarm_progress": Inventory((Erased.NOTHING,), ours="scored_at digested_at"),
}
"""By table. The names of the values stand for what they hold, so a column has one line here and no other place."""
