"""Problems: failures that recur, one thing each however often they happen.

In go findings and judged failures. Out comes the problem that each belongs to, and the state of a problem. Pure: the
store keeps them.
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
