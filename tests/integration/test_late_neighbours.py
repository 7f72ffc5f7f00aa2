"""What is said of a trace beside others of its session, after one of them came late, or it has joined them late."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_agenteval.finding import FindingKind
from otel_agenteval.outcome import Status, Unscored
from tests.support.otlp import trace_id, turn
from tests.support.referring import Referring, judged, judgement
from tests.support.scoring import Scoring, assembled
from tests.support.turns import Call, turn_of

SAID = "To change your reservation I need your user ID. Please tell me your user ID."


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("order", [(1, 2, 3, 4), (4, 3, 2, 1), (4, 1, 3, 2)])
def test_a_repeated_answer_is_told_of_the_same_in_any_order(scoring: Scoring, order: tuple[int, ...]) -> None:
    for number in order:
        scoring.put(assembled(turn(number, f"question {number}", SAID, session="s")))
    found = {
        number: each["metadata"]["turns_back"]
        for number in order
        for each in scoring.trace(trace_id(number).hex())["findings"]
        if each["kind"] == FindingKind.REPEATED_ANSWER
    }
    assert found == {3: 2, 4: 3}
    assert len([each for each in scoring.told if each.kind == FindingKind.REPEATED_ANSWER]) == 2


def test_what_the_judge_says_is_of_the_session_that_its_trace_has_joined_meanwhile(scoring: Scoring) -> None:
    scoring.judging = Referring({"confidence": Unscored(status=Status.PENDING, reason="asked")})
    scoring.restart()
    first, second = (assembled(each) for each in turn_of([Call("oslo", "rain")], whole=True))
    scoring.put(second)
    [job] = scoring.referred
    scoring.put(first)
    scoring.stage.store_judgements([judgement(job, judged(0.75))])
    session = scoring.session(trace_id(1).hex())
    assert session["signals"][trace_id(2).hex()]["confidence"] == 0.75
