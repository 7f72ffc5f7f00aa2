"""One evaluation sink made of several, none of which can stop the others."""

import logging
from collections.abc import Mapping, Sequence

from agenteval_collector.emit.collector import CollectorTelemetry
from agenteval_collector.pipeline import CommittedEvaluation, EvaluationSink

_logger = logging.getLogger(__name__)


class Fanout:
    """An EvaluationSink that hands evaluations to each of `sinks` in turn.

    A sink that raises loses that call only. It is counted each time and logged when it starts to fail, not once per
    call: a broken sink must not fill the disk.
    """

    def __init__(self, sinks: Mapping[str, EvaluationSink], telemetry: CollectorTelemetry) -> None:
        self._sinks = dict(sinks)
        self._telemetry = telemetry
        self._failing: set[str] = set()

    def accept(self, evaluations: Sequence[CommittedEvaluation]) -> None:
        for name, sink in self._sinks.items():
            try:
                sink.accept(evaluations)
            except Exception as error:
                self._telemetry.sink_failed(name)
                if name not in self._failing:
                    self._failing.add(name)
                    _logger.error("evaluations do not reach %s", name, exc_info=error)
            else:
                if name in self._failing:
                    self._failing.remove(name)
                    _logger.info("evaluations reach %s again", name)
