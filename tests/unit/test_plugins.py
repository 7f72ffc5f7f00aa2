import re
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.app.scoring import EvaluationCore
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.config.sources import ConfigError, load
from agenteval_collector.evaluation.evaluators import EvaluationContext, plugins
from agenteval_collector.evaluation.ports import EverySession
from agenteval_collector.evaluation.referrals import Referrals
from agenteval_collector.model.news import no_events
from agenteval_collector.stores.store import Store
from typer.testing import CliRunner, Result

from otel_agenteval.outcome import Failure, Method, Outcome, Score, Status, Unscored
from tests.support.assembling import Counting
from tests.support.clock import ManualClock
from tests.support.otlp import trace_id, turn
from tests.support.scoring import EarlierTraces, Scoring, assembled


class Brief:
    """Answers should be short."""

    name, version, method = "brief", "1", Method.EXACT

    def evaluate(self, context: EvaluationContext) -> Outcome:
        answer = context.trace.output or ""
        return Score(value=1.0 if len(answer) < 20 else 0.0, reason=f"{len(answer)} characters")


class Plain(Brief):
    """A method as a plain text is the method of that name."""

    method = "exact"  # type: ignore[assignment]


class Exit:
    def __init__(self) -> None:
        raise SystemExit(3)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Subclass(Score):
    @property
    def status(self) -> Any:
        return "wonderful"


class Interrupted(Brief):
    def evaluate(self, context: EvaluationContext) -> Outcome:
        raise KeyboardInterrupt


def ends(error: BaseException) -> Callable[[], Outcome]:
    def end() -> Outcome:
        raise error

    return end


def scored(**changes: Any) -> Callable[[], Outcome]:
    """A score whose fields were changed after it was made, so that nothing has looked at them."""

    def score() -> Outcome:
        made = Score(value=0.5, reason="r")
        for name, value in changes.items():
            object.__setattr__(made, name, value)
        return made

    return score


ENDLESS: dict[str, Any] = {}
ENDLESS["self"] = ENDLESS

WRONG: dict[str, tuple[Callable[[], Any], str, str]] = {
    "none": (lambda: None, "TypeError", "returned a NoneType, not a Score"),
    "a number": (lambda: 0.4, "TypeError", "returned a float, not a Score"),
    "a subclass": (lambda: Subclass(value=0.5, reason="r"), "TypeError", "returned a Subclass, not a Score"),
    "metadata that is no JSON": (scored(metadata={"x": object()}), "ValueError", "metadata is not JSON"),
    "metadata with NaN": (scored(metadata={"x": float("nan")}), "ValueError", "metadata is not JSON"),
    "metadata with lone surrogates": (scored(metadata={"x": "\ud800"}), "ValueError", "metadata is not JSON"),
    "metadata in itself": (scored(metadata=ENDLESS), "ValueError", "metadata is not JSON"),
    "no metadata": (scored(metadata=None), "TypeError", "metadata is a NoneType"),
    "a value that is no number": (scored(value=True), "TypeError", "value is a bool, not a number"),
    "a value that is NaN": (scored(value=float("nan")), "ValueError", "value is nan, not in"),
    "a value above 1": (scored(value=7), "ValueError", "value is 7.0, not in"),
    "a reason that is no text": (scored(reason=None), "TypeError", "reason is a NoneType, not a text"),
    "a coverage above 1": (scored(coverage=2), "ValueError", "coverage is 2.0, not in"),
    "a pending outcome": (lambda: Unscored(status=Status.PENDING, reason="r"), "ValueError", "status is <Status.PEND"),
    "an error type that is none": (lambda: Failure(error_type=3, reason="r"), "TypeError", "error_type is a int"),  # type: ignore[arg-type]
    "SystemExit": (ends(SystemExit(3)), "EvaluatorEnded", r"raised SystemExit\(3\)"),
    "GeneratorExit": (ends(GeneratorExit()), "EvaluatorEnded", r"raised GeneratorExit\(\)"),
    "an error without text": (ends(Unspeakable()), "Unspeakable", "its error has no text"),
    "what nests without end": (ends(RecursionError("deep")), "RecursionError", "deep"),
}


class Wrong:
    """Does what `WRONG` says of the user's input."""

    name, version, method = "wrong", "1", Method.EXACT

    def evaluate(self, context: EvaluationContext) -> Any:
        return WRONG[context.trace.input or ""][0]()


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
    store = Store(tmp_path / "agenteval.db", ManualClock(), events_of=no_events)
    try:
        return EvaluationCore(
            load(environ={}, flags=sections),
            store,
            ManualClock(),
            Counting(),
            Referrals([], None),
            EarlierTraces(),
            EverySession(),
            entries,
        )
    finally:
        store.shutdown()


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        pytest.param("Absent", "does not load: AttributeError", id="a class that does not exist"),
        pytest.param("Exit", "does not load: SystemExit", id="one that ends the process"),
        pytest.param("entry", "does not load: TypeError", id="no class"),
        pytest.param("Nameless", "its name is None", id="without a name"),
        pytest.param("Taken", "another evaluator is called 'coherence'", id="the name of a built-in one"),
        pytest.param("Unversioned", "its version is ''", id="without a version"),
        pytest.param("Judge", "its method is .*not exact or embedding", id="a method that is the judge's"),
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


def test_a_method_may_be_a_plain_text(tmp_path: Path) -> None:
    scoring = Scoring(tmp_path, plugged=[entry("Plain")])
    scoring.put(assembled(turn(1, "hi", "hello")))
    [found] = [each.evaluation for each in scoring.emitted if each.evaluation.name == "brief"]
    scoring.close()
    assert found.method is Method.EXACT


@pytest.mark.parametrize("kind", WRONG)
def test_whatever_an_evaluator_does_is_its_own_failure_on_that_trace(tmp_path: Path, kind: str) -> None:
    scoring = Scoring(tmp_path, plugged=[entry("Wrong"), entry("Brief", "y")])
    plain = Scoring(tmp_path / "plain", plugged=[entry("Brief", "y")])
    for each in (scoring, plain):
        each.put(assembled(turn(1, kind, "hello")), assembled(turn(2, kind, "goodbye")))
        each.close()
    _, error_type, reason = WRONG[kind]
    outcomes = [each.evaluation for each in scoring.emitted]
    failed = [each.outcome for each in outcomes if each.name == "wrong"]
    assert len(failed) == 2
    for outcome in failed:
        assert isinstance(outcome, Failure)
        assert outcome.error_type == error_type
        assert re.search(reason, outcome.reason)
    others = [replace(each, evaluated_at=0) for each in outcomes if each.name != "wrong"]
    assert others == [replace(each.evaluation, evaluated_at=0) for each in plain.emitted]


def test_a_person_can_interrupt_a_replay_whatever_evaluators_there_are() -> None:
    [evaluator] = plugins.load([entry("Interrupted")], ())
    with pytest.raises(KeyboardInterrupt):
        evaluator.evaluate(None)  # type: ignore[arg-type]
    with ThreadPoolExecutor() as threads, pytest.raises(plugins.EvaluatorEnded):
        threads.submit(evaluator.evaluate, None).result()  # type: ignore[arg-type]


def test_the_documented_evaluator_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluators.md").read_text()
    code, project = re.findall(r"```(?:python|toml)\n(.*?)```", page, re.DOTALL)
    (tmp_path / "acme_evaluators.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    [(group, entries)] = tomllib.loads(project)["project"]["entry-points"].items()
    scoring = Scoring(
        tmp_path, plugged=[EntryPoint(name, value, group) for name, value in entries.items() if group == plugins.GROUP]
    )
    answers = ["Booked.", "Sorry, I cannot do that.", None]
    scoring.put(*(assembled(turn(number, "hi", answer)) for number, answer in enumerate(answers, 1)))
    found = [each.evaluation.outcome for each in scoring.emitted if each.evaluation.name == "apologies"]
    scoring.close()
    assert [(each.status, each.value if isinstance(each, Score) else None) for each in found] == [
        (Status.SCORED, 1.0), (Status.SCORED, 0.0), (Status.NO_CONTENT, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        pytest.param(
            {"evaluators": {"coherense": {}}},
            r"evaluators\.coherense: no evaluator .*; did you mean 'coherence'\?$",
            id="a misspelt one",
        ),
        pytest.param(
            {"evaluators": {"xyz": {}}}, r"evaluators\.xyz: no evaluator .*tool_use_correctness$", id="one unlike any"
        ),
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
        pytest.param(
            {"judge": {"primary": "goal_sucess"}},
            r"judge\.primary: no evaluator",
            id="a misspelt primary one",
        ),
    ],
)
def test_settings_of_what_does_not_exist_stop_the_start(tmp_path: Path, sections: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        core(tmp_path, **sections)


def test_the_command_config_refuses_what_the_start_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "acme-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Name: acme\nVersion: 1\n")
    (installed / "entry_points.txt").write_text(f"[{plugins.GROUP}]\nx = {__name__}:Brief\n")
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "config.yaml"

    def config(evaluators: str, judge: str = "{}") -> Result:
        file.write_text(f"evaluators: {evaluators}\njudge: {judge}\n")
        return CliRunner().invoke(command_line(["config"]), ["config", "--config", str(file)])

    refused = config("{coherance: {enabled: false}}")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "evaluators.coherance: no evaluator has this name; there are agent_consistency, " in refused.stderr
    assert refused.stderr.endswith("; did you mean 'coherence'?\n")
    taken = config("{}", "{rubrics: [{name: coherence, question: 'Is it polite?'}]}")
    assert (taken.exit_code, taken.stderr) == (1, "agenteval: judge.rubrics: another evaluator is called 'coherence'\n")
    accepted = config("{brief: {threshold: 0.25}}")
    assert accepted.exit_code == 0
    assert "threshold: 0.25" in accepted.stdout
