"""The evaluators with their sessions, as the settings want them; the same live and in a replay."""

from agenteval_collector.aggregation import LiveSessions, SessionEvaluators, Sessions
from agenteval_collector.clock import Clock
from agenteval_collector.config import CoherenceConfig, EvaluatorConfig, EvaluatorsConfig, LoopDetectionConfig, Settings
from agenteval_collector.embedders import EmbeddedEmbedder
from agenteval_collector.evaluation import TraceEvaluation
from agenteval_collector.evaluation.reading import TraceReader
from agenteval_collector.evaluators import TRACE_EVALUATORS, comparable
from agenteval_collector.pipeline import Telemetry
from agenteval_collector.stores import Store
from otel_agenteval.conventions import SessionNaming

SESSION_EVALUATORS = ("agent_reliability", "agent_consistency")


class EvaluationCore:
    """What scores traces and sessions, over a store; owned by one thread; `live` and `read` serve any."""

    def __init__(self, settings: Settings, store: Store, clock: Clock, telemetry: Telemetry) -> None:
        embedder = EmbeddedEmbedder()
        configured = settings.evaluators
        evaluators = [kind() for kind in TRACE_EVALUATORS if _of(configured, kind.name).enabled]
        self.live = LiveSessions(settings.session.idle)
        self.sessions = Sessions(
            store,
            self.live,
            SessionEvaluators(_session_thresholds(configured), settings.session.min_coverage),
            lambda output: comparable(output, embedder.embed),
            clock,
            _weights(configured),
        )
        thresholds = {each.name: _of(configured, each.name).threshold for each in evaluators}
        naming = SessionNaming(attributes=settings.session.attributes, link_by=settings.session.link_by)
        self.read = TraceReader(naming)
        self.evaluation = TraceEvaluation(
            evaluators, self.sessions, store, embedder, clock, thresholds, self.read, telemetry
        )


def _of(configured: EvaluatorsConfig, name: str) -> EvaluatorConfig:
    config: EvaluatorConfig = getattr(configured, name)
    return config


def _session_thresholds(configured: EvaluatorsConfig) -> dict[str, float]:
    """Of those that are on."""
    enabled = {name: _of(configured, name) for name in SESSION_EVALUATORS if _of(configured, name).enabled}
    return {name: config.threshold for name, config in enabled.items()}


def _weights(configured: EvaluatorsConfig) -> dict[str, float]:
    """Of the signals that are evaluated here, over the published ones; what is off cannot be expected: weight 0."""
    signals: dict[str, CoherenceConfig | LoopDetectionConfig] = {
        "coherence": configured.coherence,
        "loop_detection": configured.loop_detection,
    }
    return {name: config.weight if config.enabled else 0.0 for name, config in signals.items()}
