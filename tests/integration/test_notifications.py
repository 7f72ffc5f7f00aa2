"""Notifications of a real collector to a real HTTP server: what is said, once and grouped, also if it is away."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.config.notify import NotifyConfig
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.emit.notifications import DAY, MOST_WAITING, Notifier
from agenteval_collector.model.alarms import (
    AgentAlarm,
    AlarmKey,
    AlarmKind,
    AlarmSeverity,
    AlarmState,
    DeployedAgent,
)
from agenteval_collector.model.counters import Counted
from agenteval_collector.model.news import no_events
from agenteval_collector.stores.store import Store

from otel_agenteval.proto.v1.evaluation_pb2 import ResolveProblemRequest
from tests.integration.test_problems import fail, stub
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.otlp import trace_id
from tests.support.running_collector import RunningCollector

START = 20_000 * DAY + 7 * DAY // 24


class Place:
    """A server that messages are sent to. It remembers them; it refuses them while `refuses`."""

    def __init__(self) -> None:
        self.came: list[dict[str, Any]] = []
        self.refuses = False
        place = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if not place.refuses:
                    place.came.append(json.loads(body))
                self.send_response(503 if place.refuses else 200)
                self.end_headers()
                self.wfile.write(b"ok")  # What Slack says.

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"json://127.0.0.1:{self.server.server_address[1]}/?cto=2&rto=2"


@contextmanager
def listening() -> Iterator[Place]:
    place = Place()
    thread = threading.Thread(target=place.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield place
    finally:
        place.server.shutdown()
        place.server.server_close()
        thread.join()


def test_a_new_problem_is_sent_once_and_so_is_its_end(tmp_path: Path) -> None:
    with listening() as place:
        notify = {"urls": [place.url], "page": "https://eval.example.org"}
        with RunningCollector(tmp_path, notify=notify) as collector:
            fail(collector, 1, "<!channel> @everyone no order 12\x1b[2J")
            [message] = eventually(lambda: list(place.came))
            assert message["title"].startswith("Firing: ")
            assert f"First trace: https://eval.example.org/traces/{trace_id(1).hex()}" in message["message"]
            assert "[info]" in message["message"]
            assert not {"<", ">", "@", "\x1b"} & {*message["title"], *message["message"]}
        with RunningCollector(tmp_path, notify=notify) as collector:
            [problem] = collector.get("/api/v1/problems")["items"]
            stub(collector).ResolveProblem(ResolveProblemRequest(problem_id=problem["problem_id"]), timeout=20)
            eventually(lambda: len(place.came) == 2, within=40)
        assert place.came[1]["title"] == message["title"].replace("Firing", "Ended")


def test_an_address_that_nobody_knows_is_a_clear_error_without_its_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"notify\.urls: an address that begins with 'slick'") as raised:
        RunningCollector(tmp_path, notify={"urls": ["slick://token-that-is-secret"]})
    assert "secret" not in str(raised.value)


class Inbox:
    """A place in memory."""

    def __init__(self) -> None:
        self.came: list[tuple[str, str]] = []
        self.takes = True

    def send(self, title: str, body: str) -> bool:
        if self.takes:
            self.came.append((title, body))
        return self.takes


class Counts:
    """Telemetry that remembers."""

    def __init__(self) -> None:
        self.counted: dict[tuple[Counted, str], int] = {}

    def count(self, what: Counted, number: int = 1, which: str = "") -> None:
        self.counted[what, which] = self.counted.get((what, which), 0) + number


def alarm(number: int, state: AlarmState = AlarmState.FIRING, **changes: Any) -> AgentAlarm:
    fields: dict[str, Any] = {
        "alarm_id": f"{number:016x}",
        "key": AlarmKey(DeployedAgent("prod", "shop", "planner"), AlarmKind.FAILING, str(number)),
        "severity": AlarmSeverity.WARNING,
        "owner": "team-shop",
        "state": state,
        "since": START,
        "until": None if state is AlarmState.FIRING else START + 60,
        "title": f"planner fails, number {number}",
        "evidence": "31% of the last traces failed; usually 0.8% do.",
        "problem_id": None,
        "examples": [f"{number:032x}"],
    }
    return AgentAlarm(**{**fields, **changes})


class Scene:
    """A notifier over a real store, of which each look is a call."""

    def __init__(self, folder: Path, **config: Any) -> None:
        self.clock, self.inbox, self.counts = ManualClock(START), Inbox(), Counts()
        self.store = Store(folder, self.clock, events_of=no_events)
        self.store.alarms.write([], [], START, self.store.alarms.erased())
        self.on_duty = True
        self.notifier = self.made(**config)

    def made(self, **config: Any) -> Notifier:
        return Notifier(
            self.store,
            [self.inbox],
            self.clock,
            self.counts,
            config=NotifyConfig(**config),
            tenant="",
            is_on_duty=lambda: self.on_duty,
        )

    def look(self, *alarms: AgentAlarm) -> list[str]:
        """Keep these alarms, look once, and return the titles of what came."""
        before = len(self.inbox.came)
        self.store.alarms.write(alarms, [], START, self.store.alarms.erased())
        self.notifier.step()
        return [title for title, _ in self.inbox.came[before:]]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path / "store.db")
    yield made
    made.store.shutdown()


def test_what_begins_and_ends_at_once_is_one_message(scene: Scene) -> None:
    told = scene.look(alarm(1), alarm(2), alarm(3, AlarmState.ENDED))
    assert told == ["3 alarms: 2 firing, 1 ended"]
    text = scene.inbox.came[0][1]
    assert text.count("31% of the last traces failed") == 3
    assert "Service: shop. Environment: prod. Owner: team-shop. Since 2024-10-04 07:00 UTC" in text
    assert f"First trace: agenteval why {1:032x}" in text
    assert scene.look() == []


def test_a_link_in_telemetry_is_no_link_in_a_message(scene: Scene) -> None:
    hostile = "log in at HTTPS://evil.example, www.evil.example or [here](http://evil.example)"
    [title] = scene.look(replace(alarm(1), title=hostile, evidence=hostile))
    said = title + scene.inbox.came[0][1]
    assert "://" not in said
    assert "www.evil" not in said
    assert "HTTPS[:]//evil.example" in said


def test_a_restart_repeats_nothing(scene: Scene) -> None:
    scene.look(alarm(1))
    scene.notifier = scene.made()
    # The next write of the alarm leaves what was sent as it is.
    assert scene.look(alarm(1, examples=["f" * 32])) == []
    assert scene.look(alarm(1, AlarmState.ENDED)) == ["Ended: planner fails, number 1"]


def test_what_is_muted_or_not_grave_or_long_ago_is_not_sent(scene: Scene) -> None:
    assert scene.look(alarm(1, AlarmState.MUTED)) == []
    scene.look(alarm(2))
    assert scene.look(alarm(2, AlarmState.MUTED)) == []
    assert scene.look(alarm(3, AlarmState.ENDED, since=START - 3 * DAY, until=START - 2 * DAY)) == []
    scene.notifier = scene.made(severity="critical")
    assert scene.look(alarm(4)) == []
    assert len(scene.look(alarm(5, severity=AlarmSeverity.CRITICAL))) == 1


def test_only_the_process_on_duty_sends(scene: Scene) -> None:
    scene.on_duty = False
    assert scene.look(alarm(1)) == []
    scene.on_duty = True
    assert len(scene.look()) == 1


def test_a_place_that_is_away_gets_all_later_in_order_and_the_wait_grows(scene: Scene) -> None:
    scene.inbox.takes = False
    scene.look(alarm(1))
    scene.look(alarm(2))
    assert scene.counts.counted == {(Counted.NOT_SENT, ""): 1}
    scene.clock.advance(11)
    scene.look()
    scene.clock.advance(11)
    scene.look()
    assert scene.counts.counted == {(Counted.NOT_SENT, ""): 2}
    scene.inbox.takes = True
    scene.clock.advance(11)
    assert scene.look() == ["Firing: planner fails, number 1", "Firing: planner fails, number 2"]
    assert scene.notifier.waiting == 0


def test_messages_that_wait_are_bounded_and_counted(scene: Scene) -> None:
    scene.inbox.takes = False
    for number in range(MOST_WAITING + 5):
        scene.look(alarm(number))
    assert scene.notifier.waiting == MOST_WAITING
    assert scene.counts.counted[Counted.DROPPED, "notifications"] == 5


def test_a_long_list_is_cut(scene: Scene) -> None:
    scene.look(*(alarm(number) for number in range(30)))
    assert scene.inbox.came[0][1].endswith("And 10 more: agenteval alarms")


def test_the_digest_comes_once_a_day_at_its_hour_and_only_with_something_to_say(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with listening() as place, RunningCollector(tmp_path, clock, notify={"urls": [place.url]}) as collector:
        fail(collector, 1, "no order 12")
        fail(collector, 2, "no order 13")
        # Alarms look behind the present.
        clock.advance(60)
        eventually(lambda: place.came)
        clock.advance(3600)
        eventually(lambda: len(place.came) > 1, within=40)
        clock.advance(3600)
        fail(collector, 3, "another thing is broken")
        clock.advance(60)
        eventually(lambda: len(place.came) > 2, within=40)
    assert [message["title"].split(":")[0] for message in place.came].count("Problems of the last day") == 1
    [digest] = [message["message"] for message in place.came if message["title"] == "Problems of the last day"]
    assert digest.startswith("New (1)\n- planner: Turn ends in an error: no order …: 2 traces in a day")
