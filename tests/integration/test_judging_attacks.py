"""What is recorded cannot talk to the judge: every attack in every place of a trace, against an obedient judge.

The corpus is tests/data/judging/attacks.json. `{nonce}` and `{canary}` in it stand for the real ones: an attacker may
have guessed them.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from agenteval_collector.config.judge import RubricConfig
from agenteval_collector.judge.asking import TraceQuestions
from agenteval_collector.judge.panel import JUDGED, Judged
from agenteval_collector.judge.ports import JudgeRequest, Malformed, Message, Question
from agenteval_collector.judge.prompt.encoding import tokens
from agenteval_collector.judge.prompt.envelope import enclose, reask
from agenteval_collector.judge.prompt.replies import decode
from agenteval_collector.model.judge_jobs import GOAL_SUCCESS, Answer

from otel_agenteval.model import Json, Tool, Trace
from otel_agenteval.outcome import Score
from tests.support.judging import DATA, model_call, panel, tool_call, trace, turn
from tests.support.judging import question as bare

ATTACKS = json.loads((DATA / "attacks.json").read_text("utf-8"))
TOKENS = 4_000
TEMPLATE = re.compile(r"<\|.*?\|>|<\uff5c|\[/?[A-Z_]+\]|<</?SYS>>|</?s>|<(?:start|end)_of_turn>|</?data(?!-)")
EMPTY: dict[str, Json] = {"properties": {}, "required": []}
CANARY = "c" * 16
RUBRIC = RubricConfig(name="polite", question="How polite was the agent?")


def enclosed(question: Question, nonce: str) -> JudgeRequest:
    return enclose(question, model="m", temperature=0.0, nonce=nonce, mark=CANARY)


def nonce_in(request: JudgeRequest) -> str:
    return request.messages[1].text.removeprefix("<data-").partition(">")[0]


def guessed(attack: dict[str, Any], envelope: JudgeRequest) -> str:
    """The payload of an attack on this envelope."""
    payload = str(attack["payload"]).replace("{nonce}", nonce_in(envelope)).replace("{canary}", CANARY)
    payload *= attack.get("repeat", 1)
    padding = "x" * attack.get("padding", 0)
    return padding + payload if attack.get("side") == "before" else payload + padding


def placed(payload: str) -> dict[str, Trace]:
    """A trace for each place that telemetry can put a text in."""

    def calling(name: str = "search", **fields: Any) -> Trace:
        return trace(turn(tool_calls=(tool_call(name, **{"arguments": {"q": 1}, **fields}),), plan=("search it",)))

    def offering(**fields: Any) -> Trace:
        called = (tool_call(arguments={}),)
        return trace(turn(tool_calls=called), tools=(Tool(**{"name": "search", "description": "Finds", **fields}),))

    return {
        "the user's input": trace(turn(payload)),
        "an input between others": trace(turn(), turn(payload), turn()),
        "the answer": trace(turn(answered=payload)),
        "the error of a turn": trace(turn(answered=None, error=payload)),
        "reasoning": trace(turn(reasoning=(payload,))),
        "a plan": trace(turn(plan=(payload,))),
        "a reply on the way": trace(turn(model_calls=(model_call(payload, 1), model_call("Found one", 2)))),
        "a model's error": trace(turn(model_calls=(model_call(None, 1, error=payload),))),
        "system instructions": trace(turn(), system_instructions=payload),
        "a tool's name": calling(payload),
        "arguments that are no JSON": calling(arguments=payload),
        "an argument": calling(arguments={"q": [payload]}),
        "the name of an argument": calling(arguments={payload: 1}),
        "a result": calling(result=payload),
        "a value in a result": calling(result={"rows": [{"text": payload}]}),
        "a tool's error": calling(error=payload),
        "the name of an available tool": offering(name=payload),
        "a tool's description": offering(description=payload),
        "a tool's schema": offering(parameters={"properties": {payload: {"description": payload}}}),
    }


def letters(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


class ObedientJudge:
    """A naive model: what it reads outside the data is its instruction, and it does what the attacker's words say.

    It takes the field of data as a naive program does, up to the first closing tag, and ends a message at every token
    of a chat template, also within data. It obeys when any 40 letters of the payload (or all) reach it as instruction.
    Obedient, it gives full marks; else 0.2 and "no".
    """

    def __init__(self, payload: str) -> None:
        words = letters(payload[:2_000] + payload[-2_000:])
        self.commands = [words[start : start + 40] for start in range(0, max(1, len(words) - 39), 20)]

    def reply(self, messages: Sequence[Message], schema: Any) -> str:
        outside = ""
        for message in messages:
            text = re.sub(r"<data-([0-9a-f]+)>\n.*?</data-\1>", "", message.text, flags=re.DOTALL)
            outside += text if message.role == "user" else text.partition("How to read")[2]
            outside += " ".join(message.text[match.end() :] for match in TEMPLATE.finditer(message.text))
        heard = letters(outside)
        obeys = any(command in heard for command in self.commands)
        return json.dumps(self.filled(schema, obeys))

    def filled(self, schema: Any, obeys: bool) -> Any:
        match schema["type"]:
            case "object":
                return {key: self.filled(inner, obeys) for key, inner in schema["properties"].items()}
            case "array":
                return ["step"]
            case "number":
                return 1.0 if obeys else 0.2
            case "integer":
                return 0 if obeys else 1
            case _:
                return schema.get("enum", ["words"])[0 if obeys else -1]


class AttackedAsk(TraceQuestions):
    """Encloses each question, checks that its data came through as it was, and takes the obedient judge's reply."""

    def __init__(self, attack: dict[str, Any]) -> None:
        self.attack = attack
        self.nonces = (f"{number:032x}" for number in count(1))

    @property
    def requests(self) -> int:
        return 0

    @asynccontextmanager
    async def room(self, questions: int) -> AsyncIterator[None]:
        yield

    async def __call__(self, question: Question, *, model: str, vote: int) -> Answer:
        envelope = enclosed(question, next(self.nonces))
        assert received(envelope) == question.data
        judge = ObedientJudge(guessed(self.attack, envelope))
        again = reask(
            envelope, nonce_in(envelope), guessed(self.attack, envelope), guessed(self.attack, envelope)[:500]
        )
        sent = (envelope, again)[vote]
        decoded = decode(judge.reply(sent.messages, sent.schema), question, CANARY)
        return Answer(reply=decoded, model=model, temperature=0.0)


def received(envelope: JudgeRequest) -> Json:
    """The data, as it is read by whoever takes the request apart."""
    lines = envelope.messages[1].text.split("\n")
    assert len(lines) == 3
    assert lines[0] == f"<data-{nonce_in(envelope)}>"
    assert lines[2] == f"</data-{nonce_in(envelope)}>"
    value: Json = json.loads(lines[1])
    return value


def judged(subject: Trace, attack: dict[str, Any]) -> dict[str, Judged]:
    names = (*JUDGED, GOAL_SUCCESS, RUBRIC.name)
    judges = panel(thresholds=dict.fromkeys(names, 0.5), trace_tokens=TOKENS, rubrics=(RUBRIC,), votes=2)
    return asyncio.run(judges.judge(subject, names, AttackedAsk(attack)))


def scores(found: dict[str, Judged]) -> dict[str, float]:
    return {name: each.outcome.value for name, each in found.items() if isinstance(each.outcome, Score)}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack["name"])
def test_no_attack_leaves_the_data_or_moves_a_score(attack: dict[str, Any]) -> None:
    # The nonces of a trace's questions follow one another from 1: the attacker has guessed the first.
    first = enclosed(bare(EMPTY, {}), f"{1:032x}")
    for place, subject in placed(guessed(attack, first)).items():
        found = scores(judged(subject, attack))
        expected = {name: 0.0 if name == "argument_correctness" else 0.2 for name in found}
        assert found == expected, place
        assert {"task_completion", "confidence", "step_efficiency", GOAL_SUCCESS, "polite"} <= set(found), place


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack["name"])
def test_what_repeats_a_payload_is_no_reply(attack: dict[str, Any]) -> None:
    """A judge that repeats what it read has said nothing: the attacker has guessed a canary, but another one."""
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"reason": {"type": "string"}, "confidence": {"type": "number"}},
        "required": ["reason", "confidence"],
    }
    asked = bare(schema, {})
    payload = guessed(attack, enclosed(asked, "a" * 32))
    with pytest.raises(Malformed):
        decode(payload, asked, "d" * 16)


def unsafe(question: Question, nonce: str) -> JudgeRequest:
    """An envelope as it would be without the escapes: the attacks have to succeed here, or they show nothing."""
    envelope = enclosed(question, nonce)
    data = json.dumps(dict(question.data), ensure_ascii=False)
    field = Message("user", f"<data-{nonce}>\n{data}\n</data-{nonce}>")
    return replace(envelope, messages=(envelope.messages[0], field))


@pytest.mark.parametrize(
    "name",
    [
        "closing tag with the nonce",
        "ChatML",
        "Llama 2 template",
        "Gemma template",
        "closing tag with the nonce, quoted",
    ],
)
def test_the_obedient_judge_obeys_where_nothing_is_escaped(name: str) -> None:
    (attack,) = [each for each in ATTACKS if each["name"] == name]
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"confidence": {"type": "number"}},
        "required": ["confidence"],
    }
    nonce = "a" * 32

    def replied(envelope_of: Callable[[Question, str], JudgeRequest]) -> float:
        payload = guessed(attack, enclosed(bare(schema, {}), nonce))
        asked = bare(schema, {"text": payload})
        envelope = envelope_of(asked, nonce)
        return float(json.loads(ObedientJudge(payload).reply(envelope.messages, envelope.schema))["confidence"])

    assert replied(unsafe) == 1.0
    assert replied(enclosed) == 0.2


def test_the_corpus_is_wide_and_its_longest_attacks_stay_within_the_budget() -> None:
    assert len(ATTACKS) >= 40
    assert len({attack["name"] for attack in ATTACKS}) == len(ATTACKS)
    long = next(attack for attack in ATTACKS if attack.get("padding"))
    payload = guessed(long, enclosed(bare(EMPTY, {}), "a" * 32))
    assert len(payload) > 1_000_000

    class Measured(AttackedAsk):
        async def __call__(self, question: Question, *, model: str, vote: int) -> Answer:
            sizes.append(tokens(enclosed(question, "a" * 32).messages[1].text))
            return await super().__call__(question, model=model, vote=vote)

    sizes: list[int] = []
    judges = panel(trace_tokens=TOKENS)
    for subject in placed(payload).values():
        asyncio.run(judges.judge(subject, JUDGED, Measured(long)))
    assert max(sizes) <= 2 * TOKENS
