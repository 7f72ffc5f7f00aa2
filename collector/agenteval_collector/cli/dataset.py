"""Datasets: files with the ground truth about runs, which is their success and the tools they should have called.

A file has a JSON object on each line: `{"task_id": "refund", "run_id": "3", "condition": "baseline", "success": true,
"confidence": 0.8, "expected_tools": ["find_order", {"name": "refund", "arguments": {"order": 7}}]}`. Only `task_id` is
needed. A line without `run_id` holds for all runs of the task, and can only have ground truth or be a case.

A case is a failure that must not come back: `{"task_id": "shop-4bf92f3577b3", "input": "Where is my order?", "forbid":
["tool_failed"], "trace_id": "4bf9..."}`. `agenteval dataset add` writes such lines.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agenteval_collector.cli.recordings import read_text
from agenteval_collector.model.runs import RunReport
from agenteval_collector.runtime.errors import InvalidRequest
from otel_agenteval.conventions.run_attributes import read_expected, readable_answer
from otel_agenteval.detectors.rules import LoopKind
from otel_agenteval.finding import FindingKind
from otel_agenteval.model import BASELINE, CONDITIONS, GroundTruth, RunIdentity


class Case(NamedTuple):
    """A failure that must not come back: no run of the task may have a finding of the kinds in `forbid`."""

    task_id: str
    forbid: tuple[str, ...]


@dataclass(slots=True)
class Dataset:
    """The content of a dataset: run reports and cases in the order of the file, and ground truth.

    The key of `expected` is the task, the run and its condition. The run None stands for all runs of the task.
    """

    reports: list[RunReport] = field(default_factory=list)
    expected: dict[tuple[str, str | None, str | None], GroundTruth] = field(default_factory=dict)
    cases: list[Case] = field(default_factory=list)

    def truth(self, run: RunIdentity | None) -> GroundTruth:
        """Return the tools that the run should call, and its answer, as far as the dataset names them."""
        if run is None:
            return GroundTruth()
        of_task = self.expected.get((run.task_id, None, None), GroundTruth())
        of_run = self.expected.get((run.task_id, run.run_id, run.condition), GroundTruth())
        return GroundTruth(
            of_task.tools if of_run.tools is None else of_run.tools,
            of_task.answer if of_run.answer is None else of_run.answer,
        )


class _DatasetLine(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    task_id: str = Field(min_length=1)
    run_id: str | None = Field(default=None, min_length=1)
    condition: str = BASELINE
    agent: str | None = Field(default=None, min_length=1)
    service_version: str | None = Field(default=None, min_length=1)
    success: bool | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    expected_tools: list[Any] | None = None
    expected_answer: str | None = None
    forbid: list[str] | None = None
    input: str | None = None
    trace_id: str | None = None
    problem_id: str | None = None

    @field_validator("forbid")
    @classmethod
    def _known(cls, kinds: list[str] | None) -> list[str] | None:
        for kind in kinds or ():
            check_kind(kind)
        return kinds

    @model_validator(mode="after")
    def _consistent(self) -> "_DatasetLine":
        if self.condition not in CONDITIONS:
            raise ValueError(f"condition is {self.condition!r}, not one of {', '.join(CONDITIONS)}")
        if self.run_id is None and (self.success is not None or self.confidence is not None):
            raise ValueError("success and confidence are of a run: give run_id")
        if self.run_id is not None and self.forbid is not None:
            raise ValueError("forbid is of all runs of a task: leave out run_id")
        return self


_NOT_OF_RUNS: Final = {"expected_tools", "expected_answer", "forbid", "input", "trace_id", "problem_id"}
"""The fields of a line that are not those of a run report."""


def check_kind(kind: str) -> None:
    """Check that there is such a kind of finding. Raises ValueError naming those that there are."""
    kinds = [*FindingKind, *LoopKind]
    if kind not in kinds:
        raise ValueError(f"{kind[:64]!r} is no kind of finding; there are {', '.join(kinds)}")


def read_dataset(path: Path) -> Dataset:
    """Read a dataset from a file. Raises InvalidRequest, which names the file, the line and the mistake."""
    dataset = Dataset()
    for number, line in _lines(path):
        location = f"{path}, line {number}"
        if line.run_id is not None and (line.success is not None or line.confidence is not None):
            dataset.reports.append(RunReport(**line.model_dump(exclude=_NOT_OF_RUNS)))
        if line.expected_tools is not None or line.expected_answer is not None:
            condition = None if line.run_id is None else line.condition
            dataset.expected[line.task_id, line.run_id, condition] = _truth(line, location)
        if line.forbid is not None:
            dataset.cases.append(Case(line.task_id, tuple(line.forbid)))
    return dataset


def _truth(line: _DatasetLine, location: str) -> GroundTruth:
    tools = None if line.expected_tools is None else read_expected(line.expected_tools)
    if tools is None and line.expected_tools is not None:
        raise InvalidRequest(f'{location}: expected_tools is no list of names or of {{"name", "arguments"}}')
    answer = readable_answer(line.expected_answer)
    if answer is None and line.expected_answer is not None:
        raise InvalidRequest(f"{location}: expected_answer has no letter and no digit")
    return GroundTruth(tools, answer)


def _lines(path: Path) -> Iterator[tuple[int, _DatasetLine]]:
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, _DatasetLine.model_validate(_object(line))
        except ValidationError as error:
            raise InvalidRequest(f"{path}, line {number}: {_explain(error)}") from error
        except ValueError as error:
            raise InvalidRequest(f"{path}, line {number}: {error}") from error


def _object(line: str) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("is no JSON object")
    return value


def _explain(error: ValidationError) -> str:
    problem = error.errors()[0]
    name = ".".join(str(part) for part in problem["loc"])
    return f"{name}: {problem['msg']}" if name else str(problem["msg"])
