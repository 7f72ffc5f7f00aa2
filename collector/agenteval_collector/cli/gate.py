"""Least values that the figures of a replay must reach, so that a build fails if an agent became worse."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import NamedTuple

from agenteval_collector.config.evaluators import EvaluatorsConfig
from agenteval_collector.model.runs import Unmatched
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.figure_documents import ReplayDocument
from agenteval_collector.serve.web.formats import named
from otel_agenteval.metrics import RELIABILITY_METRICS

_PASS_K = re.compile(r"(?:pass\^|pass_hat_k:)(?P<hat>[1-9]\d*)|(?:pass@|pass_at_k:)(?P<at>[1-9]\d*)")

TOLERANCE = 1e-9
"""The amount by which a figure may miss its least value, because floating point rounds.

A mean of 0.3 that is computed from thirds, for example, comes out a little below 0.3.
"""


class Least(NamedTuple):
    """The least value that the figure `name` must have."""

    name: str
    value: float


class Shortfall(NamedTuple):
    """A figure that fell short of its least value. If it is undefined, `found` is None and `reason` says why."""

    least: Least
    of: str
    found: float | None
    reason: str


def read_least(text: str) -> Least:
    """Read `NAME=VALUE`. Raises InvalidRequest for anything else, and for a value outside [0, 1]."""
    name, equals, value = text.rpartition("=")
    try:
        number = float(value)
    except ValueError:
        # Outside [0, 1], so that it is refused below.
        number = -1.0
    if not equals or not name or not 0.0 <= number <= 1.0:
        raise InvalidRequest(f"--fail-under {text!r} is not NAME=VALUE with a value from 0 to 1")
    return Least(name.strip(), number)


def shortfalls(document: ReplayDocument, wanted: Sequence[Least]) -> list[Shortfall]:
    """Return the wanted figures of a replay that are below their least value, or undefined."""
    return [
        Shortfall(least=least, of=of, found=value, reason=reason)
        for least in wanted
        for of, value, reason in _found(document, least.name)
        if value is None or value < least.value - TOLERANCE
    ]


class CameBack(NamedTuple):
    """A failure that must not come back, but did. `of` is the case, or None if no trace may have it; without traces
    the case did not run, so that nobody knows."""

    kind: str
    of: str | None
    trace_ids: Sequence[str]


def came_back(document: ReplayDocument, forbid: Sequence[str]) -> list[CameBack]:
    """Return the forbidden findings of a replay: those of the kinds in `forbid` in any trace, and those of each case in
    the traces of its runs. A case that did not run counts, because unknown is not healthy."""
    kinds_of = {trace["trace_id"]: {finding["kind"] for finding in trace["findings"]} for trace in document["traces"]}
    anywhere = [CameBack(kind, None, _with(kind, kinds_of, kinds_of)) for kind in forbid]
    of_cases = [
        CameBack(kind, case["task_id"], _with(kind, case["trace_ids"], kinds_of))
        for case in document["cases"]
        for kind in case["forbid"]
        if case["trace_ids"]
    ]
    missing = [CameBack("", case["task_id"], ()) for case in document["cases"] if not case["trace_ids"]]
    return [*(back for back in (*anywhere, *of_cases) if back.trace_ids), *missing]


def _with(kind: str, trace_ids: Iterable[str], kinds_of: Mapping[str, set[str]]) -> list[str]:
    return [trace_id for trace_id in trace_ids if kind in kinds_of.get(trace_id, ())]


def refuse_unknown(document: ReplayDocument, wanted: Sequence[Least]) -> None:
    """Raise InvalidRequest for an unknown name: of no figure of runs, no evaluator, and no outcome in the document."""
    outcomes = [outcome for of in ("traces", "sessions") for subject in document[of] for outcome in subject["outcomes"]]
    scores = {*EvaluatorsConfig.model_fields, *(outcome["name"] for outcome in outcomes)}
    for least in wanted:
        if least.name not in {*scores, *RELIABILITY_METRICS} and not _PASS_K.fullmatch(least.name):
            there_are = ", ".join([*sorted(scores), *RELIABILITY_METRICS, "pass^1", "pass@1"])
            raise InvalidRequest(f"--fail-under: nothing is called {least.name!r}; there are {there_are} and so on")


def _found(document: ReplayDocument, name: str) -> Iterator[tuple[str, float | None, str]]:
    """Yield the values of a figure: one for each version of an agent, or the mean of a score.

    Each comes with the name of its subject first, and last with the reason if the value is None.
    """
    passed = _PASS_K.fullmatch(name)
    if passed is None and name not in RELIABILITY_METRICS:
        yield _mean_score(document, name)
        return
    # Runs that were reported but have no trace are no shortfall of an agent. The replay names them separately.
    items = [item for item in document["reliability"] if item["runs"] or set(item["left_out"]) - set(Unmatched)]
    if not items:
        yield "every agent", None, "no run counts"
    for item in items:
        of = f"{item['agent'] or 'unnamed agent'} {item['version'] or ''}".strip()
        if passed is None:
            yield of, item["metrics"][name], item["reasons"].get(name, "")
        else:
            by_k, k = (item["pass_hat_k"], passed["hat"]) if passed["hat"] else (item["pass_at_k"], passed["at"])
            yield of, by_k.get(k), f"no task has {k} baseline runs"


def _mean_score(document: ReplayDocument, name: str) -> tuple[str, float | None, str]:
    for of in ("traces", "sessions"):
        outcomes = [outcome for subject in document[of] if (outcome := named(subject["outcomes"], name))]
        scores = [outcome["score"] for outcome in outcomes if outcome["score"] is not None]
        if scores:
            return f"mean of {len(scores)} {of}", fsum(scores) / len(scores), ""
        if outcomes:
            return of, None, f"none of {len(outcomes)} {of} has a score; the first says: {outcomes[0]['reason']}"
    return "nothing", None, "no trace and no session has an outcome of this name"
