"""The command `dataset`: keep failing traces as cases that must not fail again."""

import json
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from agenteval_collector.cli.client import Key, Url, fetch
from agenteval_collector.cli.dataset import read_dataset
from agenteval_collector.cli.terminal import clean, console, fail, failing_on
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.web.formats import query
from otel_agenteval.finding import Severity
from otel_agenteval.reader import DEFAULT_URL

_PAGE: Final = 50
_GRAVE: Final = (Severity.ERROR, Severity.WARNING)
_ID_CHARACTERS: Final = 12


class Action(StrEnum):
    """An action on a dataset."""

    ADD = "add"


def dataset(
    action: Annotated[Action, typer.Argument(metavar="add", help="Add cases to the file.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The dataset: JSON lines. It is made if there is none.")],
    problem: Annotated[str | None, typer.Option(metavar="ID", help="The newest traces of this problem.")] = None,
    label: Annotated[
        str | None, typer.Option(metavar="fail", help="The newest traces with a label that says fail (or pass).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most this many traces.")] = 20,
    url: Url = DEFAULT_URL,
    api_key: Key = None,
) -> None:
    """Add failing traces to a set of cases: the question of each, and the findings that must not come back.

    `agenteval replay RECORDING --dataset FILE` then exits with 1 if one does.
    """
    if (problem is None) == (label is None):
        fail("give either --problem ID or --label fail")
    known = _known(file)
    traces = islice(_traces(url, api_key, {"problem": problem, "label": label}), limit)
    cases = {case["task_id"]: case for trace in traces if (case := _case(trace, problem))["task_id"] not in known}
    try:
        with file.open("a", encoding="utf-8") as target:
            target.writelines(json.dumps(case, ensure_ascii=False) + "\n" for case in cases.values())
    except OSError as error:
        fail(clean(f"{file} cannot be written: {error.strerror}"))
    out = console(stderr=True)
    out.print(clean(f"{len(cases)} {'case' if len(cases) == 1 else 'cases'} added to {file}"))
    if silent := sum(case["input"] is None for case in cases.values()):
        out.print(f"{silent} of them have no input: record content in the agent, or write it in the file")
    if quiet := sum(not case["forbid"] for case in cases.values()):
        out.print(f"{quiet} of them have no finding: say in `forbid` what must not come back, or add expected_tools")


def _known(file: Path) -> set[str]:
    """Return the tasks of the cases in the file. End the command if it is no dataset."""
    if not file.exists():
        return set()
    with failing_on(InvalidRequest):
        return {case.task_id for case in read_dataset(file).cases}


def _traces(url: str, key: str | None, wanted: dict[str, str | None]) -> Iterator[Any]:
    """Yield the traces that are wanted, the newest first."""
    cursor = None
    while True:
        page = fetch(url, "/api/v1/traces" + query({**wanted, "limit": _PAGE, "cursor": cursor}), key)
        yield from page["items"]
        if (cursor := page["next_cursor"]) is None:
            return


def _case(trace: Any, problem_id: str | None) -> dict[str, Any]:
    """Return the case of a trace. Its task is named by the agent and the end of the trace's id.

    The beginning is no name: some ids begin with a time.
    """
    grave = (finding["kind"] for finding in trace["findings"] if finding["severity"] in _GRAVE)
    return {
        "task_id": f"{trace['agent'] or trace['service'] or 'agent'}-{trace['trace_id'][-_ID_CHARACTERS:]}",
        "input": trace["input"],
        "forbid": list(dict.fromkeys(grave)),
        "trace_id": trace["trace_id"],
        **({"problem_id": problem_id} if problem_id else {}),
    }
