"""Hand news to several sinks, so that a sink that fails does not stop the others."""

import logging
from collections.abc import Mapping

from agenteval_collector.model.counters import Counted, Telemetry
from agenteval_collector.model.news import News, NewsSink

_logger = logging.getLogger(__name__)


class Fanout:
    """A `NewsSink` that hands news to each of `sinks` in turn.

    A sink that raises misses that piece of news, and the failure is counted. Only the first failure in a row is logged:
    a broken sink must not fill the disk. As thread-safe as its sinks.
    """

    def __init__(self, sinks: Mapping[str, NewsSink], telemetry: Telemetry) -> None:
        self._sinks = dict(sinks)
        self._telemetry = telemetry
        self._failing: set[str] = set()

    def take_news(self, news: News) -> None:
        for name, sink in self._sinks.items():
            try:
                sink.take_news(news)
            except Exception as error:
                self._telemetry.count(Counted.SINK_FAILED, which=name)
                if name not in self._failing:
                    self._failing.add(name)
                    _logger.error("nothing reaches %s any more", name, exc_info=error)
            else:
                if name in self._failing:
                    self._failing.discard(name)
                    _logger.info("%s is reached again", name)
