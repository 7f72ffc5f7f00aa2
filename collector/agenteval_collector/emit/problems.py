"""Problems as a gauge: how many there are of each state and severity, by agent."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from opentelemetry.metrics import Meter

from agenteval_collector.emit.gauges import show_level
from agenteval_collector.emit.labels import Identity, IdentityLabels
from agenteval_collector.problems import ProblemState
from agenteval_collector.problems.problem import ProblemCount
from otel_agenteval import semconv


def show_problems(meter: Meter, labels: IdentityLabels, read: Callable[[], Sequence[ProblemCount]]) -> None:
    """Register the gauge of problems. To be called once.

    Every agent with a problem has all states, most of them 0: an alert on new ones must see them come and go.
    """

    def levels() -> Iterable[tuple[float, dict[str, str]]]:
        counts: Counter[tuple[str | None, str, str]] = Counter()
        for each in read():
            agent, _ = labels.pair(each.agent, None)
            for state in ProblemState:
                counts[agent, state, each.severity] += each.problems if state is each.state else 0
        for (agent, named, severity), count in counts.items():
            sort = {semconv.AGENTEVAL_PROBLEM_STATE: named, semconv.AGENTEVAL_PROBLEM_SEVERITY: severity}
            yield count, {**Identity(agent).attributes, **sort}

    show_level(
        meter, "agenteval.problems", "{problem}", "Failures that recur, each counted once, by their state.", levels
    )
