"""Order an agent's sessions by how likely each has failed, learnt from the ends that are known.

In: exact facts of each session, and its end if somebody said it (a run report, a label, the judge). Out: the order, a
sentence for each place in it, and how good the order is. The scores are those of a logistic model with a Gaussian prior
that says "most steps and most errors first" (MAP estimate by Newton's method; Bishop 2006, Pattern Recognition and
Machine Learning, 4.3.3 and 4.5.1). What fails differs from agent to agent, so each has a model of its own, from
`ENOUGH_ENDS` known ends on. The prior is as strong as it must be for an agent of which a handful has failed; to choose
its strength, or whether to learn at all, by cross-validation on so few ends costs more than it gains.
"""

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from agenteval_collector.model.effort import MEASURES as EFFORT_MEASURES
from agenteval_collector.model.sessions import AttentionRow

ENOUGH_ENDS: Final = 30
"""Known ends from which on a model is fitted."""
FOLDS: Final = 5
STRENGTH: Final = 8.0
"""Precision of the prior."""
TOP: Final = 20

Array = NDArray[np.float64]


class SessionFacts(NamedTuple):
    """The facts of a session; None if a measure is not known. `failed`: how it ended, as far as anybody said.

    `asked` and `answered` are characters, of what users said and of its last answer. `last_steps` are those of its last
    trace.
    """

    session_id: str
    steps: float | None
    tokens: float | None
    seconds: float | None
    usd: float | None
    asked: float | None
    answered: float | None
    last_steps: float | None
    errors: int
    warnings: int
    infos: int
    judged_failed: bool
    failed: bool | None


def facts_of(row: AttentionRow, failed: bool | None) -> SessionFacts:
    """Return the facts of a stored session that ended as `failed` says."""
    return SessionFacts(
        session_id=row.session_id,
        **{name: getattr(row.effort, name) for name in EFFORT_MEASURES},
        asked=row.effort.asked,
        answered=row.last.answered,
        last_steps=row.last.steps,
        errors=row.errors,
        warnings=row.warnings,
        infos=row.infos,
        judged_failed=row.judged_failed,
        failed=failed,
    )


class Ranking(NamedTuple):
    """The sessions in the order in which they should be looked at, with a sentence for each.

    `learnt_from` counts the known ends that a model was fitted on; 0 while there are too few, or none of one kind.
    `auroc` and `precision_at_20` are cross-validated; None while nothing is learnt.
    """

    order: Sequence[str]
    reasons: Sequence[str]
    learnt_from: int = 0
    auroc: float | None = None
    precision_at_20: float | None = None


_PRIOR: Final = {
    **{"steps": 0.3, "tokens": 0.2, "seconds": 0.2, "usd": 0.0},
    **{"asked": 0.0, "answered": 0.0, "last_steps": 0.0},
    **{"errors": 0.3, "warnings": 0.2, "infos": 0.1},
}
"""The weights for an agent of which nothing is known: most steps and errors first. What is 0 speaks for failures of one
agent, and against those of another."""
MEASURES: Final = tuple(_PRIOR)
PRIOR: Final = np.array([*_PRIOR.values()])
_NAMES: Final = {
    "steps": ("more steps", "fewer steps"),
    "tokens": ("more tokens", "fewer tokens"),
    "seconds": ("more time", "less time"),
    "usd": ("more money", "less money"),
    "asked": ("longer questions", "shorter questions"),
    "answered": ("a longer last answer", "a shorter last answer"),
    "last_steps": ("more steps at the end", "fewer steps at the end"),
}
"""What is said of a session with a high value, and with a low one."""


def ranked(facts: Sequence[SessionFacts]) -> Ranking:
    """Return the ranking: first the sessions that failed, then those of which nobody said how they ended, by their
    scores, and last those that are known to have succeeded."""
    if not facts:
        return Ranking((), ())
    features = np.column_stack([normal_scores([getattr(fact, name) for fact in facts]) for name in MEASURES])
    with_end = [index for index, fact in enumerate(facts) if fact.failed is not None]
    ends = np.array([facts[index].failed is True for index in with_end], dtype=float)
    weights: Array = PRIOR
    figures: tuple[int, float | None, float | None] = (0, None, None)
    if len(with_end) >= ENOUGH_ENDS and 0 < ends.sum() < len(ends):
        weights, figures = _learnt(features[with_end], ends, [facts[index].session_id for index in with_end])
    scores = features @ weights
    places = sorted(
        range(len(facts)), key=lambda index: (_group(facts[index]), -scores[index], facts[index].session_id)
    )
    reasons = [_reason(facts[index], features[index], weights) for index in places]
    return Ranking([facts[index].session_id for index in places], reasons, *figures)


def _group(facts: SessionFacts) -> int:
    if facts.failed or (facts.failed is None and facts.judged_failed):
        return 0
    return 1 if facts.failed is None else 2


def normal_scores(values: Sequence[float | None]) -> Array:
    """Return the normal scores of the ranks of values; 0 for values that are not known, and if all are equal."""
    has_value = np.array([value is not None for value in values])
    scores = np.zeros(len(values))
    if has_value.any():
        ranks = _mean_ranks(np.array([value for value in values if value is not None], dtype=float))
        scores[has_value] = ndtri((ranks - 0.5) / len(ranks))
    return scores


def _mean_ranks(values: Array) -> Array:
    """Return the rank of each value, from 1 on; equal values share the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(counts) - (counts - 1) / 2)[which]
    return ranks


def _learnt(features: Array, ends: Array, ids: Sequence[str]) -> tuple[Array, tuple[int, float, float]]:
    """Return the learnt weights, and how well they do in cross-validation."""
    folds = folds_of(ids)
    scores = np.zeros(len(ends))
    for fold in range(FOLDS):
        rest = folds != fold
        scores[~rest] = features[~rest] @ fit(features[rest], ends[rest], PRIOR, STRENGTH)[:-1]
    top = np.argsort(-scores, kind="stable")[:TOP]
    figures = len(ends), round(auroc_of(scores, ends), 4), round(float(ends[top].mean()), 4)
    return fit(features, ends, PRIOR, STRENGTH)[:-1], figures


def folds_of(session_ids: Sequence[str]) -> NDArray[np.int_]:
    """Return the fold of each session, from 0 to `FOLDS` - 1. It depends on the session's id alone."""
    digests = (hashlib.blake2b(name.encode(errors="replace"), digest_size=4).digest() for name in session_ids)
    return np.array([digest[0] % FOLDS for digest in digests], dtype=np.int_)


def fit(features: Array, ends: Array, middle: Array, strength: float) -> Array:
    """Return the most probable weights under a prior around `middle`; the last one is the intercept's."""
    inputs = np.column_stack([features, np.ones(len(features))])
    prior = np.append(middle, 0.0)
    precision = np.diag(np.append(np.full(len(middle), strength), 1e-3))
    weights = prior.copy()
    for _ in range(25):
        chances = chances_of(features, weights)
        slope = inputs.T @ (chances - ends) + precision @ (weights - prior)
        curvature = (inputs * (chances * (1 - chances))[:, None]).T @ inputs + precision
        step = np.linalg.solve(curvature, slope)
        weights -= step
        if np.abs(step).max() < 1e-8:
            break
    return weights


def chances_of(features: Array, weights: Array) -> Array:
    """Return the chance of each row that its session fails, by weights of which the last is the intercept's."""
    scores: Array = features @ weights[:-1] + weights[-1]
    chances: Array = 1.0 / (1.0 + np.exp(-np.clip(scores, -30, 30)))
    return chances


def auroc_of(scores: Array, ends: Array) -> float:
    """Return the chance that a session that failed has a higher score than one that did not (Mann-Whitney)."""
    failed = ends.sum()
    ranks = _mean_ranks(scores)
    return float((ranks[ends == 1].sum() - failed * (failed + 1) / 2) / (failed * (len(ends) - failed)))


def _reason(facts: SessionFacts, features: Array, weights: Array) -> str:
    """Return why a session has its place, in one sentence."""
    if facts.failed:
        return "it is known to have failed"
    if facts.judged_failed and facts.failed is None:
        return "the judge failed it"
    if facts.failed is False:
        return "it is known to have succeeded"
    shares = sorted(zip(weights * features, MEASURES, features, strict=True), key=lambda share: -share[0])
    reasons = [
        reason for share, name, score in shares if share > 0.05 and (reason := _part(facts, name, score)) is not None
    ]
    return "; ".join(reasons[:2]) or "nothing about it stands out"


def _part(facts: SessionFacts, name: str, score: float) -> str | None:
    if name in _NAMES:
        share = 100 * float(ndtr(score))
        return f"{_NAMES[name][share < 50]} than {max(share, 100 - share):.0f} % of this agent's sessions"
    count = getattr(facts, name)
    return f"{count} finding{'s' * (count != 1)} of severity {name[:-1]}" if count else None
