"""Group what a judge fails by what its reasons mean, so that each meaning is a problem.

A judge words its reasons anew each time. A reason takes the shape of an earlier one of the same agent and evaluator if
their embeddings are at least `ALIKE`, the nearest first; else it has a shape of its own. The shape is kept with the
outcome, so the problems that follow from it are the same after a restart, and whatever comes late.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from agenteval_collector.evaluation.embedding import EmbeddedEmbedder
from agenteval_collector.model.agents import AgentKey
from agenteval_collector.model.problem import SHAPE
from agenteval_collector.model.problem_shape import shape_of
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.outcome import Evaluation, Method, Score

ALIKE: Final = 0.45
"""Cosine from which on two reasons mean the same (docs/decisions/0083)."""
MOST_SHAPES: Final = 100
"""Shapes of an agent and evaluator that later reasons are compared with: as many as it may have problems."""
MOST_AGENTS: Final = 500
"""Pairs of an agent and an evaluator whose shapes are remembered."""

_SAID_OF_ALL: Final = frozenset(
    word
    for words in (
        "a an the this that these those it its he she they them their his her who which what and or but for of to in",
        "on at by with as is are was were be been being has have had do does did not no never without although though",
        "yet while so user users user's customer customers customer's agent agent's assistant assistant's",
    )
    for word in words.split()
)
"""Words that tell no reason from another."""

Shapes: TypeAlias = Callable[[AgentKey, str], Sequence[str]]
"""Returns the shapes of the problems of an agent by an evaluator, as stored."""
_Vector: TypeAlias = npt.NDArray[np.float32]


class JudgedReasons:
    """Gives judged failures the shapes of their reasons. Belongs to the evaluation's thread."""

    def __init__(self, stored: Shapes) -> None:
        self._stored = stored
        self._embedder: EmbeddedEmbedder | None = None
        self._known: LruMap[tuple[AgentKey, str], list[tuple[str, _Vector]]] = LruMap(MOST_AGENTS)

    def grouped(self, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
        """Return the outcomes, those that fail with the shape of their reason. Raises RetryableError."""
        return [self._grouped(each) if _is_failure(each) else each for each in evaluations]

    def forget(self) -> None:
        """Forget the shapes: what was deleted is no name of what comes later."""
        self._known = LruMap(MOST_AGENTS)

    def _grouped(self, evaluation: Evaluation) -> Evaluation:
        outcome = evaluation.outcome
        own = shape_of(outcome.reason)
        if not own:
            return evaluation
        shape = self._nearest(AgentKey(evaluation.agent, evaluation.service), evaluation.name, own)
        return replace(evaluation, outcome=replace(outcome, metadata={**outcome.metadata, SHAPE: shape}))

    def _nearest(self, whose: AgentKey, name: str, own: str) -> str:
        known = self._known.get((whose, name))
        if known is None:
            known = [(shape, self._vector(shape)) for shape in self._stored(whose, name)[:MOST_SHAPES]]
            self._known.put((whose, name), known)
        vector = self._vector(own)
        near, shape = max(((float(vector @ other), shape) for shape, other in known), default=(0.0, own))
        if near >= ALIKE:
            return shape
        if len(known) < MOST_SHAPES:
            known.append((own, vector))
        return own

    def _vector(self, shape: str) -> _Vector:
        """Return the embedding of the words that tell a reason from others, of length 1."""
        if self._embedder is None:
            self._embedder = EmbeddedEmbedder()
        words = [word for each in shape.lower().split() if (word := each.strip(".,;:!?\"'()")) not in _SAID_OF_ALL]
        vector = self._embedder.embed(" ".join(words) or shape)
        length = float(np.linalg.norm(vector))
        return vector / np.float32(length) if length else vector


def _is_failure(evaluation: Evaluation) -> bool:
    return isinstance(evaluation.outcome, Score) and evaluation.method is Method.LLM and evaluation.success is False
