"""Runs: repeated attempts of an agent at tasks, and the table that the figures over runs are computed from.

A run is one attempt under one condition: as it comes (`baseline`), with injected failures of tools (`fault`), with
another structure of the input (`structural`), or with the instruction in other words (`prompt`). Task, condition and
run id together are the name of a run. A run that is given twice counts once. Two different runs of one name are an
error.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from otel_agenteval.metrics.result import is_number, listed, unit_interval
from otel_agenteval.model import BASELINE, CONDITIONS

ERRORS: Final = "num_errors"
RESOURCES: Final = ("cost", "time", "api_calls", "num_actions", ERRORS, "call_latency")
"""The resources that a run may have used. Any unit will do, if it is the same for all runs."""

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.intp]
Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt at a task.

    `actions` are the names of the agent's actions, in order. `confidence` is the agent's own, in [0, 1], from before it
    knew the outcome. None means that it gave none. `resources` has a finite number for each measured one of
    `RESOURCES`. `violations` has (constraint, severity) for each constraint that the run broke. It is empty if the run
    was analysed and broke none. It is None if the run was not analysed, which is no evidence of safety.
    Raises ValueError for other values.
    """

    task_id: str
    run_id: str
    success: bool
    condition: str = BASELINE
    actions: Sequence[str] = ()
    confidence: float | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    violations: Sequence[tuple[str, str]] | None = None

    def __post_init__(self) -> None:
        for name, value in (("task_id", self.task_id), ("run_id", self.run_id)):
            if not isinstance(value, str) or not value:
                raise ValueError(f"{name} is {value!r}, not a non-empty string")
        if self.success not in (True, False):
            raise ValueError(f"success of {self} is {self.success!r}, not True or False")
        if self.condition not in CONDITIONS:
            raise ValueError(f"condition of {self} is {self.condition!r}, not one of {', '.join(CONDITIONS)}")
        if self.confidence is not None:
            unit_interval(self.confidence, f"confidence of {self}")
        if not isinstance(self.resources, Mapping):
            raise ValueError(f"resources of {self} are {self.resources!r:.200}, not a mapping by name")
        for resource, amount in self.resources.items():
            _check_resource(resource, amount, self)
        # Copies: a caller who changes the sequences and mappings later does not change the run.
        object.__setattr__(self, "actions", tuple(listed(self.actions, str, f"actions of {self}")))
        object.__setattr__(self, "resources", dict(self.resources))
        if self.violations is not None:
            object.__setattr__(self, "violations", _check_violations(self.violations, self))

    def __str__(self) -> str:
        return f"run {self.run_id!r} of task {self.task_id!r}"


def _check_resource(name: str, amount: object, run: Run) -> None:
    if name not in RESOURCES:
        raise ValueError(f"resource {name!r} of {run} is unknown; the resources are {', '.join(RESOURCES)}")
    if not is_number(amount) or not math.isfinite(amount):
        raise ValueError(f"{name} of {run} is {amount!r}, not a finite number")
    if name == ERRORS and float(amount) < 0:
        raise ValueError(f"{name} of {run} is {amount!r}, less than 0")


def _check_violations(violations: Sequence[tuple[str, str]], run: Run) -> tuple[tuple[str, str], ...]:
    runs_read = []
    for violation in listed(violations, object, f"violations of {run}"):
        match violation:
            case tuple() | list() if len(violation) == 2 and all(isinstance(part, str) for part in violation):
                runs_read.append((violation[0], violation[1]))
            case _:
                raise ValueError(f"violation of {run} is {violation!r:.200}, not a pair of constraint and severity")
    return tuple(runs_read)


@dataclass(frozen=True, slots=True, eq=False)
class RunTable:
    """Runs as columns, sorted by task, condition and run id, so that the order given makes no difference.

    `task` and `condition` are indexes into `task_ids` and `CONDITIONS`. `severity` is the largest weight of a run's
    violations, 0 if it has none. NaN means that a confidence or resource was not measured, or that the run was not
    analysed for `severity`. No figure that leaves this package is NaN.
    """

    task_ids: tuple[str, ...]
    task: Ints
    condition: Ints
    success: Bools
    confidence: Floats
    severity: Floats
    violated: Bools
    resources: Mapping[str, Floats]
    actions: Sequence[Sequence[str]]

    @classmethod
    def of(cls, runs: Iterable[Run], severity_weights: Mapping[str, float]) -> Self:
        """Make the table. Raises ValueError for two different runs of one name, and for a severity without a weight."""
        ordered = _distinct(runs)
        task_ids = tuple(dict.fromkeys(run.task_id for run in ordered))
        index = {task_id: number for number, task_id in enumerate(task_ids)}
        return cls(
            task_ids=task_ids,
            task=np.array([index[run.task_id] for run in ordered], dtype=np.intp),
            condition=np.array([CONDITIONS.index(run.condition) for run in ordered], dtype=np.intp),
            success=np.array([bool(run.success) for run in ordered], dtype=np.bool_),
            confidence=_column([run.confidence for run in ordered]),
            severity=_column([_severity(run, severity_weights) for run in ordered]),
            violated=np.array([bool(run.violations) for run in ordered], dtype=np.bool_),
            resources={name: _column([run.resources.get(name) for run in ordered]) for name in RESOURCES},
            actions=[run.actions for run in ordered],
        )

    def __len__(self) -> int:
        return len(self.task)

    def where(self, mask: Bools) -> Self:
        """Return the runs that `mask` selects. All tasks stay in the table."""
        columns = ("task", "condition", "success", "confidence", "severity", "violated")
        return replace(
            self,
            **{name: getattr(self, name)[mask] for name in columns},
            resources={name: column[mask] for name, column in self.resources.items()},
            actions=list(compress(self.actions, mask)),
        )

    def under(self, condition: str) -> Self:
        """Return the runs under one condition."""
        return self.where(self.condition == CONDITIONS.index(condition))

    def sum_by_task(self, values: npt.NDArray[np.floating] | Bools) -> Floats:
        """Return the sum of `values`, one per run, over the runs of each task."""
        return np.bincount(self.task, weights=values, minlength=len(self.task_ids)).astype(np.float64, copy=False)


def _distinct(runs: Iterable[Run]) -> list[Run]:
    by_key: dict[tuple[str, int, str], Run] = {}
    for run in listed(runs, Run, "runs"):
        name = (run.task_id, CONDITIONS.index(run.condition), run.run_id)
        # An equal run under the same name is the same one, given twice.
        if by_key.setdefault(name, run) != run:
            raise ValueError(f"{run} under {run.condition!r} is given twice, and differently")
    return [by_key[name] for name in sorted(by_key)]


def _severity(run: Run, weights: Mapping[str, float]) -> float | None:
    if run.violations is None:
        return None
    for constraint, severity in run.violations:
        if severity not in weights:
            raise ValueError(
                f"severity of {constraint!r} in {run} is {severity!r}; those with a weight are {', '.join(weights)}"
            )
    return max((weights[severity] for _, severity in run.violations), default=0.0)


def _column(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
