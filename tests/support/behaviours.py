"""Scripted behaviours of agents: a text that people can read, as steps that detectors observe.

    ## What the agent does, in a sentence
    planner: search({"q": "a"}) -> 3 hits      a tool call of the agent `planner`, with arguments and result
    search(?) !! timeout                       one that failed, its arguments not recorded; no agent is named
    search({"q": "a"}) !> Error: timeout       one that failed, which nothing but its result tells
    & search({"q": "b"}) -> 3 hits             begins with the line above, before that is over
    planner#2: search({"q": "a"}) -> 3 hits    one in the second of the agent's runs, which another agent called
    says: Good morning!                        a reply of the model; `says !! overloaded` is one that failed
    says to Hello?: Good morning!              one to a recorded question
    says to Hello? [in May]: Good morning!     one to a recorded question, and what else it was sent
    asks for 2                                 a reply of the model that asks for the next two calls
    open search                                a call begins; `open search in outer` inside another, `node` is no call
    close search                               it ends
    wait 10m                                   nothing happens for so long
    search({"q": "a"}) -> 3 hits  => cycle     the alarm that the detectors raise at this line; `cycle?` only observed

Every line takes a second, and a second lies between two of them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from otel_agenteval.detectors.call_outcomes import outcome_of
from otel_agenteval.detectors.running_trace import Detectors
from otel_agenteval.detectors.steps import Step, StepKind, StepStarted, not_recorded
from otel_agenteval.model import AgentRun
from tests.support.recordings import DATA

SECOND: Final = 1_000_000_000
BEHAVIOURS: Final = DATA / "behaviours"

_CALL = re.compile(r"(?P<tool>\w+)\((?P<arguments>.*)\)(?: (?P<sign>->|!!|!>) (?P<outcome>.*))?")
_SAYS = re.compile(r"says(?: to (?P<asked>[^:\[]*)(?: \[(?P<sent>[^\]]*)\])?)?(?:: (?P<reply>.*)| !! (?P<error>.*))")
_ASKS = re.compile(r"asks for (?P<requests>\d+)")
_OPEN = re.compile(r"(?P<verb>open|node|close) (?P<name>\w+)(?: in (?P<parent>\w+))?")


@dataclass(frozen=True, slots=True)
class Moment:
    """A line: an event or, where there is none, only the time; and the kinds of loops that are expected there."""

    event: StepStarted | Step | None
    now: int
    expected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One script."""

    title: str
    moments: Sequence[Moment]


def behaviours(path: Path) -> list[Behaviour]:
    """The scripts of a file."""
    _, *scripts = re.split(r"^## ", path.read_text("utf-8"), flags=re.MULTILINE)
    return [Behaviour(title, list(_moments(lines))) for title, *lines in map(str.splitlines, scripts)]


def told(detectors: Detectors, moment: Moment) -> tuple[str, ...]:
    """The kinds of loops that `detectors` tell of at this moment, with a `?` those that are only observed."""
    verdicts = detectors.observe(moment.event) if moment.event is not None else detectors.tick(moment.now)
    return tuple(f"{verdict.kind}{'' if verdict.is_alarm else '?'}" for verdict in verdicts)


def _moments(lines: Sequence[str]) -> Iterator[Moment]:
    now = begun = 0
    for number, line in enumerate(filter(None, lines)):
        text, _, kinds = line.partition("=>")
        text = text.strip()
        expected = tuple(kinds.replace(",", " ").split())
        if match := re.fullmatch(r"wait (\d+)m", text):
            now += int(match[1]) * 60 * SECOND
            yield Moment(None, now, expected)
            continue
        begun = begun if text.startswith("&") else now + SECOND
        now = max(now, begun) + SECOND
        yield Moment(_event(text.removeprefix("&").strip(), f"{number:016x}", begun, now), now, expected)


def _event(text: str, span_id: str, begun: int, ended: int) -> StepStarted | Step:
    if match := _OPEN.fullmatch(text):
        kind = StepKind.OTHER if match["verb"] == "node" else StepKind.TOOL
        if match["verb"] == "close":
            return Step(kind=kind, name=match["name"], span_id=match["name"], ended_at=ended)
        return StepStarted(kind=kind, name=match["name"], span_id=match["name"], parent_id=match["parent"], at=begun)
    agent = agent_run = None
    if match := re.match(r"(\w+)(#\d+)?: (?=says|\w+\()", text):
        agent, text = match[1], text[match.end() :]
        agent_run = AgentRun(match[2], is_called=True) if match[2] else None
    if match := _SAYS.fullmatch(text):
        return Step(
            kind=StepKind.MODEL,
            name="gpt",
            span_id=span_id,
            agent=agent,
            agent_run=agent_run,
            asked=partial(str, asked) if (asked := match["asked"]) else not_recorded,
            sent=partial(str.encode, sent) if (sent := match["sent"]) else not_recorded,
            result=match["reply"],
            error=match["error"],
            started_at=begun,
            ended_at=ended,
        )
    if match := _ASKS.fullmatch(text):
        requests = int(match["requests"])
        return Step(
            kind=StepKind.MODEL, name="gpt", span_id=span_id, requests=requests, started_at=begun, ended_at=ended
        )
    match = _CALL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no line of a behaviour")
    result = match["outcome"] if match["sign"] in ("->", "!>") else None
    reading = outcome_of(match["tool"], match["arguments"], result)
    error = match["outcome"] if match["sign"] in ("!!", "!>") else None
    error = reading.error if error is None else error
    return Step(
        kind=StepKind.TOOL,
        name=match["tool"],
        span_id=span_id,
        agent=agent,
        agent_run=agent_run,
        arguments=None if match["arguments"] == "?" else match["arguments"],
        result=result,
        error=error,
        is_error_read=error is not None and result is not None,
        outcome=reading.outcome,
        started_at=begun,
        ended_at=ended,
    )
