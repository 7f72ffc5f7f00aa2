"""What tests of the judge share: traces, and a judge that answers from a script."""

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agenteval_collector.evaluation.referrals import JudgedEvaluator
from agenteval_collector.judge.asking import TraceQuestions
from agenteval_collector.judge.panel import JUDGED, Panel
from agenteval_collector.judge.ports import Question
from agenteval_collector.judge.prompt.replies import MARK, decode
from agenteval_collector.model.judge_jobs import Answer

from otel_agenteval.model import Json, ModelCall, Tool, ToolCall, Trace, Turn

DATA = Path(__file__).parents[1] / "data" / "judging"
SECOND = 1_000_000_000

ONLY_CONFIDENCE = {
    name: {"enabled": False}
    for name in (
        "task_completion", "tool_correctness", "argument_correctness", "step_efficiency", "plan_adherence",
        "plan_quality", "safety", "goal_success",
    )
}  # fmt: skip
"""Settings of the evaluators by which a trace is one request to the judge."""

BACKGROUND = frozenset({"instructions", "available_tools", "agents", "observations"})
"""The data that every question has beside its own, as far as it was recorded."""


def unredacted(value: Json) -> Json:
    """A redaction that finds nothing to replace."""
    return value


def golden(name: str, value: Json) -> Json:
    """What a file of tests/data/judging says that `value` is; with WRITE_GOLDEN set, the file is written first."""
    path = DATA / name
    if os.environ.get("WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=1, ensure_ascii=True) + "\n")
    expected: Json = json.loads(path.read_text("utf-8"))
    return expected


def tool_call(name: str = "search", at: int = 2, **fields: Any) -> ToolCall:
    """A call at second `at` of the trace."""
    return ToolCall(name=name, started_at=at * SECOND, ended_at=at * SECOND + 1, **fields)


def model_call(output: str | None, at: int, error: str | None = None) -> ModelCall:
    """A model call that ends at second `at` of the trace."""
    return ModelCall(span_id=f"{at:016x}", output=output, error=error, started_at=at * SECOND - 1, ended_at=at * SECOND)


def turn(asked: str | None = "Find a flight", answered: str | None = "Found one", **fields: Any) -> Turn:
    """A turn; `started_at` and `ended_at` in seconds."""
    started_at, ended_at = fields.pop("started_at", 0) * SECOND, fields.pop("ended_at", 60) * SECOND
    return Turn(span_id="0" * 16, input=asked, output=answered, started_at=started_at, ended_at=ended_at, **fields)


def trace(*turns: Turn, tools: tuple[Tool, ...] = (), **fields: Any) -> Trace:
    """A trace of these turns."""
    return Trace(trace_id="ab" * 16, turns=turns, available_tools=tools, dialects=("otel_genai",), **fields)


def question(schema: Mapping[str, Json], data: Mapping[str, Json], name: str = "q") -> Question:
    """A question without instructions worth the name."""
    return Question(name=name, version="1", instructions="Say something.", data=data, schema=schema)


def panel(**changes: Any) -> Panel:
    """A panel of all built-in evaluators, or of those with `thresholds`, without redaction.

    They have the model `m` where `models` names no other.
    """
    thresholds, models = changes.pop("thresholds", dict.fromkeys(JUDGED, 0.5)), changes.pop("models", {})
    evaluators = {
        name: JudgedEvaluator(name=name, version="1", model=models.get(name, "m"), threshold=threshold)
        for name, threshold in thresholds.items()
    }
    settings = {"model": "m", "evaluators": evaluators, "trace_tokens": 2_000, "redactor": lambda: unredacted}
    return Panel(**{**settings, **changes})


class Script(TraceQuestions):
    """Replies by question name: with one reply, one for each vote, what a function says, or by raising.

    A reply is decoded like that of a judge. `asked` lists the questions with their models.
    """

    def __init__(self, replies: Mapping[str, Any], temperature: float | None = 0.0) -> None:
        self.replies = replies
        self.temperature = temperature
        self.asked: list[tuple[Question, str]] = []
        self.votes: list[int] = []
        self.kept: list[int] = []
        self.no_room: Exception | None = None

    @asynccontextmanager
    async def room(self, questions: int) -> AsyncIterator[None]:
        """Note what room is kept; raise the error in `no_room`."""
        self.kept.append(questions)
        if self.no_room is not None:
            raise self.no_room
        yield

    async def __call__(self, question: Question, *, model: str, vote: int) -> Answer:
        self.asked.append((question, model))
        self.votes.append(vote)
        reply = self.replies[question.name]
        if isinstance(reply, tuple):
            reply = reply[vote]
        if callable(reply):
            reply = reply(question)
        if isinstance(reply, Exception):
            raise reply
        decoded = decode(json.dumps({MARK: "c", **reply}), question, "c")
        return Answer(reply=decoded, model=model, temperature=self.temperature)

    @property
    def requests(self) -> int:
        """The number of questions asked."""
        return len(self.asked)

    @property
    def names(self) -> list[str]:
        """What was asked, in order."""
        return [question.name for question, _ in self.asked]
