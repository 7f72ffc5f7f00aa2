"""Evaluators that users bring along: classes named by entry points of the group `otel_agenteval.evaluators`.

Such a class follows `evaluators.TraceEvaluator` and is made without arguments. It runs on the evaluation's thread, for
every trace, so it has to compute, and must not wait for anything. What takes a model's judgement is a rubric in the
settings instead.
"""

import re
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points

from agenteval_collector.config import ConfigError
from agenteval_collector.evaluators import TraceEvaluator
from otel_agenteval.outcome import Method

GROUP = "otel_agenteval.evaluators"


def installed() -> Iterable[EntryPoint]:
    """The entry points of this environment."""
    return entry_points(group=GROUP)


def load(found: Iterable[EntryPoint], taken: Iterable[str]) -> list[TraceEvaluator]:
    """The evaluators that the entry points name; `taken` are the names of those that are there already.

    Raises ConfigError, naming the entry point, where one does not load, is no evaluator, or has a name that is taken.
    """
    names = set(taken)
    evaluators: list[TraceEvaluator] = []
    for entry in sorted(found, key=lambda entry: entry.name):
        try:
            evaluator = entry.load()()
        except Exception as error:
            raise ConfigError(f"entry point {entry.name} = {entry.value}: does not load: {error!r}") from error
        problem = _problem(evaluator, names)
        if problem is not None:
            raise ConfigError(f"entry point {entry.name} = {entry.value}: {problem}")
        names.add(evaluator.name)
        evaluators.append(evaluator)
    return evaluators


def _problem(evaluator: object, taken: set[str]) -> str | None:
    name = getattr(evaluator, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        return f"its name is {name!r}, which is not in lower_snake_case of at most 64 characters"
    if name in taken:
        return f"another evaluator is called {name!r}"
    version = getattr(evaluator, "version", None)
    if not isinstance(version, str) or not version:
        return f"its version is {version!r}, not a text"
    method = getattr(evaluator, "method", None)
    if method not in (Method.EXACT, Method.EMBEDDING, Method.HEURISTIC):
        return f"its method is {method!r}, not one of exact, embedding and heuristic"
    if not callable(getattr(evaluator, "evaluate", None)):
        return "it has no method evaluate(context)"
    return None
