"""`otel_agenteval.reader` and Parquet: what a collector keeps, for notebooks and pipelines."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agenteval_collector.cli.command_line import command_line
from agenteval_collector.cli.export import DOCUMENTS, Exported
from agenteval_collector.cli.parquet import columns
from typer.testing import CliRunner

from otel_agenteval.reader import ABOUT, ApiError, Reader, UnknownError
from tests.support.eventually import eventually
from tests.support.keys import ring_of
from tests.support.memory_queries import MemoryQueries
from tests.support.otlp import traces, turn
from tests.support.pages import app_of
from tests.support.running_collector import RunningCollector
from tests.support.web_server import serve

TRACES = 120
"""More than two pages."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RunningCollector(tmp_path_factory.mktemp("reader")) as collector:
        for number in range(1, TRACES + 1):
            collector.send(traces(turn(number, f"question {number}", f"answer {number}", session=f"s{number % 7}")))
        url = "http://" + collector.addresses["web"]
        eventually(lambda: len(list(Reader(url).traces())) == TRACES)
        yield url


def test_all_pages_are_read_and_filters_choose(url: str) -> None:
    reader = Reader(url)
    assert len({trace["trace_id"] for trace in reader.traces()}) == TRACES
    assert [session["session_id"] for session in reader.sessions(text="question 7", agent=None)]
    assert {trace["session_id"] for trace in reader.traces(text='"question 7"')} <= {f"s{n}" for n in range(7)}
    assert list(reader.labels()) == []


def test_each_outcome_knows_its_trace(url: str) -> None:
    [first, *_] = Reader(url).outcomes()
    assert {*ABOUT, "name", "score"} <= set(first)


def test_a_frame_has_a_row_for_each_document_and_columns_for_what_is_within(url: str) -> None:
    pytest.importorskip("pandas")
    frame = Reader(url).traces().frame()
    assert len(frame) == TRACES
    assert {"trace_id", "findings_count.error", "outcomes"} <= set(frame.columns)
    # Each look reads anew.
    rows = Reader(url).sessions()
    assert len(list(rows)) == len(rows.frame()) == 7


def test_a_key_that_is_missing_is_asked_for_in_the_words_of_python() -> None:
    with serve(app_of(MemoryQueries(), ring=ring_of("secret"))) as url:
        for key, said in ((None, "wants a key"), ("wrong", "does not accept this key")):
            with pytest.raises(ApiError, match=f"{said}: give it as api_key$"):
                list(Reader(url, api_key=key).traces())


def test_errors_say_what_to_do(url: str) -> None:
    with pytest.raises(UnknownError, match="trace"):
        Reader(url).get("/api/v1/traces/" + "0" * 32)
    with pytest.raises(ApiError, match="agenteval collector"):
        list(Reader("http://127.0.0.1:1").traces())


def exported(url: str, what: Exported, file: Path) -> None:
    arguments = ["export", what.value, "--format", "parquet", "-o", str(file), "--url", url]
    result = CliRunner().invoke(command_line(), arguments, env={"AGENTEVAL_API_KEY": None})
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("what", Exported)
def test_parquet_has_what_the_api_has(url: str, tmp_path: Path, what: Exported) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    exported(url, what, tmp_path / "out.parquet")
    table = parquet.read_table(tmp_path / "out.parquet")
    expected = list(getattr(Reader(url), what.value)())
    assert table.num_rows == len(expected)
    kinds = columns(DOCUMENTS[what])
    for row, document in zip(table.to_pylist(), expected, strict=True):
        assert {name: plain(value, kinds[name]) for name, value in row.items()} == document


def plain(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "timestamp":
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return json.loads(value) if kind == "json" else value


def test_parquet_takes_a_file(url: str) -> None:
    result = CliRunner().invoke(command_line(), ["export", "traces", "--format", "parquet", "--url", url])
    assert result.exit_code == 1
    assert "--output" in result.output
