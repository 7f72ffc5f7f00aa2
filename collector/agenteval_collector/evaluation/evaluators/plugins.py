"""Evaluators of users: classes named by entry points of the group `otel_agenteval.evaluators` (docs/evaluators.md).

Such a class follows `evaluators.TraceEvaluator` and is made without arguments. Whatever it returns or raises becomes
an outcome of this evaluator on this trace, and affects nothing else.
"""

import json
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from numbers import Real
from typing import Any

from agenteval_collector.config.sources import ConfigError
from agenteval_collector.evaluation.evaluators import EvaluationContext, TraceEvaluator
from otel_agenteval.model import Json
from otel_agenteval.outcome import Failure, Method, Outcome, Score, Status, Unscored

GROUP = "otel_agenteval.evaluators"
METHODS = (Method.EXACT, Method.EMBEDDING)
"""Methods that a user's evaluator may have. `llm` is reserved for the judge."""
REASONS_FOR_NONE = (Status.NOT_APPLICABLE, Status.NO_CONTENT)
"""Statuses that a user's evaluator may give an outcome without a score."""


class EvaluatorEnded(Exception):
    """Raised if an evaluator tried to end the collector."""


@dataclass(slots=True)
class OwnEvaluator:
    """A user's evaluator with checked outcomes. `evaluate` raises for any outcome that is not valid."""

    name: str
    version: str
    method: Method
    own: Any

    def evaluate(self, context: EvaluationContext) -> Outcome:
        try:
            outcome = self.own.evaluate(context)
        except Exception:
            raise
        except BaseException as error:
            # A `sys.exit` in it would end the thread of the evaluation, or the replay.
            # On the main thread, as in a replay, a KeyboardInterrupt comes from a person.
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            raise EvaluatorEnded(f"raised {error!r}") from error
        return _checked(outcome)


def installed() -> Iterable[EntryPoint]:
    """Return the entry points of this environment."""
    return entry_points(group=GROUP)


def load(entry_points: Iterable[EntryPoint], taken: Iterable[str]) -> list[TraceEvaluator]:
    """Return the evaluators that the entry points name. `taken` are the names that are already in use.

    Raises ConfigError, naming the entry point, if one does not load, is no evaluator, or has a taken name.
    """
    names = set(taken)
    evaluators: list[TraceEvaluator] = []
    # The order is fixed, so that of two evaluators with one name the same one is refused each time.
    for entry in sorted(entry_points, key=lambda entry: entry.name):
        try:
            own = entry.load()()
        except (Exception, SystemExit) as error:
            raise ConfigError(f"entry point {entry.name} = {entry.value}: does not load: {error!r}") from error
        problem = _problem(own, names)
        if problem is not None:
            raise ConfigError(f"entry point {entry.name} = {entry.value}: {problem}")
        names.add(own.name)
        evaluators.append(OwnEvaluator(own.name, own.version, Method(own.method), own))
    return evaluators


def _problem(evaluator: object, names: set[str]) -> str | None:
    name = getattr(evaluator, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        return f"its name is {name!r}, which is not in lower_snake_case of at most 64 characters"
    if name in names:
        return f"another evaluator is called {name!r}"
    version = getattr(evaluator, "version", None)
    if not isinstance(version, str) or not version:
        return f"its version is {version!r}, not a text"
    method = getattr(evaluator, "method", None)
    if method not in METHODS:
        return f"its method is {method!r}, not {' or '.join(METHODS)}"
    if not callable(getattr(evaluator, "evaluate", None)):
        return "it has no method evaluate(context)"
    return None


def _checked(outcome: object) -> Outcome:
    """Return a valid copy of the outcome. Raises TypeError or ValueError that says what is wrong with it."""
    if type(outcome) not in (Score, Unscored, Failure):
        raise TypeError(f"evaluate returned a {type(outcome).__qualname__}, not a Score, an Unscored or a Failure")
    assert isinstance(outcome, Score | Unscored | Failure)
    coverage = None if outcome.coverage is None else _share(outcome.coverage, "coverage")
    checked: dict[str, Any] = {
        "reason": _text(outcome.reason, "reason"), "coverage": coverage, "metadata": _json(outcome.metadata)
    }  # fmt: skip
    match outcome:
        case Score():
            checked["value"] = _share(outcome.value, "value")
        case Unscored():
            if outcome.status not in REASONS_FOR_NONE:
                raise ValueError(f"status is {outcome.status!r}, not one of {', '.join(REASONS_FOR_NONE)}")
            checked["status"] = Status(outcome.status)
        case Failure():
            checked["error_type"] = _text(outcome.error_type, "error_type")
    return replace(outcome, **checked)


def _text(text: object, what: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{what} is a {type(text).__qualname__}, not a text")
    return text


def _share(number: object, what: str) -> float:
    # A bool is a Real to Python.
    if isinstance(number, bool) or not isinstance(number, Real):
        raise TypeError(f"{what} is a {type(number).__qualname__}, not a number")
    share = float(number)
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"{what} is {share!r}, not in [0, 1]")
    return share


def _json(metadata: object) -> Mapping[str, Json]:
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata is a {type(metadata).__qualname__}, not a mapping")
    try:
        text = json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False)
        # Encoding refuses lone surrogates, which UTF-8 does not have.
        decoded: dict[str, Json] = json.loads(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"metadata is not JSON: {error}") from error
    return decoded
