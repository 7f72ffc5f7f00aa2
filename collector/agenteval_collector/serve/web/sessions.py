"""The pages of sessions and traces: the first view, a listing, a session, a trace."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from agenteval_collector.model.agents import Range
from agenteval_collector.model.alarms import FIRING
from agenteval_collector.model.problem import ProblemState
from agenteval_collector.model.session_filter import Order
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.explanation import about_standing, judge_trouble
from agenteval_collector.serve.api.filters import SESSION_PARAMETERS, problem_filter, session_filter
from agenteval_collector.serve.api.trace_documents import SessionDocument, SessionItem, TraceDocument
from agenteval_collector.serve.api.wire import Parameters, found, trace_id_of
from agenteval_collector.serve.web import formats
from agenteval_collector.serve.web.findings import KINDS, kind_words, placed
from agenteval_collector.serve.web.site import REFRESH_SECONDS, Site, chosen, page_links
from agenteval_collector.serve.web.timeline import placed_traces
from agenteval_collector.serve.web.waterfall import WHOLE, focus_of, waterfall

TRACES_PER_PAGE: Final = 50
RUNNING: Final = 5
"""Running traces of a session that are shown."""
ALARMS_ON_TOP: Final = 10
PROBLEMS_ON_TOP: Final = 5
SESSIONS_AT_START: Final = 20
FEWEST: Final = 3
"""The least number of sessions that share one line. If there are fewer, each has its own line."""
_MOVING = ("running", "active", "pending")
_PUT_OFF = (ProblemState.MUTED, ProblemState.RESOLVED)
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")


class _SignalCell(NamedTuple):
    """A signal of a session score, and the tone in which it is shown."""

    value: float
    tone: str


class _TraceRow(NamedTuple):
    """A trace on the page of its session. `trace` is None if only its signals are kept."""

    number: int
    trace_id: str
    trace: TraceDocument | None
    signals: Mapping[str, _SignalCell]
    flagged: bool


def start(site: Site, parameters: Parameters) -> str:
    """Return the overview: what all agents do, alarms that fire, new versions, open problems, then the sessions that
    need attention first."""
    scope = site.scope(parameters, {}, Range.DAY)
    place = scope.listed(site.clock.now())
    page = site.queries.sessions(session_filter({**place, "order": Order.ATTENTION}), limit=SESSIONS_AT_START)
    # Muted and resolved problems are listed after all open ones, so these few miss no open one.
    problems = site.queries.problems(problem_filter(place), limit=PROBLEMS_ON_TOP).items
    firing = FIRING._replace(environment=scope.environment)
    return site.render(
        "start.html",
        "/",
        scope,
        refresh=REFRESH_SECONDS,
        grpc_endpoint=site.grpc_endpoint,
        overview=site.queries.overview(scope.range or Range.DAY, environment=scope.environment),
        alarms=site.queries.alarms(firing, limit=ALARMS_ON_TOP).items,
        problems=[problem for problem in problems if problem["state"] not in _PUT_OFF],
        **_listed(site, page.items),
    )


def sessions(site: Site, parameters: Parameters) -> str:
    """Return the page of the requested sessions. Unless an order is given, those that need attention come first."""
    filters, cursor = chosen(parameters, SESSION_PARAMETERS), parameters.get("cursor") or None
    scope = site.scope(parameters, filters)
    wanted = session_filter({"order": Order.ATTENTION, **scope.listed(site.clock.now()), **filters})
    filters.pop("environment", None)
    page = site.queries.sessions(wanted, cursor=cursor)
    return site.render(
        "sessions.html",
        "/sessions",
        scope,
        # A further page stays as it is.
        refresh=None if cursor else REFRESH_SECONDS,
        hit_rate=None if wanted.agent is None else site.queries.hit_rate(wanted.agent, wanted.service),
        asked=filters,
        kinds=[("", "any"), *((kind, kind_words(kind)) for kind in KINDS)],
        query=formats.query({**scope.listed(site.clock.now()), **filters, "order": wanted.order}),
        **page_links("/sessions", {**filters, **scope.asked}, cursor, page.next_cursor),
        **_listed(site, page.items),
    )


def session(site: Site, parameters: Parameters) -> str:
    """Return the page of a session with its newest traces, or with those before trace number `older_than`."""
    session_id, older_than = parameters["session_id"], parameters.get("older_than") or None
    session = found(site.queries.session(session_id), f"session {session_id!r}")
    # Traces are numbered from 1, in the order of the session.
    end = _trace_number(older_than, default=len(session["trace_ids"]) + 1) - 1
    start = max(0, end - TRACES_PER_PAGE)
    numbers = {trace_id: number for number, trace_id in enumerate(session["trace_ids"][start:end], start + 1)}
    shown = site.queries.traces([*numbers])
    traces = [_trace_row(session, number, trace_id, shown.get(trace_id)) for trace_id, number in numbers.items()]
    return site.render(
        "session.html",
        "/sessions",
        refresh=REFRESH_SECONDS if session["status"] in _MOVING and older_than is None else None,
        session=session,
        traces=traces,
        numbers=numbers,
        places={trace.trace["trace_id"]: trace for trace in placed_traces([*shown.values()])},
        running=site.queries.traces(session["running_traces"][:RUNNING]),
        signal_names=sorted({name for row in traces for name in row.signals}),
        older=f"/sessions/{formats.path(session_id)}?older_than={start + 1}" if start else None,
        newest=older_than is None,
        judgements=site.queries.session_judgements(session_id) or [],
    )


def trace(site: Site, parameters: Parameters) -> str:
    """Return the page of a trace: a waterfall of its spans and the conversation, with its findings and outcomes."""
    trace_id, focus = trace_id_of(parameters["trace_id"]), focus_of(parameters)
    trace = found(site.queries.trace(trace_id), f"trace {trace_id}")
    spans = site.queries.spans
    tree = spans.tree(trace_id)
    opened = None if tree is None else tree.nodes.get(focus.opened or "")
    return site.render(
        "trace.html",
        "/sessions",
        # The page is not loaded again while somebody looks at a span.
        refresh=REFRESH_SECONDS if trace["status"] in _MOVING and focus == WHOLE else None,
        trace=trace,
        waterfall=None if tree is None else waterfall(spans, tree, trace["findings"], focus),
        focus=focus,
        selected=None if tree is None or opened is None else spans.whole(tree, opened),
        places=placed(trace),
        notes=list(about_standing(trace)),
        judgements=site.queries.judgements(trace_id) or [],
    )


def folded(sessions: Iterable[SessionItem]) -> list[Sequence[SessionItem]]:
    """Group the sessions of a page into lines of one session, or of several that are folded.

    Only neighbours are folded: unnamed sessions of a single trace, with the same agent and equally bad. A line takes
    the place of its first session, and no session moves past one that has a name.
    """
    lines: list[Sequence[SessionItem]] = []
    for is_single, neighbours in groupby(sessions, key=_is_single):
        alike: dict[object, list[SessionItem]] = {}
        for session in neighbours:
            key = (session["agent"], session["worst"], session["blind"]) if is_single else session["session_id"]
            alike.setdefault(key, []).append(session)
        for group in alike.values():
            lines += [group] if len(group) >= FEWEST else [[session] for session in group]
    return lines


def _is_single(session: SessionItem) -> bool:
    """Return whether a session is a single complete trace that names no session, and so has the trace's id."""
    is_unnamed = _TRACE_ID.fullmatch(session["session_id"]) is not None
    return is_unnamed and session["trace_count"] == 1 and not session["running_traces"]


def _listed(site: Site, sessions: Sequence[SessionItem]) -> dict[str, object]:
    """Return the lines of a list of sessions, with the trouble and the drifts of the judge that scores them."""
    drifts = [drift for drift in site.queries.drifts() if drift["drifted"]]
    return {"lines": folded(sessions), "trouble": judge_trouble(sessions), "drifts": drifts}


def _trace_number(text: str | None, *, default: int) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise InvalidRequest(f"older_than is {text[:64]!r}, not the number of a trace")
    return min(max(int(text), 1), default)


def _trace_row(session: SessionDocument, number: int, trace_id: str, trace: TraceDocument | None) -> _TraceRow:
    # A session is kept longer than the content of its traces. The row of such a trace has only its signals.
    outcomes = trace["outcomes"] if trace else []
    tones = {outcome["name"]: "bad" for outcome in outcomes if outcome["success"] is False}
    signals = session["signals"].get(trace_id, {})
    return _TraceRow(
        number=number,
        trace_id=trace_id,
        trace=trace,
        signals={name: _SignalCell(value, tones.get(name, "plain")) for name, value in signals.items()},
        flagged=trace_id in session["flagged_traces"],
    )
