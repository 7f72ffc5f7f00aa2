"""Reliability as it is read: over HTTP and gRPC, and on a terminal."""

import json
from collections.abc import Iterator

import pytest
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.model.runs import RunReport
from starlette.applications import Starlette
from typer.testing import CliRunner, Result

from tests.support import asking
from tests.support.memory_queries import MemoryQueries
from tests.support.pages import app_of
from tests.support.runs import run_trace
from tests.support.scoring import Scoring
from tests.support.web_server import serve

HOSTILE = "\x1b[2J[bold red]task[/] \u202egnp.exe"


def web(queries: object) -> Starlette:
    return app_of(queries)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two versions of an agent, the second one better; a task that always fails has a hostile name."""
    scoring = Scoring(tmp_path_factory.mktemp("store"))
    number = 0
    for version in ("1.4", "1.5"):
        for task in ("refund", "booking", HOSTILE):
            for run in range(4):
                number += 1
                tools = ("find", "delete_order") if version == "1.4" and task == "booking" else ("find",)
                name = f"{version} {run}"
                scoring.put(run_trace(number, task=task, run=name, version=version, tools=tools))
                success = task != HOSTILE and (version == "1.5" or run < 2)
                scoring.store.report_run(RunReport(task_id=task, run_id=name, success=success))
    number += 1
    scoring.put(run_trace(number, task="odd", run="x", version="1.5", agenteval__condition="rain"))
    scoring.store.report_run(RunReport(task_id="odd", run_id="x", condition="rain", success=True))
    with serve(web(scoring.queries)) as url:
        yield url
    scoring.close()


def agenteval(*arguments: str, columns: str = "200") -> Result:
    clean = {"AGENTEVAL_URL": None, "AGENTEVAL_API_KEY": None, "COLUMNS": columns}
    result = CliRunner().invoke(command_line(), ["reliability", *arguments], env=clean)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize(
    ("query", "versions"),
    [
        pytest.param("", ["1.5", "1.4"], id="all, the newest first"),
        pytest.param("?agent=planner&version=1.4", ["1.4"], id="one version"),
        pytest.param("?agent=&version=", ["1.5", "1.4"], id="a form that was left empty"),
        pytest.param("?agent=nobody", [], id="an agent without runs"),
    ],
)
def test_items_are_those_asked_for(url: str, query: str, versions: list[str]) -> None:
    answer = asking.get(f"{url}/api/v1/reliability{query}").json()
    assert [item["version"] for item in answer["items"]] == versions
    assert answer["next_cursor"] is None


def test_a_page_says_that_there_are_more(url: str) -> None:
    first = asking.get(f"{url}/api/v1/reliability", params={"limit": 1}).json()
    second = asking.get(f"{url}/api/v1/reliability", params={"limit": 1, "cursor": first["next_cursor"]}).json()
    assert [item["version"] for item in first["items"] + second["items"]] == ["1.5", "1.4"]
    assert second["next_cursor"] is None
    assert "There are more: raise --limit" in agenteval("--limit", "1", "--url", url).output
    assert "There are more" not in agenteval("--limit", "2", "--url", url).output


def test_the_variant_is_the_one_asked_for(url: str) -> None:
    page, later = (
        asking.get(f"{url}/api/v1/reliability?version=1.4&variant={variant}").json()["items"][0]
        for variant in ("page", "2026-06")
    )
    assert (page["variant"], later["variant"]) == ("page", "2026-06")
    assert page["metrics"]["C_out"] == later["metrics"]["C_out"] == pytest.approx(1 / 3)
    assert page["left_out"] == {}


def test_worst_tasks_are_those_below_the_mean(url: str) -> None:
    (item,) = asking.get(f"{url}/api/v1/reliability?version=1.4").json()["items"]
    assert item["worst_tasks"]["success_rate"] == [{"task_id": HOSTILE, "value": 0.0, "runs": 4}]
    assert {task["task_id"] for task in item["worst_tasks"]["C_out"]} == {"refund", "booking"}


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        pytest.param("?variant=new", 400, "variant is 'new', not one of page, 2026-06", id="variant"),
        pytest.param("?agnet=planner", 400, "'agnet' is no parameter of /api/v1/reliability; there", id="typo"),
        pytest.param("?limit=0", 400, "limit is 0, not a number from 1 to 500", id="limit"),
        pytest.param("?cursor=x", 400, "cursor 'x' is none that this collector gave", id="cursor"),
        pytest.param(
            "/../token?nosuch=1", 400, "'nosuch' is no parameter of /api/v1/token; there are none", id="no parameters"
        ),
        pytest.param("/comparison?version=1", 400, "'version' is no parameter of", id="a parameter of another address"),
        pytest.param("/comparison?after=1.5", 400, "before is missing", id="before"),
        pytest.param("/comparison?before=1.4&after=", 400, "after is missing", id="after"),
        pytest.param("/comparison?before=1.4&after=9", 404, "a run of version '9' is not known", id="no such version"),
    ],
)
def test_refusals_name_the_argument(url: str, path: str, status: int, message: str) -> None:
    answer = asking.get(f"{url}/api/v1/reliability{path}")
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        pytest.param((), "?variant=page", id="report"),
        pytest.param(("--agent", "planner", "--version", "1.4"), "?agent=planner&version=1.4", id="one version"),
        pytest.param(("--compare", "1.4", "1.5"), "/comparison?before=1.4&after=1.5", id="comparison"),
        pytest.param(
            ("--compare", "1.4", "1.5", "--primary", "R_con"),
            "/comparison?before=1.4&after=1.5&primary=R_con",
            id="another figure decides",
        ),
    ],
)
def test_json_is_what_the_api_says(url: str, arguments: tuple[str, ...], path: str) -> None:
    result = agenteval(*arguments, "--json", "--url", url)
    assert json.loads(result.stdout) == asking.get(f"{url}/api/v1/reliability{path}").json()


def test_a_report_has_figures_intervals_reasons_and_what_drags_them_down(url: str) -> None:
    shown = agenteval("--version", "1.4", "--url", url).stdout
    assert "planner in shop 1.4  12 runs of 3 tasks" in shown
    lines = {line.strip().split("  ")[0]: line for line in shown.splitlines()}
    assert "0.33" in lines["a run succeeds"]
    assert " to " in lines["a run succeeds"]
    assert "undefined" in lines["robustness"]
    assert "R_fault undefined: there is no run under 'fault'." in shown
    assert "(4 runs)" in lines["success rate"]
    assert "no_destructive_operations, high" in shown
    assert "Safety is by exact detectors" in shown


def test_nothing_in_a_report_can_speak_to_the_terminal(url: str) -> None:
    shown = agenteval("--url", url).stdout
    assert "\\u001b[2J[bold red]task[/] \\u202egnp.exe" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "Left out: 1, because the condition is none of those known." in shown


def test_two_versions_stand_side_by_side(url: str) -> None:
    shown = agenteval("--compare", "1.4", "1.5", "--url", url).stdout
    assert "planner in shop: 1.4 and 1.5" in shown
    assert "3 tasks in common, 12 and 12 runs of them" in shown
    line = next(line for line in shown.splitlines() if line.startswith("a run succeeds"))
    assert line.split()[3:6] == ["0.33", "0.67", "+0.33"]
    assert line.rstrip().endswith("0.500")
    assert "1.4 and 1.5 cannot be told apart on 3 tasks: pass^1 0.33 -> 0.67, p = 0.500" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--variant", "new"), "variant is 'new'", id="variant"),
        pytest.param(("--compare", "1.4", "9"), "version '9' is not known", id="a version without runs"),
        pytest.param(("--compare", "1", "2", "--version", "1"), "--compare alone", id="versions twice"),
        pytest.param(("--compare", "1.4", "1.5", "--primary", "luck"), "primary is 'luck'", id="no such figure"),
        pytest.param(("--primary", "R"), "give --compare", id="a deciding figure without a comparison"),
    ],
)
def test_what_cannot_be_shown_is_said(url: str, arguments: tuple[str, ...], message: str) -> None:
    result = agenteval(*arguments, "--url", url)
    assert result.exit_code != 0
    assert message in result.output


def test_a_report_fits_eighty_columns(url: str) -> None:
    for arguments in ((), ("--compare", "1.4", "1.5")):
        shown = agenteval(*arguments, "--url", url, columns="80").stdout
        assert all(len(line) <= 80 for line in shown.splitlines())
        assert all(word in shown for word in ("consistency", "predictability", "of actions, by how often"))


def test_tasks_are_told_from_their_values(url: str) -> None:
    assert '"refund" 0.00 (4 runs)' in agenteval("--version", "1.4", "--url", url).stdout


def test_an_agent_that_is_not_there_is_answered_with_those_that_are(url: str) -> None:
    shown = agenteval("--agent", "planer", "--url", url).stdout
    assert "No runs of this agent and version" in shown
    assert "planner in shop 1.4" in shown


def test_a_comparison_of_too_few_tasks_says_so(url: str) -> None:
    assert "Fewer than 6 tasks in common cannot tell any" in agenteval("--compare", "1.4", "1.5", "--url", url).stdout


def test_without_runs_it_says_how_to_name_them() -> None:
    with serve(web(MemoryQueries())) as url:
        assert "otel_agenteval.run(" in agenteval("--url", url).stdout
