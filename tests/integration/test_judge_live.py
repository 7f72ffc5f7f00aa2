"""A collector with a judge, both for real: telemetry over gRPC, questions over HTTP."""

import json
import logging
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from agenteval_collector.app.collector import Collector
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.cli.offline_replay import replay
from agenteval_collector.cli.recordings import Recorded
from agenteval_collector.judge.panel import JUDGED
from agenteval_collector.model.logged_requests import Signal
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from typer.testing import CliRunner

from tests.support.crashing import CollectorProcess
from tests.support.eventually import eventually
from tests.support.judge.behaviours import OK, Behaviour, Content, Wire
from tests.support.judge.judge_server import JudgeServer
from tests.support.otlp import marked, span, trace_id, traces, turn
from tests.support.ports import free_port
from tests.support.running_collector import RunningCollector, settings

EMBEDDED = 2
"""Outcomes of a trace that take no judge."""


def worked(number: int, session: str = "s") -> list[Span]:
    """A trace in which an agent says its plan, calls a tool, and answers."""
    root = turn(number, f"Where is order {number}?", f"Order {number} arrives on Friday.", session=session)
    del root.attributes[-1]  # The marker of a trace with a single span.
    definitions = [{"type": "function", "name": "find_order", "parameters": {"type": "object"}}]
    plan = {"type": "text", "content": "First I look up the order, then I answer."}
    call = {"type": "tool_call", "id": "c1", "name": "find_order", "arguments": {"order": number}}
    chat = span(
        number, 2, parent=1, gen_ai__operation__name="chat",
        gen_ai__tool__definitions=json.dumps(definitions),
        gen_ai__output__messages=json.dumps([{"role": "assistant", "parts": [plan, call]}]),
    )  # fmt: skip
    tool = span(
        number, 3, parent=1, gen_ai__operation__name="execute_tool", gen_ai__tool__name="find_order",
        gen_ai__tool__call__id="c1", gen_ai__tool__call__arguments=json.dumps({"order": number}),
        gen_ai__tool__call__result="on its way, Friday",
    )  # fmt: skip
    for child in (chat, tool):
        child.start_time_unix_nano = root.start_time_unix_nano + child.span_id[-1] * 1000
        child.end_time_unix_nano = child.start_time_unix_nano + 500
    return [chat, tool, marked(root, 3, "p1")]


def hex_id(number: int) -> str:
    return trace_id(number).hex()


def of_judge(document: Any) -> dict[str, Any]:
    return {each["name"]: each for each in document["outcomes"] if each["method"] == "llm"}


def statuses(document: Any) -> set[str]:
    return {each["status"] for each in of_judge(document).values()}


@contextmanager
def collector(tmp_path: Path, judge: JudgeServer, **config: Any) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path, judge={"base_url": judge.url, **config}) as made:
        yield made


def settled(running: RunningCollector, number: int) -> Any:
    """The trace once nothing of it is pending."""

    def look() -> Any:
        document = running.get(f"/api/v1/traces/{hex_id(number)}")
        return document if document and document["complete"] and document["status"] != "pending" else None

    document = eventually(look, within=60)
    running.catch_up()
    return document


def metric(running: RunningCollector, name: str, **labels: str) -> float:
    found = 0.0
    for line in running.get("/metrics").splitlines():
        if line.startswith(name) and all(f'{key}="{value}"' in line for key, value in labels.items()):
            found += float(line.rpartition(" ")[2])
    return found


def judged_outcomes(running: RunningCollector, name: str) -> float:
    """How many were counted."""
    labels = {"agenteval_evaluation_method": "llm", "gen_ai_evaluation_name": name}
    return metric(running, "agenteval_evaluation_outcomes_total", **labels)


def reliability(running: RunningCollector) -> Any:
    [found] = [each for each in running.get("/api/v1/sessions/s")["outcomes"] if each["name"] == "agent_reliability"]
    return found


def test_seven_evaluators_and_a_rubric_score_a_trace_in_six_questions(tmp_path: Path) -> None:
    rubric = {"name": "politeness", "question": "Is the agent polite?", "scale": (1, 5)}
    with JudgeServer(score=0.25) as judge:
        config = {"rubrics": [rubric], "prices": {"gpt-4o-mini": {"input": 1, "output": 1}}}
        with collector(tmp_path, judge, **config) as running:
            running.send(traces(*worked(1)))
            document = settled(running, 1)
            found = of_judge(document)
            session = running.get("/api/v1/sessions/s")
            asked = running.get(f"/api/v1/traces/{hex_id(1)}/judgements")["items"]
            counted = judged_outcomes(running, "confidence")
            cost = metric(running, "gen_ai_evaluation_client_usage_cost")
    # Out of the rubric's scale is malformed: 0.25 is not in 1 to 5.
    assert found.pop("politeness")["status"] == "failed"
    assert set(found) == set(JUDGED)
    assert statuses({"outcomes": found.values()}) == {"scored"}
    assert len([each for each in asked if each["question"] != "politeness"]) == 5
    assert len(asked) == len(judge.requests)
    confidence = found["confidence"]
    assert (confidence["score"], confidence["model"], confidence["success"]) == (0.25, "gpt-4o-mini", False)
    assert confidence["metadata"]["prompt_version"]
    assert confidence["metadata"]["temperature"] == 0.0
    assert len(document["outcomes"]) == EMBEDDED + len(JUDGED) + 1
    assert session["signals"][hex_id(1)]["confidence"] == 0.25
    assert session["flagged_traces"] == [hex_id(1)]
    assert counted == 1
    assert cost > 0


def test_each_turn_is_judged_once_and_shown_with_the_turns_before_it(tmp_path: Path) -> None:
    turns = 4
    with JudgeServer(score=0.9) as judge, collector(tmp_path, judge) as running:
        shown = []
        for number in range(1, turns + 1):
            sent = len(judge.requests)
            running.send(traces(*worked(number)))
            settled(running, number)
            shown.append([each.data for each in judge.requests[sent:]])
    # Replies to equal questions about task and plan are known.
    assert [len(requests) for requests in shown] == [5, 3, 3, 3]
    for number, requests in enumerate(shown, 1):
        reading = [data for data in requests if "transcript" in data or "calls" in data]
        assert len(reading) == 3
        for data in reading:
            asked = [item["text"] for item in data.get("earlier", []) if item["kind"] == "user"]
            assert asked == [f"Where is order {before}?" for before in range(1, number)]
            assert f"Where is order {number}?" in json.dumps(data.get("transcript", data.get("user_messages")))


def test_what_leaves_is_redacted(tmp_path: Path) -> None:
    with JudgeServer() as judge, collector(tmp_path, judge) as running:
        asked = "I am ann@example.com, and my key is sk-abcdefghijklmnopqrstuvwx1234"
        running.send(traces(turn(1, asked, "Hello.", session="s")))
        settled(running, 1)
        kept = running.get(f"/api/v1/traces/{hex_id(1)}/judgements")["items"]
    sent = " ".join(each.text for each in judge.requests) + json.dumps(kept)
    assert "ann@example.com" not in sent
    assert "sk-abcdefghij" not in sent
    assert "[EMAIL_1]" in sent


def test_ingestion_does_not_wait_for_a_judge_that_hangs(tmp_path: Path) -> None:
    with JudgeServer(then=Behaviour(wire=Wire.HANGING)) as judge, collector(tmp_path, judge, timeout=600) as running:
        running.send(traces(*worked(1)))
        eventually(lambda: judge.requests)
        for number in range(2, 30):
            running.send(traces(*worked(number)))
        for number in range(1, 30):
            document = running.scored(hex_id(number))
            assert document["status"] == "pending"
            assert sum(each["status"] == "scored" for each in document["outcomes"]) >= 1
            assert len([each for each in document["outcomes"] if each["method"] != "llm"]) == EMBEDDED
        # Not one answer came meanwhile, and nobody was told of what is pending.
        assert judged_outcomes(running, "confidence") == 0
        assert "29 of 29 traces are not judged (29 pending)" in reliability(running)["reason"]


def test_traces_wait_for_a_judge_that_is_down_and_are_judged_when_it_is_back(tmp_path: Path) -> None:
    # Nobody listens on a port that is taken, and nobody else gets it.
    port = free_port()
    taken = socket.socket()
    taken.bind(("127.0.0.1", port))
    with RunningCollector(tmp_path, judge={"base_url": f"http://127.0.0.1:{port}/v1"}) as running:
        for number in range(1, 6):
            running.send(traces(*worked(number)))
        assert {running.scored(hex_id(number))["status"] for number in range(1, 6)} == {"pending"}
        taken.close()
        with JudgeServer(port=port):
            for number in range(1, 6):
                assert statuses(settled(running, number)) == {"scored"}


def test_what_waits_says_what_is_wrong_with_the_judge_now(tmp_path: Path) -> None:
    # Nobody listens on a port that is taken, and nobody else gets it.
    port = free_port()
    taken = socket.socket()
    taken.bind(("127.0.0.1", port))
    address = f"http://127.0.0.1:{port}/v1"
    with RunningCollector(tmp_path, judge={"base_url": address, "api_key": "sk-secret"}) as running:
        running.send(traces(*worked(1)))
        running.scored(hex_id(1))
        wrong = re.compile(rf"; the judge has not answered since \S+Z: 127.0.0.1:{port}: refuses connections; check")

        def told() -> Any:
            return all(wrong.search(reason) for reason in reasons(running)) and reasons(running)

        assert len(eventually(told)) == len(JUDGED) + 2, "the judged outcomes, and the session's"
        [item] = running.get("/api/v1/sessions")["items"]
        assert all(wrong.search(each["reason"]) for each in item["outcomes"])
        why = CliRunner().invoke(command_line(), ["why", hex_id(1), "--url", f"http://{running.addresses['web']}"])
        listed = CliRunner().invoke(command_line(), ["sessions", "--url", f"http://{running.addresses['web']}"])
        for shown in (running.get("/"), listed.output):
            assert "Scores wait: the judge has not answered since" in shown
        page = running.get(f"/traces/{hex_id(1)}")
        for shown in (why.output, page, listed.output):
            assert f"127.0.0.1:{port}: refuses connections" in " ".join(shown.split())
            assert "sk-secret" not in shown
        taken.close()
        with JudgeServer(port=port):
            settled(running, 1)
            assert not any(wrong.search(reason) for reason in reasons(running))


def reasons(running: RunningCollector) -> list[str]:
    """Of what the judge says of the first trace, and of its session."""
    judged = of_judge(running.get(f"/api/v1/traces/{hex_id(1)}")).values()
    return [each["reason"] for each in [*judged, *running.get("/api/v1/sessions/s")["outcomes"]]]


def test_what_an_earlier_run_left_to_its_judge_says_that_there_is_none(tmp_path: Path) -> None:
    with JudgeServer(then=Behaviour(wire=Wire.HANGING)) as judge, collector(tmp_path, judge) as running:
        running.send(traces(*worked(1)))
        running.scored(hex_id(1))
    with RunningCollector(tmp_path) as running:
        assert all("this collector has no judge: set judge.base_url" in reason for reason in reasons(running))


def test_what_failed_is_judged_when_somebody_asks_for_it(tmp_path: Path) -> None:
    def ask(running: RunningCollector, *arguments: str) -> str:
        result = CliRunner().invoke(
            command_line(), ["judge", *arguments, "--url", f"http://{running.addresses['web']}"]
        )
        assert result.exit_code == 0, result.output
        return result.output

    with JudgeServer(then=Behaviour(status=404)) as judge, collector(tmp_path, judge) as running:
        for number in (1, 2):
            running.send(traces(*worked(number)))
            assert statuses(settled(running, number)) == {"failed"}
    with JudgeServer() as judge, collector(tmp_path, judge) as running:
        assert ask(running, hex_id(2).upper()) == "1 trace waits for the judge.\n"
        assert statuses(settled(running, 2)) == {"scored"}
        assert statuses(settled(running, 1)) == {"failed"}
        assert ask(running, "--failed", "--since", "1h") == "1 trace or session waits for the judge.\n"
        assert statuses(settled(running, 1)) == {"scored"}
        eventually(lambda: reliability(running)["status"] == "scored")
        assert "waits for the judge: it has left out none of these." in ask(running, "--failed")
        assert "Nothing to ask: all is judged" in ask(running, "--uncertain")
        assert "waits for the judge: it has left out none of these." in ask(running, hex_id(1), hex_id(9))
        assert judged_outcomes(running, "confidence") == 0, "they were counted as failed"


@pytest.mark.parametrize(
    ("config", "status"),
    [
        ({"budget": {"requests_per_day": 0}}, "over_budget"),
        ({"sample": 0.0}, "sampled_out"),
        ({"enabled": False}, "no_judge"),
    ],
)
def test_what_was_left_out_is_judged_by_its_id(tmp_path: Path, config: dict[str, Any], status: str) -> None:
    with JudgeServer() as judge:
        with collector(tmp_path, judge, **config) as running:
            running.send(traces(*worked(1)))
            assert statuses(settled(running, 1)) == {status}
        with collector(tmp_path, judge) as running:
            again = CliRunner().invoke(
                command_line(), ["judge", hex_id(1), "--url", f"http://{running.addresses['web']}"]
            )
            assert again.output == "1 trace waits for the judge.\n"
            assert statuses(settled(running, 1)) == {"scored"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(("--failed",), "this collector has no judge", id="no judge"),
        pytest.param((hex_id(1), "--json"), "--json is for the judge's drift", id="json of nothing"),
        pytest.param((hex_id(1), "--failed"), "give the ids of traces or sessions, or --failed, or --un", id="both"),
        pytest.param(("12",), "trace_id is '12', not 32 hexadecimal digits", id="no trace id"),
        pytest.param(("--failed", "--since", "yesterday"), "--since is 'yesterday', not a time", id="no time"),
    ],
)
def test_what_cannot_be_judged_again_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    with RunningCollector(tmp_path) as running:
        result = CliRunner().invoke(
            command_line(), ["judge", *arguments, "--url", f"http://{running.addresses['web']}"]
        )
    assert (result.exit_code, result.stdout) == (1, "")
    assert says in result.stderr


def test_traces_wait_for_a_right_key(tmp_path: Path) -> None:
    with JudgeServer(then=Behaviour(status=401)) as judge:
        with collector(tmp_path, judge) as running:
            running.send(traces(*worked(1)))
            eventually(lambda: judge.requests)
            assert running.scored(hex_id(1))["status"] == "pending"
        assert len(judge.requests) <= 6
    with JudgeServer() as judge, collector(tmp_path, judge, api_key="right") as running:
        assert statuses(settled(running, 1)) == {"scored"}
        assert {each.headers["authorization"] for each in judge.requests} == {"Bearer right"}


def test_four_traces_at_once_go_through_a_narrow_budget(tmp_path: Path) -> None:
    with JudgeServer(then=Behaviour(tokens=(400, 40))) as judge:
        with collector(tmp_path, judge, budget={"tokens_per_day": 12_000}) as running:
            for number in range(1, 5):
                running.send(traces(*worked(number)))
            found = [statuses(settled(running, number)) for number in range(1, 5)]
        assert found == [{"scored"}] * 4


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_was_pending_when_the_collector_ended_is_judged_by_the_next_one(
    tmp_path: Path, how: signal.Signals
) -> None:
    numbers = (1, 2, 3)

    def all_are(process: CollectorProcess, status: str) -> Any:
        documents = [process.get(f"/api/v1/traces/{hex_id(number)}") for number in numbers]
        return documents if all(each and each["status"] == status for each in documents) else None

    with JudgeServer(then=Behaviour(wire=Wire.HANGING)) as judge:
        process = CollectorProcess(tmp_path, {"OPENAI_BASE_URL": judge.url})
        for number in numbers:
            process.send(traces(*worked(number)))
        eventually(lambda: all_are(process, "pending"), within=60)
        assert process.stop(how) == (0 if how is signal.SIGTERM else -how)
    with JudgeServer() as judge:
        process.start({"OPENAI_BASE_URL": judge.url})
        documents = eventually(lambda: all_are(process, "scored"), within=60)
        assert process.stop(signal.SIGTERM) == 0
    assert [statuses(each) for each in documents] == [{"scored"}] * 3
    assert [each["revision"] for each in documents] == [1, 1, 1]


@pytest.mark.parametrize(
    ("behaviour", "config", "status", "says"),
    [
        pytest.param(
            Behaviour(content=Content.PROSE), {}, "failed", "no valid reply in 3 requests", id="malformed always"
        ),
        pytest.param(Behaviour(content=Content.OUT_OF_RANGE), {}, "failed", "no valid reply", id="out of range always"),
        pytest.param(
            Behaviour(), {"budget": {"requests_per_day": 0}}, "over_budget", "requests_per_day", id="no budget"
        ),
        pytest.param(Behaviour(), {"sample": 0.0}, "sampled_out", "0 % that are judged", id="sampled out"),
        pytest.param(Behaviour(status=404), {}, "failed", "judge.model", id="an unknown model"),
    ],
)
def test_every_trace_ends_with_a_status_and_a_reason(
    tmp_path: Path, behaviour: Behaviour, config: dict[str, Any], status: str, says: str
) -> None:
    with JudgeServer(then=behaviour) as judge, collector(tmp_path, judge, **config) as running:
        running.send(traces(*worked(1)))
        found = of_judge(settled(running, 1))
        coverage = reliability(running)["coverage"]
    assert {each["status"] for each in found.values()} == {status}
    assert {each["score"] for each in found.values()} == {None}
    assert all(says in each["reason"] for each in found.values()), found
    assert len(judge.requests) <= 6 * 3
    assert coverage == 0.0


def test_a_model_whose_replies_are_rubbish_is_named_as_the_judges_trouble(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with JudgeServer(then=Behaviour(content=Content.PROSE)) as judge, collector(tmp_path, judge) as running:
        running.send(traces(*worked(1)))
        assert statuses(settled(running, 1)) == {"failed"}
        assert "name another model in judge.model" in running.get("/api/v1/collector")["judge"]["trouble"]
    assert "3 requests to the judge had no valid reply" in caplog.text


def test_no_score_comes_from_a_judge_that_misbehaves_in_every_way(tmp_path: Path) -> None:
    ways = [
        Behaviour(status=429, headers={"Retry-After": "0"}),
        Behaviour(status=500),
        Behaviour(wire=Wire.RESET),
        Behaviour(wire=Wire.CUT),
        Behaviour(wire=Wire.HTML),
        *(Behaviour(content=content) for content in Content if content is not Content.FENCED),
    ]
    random = Random(7)
    script = [random.choice([*ways, OK]) for _ in range(150)]
    server = JudgeServer(script, then=Behaviour(content=Content.WRONG_COUNTS), score=0.75)
    with server as judge, collector(tmp_path, judge) as running:
        for number in range(1, 11):
            running.send(traces(*worked(number)))
        found = [each for number in range(1, 11) for each in of_judge(settled(running, number)).values()]
    assert {each["status"] for each in found} == {"scored", "failed"}
    # What the judge says when it is well; one verdict a call, and each is yes.
    assert {each["score"] for each in found if each["status"] == "scored"} <= {0.75, 1.0}
    assert all(each["reason"] for each in found)
    attempts, asks, questions = 4, 3, 6
    assert len(judge.requests) <= 10 * questions * asks * attempts


def test_a_repeated_answer_has_its_session_judged_though_it_is_not_sampled(tmp_path: Path) -> None:
    with JudgeServer() as judge, collector(tmp_path, judge, sample=0.0, escalate=1.0) as running:
        for number, asked in enumerate(("Where is it?", "When will it come?"), 1):
            running.send(traces(turn(number, asked, "It is on its way.", session="s")))
            assert "sampled_out" in statuses(settled(running, number))
        assert not judge.requests
        running.send(traces(turn(3, "Is it lost?", "It is on its way.", session="s")))
        assert "scored" in statuses(settled(running, 3))
        for number in (1, 2):
            eventually(lambda: statuses(running.scored(hex_id(number))) == statuses(settled(running, 3)))  # noqa: B023


def test_a_replay_judges_escalated_sessions_as_the_collector_does(tmp_path: Path) -> None:
    with JudgeServer() as judge:
        same = [turn(number, f"Where is parcel {number}?", "It is on its way.", session="s") for number in range(1, 70)]
        recorded = [Recorded(Signal.TRACES, traces(each).SerializeToString(), "") for each in same]
        document = replay(
            recorded, settings(tmp_path, judge={"base_url": judge.url, "sample": 0.0, "escalate": 1.0}), lambda _: None
        )
    assert [of_judge(each)["confidence"]["status"] for each in document["traces"]] == ["scored"] * len(same)


def test_a_replay_says_what_the_collector_says(tmp_path: Path) -> None:
    requests = [traces(*worked(number)) for number in (1, 2)]
    with JudgeServer(score=0.75) as judge:
        with collector(tmp_path, judge) as running:
            for request in requests:
                running.send(request)
            live = [settled(running, number) for number in (1, 2)]
        progress: list[int] = []
        recorded = [Recorded(Signal.TRACES, each.SerializeToString(), "") for each in requests]
        config = settings(tmp_path, judge={"base_url": judge.url})
        document = replay(recorded, config, progress.append)
    assert sum(progress) == 2
    assert [each["outcomes"] for each in document["traces"]] == [each["outcomes"] for each in live]


def test_a_replay_does_not_log_its_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with JudgeServer() as judge:
        recorded = [Recorded(Signal.TRACES, traces(*worked(1)).SerializeToString(), "")]
        replay(recorded, settings(tmp_path, judge={"base_url": judge.url}), lambda _: None)
        assert judge.requests
    assert not {each.name for each in caplog.records if each.name.startswith(("httpx", "openai"))}


def test_a_collector_with_a_judge_shuts_down_before_its_start_and_twice(tmp_path: Path) -> None:
    made = Collector(settings(tmp_path, judge={"base_url": "http://127.0.0.1:9/v1"}))
    made.shutdown()
    made.shutdown()
