"""Five sample sessions of a travel agent, as documents of the API."""

from tests.support.memory_queries import (
    GOOD_TRACE,
    MemoryQueries,
    call,
    finding,
    outcome,
    seen,
    session,
    session_outcomes,
    trace,
    turn,
    unjudged,
)

TOOL_TRACE = "0af7651916cd43dd8448eb211c80319c"


LOOP_TRACES = tuple(f"{number}817712651a51c41b7eacc5ae93b638{number}" for number in range(1, 6))


SILENT_TRACE = "994babf42cd5e96f92051989a1d30d1c"


RUNNING_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def travel_agent() -> MemoryQueries:
    """Five sessions: one goes well, a tool fails, one repeats itself, one has no content, one is running."""
    queries = MemoryQueries()
    _add_good(queries)
    _add_tool_error(queries)
    _add_loop(queries)
    _add_silent(queries)
    _add_running(queries)
    return queries


def _add_good(queries: MemoryQueries) -> None:
    good = trace(
        GOOD_TRACE,
        "booking/2026-03/αθήνα",
        turn(
            "Will it rain in Athens on Friday?",
            "No: Friday in Athens is sunny with a high of 19 °C.",
            call("get_weather", {"city": "Athens", "date": "2026-03-06"}, {"sky": "sunny", "high_c": 19}),
        ),
        turn(
            "Then book the cheapest morning flight from Berlin for two.",
            "Done. You are booked on A3 821 from Berlin to Athens, Friday 08:15, two passengers, 318 € in total. "
            "The confirmation is on its way to your inbox.",
            call(
                "search_flights",
                {"origin": "BER", "destination": "ATH", "date": "2026-03-06"},
                [
                    {"flight_id": "A3-821", "departs": "08:15", "price_eur": 159},
                    {"flight_id": "LH-1754", "price_eur": 204},
                ],
            ),
            call("book_flight", {"flight_id": "A3-821", "passengers": 2}, {"confirmation": "QX7K2"}),
        ),
        began=30,
        outcomes=[
            outcome("coherence", 0.71, "input and output are close: cosine similarity 0.71", threshold=0.3),
            outcome("loop_detection", 0.98, "no answer of the last 3 traces is repeated"),
        ],
        findings=[
            finding(
                "value_not_said",
                "info",
                turn=1,
                tool="book_flight",
                reason="book_flight was called with 318, which nothing before contains",
            )
        ],
    )
    queries.add(session("booking/2026-03/αθήνα", good, outcomes=session_outcomes(None, 0.25), status="idle"), good)


def _add_tool_error(queries: MemoryQueries) -> None:
    failed = trace(
        TOOL_TRACE,
        "s-42",
        turn(
            "What's the weather in Reykjavik tomorrow?",
            "I could not reach the weather service. Shall I try again in a minute?",
            call(
                "get_weather",
                {"city": "Reykjavik", "date": "2026-03-03"},
                error="TimeoutError: no answer in 10 s",
                span_id="00f067aa0ba902b7",
            ),
            call("get_weather", "city=Reykjavik, date=", error="ValueError: date is missing"),
        ),
        began=60,
        user_id=None,
        revision=2,
        partial=True,
        outcomes=[
            outcome("coherence", 0.22, "input and output have little in common", threshold=0.3, coverage=0.5),
            outcome("loop_detection", None, "the session has no earlier trace to compare with"),
            outcome("tool_correctness", None, "the judge answered with 503 three times", status="failed", method="llm"),
        ],
        findings=[
            finding(
                "tool_failed",
                "warning",
                span_id=span_id,
                reason=f"get_weather failed: {error}",
                trace_id=TOOL_TRACE,
                metadata={"told_by": "status"},
            )
            for span_id, error in (
                ("00f067aa0ba902b7", "TimeoutError: no answer in 10 s"),
                ("53995c3f42cd8ad8", "ValueError: date is missing"),
            )
        ],
        seen=seen(answers="some", results="some", finish_reasons="none", history=None),
    )
    queries.add(session("s-42", failed, outcomes=session_outcomes(0.62, 0.5), user_id=None), failed)


def _add_loop(queries: MemoryQueries) -> None:
    refusal = "I'm sorry, I could not find that. Could you please tell me your booking reference?"
    asked = (
        "Where is my refund?",
        "My booking reference is QX7K2.",
        "I just told you: QX7K2.",
        "Q-X-7-K-2!",
        "Is anybody there?",
    )
    traces = [
        trace(
            trace_id,
            "refund-1187",
            turn(question, refusal),
            began=100 + 20 * number,
            outcomes=[
                outcome(
                    "coherence", max(0.05, 0.44 - 0.09 * number), "cosine similarity of input and output", threshold=0.3
                ),
                outcome("loop_detection", 1.0, "first answer of the session")
                if number == 0
                else outcome("loop_detection", 0.0, f"repeats the answer of trace {LOOP_TRACES[0][:8]} word for word"),
                outcome("task_completion", 0.1, "no refund", method="llm", threshold=0.5, model="gpt-4o-mini")
                if number == 4
                else outcome("task_completion", 0.9, "asked for what is missing", method="llm", threshold=0.5),
            ],
            findings=[
                finding(
                    "repeated_answer",
                    tool=None,
                    reason="the answer is the third in a row that says the same",
                    mode="alarm",
                    trace_id=trace_id,
                )
            ]
            if number >= 2
            else [],
        )
        for number, (trace_id, question) in enumerate(zip(LOOP_TRACES, asked, strict=True))
    ]
    queries.add(
        session(
            "refund-1187",
            *traces,
            outcomes=session_outcomes(0.0, 0.5),
        ),
        *traces,
    )


def _add_silent(queries: MemoryQueries) -> None:
    reason = "the answer was not recorded; set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"
    silent = trace(
        SILENT_TRACE,
        None,
        turn(None, None, call("search_flights")),
        began=15,
        agent="flight_search",
        agents=["flight_search"],
        user_id=None,
        status="unscored",
        available_tools=[],
        outcomes=[
            outcome("coherence", None, reason, status="no_content", threshold=0.3),
            outcome("loop_detection", None, reason, status="no_content"),
            *unjudged(),
        ],
        seen=seen(answers="none", arguments="none", results="none", finish_reasons="none", history=None),
        names_session=False,
    )
    unscored = [outcome("agent_reliability", None, "no trace has a signal", method="exact", coverage=0.0)]
    queries.add(
        session(SILENT_TRACE, silent, outcomes=unscored, agent="flight_search", user_id=None, status="ended"), silent
    )


def _add_running(queries: MemoryQueries) -> None:
    running = trace(
        RUNNING_TRACE,
        "s-43",
        turn("Find me a train from Lisbon to Porto tonight.", None, call("search_trains", {"from": "Lisbon"})),
        began=236,
        complete=False,
        status="running",
        seen=dict.fromkeys(seen()),
    )
    queries.add(session("s-43", running, outcomes=[], status="running"), running)
