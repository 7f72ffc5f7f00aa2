"""How often the judge is asked about a trace, over all recordings, in a collector with a judge over real HTTP."""

from pathlib import Path

import pytest
from agenteval_collector.judge.panel import REQUESTS

from tests.support.judge.judge_server import JudgeServer
from tests.support.resending import resent
from tests.support.running_collector import RunningCollector
from tests.support.truth import truths

pytestmark = pytest.mark.slow


def test_no_trace_takes_more_than_five_requests_where_every_score_is_near_its_threshold(tmp_path: Path) -> None:
    sessions = [resent(truth, f"session-{number}") for number, truth in enumerate(truths())]
    with JudgeServer(score=0.5) as judge:
        # So wide a band that every score asks for a second look.
        with RunningCollector(tmp_path, judge={"base_url": judge.url, "band": 0.5}) as collector:
            for session in sessions:
                session.send(collector)
            traces = [trace_id for session in sessions for trace_id in session.settled(collector)]
            asked = [collector.get(f"/api/v1/traces/{each}/judgements")["items"] for each in traces]
        made = [sum(not exchange["cached"] for exchange in of_trace) for of_trace in asked]
        assert sum(made) == len(judge.requests) > len(sessions), "each request is of one of the traces"
    assert max(map(len, asked)) == REQUESTS == 5, "answers that were known from other traces count, too"
