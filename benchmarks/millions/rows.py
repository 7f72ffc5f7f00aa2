"""The rows of a large store. The server makes them up itself, by an `INSERT ... SELECT` for each table.

A row is made in Python, as the store writes it. Expressions of SQL stand for the values that differ from row to row.
Some sessions have a thousand traces, and most have a few. Some agents have a fifth of the traces, and most a hundredth.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.commit import ScoredTrace
from agenteval_collector.model.effort import Effort
from agenteval_collector.model.problem import ProblemKey, problem_of_failure
from agenteval_collector.model.runs import RunTrace
from agenteval_collector.model.sessions import SessionState
from agenteval_collector.model.trace_view import TraceView, TurnView
from agenteval_collector.stores import schema
from agenteval_collector.stores.rows import outcome_row, session_row, trace_row
from agenteval_collector.stores.runs import run_trace_row
from agenteval_collector.stores.trace_json import view_row
from sqlalchemy import Table

from otel_agenteval.model import RunIdentity, ToolCall
from otel_agenteval.outcome import Evaluation, JudgedPart, Method, Score, Status, SubjectKind, Unscored

AGENTS: Final = 50
DAYS: Final = 30
JUDGED: Final = 0.2
"""Share of the traces that are drawn for the judge."""
FAILED: Final = 0.15
"""Share of the drawn traces that fail."""
TOOLS, SHAPES = 20, 3
SECOND: Final = 1_000_000_000
SAID: Final = "please look up the booking of my flight to paris, order number @N"
"""The words of a trace. Each trace has a number of its own in them."""
_ID, _SESSION, _AGENT, _VERSION = "@T", "@S", "@A", "@V"
Statement = tuple[str, str]
"""The table that a statement fills, and the statement."""


def made(traces: int, now: int) -> Iterator[str]:
    """Yield statements that make up sessions and traces in the schema `made`, with about five traces in a session."""
    yield "CREATE SCHEMA made"
    yield f"""CREATE UNLOGGED TABLE made.sessions AS
        SELECT s, 's-' || md5(s::text) AS session_id,
            CASE WHEN s % 1000 = 0 THEN 1000 ELSE 1 + floor(-ln(1 - random()) * 3.5)::int END AS size,
            'agent-' || floor({AGENTS} * power(random(), 2))::int AS agent,
            '1.' || (s::bigint * 10 / {traces // 5}) AS version,
            {now - DAYS * 86400 * SECOND} + {DAYS * 86400 * SECOND} / {traces // 5} * s::bigint AS started_at
        FROM generate_series(1, {traces // 5}) s"""
    # The judge is asked about all traces of a session or about none, so `success` depends on the session's number.
    yield f"""CREATE UNLOGGED TABLE made.traces AS
        SELECT s, place, md5(s || '/' || place) AS trace_id, session_id, agent, version,
            started_at + place * {10 * SECOND}::bigint AS started_at,
            CASE WHEN s % {round(1 / JUDGED)} = 1 THEN random() >= {FAILED} END AS success,
            CASE WHEN random() < 0.07 THEN floor(random() * {TOOLS * SHAPES})::int END AS shape,
            random() < 0.2 AS is_bad
        FROM made.sessions, LATERAL generate_series(1, size) place"""
    columns = ", ".join(f"{name} text" for name in ("agent", "service", "kind", "tool", "shape", "problem_id"))
    yield f"CREATE UNLOGGED TABLE made.problems ({columns})"
    yield "ANALYZE made.sessions, made.traces"


def problems() -> Iterator[tuple[str | None, ...]]:
    """Yield all possible problems, as rows of `made.problems`."""
    for number in range(AGENTS):
        agent = AgentKey(f"agent-{number}", "shop")
        keys = [problem_of_failure(agent, "task_completion", {}), ProblemKey(*agent, "no_answer", None, "")]
        keys += [
            ProblemKey(*agent, "tool_failed", f"tool_{tool}", f"error {shape}")
            for tool in range(TOOLS)
            for shape in range(SHAPES)
        ]
        yield from ((key.agent, key.service, key.kind, key.tool, key.shape, key.problem_id) for key in keys)


def statements(now: int) -> Iterator[Statement]:
    """Yield the statements that fill the tables. Tables that others are made from come first."""
    trace = _trace()
    of_trace = {"trace_id": "trace_id", "session_id": "session_id", "started_at": "started_at"}
    of_trace |= {"agent": "agent", "service_version": "version"}
    yield (
        "traces",
        _insert(
            schema.traces,
            trace_row(trace),
            {**of_trace, "scored_at": f"started_at + {SECOND}", "said": _numbered(SAID), "rowid": None},
            "made.traces ORDER BY s, place",
        ),
    )
    view = f"replace(replace({_numbered(view_row(trace)['view'])}, '{_ID}', trace_id), '{_SESSION}', session_id)"
    yield (
        "trace_views",
        _insert(
            schema.trace_views, view_row(trace), {"trace_id": "trace_id", "view": view}, "made.traces ORDER BY s, place"
        ),
    )
    yield from _outcomes(of_trace)
    yield from _sessions()
    yield from _findings(of_trace)
    yield from _sums()
    yield from _rest(of_trace, now)


def _outcomes(of_trace: Mapping[str, str]) -> Iterator[Statement]:
    of_trace = {name: each for name, each in of_trace.items() if name != "started_at"}
    of_trace |= {"subject_id": "trace_id", "evaluated_at": f"started_at + {SECOND}"}
    for name, method in (("coherence", Method.EMBEDDING), ("tool_correctness", Method.EXACT)):
        row = outcome_row(_evaluation(name=name, method=method))
        yield (
            "outcomes",
            _insert(schema.outcomes, row, {**of_trace, "score": "random()"}, "made.traces ORDER BY s, place"),
        )
    judged: Any = {"name": "task_completion", "method": Method.LLM, "model": "gpt-4o-mini", "threshold": 0.5}
    row = outcome_row(_evaluation(**judged, part=JudgedPart.RANDOM))
    score = {"success": "success", "score": "CASE WHEN success THEN 0.9 ELSE 0.2 END"}
    some = "made.traces WHERE success IS NOT NULL ORDER BY s, place"
    yield "outcomes", _insert(schema.outcomes, row, {**of_trace, **score}, some)
    row = outcome_row(_evaluation(**judged, outcome=Unscored(status=Status.SAMPLED_OUT, reason="not drawn")))
    yield "outcomes", _insert(schema.outcomes, row, of_trace, "made.traces WHERE success IS NULL ORDER BY s, place")
    whole: Any = {"name": "agent_reliability", "method": Method.LLM, "subject": SubjectKind.SESSION, "threshold": 0.5}
    of_session = {
        "subject_id": "session_id",
        "session_id": "session_id",
        "agent": "agent",
        "service_version": "version",
    }
    of_session |= {"trace_id": "md5(s || '/1')", "evaluated_at": "started_at", "score": "random()", "counted": "true"}
    yield (
        "outcomes",
        _insert(schema.outcomes, outcome_row(_evaluation(**whole)), of_session, "made.sessions ORDER BY s"),
    )


def _sessions() -> Iterator[Statement]:
    record = SessionState(
        session_id="",
        user_id="",
        agent="",
        service="shop",
        services=["shop"],
        versions=["1.0"],
        started_at=0,
        last_seen_at=0,
        trace_count=0,
        is_blind=False,
    )
    row = session_row(record, {"errors": 0, "warnings": 0, "infos": 0, "attention": 0})
    over = {"session_id": "session_id", "user_id": "'user-' || s % 100000", "agent": "agent", "trace_count": "size"}
    over |= {"versions": "'[\"' || version || '\"]'", "started_at": "started_at", "revision": "size"}
    over |= {"last_seen_at": f"started_at + size * {10 * SECOND}::bigint"}
    over |= {"warnings": "warnings", "errors": "errors", "attention": "(errors * 4 + warnings * 2)::int"}
    # The newest 2,000 sessions are not over yet.
    over |= {
        "finalized_at": f"CASE WHEN s < (SELECT max(s) - 2000 FROM made.sessions) THEN started_at + {900 * SECOND} END"
    }
    found = """made.sessions LEFT JOIN (
            SELECT s AS of, count(*) FILTER (WHERE NOT is_bad) AS warned, count(*) FILTER (WHERE is_bad) AS failed
            FROM made.traces WHERE shape IS NOT NULL GROUP BY s
        ) found ON of = s, LATERAL (SELECT coalesce(warned, 0) AS warnings, coalesce(failed, 0) AS errors) c
        ORDER BY s"""
    yield "sessions", _insert(schema.sessions, row, over, found)


def _findings(of_trace: Mapping[str, str]) -> Iterator[Statement]:
    row = {"nth": 0, "turn": 0, "mode": None, "service": "shop", "environment": None, "counted": True}
    row |= {"span_id": f"{1:016x}", "reason": "it failed"}
    over = {name: each for name, each in of_trace.items() if name != "started_at"} | {"found_at": "started_at"}
    over |= {"kind": "CASE WHEN is_bad THEN 'no_answer' ELSE 'tool_failed' END"}
    over |= {"severity": "CASE WHEN is_bad THEN 'error' ELSE 'warning' END"}
    over |= {"tool": f"CASE WHEN NOT is_bad THEN 'tool_' || shape / {SHAPES} END"}
    over |= {"metadata": f"""CASE WHEN is_bad THEN '{{}}' ELSE '{{"shape": "error ' || shape % {SHAPES} || '"}}' END"""}
    yield "findings", _insert(schema.findings, row, over, "made.traces WHERE shape IS NOT NULL ORDER BY s, place")


def _sums() -> Iterator[Statement]:
    yield (
        "problem_traces",
        f"""INSERT INTO problem_traces
        (tenant, problem_id, subject_id, trace_id, session_id, severity, service_version, seen_at, usd, seconds)
        SELECT 'default', problem_id, trace_id, trace_id, session_id,
            CASE WHEN kind = 'tool_failed' THEN 'warning' ELSE 'error' END, version, started_at, 0.01, 8.0
        FROM (
            SELECT *, CASE WHEN is_bad THEN 'no_answer' ELSE 'tool_failed' END AS kind,
                CASE WHEN is_bad THEN '' ELSE 'tool_' || shape / {SHAPES} END AS tool,
                CASE WHEN is_bad THEN '' ELSE 'error ' || shape % {SHAPES} END AS shaped
            FROM made.traces WHERE shape IS NOT NULL
            UNION ALL SELECT *, 'task_completion', '', '' FROM made.traces WHERE NOT success
        ) seen JOIN made.problems p USING (agent, kind) WHERE coalesce(p.tool, '') = seen.tool AND p.shape = shaped""",
    )
    yield (
        "problems",
        """INSERT INTO problems (tenant, problem_id, kind, agent, service, tool, shape, severity,
            first_seen, last_seen, traces, sessions, usd, seconds)
        SELECT 'default', problem_id, kind, agent, service, tool, shape, max(severity), min(seen_at), max(seen_at),
            count(*), count(DISTINCT session_id), sum(usd), sum(seconds)
        FROM made.problems JOIN problem_traces USING (problem_id)
        GROUP BY problem_id, kind, agent, service, tool, shape""",
    )
    for what, value in (
        ("session", "session_id"),
        ("version", "service_version"),
        ("hour", f"lpad((seen_at / {3600 * SECOND})::text, 10, '0')"),
    ):
        yield (
            "problem_counts",
            f"""INSERT INTO problem_counts (tenant, problem_id, what, value, traces)
            SELECT 'default', problem_id, '{what}', {value}, count(*)
            FROM problem_traces GROUP BY problem_id, {value}""",
        )
    hour = f"(started_at / {3600 * SECOND})::int"
    for name, hits, condition in (
        ("", "is_bad AND shape IS NOT NULL", "true"),
        ("task_completion", "success", "success IS NOT NULL"),
    ):
        yield (
            "agent_hours",
            f"""INSERT INTO agent_hours
                (tenant, agent, service, hour, name, version, session_id, traces, hits, usd, priced)
            SELECT 'default', agent, 'shop', {hour}, '{name}', version, session_id, count(*),
                count(*) FILTER (WHERE {hits}), count(*) * 0.01, count(*)
            FROM made.traces WHERE {condition} GROUP BY agent, {hour}, version, session_id ORDER BY {hour}""",
        )
    yield (
        "agent_times",
        f"""INSERT INTO agent_times (tenant, agent, service, version, hour, step, traces)
        SELECT 'default', agent, 'shop', version, {hour}, 12, count(*)
        FROM made.traces GROUP BY agent, version, {hour}""",
    )


def _rest(of_trace: Mapping[str, str], now: int) -> Iterator[Statement]:
    # The newest 400,000 traces, spread over four services: as many rows as the collector keeps of each service.
    newest = "(SELECT *, row_number() OVER (ORDER BY s DESC) AS n FROM made.traces ORDER BY s DESC LIMIT 400000) newest"
    digests = {"follows": "sha256(('f' || trace_id)::bytea)", "said": "sha256(trace_id::bytea)"}
    link = {"ended_at": f"started_at + {SECOND}", "kept_at": f"started_at + {SECOND}", "service": "'shop-' || n % 4"}
    of_link = {name: of_trace[name] for name in ("trace_id", "session_id", "started_at")} | digests | link
    row = {"named": None, "reply": None, "calls": None, "answered": True, "parent": None}
    yield "conversations", _insert(schema.conversations, row, of_link, newest)
    run = RunTrace(
        trace_id=_ID, session_id=_SESSION, run=RunIdentity(task_id="t", run_id="r", condition="0"), agent=_AGENT,
        service="shop", service_version=_VERSION, started_at=0, success=True, confidence=0.9,
        actions=["search", "book"], seconds=8.0, model_calls=3, model_seconds=4.0, errors=0, usd=0.01, violations=None,
    )  # fmt: skip
    of_run = {
        **of_trace,
        "task_id": "'task-' || s / 100 % 500",
        "run_id": "'run-' || s",
        "success": "coalesce(success, true)",
    }
    yield "run_traces", _insert(schema.run_traces, run_trace_row(run), of_run, "made.traces WHERE s % 100 = 1")
    yield (
        "run_reports",
        """INSERT INTO run_reports
            (tenant, task_id, run_id, condition, agent, service_version, reported_at, success)
        SELECT tenant, task_id, run_id, condition, '', '', max(started_at), bool_and(success)
        FROM run_traces GROUP BY tenant, task_id, run_id, condition""",
    )
    row = {"subject": "trace", "question": "task_completion", "version": "1", "model": "gpt-4o-mini", "revision": 1}
    row |= {
        "position": 0,
        "instructions": "Did the agent complete the task?",
        "reply": '{"verdict": "yes"}',
        "problem": None,
    }
    row |= {"input_tokens": 900, "output_tokens": 40, "usd": 0.001, "seconds": 1.0, "cached": False}
    data = "decode(" + " || ".join(f"md5(trace_id || {part})" for part in range(64)) + ", 'hex')"
    last_day = f"made.traces WHERE success IS NOT NULL AND started_at > {now - 86400 * SECOND} ORDER BY s"
    over = {"subject_id": "trace_id", "asked_at": "started_at", "data": data}
    yield "judge_exchanges", _insert(schema.judge_exchanges, row, over, last_day)
    row = {"session_id": "", "name": "task_completion", "author": "ann", "value": 1.0, "note": "as it should be"}
    row |= {"source": "person", "drawn": True}
    over = {"trace_id": "trace_id", "labelled_at": "started_at"}
    yield (
        "labels",
        _insert(schema.labels, row, over, "made.traces WHERE success IS NOT NULL ORDER BY random() LIMIT 5000"),
    )
    yield "progress", "INSERT INTO progress (tenant, checkpoint) VALUES ('default', 1)"


def _trace() -> ScoredTrace:
    call = ToolCall(name="search", arguments={"order": "@N"}, result={"state": "on its way"})
    view = TraceView(
        trace_id=_ID, session_id=_SESSION, names_session=True, service="shop", agents=("planner",), model_calls=3,
        turns=[TurnView(input=SAID, output="it is on its way, and will be there tomorrow", tool_calls=[call])],
        span_count=10, revision=1, complete=True,
    )  # fmt: skip
    return ScoredTrace(
        view=view, offsets=[1],
        processes=["0123456789abcdef"], effort=Effort(steps=5, tokens=4000, seconds=8.0, usd=0.01), service="shop",
    )  # fmt: skip


def _evaluation(**known: Any) -> Evaluation:
    values: dict[str, Any] = {
        "version": "1",
        "subject": SubjectKind.TRACE,
        "subject_id": _ID,
        "revision": 1,
        "outcome": Score(value=0.5, reason="the mean of the distances of its turns"),
        "threshold": None,
        "session_id": _SESSION,
        "trace_id": _ID,
        "span_id": f"{1:016x}",
        "agent": _AGENT,
        "service": "shop",
        "service_version": _VERSION,
        "evaluated_at": 0,
    }
    return Evaluation(**values | known)


def _numbered(text: str) -> str:
    """Return an SQL expression for a text with the number of its trace."""
    return f"replace({_literal(text)}, '@N', (s * 1000::bigint + place)::text)"


def _insert(table: Table, row: Mapping[str, Any], over: Mapping[str, str | None], source: str) -> str:
    """Return the statement that adds a row for each row of `source`: `row`, with the expressions `over` its values."""
    values = {"tenant": "'default'", **{name: _literal(value) for name, value in row.items()}, **over}
    names = [column.name for column in table.columns if values.get(column.name) is not None]
    chosen = ", ".join(str(values[name]) for name in names)
    return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT {chosen} FROM {source}"


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int() | float():
            return str(value).lower()
        case _:
            return "'" + str(value).replace("'", "''") + "'"
