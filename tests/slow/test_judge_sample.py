"""What the judge looks at of 300 recorded sessions, in a real collector with a judge over HTTP that knows the truth.

200 are conversations of tau-bench with the outcome that was recorded of them, 100 are recordings of instrumentations,
of which a turn without an answer has failed. Each is sent as a session of its own, some several times.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import cycle, islice
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from agenteval_collector.evaluation.referrals import sampled
from agenteval_collector.judge.panel import JUDGED
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.workload import otlp, taubench
from benchmarks.workload.conversation import Conversation
from tests.support.judge.completions import Received
from tests.support.judge.filling import fill
from tests.support.judge.judge_server import JudgeServer
from tests.support.resending import Resent, resent
from tests.support.running_collector import RunningCollector
from tests.support.truth import truths

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SHARED = Path(os.environ.get("AGENTEVAL_SHARED") or Path(__file__).parents[3] / "shared")
RECORDED = SHARED / "taubench" / "gpt-4o-airline-tasks-00-24.json"
OF_TAUBENCH, OF_CORPUS = 200, 100
SESSIONS = OF_TAUBENCH + OF_CORPUS
ONLY_CONFIDENCE = {name: {"enabled": False} for name in JUDGED if name != "confidence"}


@dataclass(frozen=True, slots=True)
class Known:
    """A session with what is known of it: whether it failed."""

    session: Resent
    failed: bool


@pytest.fixture(scope="module")
def conversations() -> list[Conversation]:
    if not RECORDED.exists():
        pytest.skip(f"{RECORDED} is absent: the recorded conversations are not part of the repository")
    return taubench.read(RECORDED)


@pytest.fixture(scope="module")
def known(conversations: list[Conversation]) -> list[Known]:
    """The sessions, those of both sources mixed."""
    of_taubench = islice(cycle(conversations), OF_TAUBENCH)
    found = [of_conversation(each, f"tau-session-{number}") for number, each in enumerate(of_taubench)]
    of_corpus = list(islice(cycle(truths()), OF_CORPUS))
    for number, truth in enumerate(of_corpus):
        failed = any(turn["final_output"] is None for turn in json.loads(truth.read_text())["turns"])
        found.insert(3 * number, Known(resent(truth, f"corpus-session-{number}"), failed))
    return found


def of_conversation(conversation: Conversation, session_id: str) -> Known:
    """The conversation under another id. What the user says first in each turn names the recording: the judge knows of
    this one whether it succeeded."""
    turns = [replace(turn, question=f"({conversation.session_id}) {turn.question}") for turn in conversation.turns]
    sent = replace(conversation, session_id=session_id, turns=tuple(turns))
    spans = list(otlp.spans([sent], started_at=time.time_ns(), marker=False))
    requests = otlp.requests([sent], started_at=time.time_ns(), marker=False)
    session = Resent(
        session_id=session_id,
        trace_ids={span.trace_id.hex() for span in spans},
        spans=[ExportTraceServiceRequest.FromString(request) for request in requests],
    )
    return Known(session, failed=not conversation.success)


class Omniscient:
    """A judge that passes what succeeded."""

    def __init__(self, conversations: list[Conversation]) -> None:
        self._succeeded = {each.session_id: each.success for each in conversations}

    def __call__(self, asked: Received) -> str:
        assert asked.schema is not None
        named = re.search(r"\((tau-\d+-\d+)\)", asked.text)
        if named:
            passes = self._succeeded[named[1]]
        else:
            passes = all(entry["kind"] != "no_answer" for entry in asked.data["transcript"])
        return json.dumps(fill(asked.schema, 0.9 if passes else 0.1))


@pytest.fixture(scope="module")
def judge(conversations: list[Conversation]) -> Iterator[JudgeServer]:
    with JudgeServer(responder=Omniscient(conversations)) as server:
        yield server


@pytest.fixture(scope="module")
def running(judge: JudgeServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    config = {"base_url": judge.url, "sample": 0.1, "escalate": 0.1, "redact": False}
    folder = tmp_path_factory.mktemp("sample")
    with RunningCollector(folder, judge=config, evaluators=ONLY_CONFIDENCE) as collector:
        yield collector


@pytest.fixture(scope="module")
def outcomes(running: RunningCollector, known: list[Known]) -> dict[str, list[Any]]:
    """The outcomes of confidence, by session."""
    for each in known:
        each.session.send(running)
    return {
        each.session.session_id: [
            outcome
            for document in each.session.settled(running).values()
            for outcome in document["outcomes"]
            if outcome["name"] == "confidence"
        ]
        for each in known
    }


def of_part(outcomes: Mapping[str, list[Any]], part: str) -> set[str]:
    return {session for session, found in outcomes.items() if any(each["part"] == part for each in found)}


def counted(running: RunningCollector, part: str, label: str) -> int:
    """Judged outcomes of the part with this label."""
    lines = re.findall(r"agenteval_evaluation_outcomes_total\{(.*)\} (\S+)", running.get("/metrics"))
    wanted = ('name="confidence"', f'agenteval_part="{part}"', f'label="{label}"')
    return round(sum(float(value) for labels, value in lines if all(each in labels for each in wanted)))


def plain(running: RunningCollector, name: str) -> int:
    [value] = re.findall(rf"^{name} (\S+)", running.get("/metrics"), re.MULTILINE)
    return round(float(value))


def test_a_tenth_is_drawn_at_random_and_at_most_a_tenth_escalated_apart_from_it(
    running: RunningCollector, judge: JudgeServer, outcomes: dict[str, list[Any]]
) -> None:
    assert len(outcomes) == SESSIONS
    drawn, escalated = of_part(outcomes, "random"), of_part(outcomes, "escalated")
    assert 0.05 * SESSIONS <= len(drawn) <= 0.15 * SESSIONS
    assert 0 < len(escalated) <= 0.1 * SESSIONS
    assert not drawn & escalated
    assert plain(running, "agenteval_collector_sessions_escalated_total") == len(escalated)
    assert plain(running, "agenteval_collector_sessions_not_escalated_total") > 0
    left_out = {each["status"] for session in outcomes.keys() - drawn - escalated for each in outcomes[session]}
    assert left_out == {"sampled_out", "no_content", "not_applicable"}
    judged = [each for found in outcomes.values() for each in found if each["status"] == "scored"]
    assert {each["part"] for each in judged} == {"random", "escalated"}
    assert 0 < len(judge.requests) <= len(judged), "answers that are known are not asked for again"


def test_what_is_drawn_says_with_which_probability(outcomes: dict[str, list[Any]]) -> None:
    drawn, escalated = of_part(outcomes, "random"), of_part(outcomes, "escalated")
    assert drawn
    assert escalated
    for session in drawn:
        assert {each["metadata"].get("probability") for each in outcomes[session] if each["part"]} == {0.1}
    for session in escalated:
        assert all("probability" not in each["metadata"] for each in outcomes[session])


def test_the_rate_that_is_counted_is_that_of_the_sessions_drawn(
    running: RunningCollector, known: list[Known], outcomes: dict[str, list[Any]]
) -> None:
    drawn = of_part(outcomes, "random")
    judged = [each for session in drawn for each in outcomes[session] if each["status"] == "scored"]
    passed = sum(each["success"] for each in judged)
    assert (counted(running, "random", "pass"), counted(running, "random", "fail")) == (passed, len(judged) - passed)
    told = {session: any(each["success"] is False for each in outcomes[session]) for session in drawn}
    truth = {each.session.session_id: each.failed for each in known if each.session.session_id in drawn}
    assert told == truth


def test_the_failure_rate_of_what_is_drawn_is_unbiased_over_200_draws(known: list[Known]) -> None:
    """Each draw sends the sessions under other ids; what is escalated is no part of it (test_judging_selection)."""
    rates = [
        fmean(each.failed for each in known if sampled(f"{draw}-{each.session.session_id}", 0.1)) for draw in range(200)
    ]
    error = stdev(rates) / sqrt(200)
    assert error < 0.01
    assert fmean(rates) == pytest.approx(fmean(each.failed for each in known), abs=3 * error)
