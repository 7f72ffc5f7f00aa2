"""The evaluators with their sessions, as the settings want them; the same live and in a replay."""

from collections.abc import Sequence

from agenteval_collector.aggregation import LiveSessions, SessionEvaluators, Sessions
from agenteval_collector.clock import Clock
from agenteval_collector.config import EvaluatorConfig, EvaluatorsConfig, Settings
from agenteval_collector.embedders import EmbeddedEmbedder
from agenteval_collector.evaluation import TraceEvaluation
from agenteval_collector.evaluation.reading import TraceReader
from agenteval_collector.evaluators import TRACE_EVALUATORS, WEIGHTS_WITHOUT_EVIDENCE, TraceEvaluator, comparable
from agenteval_collector.stores import Store
from otel_agenteval.conventions import SessionNaming
from otel_agenteval.metrics import SIGNAL_NAMES

SESSION_EVALUATORS = ("agent_reliability", "agent_consistency")
SESSION_THRESHOLD = 0.5


class EvaluationCore:
    """What scores traces and sessions, over a store; owned by one thread; `live` and `read` serve any."""

    def __init__(self, settings: Settings, store: Store, clock: Clock) -> None:
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
        thresholds = _thresholds(configured, evaluators)
        naming = SessionNaming(attributes=settings.session.attributes, link_by=settings.session.link_by)
        self.read = TraceReader(naming)
        self.evaluation = TraceEvaluation(evaluators, self.sessions, store, embedder, clock, thresholds, self.read)


def _of(configured: EvaluatorsConfig, name: str) -> EvaluatorConfig:
    config: EvaluatorConfig = getattr(configured, name)
    return config


def _thresholds(configured: EvaluatorsConfig, evaluators: Sequence[TraceEvaluator]) -> dict[str, float]:
    return {each.name: _threshold(_of(configured, each.name), each.threshold) for each in evaluators}


def _session_thresholds(configured: EvaluatorsConfig) -> dict[str, float]:
    enabled = {name: _of(configured, name) for name in SESSION_EVALUATORS if _of(configured, name).enabled}
    return {name: _threshold(config, SESSION_THRESHOLD) for name, config in enabled.items()}


def _threshold(config: EvaluatorConfig, default: float) -> float:
    return default if config.threshold is None else config.threshold


def _weights(configured: EvaluatorsConfig) -> dict[str, float]:
    """What differs from the published weights. A signal whose evaluator is off cannot be expected: weight 0."""
    weights = dict(WEIGHTS_WITHOUT_EVIDENCE)
    for name in EvaluatorsConfig.model_fields:
        config = _of(configured, name)
        if name in SIGNAL_NAMES and not config.enabled:
            weights[name] = 0.0
        elif config.weight is not None:
            weights[name] = config.weight
    return weights
