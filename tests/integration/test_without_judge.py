"""Outcomes of traces and sessions where there is no judge."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.judge.panel import JUDGED

from tests.support.otlp import span, trace_id, turn
from tests.support.scoring import Scoring, assembled

NO_JUDGE = "this collector has no judge: set judge.base_url or judge.api_key, and leave judge.enabled on"
CALLED: dict[str, Any] = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "search",
    "gen_ai.tool.call.arguments": json.dumps({"q": "order"}),
}


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator[Scoring]:
    made = Scoring(tmp_path)
    yield made
    made.close()


def outcomes(scoring: Scoring, number: int) -> dict[str, Any]:
    found = scoring.trace(trace_id(number).hex())["outcomes"]
    by_name = {each["name"]: each for each in found}
    assert len(by_name) == len(found), "one outcome of each name"
    return by_name


def statuses(scoring: Scoring, number: int) -> dict[str, str]:
    return {name: each["status"] for name, each in outcomes(scoring, number).items() if name in JUDGED}


def test_every_judged_metric_says_that_it_takes_a_judge_and_how_to_get_one(scoring: Scoring) -> None:
    thinking = span(1, 3, parent=1, gen_ai__operation__name="chat", gen_ai__output__messages=json.dumps(
        [{"role": "assistant", "parts": [{"type": "reasoning", "content": "first search"}]}]
    ))  # fmt: skip
    scoring.put(
        assembled(turn(1, "Where is it?", "On its way.", session="s"), span(1, 2, parent=1, **CALLED), thinking)
    )
    found = outcomes(scoring, 1)
    assert {*found} == {*JUDGED, "coherence", "loop_detection"}
    for name in JUDGED:
        outcome = found[name]
        assert (outcome["status"], outcome["reason"]) == ("no_judge", NO_JUDGE)
        assert (outcome["method"], outcome["evaluator_version"], outcome["model"]) == ("llm", JUDGED[name], None)
        assert (outcome["score"], outcome["success"]) == (None, None)
    counted = {each.evaluation.name for each in scoring.emitted if each.first}
    assert counted == {*found}
    assert scoring.referred == []


def test_what_no_judge_could_judge_says_so_instead(scoring: Scoring) -> None:
    scoring.put(assembled(turn(1, "hi", "hello", session="s")), assembled(turn(2, "hi", None, session="s")))
    tools, plans = ("tool_correctness", "argument_correctness"), ("plan_adherence", "plan_quality")
    assert {name for name, status in statuses(scoring, 1).items() if status == "not_applicable"} == {*tools, *plans}
    assert {name for name, status in statuses(scoring, 2).items() if status == "no_content"} == {
        *JUDGED.keys() - {*tools, "plan_quality"}
    }


def test_a_session_without_a_judge_has_no_score_whatever_was_said(scoring: Scoring) -> None:
    for number in range(1, 9):
        scoring.put(assembled(turn(number, "Where is it?", "I cannot help with that order.", session="s")))
    document = scoring.session("s")
    assert {(each["status"], each["score"]) for each in document["outcomes"]} == {("no_judge", None)}
    assert document["flagged_traces"] == []
    assert {level.evaluator for level in scoring.core.live.session_levels()} == {None}


def test_embedding_scores_have_a_threshold_only_where_the_settings_give_one(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"evaluators": {"coherence": {"threshold": 1.0}}}
    for name, sections in (("default", {}), ("configured", settings)):
        scoring = Scoring(tmp_path / name, **sections)
        scoring.put(assembled(turn(1, "Where is it?", "Bananas are yellow.", session="s")))
        coherence = outcomes(scoring, 1)["coherence"]
        expected = (1.0, False) if sections else (None, None)
        assert (coherence["threshold"], coherence["success"]) == expected
        assert scoring.session("s")["flagged_traces"] == [], "only a judged failure flags a trace"
        scoring.close()


RUNNING = """
import sys
from pathlib import Path
import agenteval_collector.cli
from tests.support.running_collector import RunningCollector

for judge in ({}, {"base_url": "http://127.0.0.1:9/v1"}):
    RunningCollector(Path(sys.argv[1]), judge=judge).stop()
    print("openai" in sys.modules, "scipy.stats" in sys.modules)
"""


def test_the_openai_client_is_loaded_where_there_is_a_judge_only_and_scipy_stats_nowhere(tmp_path: Path) -> None:
    """Importing the client takes as long as all else together, and `scipy.stats` a quarter and 46 MiB."""
    command = [sys.executable, "-c", RUNNING, str(tmp_path)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed == "False False\nTrue False\n"
