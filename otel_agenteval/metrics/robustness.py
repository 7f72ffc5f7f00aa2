"""Robustness: the share of an agent's success that remains when its tools fail, or its input looks different.

The formula is: success rate under a condition / success rate of the baseline, at most 1. It is from the reliability
methodology of the Holistic Agent Leaderboard (princeton-pli/hal-harness, package `reliability_eval`), section
"Robustness".
"""

import numpy as np

from otel_agenteval.metrics.resampling import ratio
from otel_agenteval.metrics.runs import Floats, RunTable
from otel_agenteval.model import BASELINE

CONDITION_OF = {"R_fault": "fault", "R_struct": "structural", "R_prompt": "prompt"}


class Robustness:
    """`R_fault`, `R_struct` and `R_prompt` for any weights of the tasks."""

    def __init__(self, runs: RunTable) -> None:
        under = {condition: runs.under(condition) for condition in (BASELINE, *CONDITION_OF.values())}
        self.runs_by_task = {name: table.sum_by_task(np.ones(len(table))) for name, table in under.items()}
        self.successes_by_task = {name: table.sum_by_task(table.success) for name, table in under.items()}

    def figures(self, weights: Floats) -> dict[str, Floats]:
        """Return each figure for each row of `weights`, of shape (samples, tasks).

        A figure is NaN if there is no run under its condition, or the baseline has no run or no success.
        """
        rates = {
            condition: ratio(weights @ self.successes_by_task[condition], weights @ runs)
            for condition, runs in self.runs_by_task.items()
        }
        return {
            name: np.minimum(ratio(rates[condition], rates[BASELINE]), 1.0) for name, condition in CONDITION_OF.items()
        }
