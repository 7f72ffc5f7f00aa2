"""Make problems of failures that recur. A problem is one thing, however often it happens.

Findings and judged failures go in. Out come the problem of each, and the state of a problem. The package is pure; the
store keeps the problems.
"""

from agenteval_collector.problems.problem import (
    NEW_FOR,
    QUIET_FOR,
    ProblemKey,
    ProblemState,
    problem_of_failure,
    problem_of_finding,
)
from agenteval_collector.problems.shape import shape_of

__all__ = ["NEW_FOR", "QUIET_FOR", "ProblemKey", "ProblemState", "problem_of_failure", "problem_of_finding", "shape_of"]
