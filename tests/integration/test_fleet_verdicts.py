"""Agents behind a receiver hear of what other processes find, and other processes hear of their death."""

import subprocess
import sys
from queue import Queue

import pytest
from agenteval_collector.live.open_spans import GONE_AFTER

from otel_agenteval.verdict import Verdict
from tests.support.clock import ManualClock
from tests.support.conversing import Agent
from tests.support.eventually import eventually
from tests.support.roles import Start

pytestmark = pytest.mark.distributed

ANSWER = "I am sorry, I could not find your booking. Could you tell me its number, please?"
QUESTIONS = ("Where is my booking?", "Is it under Miller?", "Then try Smith.", "And under Jones?")


def test_a_verdict_of_another_process_reaches_the_agent_once(start_role: Start) -> None:
    receiver, _, _, server = (start_role(role) for role in ("receive", "assemble", "evaluate", "serve"))
    heard: Queue[Verdict] = Queue()
    with Agent(receiver.addresses["grpc"], on_verdict=heard.put) as agent:
        for question in QUESTIONS:
            trace = agent.answer(question, ANSWER, session_id="s1")
            eventually(lambda trace=trace: (server.get(f"/api/v1/traces/{trace}") or {}).get("complete"), within=60)  # type: ignore[misc]
        verdict = heard.get(timeout=60)
        assert (verdict.kind, verdict.session_id) == ("repeated_answer", "s1")
        found = [
            each["trace_id"]
            for each in eventually(lambda: server.get("/api/v1/sessions/s1")["findings"], within=30)
            if each["kind"] == "repeated_answer"
        ]
        later = [heard.get(timeout=30) for _ in found[1:]]
        assert heard.empty()
    assert sorted([verdict.trace_id, *(each.trace_id for each in later)]) == sorted(found)


def test_the_death_of_an_agent_behind_a_receiver_is_found_by_who_assembles(start_role: Start) -> None:
    clock = ManualClock()
    roles = ("receive", "assemble", "assemble", "evaluate", "serve")
    receiver, *_, server = (start_role(role, clock) for role in roles)
    command = [sys.executable, "-m", "tests.support.dying_agent", receiver.addresses["grpc"], "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        path = f"/api/v1/traces/{process.stdout.readline().strip()}"
        try:
            eventually(lambda: len((server.get(path) or {"open_spans": []})["open_spans"]) == 2, within=60)
        finally:
            process.kill()

    def stored() -> str:
        # Again each time: what the agent has sent last is on its way through the topics, and is heard of later.
        clock.advance(GONE_AFTER + 1)
        document = server.get(path)
        return str(document["status_reason"]) if document["complete"] else ""

    assert "the agent died in the middle" in eventually(stored, within=60, every=2.0)
    session = server.get("/api/v1/sessions/s-1")
    assert session["status"] != "running"
    assert "the agent died in the middle" in session["status_reason"]
