"""The page, rendered: what it shows, and that recorded content never becomes markup."""

from functools import cache
from html.parser import HTMLParser

import pytest
from agenteval_collector.clock import ManualClock
from agenteval_collector.documents import with_trouble
from agenteval_collector.errors import InvalidRequest, NotFound
from agenteval_collector.records import PENDING_TRACES
from agenteval_collector.session_filter import EVERY_SESSION, SessionFilter
from agenteval_collector.web import formats
from agenteval_collector.web.pages import Pages
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.memory_queries import (
    GOOD_TRACE,
    LOOP_TRACES,
    NOW,
    RUNNING_TRACE,
    SILENT_TRACE,
    MemoryQueries,
    call,
    exchange,
    finding,
    found,
    label,
    outcome,
    session,
    session_outcomes,
    trace,
    travel_agent,
    turn,
)


def pages(queries: MemoryQueries) -> Pages:
    return Pages(queries, clock=ManualClock(NOW), grpc_endpoint="http://127.0.0.1:4317")


class Elements(HTMLParser):
    """Every element with its attributes, and all text, as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def shape(self) -> list[tuple[str, list[str]]]:
        return [(tag, sorted(attributes)) for tag, attributes in self.elements]


def infected(payload: str) -> MemoryQueries:
    """A session and a trace that hold `payload` wherever content can be."""
    odd = trace(
        GOOD_TRACE,
        payload,
        turn(
            payload,
            payload,
            call(payload, {payload: payload}, [payload]),
            call("t", payload, payload, error=payload),
            error=payload,
        ),
        turn(payload, payload),
        began=0,
        agent=payload,
        agents=[payload],
        service=payload,
        user_id=payload,
        available_tools=[{"name": payload}],
        outcomes=[
            outcome("coherence", 0.4, payload),
            outcome("loop_detection", None, payload, status="failed", error_type=payload, model=payload),
            outcome(payload, 0.1, payload),
        ],
        labels=[label("coherence", 0.5, author=payload, note=payload)],
    )
    queries = MemoryQueries()
    outcomes = [*session_outcomes(0.4, 0.75), outcome("agent_reliability", 0.3, payload)]
    queries.add(session(payload, odd, outcomes=outcomes, agent=payload, services=[payload], user_id=payload), odd)
    texts = dict.fromkeys(("question", "version", "model", "instructions", "data", "reply", "problem"), payload)
    queries.asked[GOOD_TRACE] = [exchange(**texts), exchange(**{**texts, "reply": None})]
    return queries


def rendered(payload: str) -> list[str]:
    view = pages(infected(payload))
    return [
        view.sessions(EVERY_SESSION, cursor=None),
        view.sessions(SessionFilter(agent=payload), cursor=None),
        view.session(payload, older_than=None),
        view.trace(GOOD_TRACE),
        view.error(404, payload),
        pages(MemoryQueries()).sessions(SessionFilter(agent=payload), cursor=None),
    ]


@cache
def plain_shapes() -> list[list[tuple[str, list[str]]]]:
    return [Elements(page).shape for page in rendered("payload")]


PAYLOADS = [
    "<script>alert(1)</script>",
    "</title></textarea></style><script src=//evil.example></script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% include '/etc/passwd' %}",
    "<!--<svg onload=alert(1)>",
    "]]><a href='data:text/html,x'>",
    "\ud800\x00\u202e<b>",
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_content_never_becomes_markup(payload: str) -> None:
    for harmless, page in zip(plain_shapes(), rendered(payload), strict=True):
        assert Elements(page).shape == harmless
        for _, attributes in Elements(page).elements:
            assert not any(name.startswith("on") for name in attributes)
            assert "style" not in attributes
            assert (attributes.get("href") or "/").startswith("/")
        page.encode()


def test_content_is_shown_as_it_is() -> None:
    payload = "{{ 7 * 7 }} & <b>bold</b> \"quoted\" 'too'"
    for page in rendered(payload):
        assert payload in Elements(page).text


@settings(max_examples=60, deadline=None)
@given(payload=st.text(st.characters(), min_size=1, max_size=30))
def test_no_text_at_all_becomes_markup(payload: str) -> None:
    for harmless, page in zip(plain_shapes(), rendered(payload), strict=True):
        assert Elements(page).shape == harmless


def test_pages_hold_no_script_and_load_nothing_from_elsewhere() -> None:
    view = pages(travel_agent())
    everything = [
        view.sessions(EVERY_SESSION, cursor=None),
        pages(MemoryQueries()).sessions(EVERY_SESSION, cursor=None),
        *(view.session(session_id, older_than=None) for session_id in travel_agent().all_sessions),
        *(view.trace(trace_id) for trace_id in travel_agent().traces),
    ]
    for page in everything:
        for tag, attributes in Elements(page).elements:
            assert tag not in ("script", "style", "iframe", "object", "embed")
            assert (attributes.get("src") or attributes.get("href") or "/").startswith("/")


@pytest.mark.parametrize(
    ("render", "lives"),
    [
        pytest.param(lambda view: view.sessions(EVERY_SESSION, cursor=None), True, id="the newest sessions"),
        pytest.param(lambda view: view.sessions(EVERY_SESSION, cursor="after-1"), False, id="older sessions"),
        pytest.param(lambda view: view.session("s-43", older_than=None), True, id="a running session"),
        pytest.param(lambda view: view.session(SILENT_TRACE, older_than=None), False, id="an ended session"),
        pytest.param(lambda view: view.trace(RUNNING_TRACE), True, id="a running trace"),
        pytest.param(lambda view: view.trace(GOOD_TRACE), False, id="a scored trace"),
    ],
)
def test_only_what_moves_reloads(render: object, lives: bool) -> None:
    page = render(pages(travel_agent()))  # type: ignore[operator]
    assert ('http-equiv="refresh"' in page) is lives


def test_a_missing_score_says_why_and_never_looks_like_a_number() -> None:
    text = Elements(pages(travel_agent()).trace(SILENT_TRACE)).text
    assert "no content" in text
    assert "the answer was not recorded; set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY" in text
    assert "0.00" not in text


def test_the_list_says_what_is_wrong_with_a_judge_that_scores_wait_for() -> None:
    waiting = outcome("agent_reliability", None, "29 of 29 traces are not judged", metadata={PENDING_TRACES: 29})
    queries = MemoryQueries()
    said = trace(GOOD_TRACE, "s", turn("hi", "ok"), began=0)
    queries.add(session("s", said, outcomes=[with_trouble(waiting, None)]), said)
    assert "Scores wait" not in pages(queries).sessions(EVERY_SESSION, cursor=None)
    queries.add(session("s", said, outcomes=[with_trouble(waiting, "the judge <b> is away")]), said)
    page = pages(queries).sessions(EVERY_SESSION, cursor=None)
    assert "Scores wait: the judge &lt;b&gt; is away." in page


def test_a_session_outlives_its_traces() -> None:
    queries = travel_agent()
    del queries.traces[LOOP_TRACES[0]]
    text = Elements(pages(queries).session("refund-1187", older_than=None)).text
    assert "no longer kept" in text
    assert "#5" in text


def test_large_traces_are_cut_and_say_so() -> None:
    calls = [call(f"tool_{number}") for number in range(formats.SHOWN_ITEMS + 7)]
    big = trace(GOOD_TRACE, None, turn("x" * (formats.SHOWN_CHARACTERS + 5), "ok", *calls), began=0)
    queries = MemoryQueries()
    queries.add(session(GOOD_TRACE, big, outcomes=[]), big)
    page = pages(queries).trace(GOOD_TRACE)
    assert "7 more tool calls in the JSON" in page
    assert "5 more characters in the JSON" in page
    assert len(page) < 300_000


def test_what_is_unknown_is_an_error_with_a_name() -> None:
    view = pages(travel_agent())
    with pytest.raises(NotFound, match="nobody"):
        view.session("nobody", older_than=None)
    with pytest.raises(NotFound, match="0000"):
        view.trace("0" * 32)
    with pytest.raises(InvalidRequest, match="older_than"):
        view.session("s-42", older_than="٣")


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-03-02T09:04:00Z", "just now"),
        ("2026-03-02T09:05:00Z", "just now"),
        ("2026-03-02T09:03:15.500000Z", "44 s ago"),
        ("2026-03-02T09:00:59Z", "3 min ago"),
        ("2026-03-02T06:59:59Z", "2 h ago"),
        ("2026-02-27T09:04:00Z", "3 d ago"),
        (None, "never"),
    ],
)
def test_ago(time: str | None, expected: str) -> None:
    assert formats.ago(time, NOW) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [("00.25", "250 ms"), ("02.4", "2.4 s"), ("59.96", "60.0 s")],
)
def test_between(seconds: str, expected: str) -> None:
    assert formats.between("2026-03-02T09:00:00Z", f"2026-03-02T09:00:{seconds}Z") == expected


def test_between_longer_times() -> None:
    assert formats.between("2026-03-02T09:00:00Z", "2026-03-02T09:03:12Z") == "3 min 12 s"
    assert formats.between("2026-03-02T09:00:00Z", "2026-03-02T11:03:12Z") == "2 h 3 min"
    assert formats.between(None, "2026-03-02T11:03:12Z") == "unknown"


@pytest.mark.parametrize(
    ("threshold", "tone"),
    [pytest.param(0.5, "bad", id="below its threshold"), pytest.param(None, "plain", id="without a threshold")],
)
def test_a_signal_has_the_colour_of_its_outcome(threshold: float | None, tone: str) -> None:
    member = trace(
        GOOD_TRACE, "s", turn("hi", "yes"), began=0, outcomes=[outcome("coherence", 0.1, "", threshold=threshold)]
    )
    queries = MemoryQueries()
    queries.add(session("s", member, outcomes=[], signals={GOOD_TRACE: {"coherence": 0.1}}), member)
    [shown] = [
        each
        for name, each in Elements(pages(queries).session("s", older_than=None)).elements
        if name == "rect" and each.get("class") in ("plain", "bad")
    ]
    assert shown["class"] == tone


def test_a_trace_shows_what_people_say_and_what_the_judge_was_asked() -> None:
    found = outcome("task_completion", 0.25, "half of it", method="llm", model="gpt-4o-mini")
    asked = trace(GOOD_TRACE, "s", turn("hi", "yes"), began=0, outcomes=[found])
    asked["labels"] = [label("task_completion", 1.0, "ann", "all was done"), label("coherence", 0.0)]
    queries = MemoryQueries()
    queries.add(session("s", asked, outcomes=[]), asked)
    queries.asked[GOOD_TRACE] = [exchange(), exchange(question="plan", reply=None, problem="no valid reply")]
    text = " ".join(Elements(pages(queries).trace(GOOD_TRACE)).text.split())
    places = [
        text.index(shown)
        for shown in (
            "half of it",
            "gpt-4o-mini",
            "ann says that task_completion is 1.00: all was done",
            "Asked of the judge completion",
            '"verdict": 0.25',
            "1.3 s",
            "420 + 31 tokens",
            "$0.0001",
            "Say how far the outcome completes the task.",
            "tell the weather",
            "no valid reply",
        )
    ]
    assert places == sorted(places)
    assert "coherence is 0.00" not in text


def test_a_trace_that_was_not_judged_has_no_questions() -> None:
    assert "Asked of the judge" not in pages(travel_agent()).trace(GOOD_TRACE)


def test_loops_and_what_still_runs_are_shown_before_all_else() -> None:
    hostile = finding(reason="<script>alert(1)</script> was called 3 times", mode="observe")
    spans = [{"span_id": "b7ad6b7169203331", "name": "<b>search</b>", "started_at": "2026-03-02T09:00:00.000000Z"}]
    reason = "the agent died in the middle: there was open: search"
    member = trace(GOOD_TRACE, "s", began=0, **found(hostile), open_spans=spans, status_reason=reason)
    queries = MemoryQueries()
    about = {**found(hostile), "status_reason": reason, "running_traces": [GOOD_TRACE]}
    queries.add(session("s", member, outcomes=[], **about), member)
    shown = Elements(pages(queries).trace(GOOD_TRACE))
    text = " ".join(shown.text.split())
    assert "script" not in [name for name, _ in shown.elements]
    assert text.index(
        "Findings identical call of travel_agent: <script>alert(1)</script> was called 3 times"
    ) < text.index("Scores")
    assert "only observed" in text
    assert text.index("Open spans the agent died in the middle") < text.index("<b>search</b>") < text.index("Scores")
    of_session = " ".join(Elements(pages(queries).session("s", older_than=None)).text.split())
    assert (
        of_session.index("the agent died in the middle")
        < of_session.index("Findings identical call")
        < of_session.index("Scores")
    )
    listed = Elements(pages(queries).sessions(EVERY_SESSION, cursor=None))
    assert "died" in listed.text
    assert hostile["reason"] in [each.get("title") for _, each in listed.elements]
