"""Make the evaluators of traces, built-in and users' own, and refuse settings of evaluators that do not exist.

It loads little, so that `agenteval config` can check the settings, too.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib.metadata import EntryPoint

from agenteval_collector.config.evaluators import EvaluatorsConfig
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.evaluation.evaluators import TRACE_EVALUATORS, TraceEvaluator, plugins


def trace_evaluators(settings: Settings, plugged: Iterable[EntryPoint] | None = None) -> list[TraceEvaluator]:
    """Return all evaluators, on or off. Raises ConfigError for a name used twice or a setting of an unknown one.

    `plugged` are the entry points of users' evaluators, by default those of this environment.
    """
    evaluators = [kind() for kind in TRACE_EVALUATORS]
    names = {*(evaluator.name for evaluator in evaluators), *EvaluatorsConfig.model_fields}
    rubrics: set[str] = set()
    for rubric in settings.judge.rubrics:
        if rubric.name in names | rubrics:
            raise ConfigError(f"judge.rubrics: another evaluator is called {rubric.name!r}")
        rubrics.add(rubric.name)
    evaluators += plugins.load(plugins.installed() if plugged is None else plugged, names | rubrics)
    names.update(evaluator.name for evaluator in evaluators)
    if (primary := settings.judge.primary) is not None and primary not in names | rubrics:
        raise ConfigError(f"judge.primary: no evaluator is called {primary!r}; there are {', '.join(sorted(names))}")
    for name in settings.evaluators.model_extra or {}:
        if name in rubrics:
            raise ConfigError(f"evaluators.{name}: is a rubric; its settings stand with it, in judge.rubrics")
        if name not in names:
            there_are = ", ".join(sorted(names))
            meant = "".join(f"; did you mean {match!r}?" for match in get_close_matches(name, names, n=1))
            raise ConfigError(f"evaluators.{name}: no evaluator has this name; there are {there_are}{meant}")
    return evaluators
