"""Renders the page from the documents of the API. Whatever they hold is hostile: templates escape everything."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from agenteval_collector.api.documents import SessionDocument, SessionItem, TraceDocument
from agenteval_collector.api.explanation import (
    about_label,
    about_outcome,
    about_standing,
    about_unjudged,
    goal_words,
    judge_trouble,
    unscored_labels,
)
from agenteval_collector.api.problem_documents import ProblemDocument
from agenteval_collector.api.queries import Queries
from agenteval_collector.api.visibility import about_visibility, facts_of
from agenteval_collector.api.wire import found
from agenteval_collector.model.judging import GOAL_SUCCESS
from agenteval_collector.model.session_filter import Order, SessionFilter
from agenteval_collector.problems import ProblemState
from agenteval_collector.problems.problem import ProblemFilter
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.web import formats
from agenteval_collector.web.agents import SLOW_REFRESH_SECONDS, AgentPages
from agenteval_collector.web.assets import address
from agenteval_collector.web.findings import KINDS, kind_words, placed
from agenteval_collector.web.folding import folded
from agenteval_collector.web.labelling import GOALS, about_rate, labels_worth
from agenteval_collector.web.meanings import meaning, questions
from agenteval_collector.web.problems import examples
from agenteval_collector.web.quality import cards
from agenteval_collector.web.reliability import ReliabilityPages
from agenteval_collector.web.review import Asked, review
from agenteval_collector.web.timeline import places
from agenteval_collector.web.waterfall import WHOLE, Focus, waterfall
from otel_agenteval.text import storable

REFRESH_SECONDS = 5
TRACES_PER_PAGE = 50
RUNNING = 5
"""Running traces of a session that are shown."""
PROBLEMS_ON_TOP = 5
SESSIONS_AT_START = 20
ATTENTION = SessionFilter(order=Order.ATTENTION)
_NAVIGATION = {
    "/problems": "Problems",
    "/sessions": "Sessions",
    "/agents": "Agents",
    "/quality": "Quality",
    "/reliability": "Reliability",
    "/review": "Review",
}
_SECTIONS = {
    "start.html": "/",
    "problems.html": "/problems",
    "problem.html": "/problems",
    "sessions.html": "/sessions",
    "session.html": "/sessions",
    "trace.html": "/sessions",
    "agents.html": "/agents",
    "agent.html": "/agents",
    "quality.html": "/quality",
    "reliability.html": "/reliability",
    "comparison.html": "/reliability",
    "review.html": "/review",
}
"""The section of the navigation that each template belongs to."""
_TURNING = re.compile("[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MOVING = ("running", "active", "pending")


def _readable(value: object) -> object:
    """Return what is shown, without characters that turn the direction of what stands around them."""
    return (
        value
        if isinstance(value, Markup) or not isinstance(value, str)
        else _TURNING.sub("\N{REPLACEMENT CHARACTER}", value)
    )


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_readable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(formats.FILTERS)
    templates.globals.update(
        asset_url=address,
        style_url=address("style.css"),
        script_url=address("review.js"),
        about_label=about_label,
        about_rate=about_rate,
        label_goals=tuple(GOALS),
        labels_worth=labels_worth,
        unscored_labels=unscored_labels,
        about_outcome=about_outcome,
        goal_success=GOAL_SUCCESS,
        goal_words=goal_words,
        meaning=meaning,
        questions=questions,
        about_visibility=about_visibility,
        about_unjudged=about_unjudged,
        facts_of=facts_of,
    )
    return templates


class _Signal(NamedTuple):
    """A signal of a session score, and the tone in which it is shown."""

    value: float
    tone: str


class _TraceRow(NamedTuple):
    """A trace in the page of its session; `trace` is None where it was forgotten."""

    number: int
    trace_id: str
    trace: TraceDocument | None
    signals: Mapping[str, _Signal]
    flagged: bool


class Pages:
    """Renders the pages. Each method returns HTML, or raises the error that the error page then shows."""

    def __init__(self, queries: Queries, *, clock: Clock, grpc_endpoint: str) -> None:
        self._queries = queries
        self._clock = clock
        self._grpc_endpoint = grpc_endpoint
        self.agents = AgentPages(queries, self._render)
        self.reliability = ReliabilityPages(queries, self._render)

    def start(self) -> str:
        """Return the first view: open problems, then the sessions to look at first."""
        page = self._queries.sessions(ATTENTION, limit=SESSIONS_AT_START)
        return self._render(
            "start.html",
            refresh=REFRESH_SECONDS,
            grpc_endpoint=self._grpc_endpoint,
            problems=self._open_problems(),
            **self._listed(page.items),
        )

    def sessions(self, wanted: SessionFilter, asked: Mapping[str, str], *, cursor: str | None) -> str:
        """Return the sessions that are wanted. `asked` has the parameters that say so, as the form sent them."""
        page = self._queries.sessions(wanted, cursor=cursor)
        return self._render(
            "sessions.html",
            # A further page stays what it is, and beside a form nothing may move.
            refresh=None if cursor or asked else REFRESH_SECONDS,
            hit_rate=None if wanted.agent is None else self._queries.hit_rate(wanted.agent),
            asked=asked,
            kinds=[("", "any"), *((kind, kind_words(kind)) for kind in KINDS)],
            query=formats.query({**asked, "order": wanted.order}),
            first="/sessions" + formats.query(asked) if cursor else None,
            next="/sessions" + formats.query({**asked, "cursor": page.next_cursor}) if page.next_cursor else None,
            **self._listed(page.items),
        )

    def problems(self, wanted: ProblemFilter, asked: Mapping[str, str], *, cursor: str | None) -> str:
        """Return the problems that are wanted. `asked` has the parameters that say so, as the form sent them."""
        page = self._queries.problems(wanted, cursor=cursor)
        return self._render(
            "problems.html",
            refresh=None if cursor or asked else SLOW_REFRESH_SECONDS,
            problems=page.items,
            asked=asked,
            states=[("", "any"), *((state, state) for state in ProblemState)],
            query=formats.query(asked),
            first="/problems" + formats.query(asked) if cursor else None,
            next="/problems" + formats.query({**asked, "cursor": page.next_cursor}) if page.next_cursor else None,
        )

    def problem(self, problem_id: str, *, token: str) -> str:
        """Return a problem, with what may be said of it by whoever has the token."""
        problem = found(self._queries.problem(problem_id), f"problem {problem_id}")
        shown = examples(problem, self._queries.traces(problem["examples"]))
        return self._render("problem.html", refresh=None, problem=problem, examples=shown, token=token)

    def session(self, session_id: str, *, older_than: str | None) -> str:
        """Return a session with its newest traces; with those before trace number `older_than` where it is given."""
        session = found(self._queries.session(session_id), f"session {session_id!r}")
        end = _trace_number(older_than, default=len(session["trace_ids"]) + 1) - 1
        start = max(0, end - TRACES_PER_PAGE)
        numbers = {trace_id: number for number, trace_id in enumerate(session["trace_ids"][start:end], start + 1)}
        shown = self._queries.traces([*numbers])
        traces = [_trace_row(session, number, trace_id, shown.get(trace_id)) for trace_id, number in numbers.items()]
        return self._render(
            "session.html",
            refresh=REFRESH_SECONDS if session["status"] in _MOVING and older_than is None else None,
            session=session,
            traces=traces,
            numbers=numbers,
            places={place.trace["trace_id"]: place for place in places([*shown.values()])},
            running=self._queries.traces(session["running_traces"][:RUNNING]),
            signal_names=sorted({name for row in traces for name in row.signals}),
            older=f"/sessions/{formats.path(session_id)}?older_than={start + 1}" if start else None,
            newest=older_than is None,
            judgements=self._queries.session_judgements(session_id) or [],
        )

    def trace(self, trace_id: str, focus: Focus = WHOLE) -> str:
        """Return a trace as a waterfall of its spans and as a conversation, with what was found about it."""
        trace = found(self._queries.trace(trace_id), f"trace {trace_id}")
        spans = self._queries.spans
        tree = spans.tree(trace_id)
        opened = None if tree is None else tree.nodes.get(focus.opened or "")
        return self._render(
            "trace.html",
            # A page on which somebody looks at a span stays what it is.
            refresh=REFRESH_SECONDS if trace["status"] in _MOVING and focus == WHOLE else None,
            trace=trace,
            waterfall=None if tree is None else waterfall(spans, tree, trace["findings"], focus),
            focus=focus,
            selected=None if tree is None or opened is None else spans.whole(tree, opened),
            places=placed(trace),
            notes=list(about_standing(trace)),
            judgements=self._queries.judgements(trace_id) or [],
        )

    def quality(self, *, cursor: str | None) -> str:
        """Return the rates of passing, by evaluator."""
        page = self._queries.quality(cursor=cursor)
        return self._render(
            "quality.html",
            refresh=None if cursor else SLOW_REFRESH_SECONDS,
            cards=cards(page.items, self._queries.agreement(), self._queries.drifts()),
            first="/quality" if cursor else None,
            next="/quality" + formats.query({"cursor": page.next_cursor}) if page.next_cursor else None,
        )

    def review(self, asked: Asked, *, token: str) -> str:
        """Return the next trace to be labelled, in a form that carries the token which writing takes."""
        return self._render("review.html", refresh=None, token=token, review=review(self._queries, asked))

    def error(self, status: int, message: str) -> str:
        """Return the page of an error, which says in one sentence what went wrong."""
        return self._render("error.html", refresh=None, status=status, message=message)

    def _open_problems(self) -> list[ProblemDocument]:
        """Return the first open problems: those that are listed before all that are put off."""
        page = self._queries.problems(limit=PROBLEMS_ON_TOP)
        return [each for each in page.items if each["state"] not in (ProblemState.MUTED, ProblemState.RESOLVED)]

    def _listed(self, sessions: Sequence[SessionItem]) -> dict[str, object]:
        """Return the lines of a list of sessions, with what is wrong with the judge that their scores rest on."""
        return {
            "lines": folded(sessions),
            "trouble": judge_trouble(sessions),
            "drifts": [each for each in self._queries.drifts() if each["drifted"]],
        }

    def _render(self, template: str, **values: object) -> str:
        page = (
            _templates()
            .get_template(template)
            .render(now=self._clock.now(), here=_SECTIONS.get(template), sections=_NAVIGATION, **values)
        )
        return storable(page)


def _trace_number(text: str | None, *, default: int) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise InvalidRequest(f"older_than is {text[:64]!r}, not the number of a trace")
    return min(max(int(text), 1), default)


def _trace_row(session: SessionDocument, number: int, trace_id: str, trace: TraceDocument | None) -> _TraceRow:
    # A session outlives the traces whose retention has passed: the row then has its signals only.
    outcomes = trace["outcomes"] if trace else []
    tones = {outcome["name"]: "bad" for outcome in outcomes if outcome["success"] is False}
    signals = session["signals"].get(trace_id, {})
    return _TraceRow(
        number=number,
        trace_id=trace_id,
        trace=trace,
        signals={name: _Signal(value, tones.get(name, "plain")) for name, value in signals.items()},
        flagged=trace_id in session["flagged_traces"],
    )
