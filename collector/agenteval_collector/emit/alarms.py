"""Gauges of alarms and of the objectives of agents."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from agenteval_collector.config.objectives import ObjectiveConfig
from agenteval_collector.emit.attributes import AgentIdentity, clean, present
from agenteval_collector.emit.meter import Meter, Observations
from agenteval_collector.model.alarms import AgentAlarm
from otel_agenteval import semconv

_TITLE_LENGTH: Final = 200
"""The most characters of a title."""
_EVIDENCE_LENGTH: Final = 500
"""The most characters of the evidence. It stays as it was when the alarm began, so a series stays one."""
_MEASURES: Final = ("failing", "latency", "cost")


class AlarmGauges:
    """Gauges of alarms. They are read at each scrape and push, on the caller's thread. Each `observe_*` is called
    once."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def observe_alarms(self, read: Callable[[], Iterable[AgentAlarm]]) -> None:
        """Show 1 for each alarm that fires. Their number is bounded, so their names need no bound of their own."""

        def firing() -> Observations:
            for alarm in read():
                watched = alarm.key.watched
                about = {
                    semconv.AGENTEVAL_ALARM_KIND: str(alarm.key.kind),
                    semconv.AGENTEVAL_ALARM_SEVERITY: str(alarm.severity),
                    semconv.AGENTEVAL_ALARM_OWNER: alarm.owner,
                    semconv.AGENTEVAL_ALARM_ID: alarm.alarm_id,
                    semconv.AGENTEVAL_ALARM_TITLE: clean(alarm.title, _TITLE_LENGTH),
                    semconv.AGENTEVAL_ALARM_EVIDENCE: clean(alarm.evidence, _EVIDENCE_LENGTH),
                }
                whose = AgentIdentity(watched.agent, watched.service, environment=watched.environment)
                yield 1, {**whose.attributes, **present(about)}

        about = "1 for each alarm that fires. The collector decides on alarms; rules only read them."
        self._meter.observable("agenteval.alarm", "{alarm}", about, firing)

    def observe_objectives(self, objectives: Mapping[str, ObjectiveConfig]) -> None:
        """Show the objectives in the settings."""

        def given() -> Observations:
            for agent, objective in objectives.items():
                for measure in _MEASURES:
                    if (value := getattr(objective, measure)) is not None:
                        owner = {semconv.AGENTEVAL_ALARM_OWNER: objective.owner}
                        kind = {semconv.AGENTEVAL_OBJECTIVE: measure}
                        yield value, {**AgentIdentity(agent).attributes, **kind, **present(owner)}

        about = "The objectives of agents: the share of failing traces, seconds of a trace, US dollars of a session."
        self._meter.observable("agenteval.objective", "1", about, given)
