"""`agenteval judge --check` over a real store and a real endpoint, with judges of known faults."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.judge.bias import PADDING
from agenteval_collector.model.news import no_events
from agenteval_collector.runtime.clock import SystemClock
from agenteval_collector.stores.store import Store
from typer.testing import CliRunner, Result

from tests.support.collector_process import SCRIPT
from tests.support.eventually import eventually
from tests.support.judge.behaviours import OK, SOON, Behaviour, Wire
from tests.support.judge.completions import Received
from tests.support.judge.filling import fill
from tests.support.judge.judge_server import JudgeServer
from tests.support.judging import ONLY_CONFIDENCE
from tests.support.otlp import span, trace_id, traces, turn
from tests.support.running_collector import RunningCollector

TRACES = 24
AGENT = "shop-planner"
CHANGES = ["repeat", "padded", "swapped", "renamed"]
PRICES = {"gpt-4o-mini": {"input": 0.15, "output": 0.60}}


def order(received: Received) -> int:
    """The number of the trace that is asked about."""
    found = re.search(r"order (\d+)", received.text)
    assert found is not None
    return int(found[1])


def fair(received: Received) -> float:
    return 0.9 if order(received) % 2 else 0.1


def likes_long_answers(received: Received) -> float:
    return 0.9 if PADDING[10:40] in received.text else fair(received)


def likes_a_name(received: Received) -> float:
    return fair(received) if AGENT in received.text else 0.1


def likes_what_comes_first(received: Received) -> float:
    return fair(received) if re.search(r'"carrier": .*"day": ', received.text) else 0.1


class Noisy:
    """Says something else about a third of the traces each time, whatever was changed."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()

    def __call__(self, received: Received) -> float:
        number = order(received)
        self.asked[number] += 1
        drawn = hashlib.sha256(f"{number}/{self.asked[number]}".encode()).digest()[0]
        return 1.0 - fair(received) if drawn < 256 // 3 else fair(received)


def judging(
    score: Callable[[Received], float], then: Behaviour | None = None, script: Iterable[Behaviour] = ()
) -> JudgeServer:
    def reply(received: Received) -> str:
        return json.dumps(fill(received.schema or {}, score(received)))

    return JudgeServer(script, responder=reply, then=then or OK)


def spans(number: int) -> Any:
    asked = turn(number, f"Where is order {number}?", f"{AGENT} here: it came.", session=f"s{number}")
    asked.attributes[1].value.string_value = AGENT
    called = span(number, 2, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="find_parcel")
    called.start_time_unix_nano = asked.start_time_unix_nano + 1
    called.end_time_unix_nano = asked.start_time_unix_nano + 2
    arguments = called.attributes.add(key="gen_ai.tool.call.arguments")
    arguments.value.string_value = json.dumps({"carrier": "post", "day": "Monday"})
    asked.attributes[-1].value.int_value = 2
    return traces(asked, called)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a collector that a fair judge has judged traces for."""
    folder = tmp_path_factory.mktemp("judged")
    with judging(fair) as judge:
        asked = {"base_url": judge.url, "band": 0.0, "canaries": 0, "prices": PRICES}
        with RunningCollector(folder, judge=asked, evaluators=ONLY_CONFIDENCE) as running:
            for number in range(1, TRACES + 1):
                running.send(spans(number))
            eventually(lambda: len(judge.requests) == TRACES)
            for number in range(1, TRACES + 1):
                eventually(lambda: _status(running, number) == "scored")  # noqa: B023
    return folder


def _status(running: RunningCollector, number: int) -> str | None:
    document = running.get(f"/api/v1/traces/{trace_id(number).hex()}")
    found = [each["status"] for each in (document or {"outcomes": []})["outcomes"] if each["name"] == "confidence"]
    return found[0] if found else None


class World:
    """A copy of the folder, to be checked with any judge."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def arguments(self, judge: JudgeServer, **config: Any) -> list[str]:
        asked = {"base_url": judge.url, "band": 0.0, "prices": PRICES, **config}
        file = self.folder / "config.yaml"
        file.write_text(yaml.safe_dump({"judge": asked, "evaluators": ONLY_CONFIDENCE}))
        return ["judge", "--check", "--config", str(file), "--data-dir", str(self.folder)]

    def check(self, judge: JudgeServer, *more: str, **config: Any) -> Result:
        result = CliRunner().invoke(
            command_line(), [*self.arguments(judge, **config), *more], env={"COLUMNS": "250", "OPENAI_API_KEY": None}
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def report(self, judge: JudgeServer, *more: str, **config: Any) -> Any:
        result = self.check(judge, "--yes", "--json", *more, **config)
        return json.loads(result.stdout)

    def outcomes(self) -> list[Any]:
        store = Store(self.folder / "agenteval.db", SystemClock(), events_of=no_events)
        try:
            return store.judged.scored(1000)
        finally:
            store.shutdown()

    def requests_spent(self) -> int:
        store = Store(self.folder / "agenteval.db", SystemClock(), events_of=no_events)
        try:
            return store.ledger.spent_since(0).requests
        finally:
            store.shutdown()


@pytest.fixture
def world(judged: Path, tmp_path: Path) -> World:
    return World(shutil.copytree(judged, tmp_path / "data"))


def flips(report: Any) -> Mapping[str, tuple[int, int]]:
    """Flips to pass and to fail, by change."""
    return {each["cost"]["change"]: (each["to_pass"], each["to_fail"]) for each in report["effects"]}


def beyond_noise(report: Any) -> list[str]:
    return [each["cost"]["change"] for each in report["effects"] if each["is_beyond_noise"]]


@pytest.mark.parametrize(
    ("judge", "change", "flipped"),
    [
        pytest.param(likes_long_answers, "padded", (TRACES // 2, 0), id="length"),
        pytest.param(likes_a_name, "renamed", (0, TRACES // 2), id="name"),
        pytest.param(likes_what_comes_first, "swapped", (0, TRACES // 2), id="order"),
    ],
)
def test_a_biased_judge_flips_by_what_it_minds_and_by_nothing_else(
    world: World, judge: Callable[[Received], float], change: str, flipped: tuple[int, int]
) -> None:
    with judging(judge) as server:
        report = world.report(server)
    assert flips(report) == {each: flipped if each == change else (0, 0) for each in CHANGES}
    assert beyond_noise(report) == [change]
    [effect] = [each for each in report["effects"] if each["cost"]["change"] == change]
    assert (effect["sessions"], effect["flipped"], effect["rate"]) == (TRACES, TRACES // 2, 0.5)
    assert effect["p_value"] == pytest.approx(3 * 2 / 2 ** (TRACES // 2))
    assert effect["mean_change"] == pytest.approx(0.4 if flipped[0] else -0.4)
    assert effect["interval"] == pytest.approx([0.31, 0.69], abs=0.01)
    assert {each["change"] for each in report["flips"]} == {change}


def test_a_fair_judge_flips_nothing_costs_what_was_said_and_changes_no_outcome(world: World) -> None:
    before, spent = world.outcomes(), world.requests_spent()
    with judging(fair) as server:
        report = world.report(server)
        assert len(server.requests) == len(CHANGES) * TRACES, "the cache is left out"
    assert flips(report) == dict.fromkeys(CHANGES, (0, 0))
    assert beyond_noise(report) == []
    assert [each["cost"]["requests"] for each in report["effects"]] == [TRACES] * len(CHANGES)
    assert all(each["cost"]["usd"] > 0 for each in report["effects"])
    assert world.outcomes() == before
    assert world.requests_spent() == spent + len(CHANGES) * TRACES


def test_a_noisy_judge_shows_its_noise_and_is_called_biased_by_nothing(world: World) -> None:
    with judging(Noisy()) as server:
        report = world.report(server)
    assert [sum(each) for each in flips(report).values()] == [9, 9, 6, 10]
    assert beyond_noise(report) == []


def test_a_second_model_is_asked_where_one_is_configured(world: World) -> None:
    def by_model(received: Received) -> float:
        return 0.9 if received.body["model"] == "other" else fair(received)

    with judging(by_model) as server:
        report = world.report(server, second_model="other")
    assert flips(report) == {**dict.fromkeys(CHANGES, (0, 0)), "second_model": (TRACES // 2, 0)}
    assert report["effects"][-1]["cost"]["usd"] is None, "its price is not known"


def test_traces_are_drawn_at_random_by_a_seed(world: World) -> None:
    asked = []
    for seed in ("1", "1", "2"):
        with judging(fair) as server:
            report = world.report(server, "--limit", "5", "--seed", seed)
            asked.append({order(each) for each in server.requests})
        assert (report["traces"], report["seed"], len(asked[-1])) == (5, int(seed), 5)
    assert asked[0] == asked[1] != asked[2]


def test_it_runs_beside_a_collector(world: World) -> None:
    with judging(fair) as server:
        asked = {"base_url": server.url, "canaries": 0}
        with RunningCollector(world.folder, judge=asked, evaluators=ONLY_CONFIDENCE) as running:
            assert flips(world.report(server, "--limit", "3")) == dict.fromkeys(CHANGES, (0, 0))
            running.send(spans(TRACES + 1))
            eventually(lambda: _status(running, TRACES + 1) == "scored")


def test_nobody_pays_who_was_not_asked(world: World) -> None:
    with judging(fair) as server:
        result = world.check(server)
        assert server.requests == ()
    assert result.exit_code == 1
    assert f"Together {len(CHANGES) * TRACES} requests; cost: $0.0" in result.stderr
    assert "give --yes" in result.stderr


def test_the_tables_show_the_effects_and_the_flips(world: World) -> None:
    with judging(likes_long_answers) as server:
        result = world.check(server, "--yes")
    assert result.exit_code == 0
    [padded] = [line for line in result.stdout.splitlines() if line.startswith("padded") and "noise" in line]
    assert f"{TRACES // 2} of {TRACES} [0.31, 0.69]" in padded
    assert "beyond noise" in padded
    assert trace_id(2).hex() in result.stdout


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        pytest.param(Behaviour(status=401, error_code="invalid_api_key"), "not all was asked: ", id="wrong key"),
        pytest.param(
            Behaviour(status=503, headers=SOON),
            "the judge was away 5 times in a row",
            id="outage",
            marks=pytest.mark.slow,  # It waits for the judge as long as it would for a real one.
        ),
    ],
)
def test_a_judge_that_cannot_be_asked_ends_the_check_with_the_reason(
    world: World, behaviour: Behaviour, says: str
) -> None:
    with judging(fair, behaviour) as server:
        result = world.check(server, "--yes", "--json", "--limit", "3")
    assert result.exit_code == 1
    assert says in result.stderr
    assert [each["cost"]["change"] for each in json.loads(result.stdout)["effects"]] == ["repeat"]


def test_a_budget_ends_the_check_with_its_bound_and_what_there_is(world: World) -> None:
    most = world.requests_spent() + TRACES + 5
    with judging(fair) as server:
        result = world.check(server, "--yes", "--json", budget={"requests_per_day": most})
    assert result.exit_code == 1
    assert f"judge.budget.requests_per_day is {most}" in result.stderr
    repeat, padded = json.loads(result.stdout)["effects"]
    assert (repeat["verdicts"], padded["verdicts"], padded["unanswered"]) == (TRACES, 5, TRACES - 5)


def test_without_a_judge_or_a_store_it_says_what_to_do(world: World, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    for environ, says in (({}, "set judge.base_url"), ({"OPENAI_API_KEY": "k"}, "no collector has kept anything in")):
        clean = {"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None, **environ}
        result = CliRunner().invoke(command_line(), ["judge", "--check", "--data-dir", str(nowhere)], env=clean)
        assert result.exit_code == 1
        assert says in result.stderr
    assert not nowhere.exists()


def _started(world: World, server: JudgeServer) -> "subprocess.Popen[str]":
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTEVAL_", "OPENAI_"))}
    return subprocess.Popen(
        [SCRIPT, *world.arguments(server, concurrency=1), "--yes", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean, text=True,
        # A shell that runs the tests in its background has them, and what they start, ignore Ctrl-C.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip


def _stuck_after(number: int) -> JudgeServer:
    return judging(fair, Behaviour(wire=Wire.HANGING), [OK] * number)


@pytest.mark.slow
def test_who_interrupts_it_sees_what_there_is(world: World) -> None:
    with _stuck_after(TRACES + 2) as server, _started(world, server) as process:
        eventually(lambda: len(server.requests) > TRACES + 2, within=60)
        process.send_signal(signal.SIGINT)
        told, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "not all was asked: it was interrupted" in said
    report = json.loads(told)
    assert report["stopped"] == "it was interrupted"
    assert report["effects"][0]["verdicts"] == TRACES


@pytest.mark.slow
def test_what_a_killed_check_has_asked_is_accounted_for(world: World) -> None:
    spent = world.requests_spent()
    with _stuck_after(5) as server, _started(world, server) as process:
        eventually(lambda: len(server.requests) > 5, within=60)
        process.kill()
        process.communicate(timeout=60)
        asked = len(server.requests)
    assert asked <= world.requests_spent() - spent <= asked + 1
