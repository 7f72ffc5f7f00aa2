"""A judge that says something else than before of the same traces, over a real collector, store and endpoint."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.judge.canaries import DUE_ASKED_EVERY, EVERY
from agenteval_collector.judge.panel import JUDGED
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from typer.testing import CliRunner

from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.judge.behaviours import Behaviour
from tests.support.judge.completions import Received
from tests.support.judge.filling import fill
from tests.support.judge.judge_server import JudgeServer
from tests.support.judging import ONLY_CONFIDENCE
from tests.support.otlp import trace_id, traces, turn
from tests.support.running_collector import RunningCollector

DAY = 24 * 3600.0
WEEK = 7 * DAY
CANARIES = 12
VERSION = JUDGED["confidence"]


class Mood:
    """A judge whose every score is `score`; `models` counts its requests, by the model that they ask."""

    def __init__(self) -> None:
        self.score = 0.9
        self.models: Counter[str] = Counter()

    @property
    def asked(self) -> int:
        return self.models.total()

    def __call__(self, received: Received) -> str:
        self.models[received.body["model"]] += 1
        return json.dumps(fill(received.schema or {}, self.score))


class World:
    """A collector that can be started again, with one judge and one clock."""

    def __init__(self, folder: Path, judge: JudgeServer, mood: Mood) -> None:
        self.folder, self.judge, self.mood = folder, judge, mood
        self.clock = ManualClock()
        self.sent = 0
        self.retention = WEEK

    @contextmanager
    def running(self, **config: Any) -> Iterator[RunningCollector]:
        judge = {"base_url": self.judge.url, "canaries": CANARIES, "band": 0.0, **config}
        with RunningCollector(
            self.folder, clock=self.clock, judge=judge, log={"retention": self.retention}, evaluators=ONLY_CONFIDENCE
        ) as made:
            yield made

    def send(self, running: RunningCollector, count: int) -> None:
        """Send traces, and wait until the judge has scored them."""
        numbers = range(self.sent + 1, self.sent + count + 1)
        self.sent += count
        for number in numbers:
            each: Span = turn(number, f"Where is order {number}?", f"It came, {number}.", session=f"s{number}")
            running.send(traces(each))
        for number in numbers:
            eventually(lambda: self.score(running, number) is not None)  # noqa: B023

    def score(self, running: RunningCollector, number: int) -> float | None:
        document = running.get(f"/api/v1/traces/{trace_id(number).hex()}")
        scores = [each["score"] for each in (document or {"outcomes": []})["outcomes"] if each["name"] == "confidence"]
        return scores[0] if scores else None


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    mood = Mood()
    with JudgeServer(responder=mood) as judge:
        yield World(tmp_path, judge, mood)


def drift(running: RunningCollector) -> Any:
    items = running.get("/api/v1/judge")["items"]
    return items[0] if items else None


def rechecked(running: RunningCollector, traces: int = CANARIES) -> Any:
    """The drift once so many traces were asked about twice."""
    return eventually(lambda: found if (found := drift(running)) and found["traces"] == traces else None)


def test_a_judge_that_drifts_is_found_within_a_day_with_the_flips(world: World) -> None:
    world.retention = DAY  # As it is unless set.
    with world.running() as running:
        world.send(running, CANARIES)
        world.mood.score = 0.1
        world.clock.advance(EVERY)
        world.send(running, 1)  # Something to do wakes the judge.
        found = rechecked(running)
        assert found["drifted"]
        assert found["p_value"] == pytest.approx(2 * 2 / 2**CANARIES)
        assert (found["name"], found["higher"], found["lower"]) == ("confidence", 0, CANARIES)
        assert [flip["trace_id"] for flip in found["flips"]] == sorted(trace_id(n + 1).hex() for n in range(CANARIES))
        assert {(flip["before"], flip["after"], flip["reason"]) for flip in found["flips"]} == {
            (0.9, 0.1, "as it stands")
        }
        assert world.score(running, 1) == 0.9, "outcomes stay"
        assert 'agenteval_judge_drift{gen_ai_evaluation_name="confidence"} 1.0' in running.get("/metrics")
        assert "The judge has drifted: confidence by gpt-4o-mini, 12 of 12" in running.get("/")
        told = CliRunner().invoke(command_line(), ["judge", "--url", f"http://{running.addresses['web']}"])
        assert "drifted" in told.output
        assert "<0.001" in told.output
        assert trace_id(1).hex() in told.output


def test_a_judge_that_stays_as_it_was_is_asked_once_a_day_and_has_not_drifted(world: World) -> None:
    with world.running() as running:
        world.send(running, CANARIES)
        for day in (1, 2):
            world.clock.advance(DAY)
            before = world.mood.asked
            world.send(running, 1)
            eventually(lambda: world.mood.asked >= before + 1 + CANARIES)  # noqa: B023
            world.send(running, 1)
            assert world.mood.asked == before + CANARIES + 2, f"on day {day}, each canary once, without the cache"
        found = rechecked(running)
    assert (found["drifted"], found["flips"], found["p_value"]) == (False, [], 1.0)


def test_the_set_is_asked_about_for_weeks_although_the_spans_are_gone_after_a_day(world: World) -> None:
    world.retention = DAY
    with world.running() as running:
        world.send(running, CANARIES)
        world.clock.advance(DUE_ASKED_EVERY)
        world.send(running, 1)
        canaries = running.service.pipeline.base.store.canaries
        chosen = eventually(lambda: found if len(found := canaries.canaries()) == CANARIES else None)
        for day in range(1, 16):
            world.mood.score = 0.9 if day < 15 else 0.1
            world.clock.advance(DAY)
            world.send(running, 1)
            eventually(lambda: {each.last_at for each in canaries.answers()} == {world.clock.now()})
        assert canaries.canaries() == chosen
        assert all(running.service.pipeline.base.storage.trace(each.trace_id) is None for each in chosen), (
            "their spans are gone"
        )
        found = eventually(lambda: each if (each := drift(running))["drifted"] else None)
    assert (found["traces"], found["lower"]) == (CANARIES, CANARIES)
    assert {flip["trace_id"] for flip in found["flips"]} == {each.trace_id for each in chosen}


def test_the_set_and_what_was_said_survive_a_restart(world: World) -> None:
    with world.running() as running:
        world.send(running, CANARIES)
        world.mood.score = 0.1
        world.clock.advance(DAY)
        world.send(running, 1)
        found = rechecked(running)
    asked = world.mood.asked
    with world.running() as running:
        assert rechecked(running) == found
        assert world.mood.asked == asked, "nothing is due"


def test_a_change_of_the_model_is_looked_at_at_once(world: World) -> None:
    with world.running() as running:
        world.send(running, CANARIES)
        world.clock.advance(3600.0)
        world.send(running, 1)
    world.mood.score = 0.1
    with world.running(model="other") as running:
        found = rechecked(running)
        assert (found["drifted"], found["model"]) == (True, "other")
        assert found["was"] == f"gpt-4o-mini, version {VERSION}"
        world.clock.advance(DAY)
        world.send(running, 1)
        calm = eventually(lambda: each if (each := drift(running))["was"] == f"other, version {VERSION}" else None)
    assert (calm["drifted"], calm["flips"]) == (False, []), "from then on it is compared with itself"


def test_what_an_earlier_model_said_is_never_taken_for_what_the_present_one_says(world: World) -> None:
    old, all_of_them = CANARIES // 2, CANARIES + CANARIES // 2
    with world.running(model="m1", canaries=0) as running:
        world.send(running, all_of_them)
    world.clock.advance(DUE_ASKED_EVERY)
    with world.running(model="m3", canaries=old) as running:
        found = rechecked(running, old)
        assert (found["model"], found["was"]) == ("m3", f"m1, version {VERSION}")
        assert ways(running) == {"m1": old, "m3": old}
    world.clock.advance(DUE_ASKED_EVERY)
    world.mood.score = 0.1
    with world.running(model="m4", canaries=all_of_them) as running:
        eventually(lambda: ways(running)["m4"] == all_of_them)
        assert ways(running) == {"m1": all_of_them, "m3": old, "m4": all_of_them}
        assert world.mood.models == {"m1": all_of_them, "m3": old, "m4": all_of_them}, "all are asked at once"
        compared = (f"m3, version {VERSION}", old)
        eventually(lambda: (found := drift(running)) and (found["was"], found["traces"]) == compared)
        for _ in range(2):
            world.clock.advance(DAY)
            world.send(running, 1)
            calm = rechecked(running, all_of_them)
            assert calm["was"] == f"m4, version {VERSION}"
            assert (calm["drifted"], calm["flips"]) == (False, []), "it was as harsh from the beginning"
        before = [each for each in running.service.pipeline.base.store.canaries.answers() if each.model == "m1"]
        assert {(each.first, each.last) for each in before} == {(0.9, 0.9)}


def ways(running: RunningCollector) -> Counter[str]:
    """Count the answers on canaries by the model that gave them."""
    return Counter(each.model for each in running.service.pipeline.base.store.canaries.answers())


def test_an_endpoint_that_answers_by_another_name_is_compared_with_itself(tmp_path: Path) -> None:
    mood = Mood()
    with JudgeServer(responder=mood, then=Behaviour(model="m-2026-01-01")) as judge:
        world = World(tmp_path, judge, mood)
        with world.running(model="m") as running:
            world.send(running, CANARIES)
            world.clock.advance(DUE_ASKED_EVERY)
            world.send(running, 1)
            found = rechecked(running)
            assert (found["model"], found["was"]) == ("m", f"m-2026-01-01, version {VERSION}")
            asked = world.mood.asked
            world.clock.advance(DUE_ASKED_EVERY)
            world.send(running, 1)
            assert world.mood.asked == asked + 1, "each canary is asked about once, and not at each look"
            world.mood.score = 0.1
            world.clock.advance(DAY)
            world.send(running, 1)
            found = eventually(lambda: each if (each := drift(running))["drifted"] else None)
            assert found["was"] == f"m, version {VERSION}"


def test_without_budget_the_canaries_wait(world: World) -> None:
    with world.running() as running:
        world.send(running, CANARIES)
        world.clock.advance(3600.0)
        world.send(running, 1)
    world.clock.advance(2 * DAY)
    world.mood.score = 0.1
    with world.running(budget={"requests_per_day": 3}) as running:
        found = rechecked(running, 3)
        assert found["lower"] == 3
        assert not found["drifted"], "three say too little"


def test_no_canaries_no_questions(world: World) -> None:
    with world.running(canaries=0) as running:
        world.send(running, 2)
        world.clock.advance(2 * DAY)
        world.send(running, 1)
        assert running.get("/api/v1/judge")["items"] == []
    assert world.mood.asked == 3
