"""`agenteval label` against a real collector: what it says, and what it says to those who err."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from agenteval_collector.cli.command_line import command_line
from typer.testing import CliRunner, Result

from tests.support.otlp import trace_id, traces, turn
from tests.support.running_collector import RunningCollector

TRACE = trace_id(1).hex()


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCollector]:
    with RunningCollector(tmp_path_factory.mktemp("collector")) as running:
        running.send(traces(turn(1, "Where is my refund?", "It was sent on Monday.", session="s")))
        running.scored(TRACE)
        yield running


def agenteval(*arguments: str, **environ: str) -> Result:
    clean = {"AGENTEVAL_URL": None, "AGENTEVAL_API_KEY": None, "COLUMNS": "200"}
    result = CliRunner().invoke(command_line(), list(arguments), env={**clean, **environ})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_label_is_kept_replaced_shown_and_compared(collector: RunningCollector) -> None:
    url = f"http://{collector.addresses['web']}"
    said = agenteval("label", TRACE, "coherence", "fail", "--by", "ann", "--url", url)
    assert (said.exit_code, said.stdout) == (0, f"coherence of {TRACE} is 0.00, says ann.\n")
    assert agenteval("label", TRACE, "coherence", "0.75", "--by", "ann", "--note", "it is", "--url", url).exit_code == 0
    labels = collector.get(f"/api/v1/traces/{TRACE}")["labels"]
    assert [(each["name"], each["value"], each["author"], each["note"]) for each in labels] == [
        ("coherence", 0.75, "ann", "it is")
    ]
    assert "ann says that coherence is 0.75: it is" in agenteval("why", TRACE, "--url", url).stdout
    found = json.loads(agenteval("agreement", "--json", "--name", "coherence", "--url", url).stdout)
    assert [(item["name"], item["method"], item["labels"]) for item in found["items"]] == [
        ("coherence", "embedding", 1)
    ]
    table = agenteval("agreement", "--url", url).stdout
    assert "not enough labels: 1 of 10" in table
    assert "was labelled by: ann 1" in table


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param((TRACE, "coherence", "good"), "VALUE is 'good', not a number", id="a word of another kind"),
        pytest.param((TRACE, "coherence", "1.5"), "VALUE is '1.5', not a number from 0 to 1", id="a value above 1"),
        pytest.param((TRACE, "coherence", "nan"), "VALUE is 'nan', not a number from 0 to 1", id="no number"),
        pytest.param((TRACE, "coherense", "1"), "the trace has", id="a misspelt evaluator"),
        pytest.param(("12", "coherence", "1"), "not 32 hexadecimal digits", id="no trace id"),
        pytest.param(("0" * 32, "coherence", "1"), "is not known to this collector", id="an unknown trace"),
    ],
)
def test_errors_are_one_sentence(collector: RunningCollector, arguments: tuple[str, ...], says: str) -> None:
    result = agenteval("label", *arguments, "--url", f"http://{collector.addresses['web']}")
    assert (result.exit_code, result.stdout) == (1, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("address", ["ftp://127.0.0.1:1", "http://[::1"])
def test_an_address_that_is_none_is_named(address: str) -> None:
    result = agenteval("label", TRACE, "coherence", "1", "--url", address)
    assert result.exit_code == 1
    assert f"--url is {address!r}" in result.stderr


def test_a_collector_that_is_not_there_is_said_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    result = agenteval("label", TRACE, "coherence", "1", "--url", address)
    assert (
        result.stderr
        == f"agenteval: nothing listens on {address}: start `agenteval collector`, or give its web port as --url\n"
    )


def test_a_wrong_port_is_named(collector: RunningCollector) -> None:
    for name, says in (("grpc", "give the collector's web port (4319), not its gRPC port"), ("http", "its web port")):
        result = agenteval("label", TRACE, "coherence", "1", "--url", f"http://{collector.addresses[name]}")
        assert (result.exit_code, result.stdout) == (1, "")
        assert says in result.stderr


def test_keys_are_given_by_option_or_environment(tmp_path: Path) -> None:
    with RunningCollector(tmp_path, server={"keys": ["secret"]}) as running:
        where = ("--url", f"http://{running.addresses['web']}")
        none, wrong = (
            agenteval("label", TRACE, "coherence", "1", *where, *key) for key in ((), ("--api-key", "guess"))
        )
        right = agenteval("label", TRACE, "coherence", "1", *where, AGENTEVAL_API_KEY="secret")
    assert "wants a key: give it as --api-key or AGENTEVAL_API_KEY" in none.stderr
    assert "does not accept this key" in wrong.stderr
    assert "is not known to this collector" in right.stderr


def test_a_session_is_labelled_by_its_id(collector: RunningCollector) -> None:
    url = f"http://{collector.addresses['web']}"
    about = ("label", "--session", "s", "--by", "ann")
    said = agenteval(*about, "agent_consistency", "pass", "--url", url)
    assert said.stdout == "agent_consistency of s is 1.00, says ann.\n"
    [label] = collector.get("/api/v1/sessions/s")["labels"]
    assert (label["name"], label["value"], label["author"]) == ("agent_consistency", 1.0, "ann")
    assert "ann says that agent_consistency is 1.00" in agenteval("why", "--session", "s", "--url", url).stdout
    for arguments, says in (
        ((*about, "goal_success", "1"), "name is 'goal_success'; the session has agent_consistency"),
        ((*about, "goal_success", "1"), "; it has goal_success once it is idle or ended, where there is a judge"),
        ((*about, TRACE, "goal_success", "1"), "give TRACE, NAME and VALUE; or --session ID"),
        (("label", "--session", "nobody", "goal_success", "1"), "session 'nobody' is not known"),
    ):
        refused = agenteval(*arguments, "--url", url)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert says in refused.stderr
    assert "give TRACE, or --session ID" in agenteval("why", "--url", url).stderr
