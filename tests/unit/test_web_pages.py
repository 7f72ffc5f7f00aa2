"""The page, rendered: what it shows, and that recorded content never becomes markup."""

from functools import cache
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from agenteval_collector.model.judge_jobs import PENDING_TRACES
from agenteval_collector.runtime.errors import InvalidRequest, NotFound
from agenteval_collector.serve.api.openapi import DESCRIPTION_PATH
from agenteval_collector.serve.api.trace_documents import JUDGE_TROUBLE, FindingDocument
from agenteval_collector.serve.web import alarms, formats, sessions
from agenteval_collector.serve.web.assets import asset
from agenteval_collector.serve.web.review import ReviewRequest, next_review
from agenteval_collector.serve.web.site import Site
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import FindingKind
from otel_agenteval.internal.text import storable
from tests.support.assembled import assembled
from tests.support.clock import ManualClock
from tests.support.inputs import inputs
from tests.support.memory_queries import (
    GOOD_TRACE,
    NOW,
    MemoryQueries,
    call,
    exchange,
    finding,
    label,
    outcome,
    seen,
    session,
    session_outcomes,
    trace,
    turn,
    unjudged,
)
from tests.support.otlp import span, span_id
from tests.support.travel_agent import LOOP_TRACES, RUNNING_TRACE, SILENT_TRACE, travel_agent


def site(queries: MemoryQueries) -> Site:
    return Site(queries=queries, clock=ManualClock(NOW), grpc_endpoint="http://127.0.0.1:4317", token="secret")


def session_page(queries: MemoryQueries, session_id: str, **more: str) -> str:
    return sessions.session(site(queries), {"session_id": session_id, **more})


def trace_page(queries: MemoryQueries, trace_id: str, **more: str) -> str:
    return sessions.trace(site(queries), {"trace_id": trace_id, **more})


def review_page(queries: MemoryQueries, asked: ReviewRequest) -> str:
    shown = next_review(queries, asked)
    return site(queries).render("review.html", "/review", refresh=None, token="secret", review=shown)


def listed(queries: MemoryQueries, *, cursor: str | None = None, **asked: str) -> str:
    """The list of sessions, as the form asks for it."""
    return sessions.sessions(site(queries), {**asked, "cursor": cursor or ""})


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
            outcome("task_completion", 0.1, payload, method="llm", threshold=0.5, success=False),
            outcome("confidence", None, payload, status="no_judge", method="llm"),
        ],
        findings=[
            finding(payload, "error", agent=payload, tool=payload, reason=payload),
            finding(payload, "info", agent=payload, tool=payload, reason=payload, turn=None, span_id=payload),
        ],
        labels=[label(name, 0.5, author=payload, note=payload) for name in ("coherence", "task_completion")],
    )
    queries = MemoryQueries()
    queries.judged = [GOOD_TRACE]
    outcomes = [*session_outcomes(0.4, 0.5), outcome("agent_reliability", 0.3, payload)]
    queries.add(session(payload, odd, outcomes=outcomes, agent=payload, services=[payload], user_id=payload), odd)
    storable_payload = payload.encode(errors="replace").decode()
    spans = [span(1, 1, gen_ai__operation__name="chat"), span(1, 2, parent=1, gen_ai__tool__name=storable_payload)]
    for each in spans:
        each.name = storable_payload
        each.attributes.add(key=storable_payload).value.string_value = storable_payload
        each.events.add(name=storable_payload)
    queries.assembled[GOOD_TRACE] = assembled(*spans)
    texts = dict.fromkeys(("question", "version", "model", "instructions", "data", "reply", "problem"), payload)
    queries.told = [
        {
            "agent": payload,
            "service": payload,
            "environment": payload,
            "owner": payload,
            "alarm_id": "a" * 16,
            "kind": "failing",
            "severity": "critical",
            "state": "firing",
            "since": "2026-03-02T09:00:00Z",
            "until": None,
            "title": payload,
            "evidence": payload,
            "problem_id": None,
            "examples": [],
            "link": f"/agents/{quote(payload.encode(errors='replace'), safe='')}",
        }
    ]
    queries.asked[GOOD_TRACE] = [exchange(**texts), exchange(**{**texts, "reply": None})]
    return queries


def rendered(payload: str) -> list[str]:
    queries = infected(payload)
    # What cannot be stored is refused before it is asked for.
    asked = payload if storable(payload) == payload else "payload"
    return [
        listed(queries),
        listed(queries, user=asked, text=asked),
        session_page(queries, payload),
        sessions.start(site(queries), {}),
        alarms.alarms(site(queries), {"agent": asked}),
        trace_page(queries, GOOD_TRACE),
        trace_page(queries, GOOD_TRACE, span=span_id(2).hex()),
        review_page(queries, ReviewRequest(agent=payload, version=payload, by=payload, labelled=GOOD_TRACE)),
        review_page(queries, ReviewRequest(name=payload, skip=(GOOD_TRACE,))),
        site(queries).error(404, payload),
        listed(MemoryQueries(), agent=asked),
    ]


@cache
def plain_shapes() -> list[list[tuple[str, list[str]]]]:
    return [Elements(page).shape for page in rendered("payload")]


KINDS = {*FindingKind, *LOOP_KINDS}
"""Choices of the form: one of them is selected, which is markup of its own."""
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
            assert (attributes.get("href") or "/").startswith(("/", "#"))
        page.encode()


def test_no_page_holds_a_character_that_a_terminal_obeys() -> None:
    for page in rendered("a\x1b[2J\x07\x9b\x00b"):
        assert not set("\x1b\x07\x9b\x00") & set(page)


def test_content_is_shown_as_it_is() -> None:
    payload = "{{ 7 * 7 }} & <b>bold</b> \"quoted\" 'too'"
    for page in rendered(payload):
        assert payload in Elements(page).text


@settings(max_examples=inputs(0.6))
@given(payload=st.text(st.characters(), min_size=1, max_size=30).filter(lambda text: text not in KINDS))
def test_no_text_at_all_becomes_markup(payload: str) -> None:
    for harmless, page in zip(plain_shapes(), rendered(payload), strict=True):
        assert Elements(page).shape == harmless


def test_pages_hold_our_script_alone_and_load_nothing_from_elsewhere() -> None:
    everything = [
        listed(travel_agent()),
        listed(travel_agent(), order="newest"),
        listed(MemoryQueries()),
        *(session_page(travel_agent(), session_id) for session_id in travel_agent().all_sessions),
        *(trace_page(travel_agent(), trace_id) for trace_id in travel_agent().all_traces),
    ]
    for page in everything:
        for tag, attributes in Elements(page).elements:
            assert tag not in ("style", "iframe", "object", "embed")
            assert tag != "script" or attributes["src"].startswith("/page.js?")
            assert (attributes.get("src") or attributes.get("href") or "/").startswith(("/", "#"))


@pytest.mark.parametrize(
    ("render", "lives"),
    [
        pytest.param(listed, True, id="the first sessions"),
        pytest.param(lambda queries: listed(queries, cursor="after-1"), False, id="further sessions"),
        pytest.param(lambda queries: listed(queries, text="hi"), True, id="beside a form"),
        pytest.param(lambda queries: session_page(queries, "s-43"), True, id="a running session"),
        pytest.param(lambda queries: session_page(queries, SILENT_TRACE), False, id="an ended session"),
        pytest.param(lambda queries: trace_page(queries, RUNNING_TRACE), True, id="a running trace"),
        pytest.param(lambda queries: trace_page(queries, GOOD_TRACE), False, id="a scored trace"),
    ],
)
def test_only_what_moves_reloads(render: object, lives: bool) -> None:
    page = render(travel_agent())
    assert ('class="live"' in page) is lives


def test_without_a_script_a_page_reloads_but_not_beside_a_form() -> None:
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in listed(travel_agent())
    assert "http-equiv" not in listed(travel_agent(), text="hi")


def test_a_missing_score_says_why_and_never_looks_like_a_number() -> None:
    text = Elements(trace_page(travel_agent(), SILENT_TRACE)).text
    assert "no content" in text
    assert "the answer was not recorded; set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY" in text
    assert "0.00" not in text


def test_the_list_says_what_is_wrong_with_a_judge_that_scores_wait_for() -> None:
    waiting = outcome("agent_reliability", None, "29 of 29 traces are not judged", metadata={PENDING_TRACES: 29})
    queries = MemoryQueries()
    said = trace(GOOD_TRACE, "s", turn("hi", "ok"), began=0)
    queries.add(session("s", said, outcomes=[waiting]), said)
    assert "Scores wait" not in listed(queries)
    waiting["metadata"][JUDGE_TROUBLE] = "the judge <b> is away"
    queries.add(session("s", said, outcomes=[waiting]), said)
    page = listed(queries)
    assert "Scores wait: the judge &lt;b&gt; is away." in page


def test_a_session_outlives_its_traces() -> None:
    queries = travel_agent()
    del queries.all_traces[LOOP_TRACES[0]]
    text = Elements(session_page(queries, "refund-1187")).text
    assert "no longer kept" in text
    assert "#5" in text


def test_large_traces_are_cut_and_say_so() -> None:
    calls = [call(f"tool_{number}") for number in range(formats.SHOWN_ITEMS + 7)]
    big = trace(GOOD_TRACE, None, turn("x" * (formats.SHOWN_CHARACTERS + 5), "ok", *calls), began=0)
    queries = MemoryQueries()
    queries.add(session(GOOD_TRACE, big, outcomes=[]), big)
    page = trace_page(queries, GOOD_TRACE)
    assert "7 more tool calls in the JSON" in page
    assert "5 more characters in the JSON" in page
    assert len(page) < 300_000


def test_what_is_unknown_is_an_error_with_a_name() -> None:
    queries = travel_agent()
    with pytest.raises(NotFound, match="nobody"):
        session_page(queries, "nobody")
    with pytest.raises(NotFound, match="0000"):
        trace_page(queries, "0" * 32)
    with pytest.raises(InvalidRequest, match="older_than"):
        session_page(queries, "s-42", older_than="٣")


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
        for name, each in Elements(session_page(queries, "s")).elements
        if name == "rect" and each.get("class") in ("plain", "bad")
    ]
    assert shown["class"] == tone


def test_only_a_judge_makes_anything_green() -> None:
    outcomes = [
        outcome("coherence", 0.9, "close", threshold=0.5),
        outcome("tool_use_correctness", 1.0, "as expected", method="exact", threshold=0.7),
        outcome("task_completion", 0.9, "done", method="llm", threshold=0.5),
    ]
    assert [formats.tone(each) for each in outcomes] == ["plain", "plain", "good"]
    queries = MemoryQueries()
    member = trace(GOOD_TRACE, "s", turn("hi", "yes"), began=0, outcomes=outcomes[:2])
    queries.add(session("s", member, outcomes=session_outcomes(0.97, 0.75)), member)
    shown = [listed(queries), session_page(queries, "s"), trace_page(queries, GOOD_TRACE)]
    classes = {
        name for page in shown for _, each in Elements(page).elements for name in (each.get("class") or "").split()
    }
    assert "good" not in classes
    # Nor has the state of the work a colour of its own.
    assert ".status.scored" not in asset("style.css").decode()


def test_a_trace_shows_what_people_say_and_what_the_judge_was_asked() -> None:
    found = outcome("task_completion", 0.25, "half of it", method="llm", model="gpt-4o-mini")
    asked = trace(GOOD_TRACE, "s", turn("hi", "yes"), began=0, outcomes=[found])
    asked["labels"] = [label("task_completion", 1.0, "ann", "all was done"), label("coherence", 0.0)]
    queries = MemoryQueries()
    queries.add(session("s", asked, outcomes=[]), asked)
    queries.asked[GOOD_TRACE] = [exchange(), exchange(question="plan", reply=None, problem="no valid reply")]
    text = " ".join(Elements(trace_page(queries, GOOD_TRACE)).text.split())
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
            "$0.00012",
            "Say how far the outcome completes the task.",
            "tell the weather",
            "no valid reply",
        )
    ]
    assert places == sorted(places)
    assert "Somebody says that coherence is 0.00." in text


def test_a_trace_that_was_not_judged_has_no_questions() -> None:
    assert "Asked of the judge" not in trace_page(travel_agent(), GOOD_TRACE)


def test_what_died_and_what_is_open_is_shown() -> None:
    spans = [{"span_id": "b7ad6b7169203331", "name": "<b>search</b>", "started_at": "2026-03-02T09:00:00.000000Z"}]
    reason = "the agent died in the middle: there was open: search"
    member = trace(GOOD_TRACE, "s", began=0, open_spans=spans, status_reason=reason)
    queries = MemoryQueries()
    queries.add(session("s", member, outcomes=[], status_reason=reason, running_traces=[GOOD_TRACE]), member)
    text = " ".join(Elements(trace_page(queries, GOOD_TRACE)).text.split())
    assert text.index("Open spans the agent died in the middle") < text.index("<b>search</b>") < text.index("Scores")
    of_session = " ".join(Elements(session_page(queries, "s")).text.split())
    assert of_session.index("the agent died in the middle") < of_session.index("Findings")
    assert "died" in Elements(listed(queries)).text


def test_the_list_begins_with_what_should_be_looked_at_first() -> None:
    page = Elements(listed(travel_agent()))
    text = " ".join(page.text.split())
    places = [text.index(each) for each in ("refund-1187", "s-42", "booking/2026-03", "s-43")]
    assert places == sorted(places)
    assert "3 errors repeated answer" in text
    assert "2 warnings tool failed" in text
    assert "needs a judge" in text


def test_every_page_leads_to_the_description_of_the_api() -> None:
    links = [each["href"] for name, each in Elements(listed(travel_agent())).elements if name == "a"]
    assert DESCRIPTION_PATH in links


def test_the_list_of_an_agent_says_what_its_errors_are_worth() -> None:
    queries = travel_agent()
    queries.hit_rates["travel_agent"] = {
        "with_error": {"sessions": 10, "failed": 8, "rate": 0.8, "interval": [0.49, 0.943]},
        "without_error": {"sessions": 25, "failed": 0, "rate": 0.0, "interval": [0.0, 0.133]},
    }
    line = (
        "Of 35 sessions of this agent whose end is known, 8 of 10 (80 %, 95 % interval 49 to 94 %) of those with an "
        "error finding failed, 0 of 25 (0 %, 95 % interval 0 to 13 %) of those without one."
    )
    assert line in listed(queries, agent="travel_agent")
    assert line not in listed(queries)
    assert "whose end is known" not in listed(queries, agent="flight_search")


@pytest.mark.parametrize(
    ("sort", "says"),
    [
        pytest.param("with_error", "none has an error finding; 8 of 40 (20 %", id="none has one"),
        pytest.param("without_error", "of those with an error finding failed, none is without one.", id="all have one"),
    ],
)
def test_no_share_is_said_of_no_sessions(sort: str, says: str) -> None:
    known = {"sessions": 40, "failed": 8, "rate": 0.2, "interval": [0.1, 0.35]}
    found = {"with_error": known, "without_error": known}
    found[sort] = {"sessions": 0, "failed": 0, "rate": None, "interval": None}
    said = formats.hit_rate_words(found)  # type: ignore[arg-type]
    assert says in said
    assert "0 of 0" not in said


def test_the_form_holds_what_was_asked_and_the_next_page_asks_the_same() -> None:
    queries = travel_agent()
    for number in range(60):
        member = trace(f"{number:032x}", f"many-{number}", turn("hi", "yes"), began=number)
        queries.add(session(f"many-{number}", member, outcomes=[]), member)
    page = Elements(listed(queries, agent="travel_agent", order="newest"))
    fields = {each["name"]: each for name, each in page.elements if name in ("input", "select")}
    assert fields["agent"]["value"] == "travel_agent"
    assert {"order", "severity", "finding", "text", "service", "version", "user", "below", "since", "until"} < {*fields}
    assert [each["value"] for name, each in page.elements if name == "option" and "selected" in each] == [
        "newest",
        "",
        "",
    ]
    [following] = [each["href"] for name, each in page.elements if name == "a" and each.get("rel") == "next"]
    assert following == "/sessions?agent=travel_agent&order=newest&cursor=after-50"


@pytest.mark.parametrize(
    ("facts", "findings", "says"),
    [
        pytest.param(
            {}, [], "No finding. Recorded, and looked at: answers, arguments of tool calls, ", id="all was seen"
        ),
        pytest.param(
            {"results": "none", "history": "none"},
            [],
            "No finding. Not looked for: failures told in a result, repeated results (results of tool calls: not seen)"
            "; values that nobody said (earlier turns: the model's input does not show them).",
            id="not all was seen",
        ),
        pytest.param(
            {"answers": "some"},
            [finding()],
            "Not looked for: empty answers, tool calls written as text (answers: seen in part).",
            id="what was found does not say that there is no more",
        ),
        pytest.param(
            {"arguments": None, "results": None},
            [],
            "looked at: answers, reasons why the model stopped",
            id="what is not there is not missed",
        ),
    ],
)
def test_nothing_found_is_only_said_of_what_was_seen(
    facts: dict[str, str | None], findings: list[FindingDocument], says: str
) -> None:
    member = trace(GOOD_TRACE, "s", turn("hi", "yes"), began=0, findings=findings, seen=seen(**facts))
    queries = MemoryQueries()
    queries.add(session("s", member, outcomes=[]), member)
    text = " ".join(Elements(trace_page(queries, GOOD_TRACE)).text.split())
    assert says in text
    assert ("No finding." in text) is (not findings)


def test_scores_that_need_a_judge_are_one_line() -> None:
    member = trace(GOOD_TRACE, "s", turn("hi", "yes"), began=0, outcomes=unjudged("confidence", "plan_quality"))
    queries = MemoryQueries()
    queries.add(session("s", member, outcomes=session_outcomes(None, 0.25)), member)
    for page in (trace_page(queries, GOOD_TRACE), session_page(queries, "s")):
        text = Elements(page).text
        assert "2 scores need a judge" in text
        assert text.count("judge.base_url or judge.api_key") == 1
