from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector import plugins
from agenteval_collector.clock import ManualClock
from agenteval_collector.config import ConfigError, load
from agenteval_collector.core import EvaluationCore
from agenteval_collector.evaluation import NoJudge
from agenteval_collector.evaluators import EvaluationContext
from agenteval_collector.stores import Store

from otel_agenteval.outcome import Method, Outcome, Score
from tests.support.assembling import Counting
from tests.support.otlp import trace_id, turn
from tests.support.scoring import Scoring, assembled


class Brief:
    """Answers should be short."""

    name, version, method = "brief", "1", Method.EXACT

    def evaluate(self, context: EvaluationContext) -> Outcome:
        answer = context.trace.output or ""
        return Score(value=1.0 if len(answer) < 20 else 0.0, reason=f"{len(answer)} characters")


class Nameless:
    version, method = "1", Method.EXACT


class Taken(Brief):
    name = "coherence"


class Unversioned(Brief):
    version = ""


class Judge(Brief):
    method = Method.LLM


class Idle:
    name, version, method = "idle", "1", Method.EXACT


def entry(kind: str, name: str = "x") -> EntryPoint:
    return EntryPoint(name=name, value=f"{__name__}:{kind}", group=plugins.GROUP)


def core(tmp_path: Path, *entries: EntryPoint, **sections: Any) -> EvaluationCore:
    store = Store(tmp_path / "agenteval.db", ManualClock())
    try:
        return EvaluationCore(load(environ={}, flags=sections), store, ManualClock(), Counting(), NoJudge(), entries)
    finally:
        store.shutdown()


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        pytest.param("Absent", "does not load: AttributeError", id="a class that does not exist"),
        pytest.param("entry", "does not load: TypeError", id="no class"),
        pytest.param("Nameless", "its name is None", id="without a name"),
        pytest.param("Taken", "another evaluator is called 'coherence'", id="the name of a built-in one"),
        pytest.param("Unversioned", "its version is ''", id="without a version"),
        pytest.param("Judge", "its method is .*not one of exact", id="a method that is the judge's"),
        pytest.param("Idle", "it has no method evaluate", id="without a method"),
    ],
)
def test_what_is_no_evaluator_stops_the_start_and_is_named(tmp_path: Path, kind: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"entry point x = {__name__}:{kind}: {problem}"):
        core(tmp_path, entry(kind))


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"entry point y .*another evaluator is called 'brief'"):
        plugins.load([entry("Brief", "y"), entry("Brief")], ())


def test_an_evaluator_of_a_users_own_scores_like_a_built_in_one(tmp_path: Path) -> None:
    def found(name: str, **settings: Any) -> Any:
        scoring = Scoring(tmp_path / name, plugged=[entry("Brief")], evaluators={"brief": settings})
        scoring.put(assembled(turn(1, "hi", "hello")))
        outcomes = {each["name"]: each for each in scoring.trace(trace_id(1).hex())["outcomes"]}
        scoring.close()
        return outcomes.get("brief")

    by_default = found("default")
    assert (by_default["score"], by_default["threshold"], by_default["method"]) == (1.0, 0.5, "exact")
    assert found("threshold", threshold=0.75)["threshold"] == 0.75
    assert found("off", enabled=False) is None


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        pytest.param({"evaluators": {"coherense": {}}}, r"evaluators\.coherense: no evaluator", id="a misspelt one"),
        pytest.param(
            {"evaluators": {"tone": {}}, "judge": {"rubrics": [{"name": "tone", "question": "?"}]}},
            r"evaluators\.tone: is a rubric",
            id="a rubric's settings in the wrong place",
        ),
        pytest.param(
            {"judge": {"rubrics": [{"name": "confidence", "question": "?"}]}},
            r"judge\.rubrics: another evaluator is called 'confidence'",
            id="a rubric with a built-in one's name",
        ),
        pytest.param(
            {"judge": {"rubrics": [{"name": "tone", "question": "?"}, {"name": "tone", "question": "!"}]}},
            r"judge\.rubrics: another evaluator is called 'tone'",
            id="two rubrics of one name",
        ),
    ],
)
def test_settings_of_what_does_not_exist_stop_the_start(tmp_path: Path, sections: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        core(tmp_path, **sections)
