"""Guess the judge's verdict on what it was not asked about, so that the rate of what it passes is known better.

In: subjects of a judged evaluator, each with the exact facts of its session, its question and answer, and the judge's
verdict if it was drawn at random. Out: the rate at which the judge would pass all of them (`judged_rate`), and the
guesses. A guess is never a score. It comes from the learner of the order by attention, with the main directions of the
texts' embeddings beside the facts (principal components; Bishop 2006, 12.1). The session of a guess was not among those
that its weights were learnt from, so guesses are worth as much on judged subjects as on others.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.linalg import eigh

from agenteval_collector.evaluation.embedding import EmbeddedEmbedder
from agenteval_collector.figures.attention import (
    FOLDS,
    MEASURES,
    PRIOR,
    Array,
    SessionFacts,
    auroc_of,
    chances_of,
    facts_of,
    fit,
    folds_of,
    normal_scores,
)
from agenteval_collector.model.pass_rates import Asked, JudgeRate, Rated
from agenteval_collector.model.session_filter import SessionFilter
from agenteval_collector.stores.snapshot import Snapshot
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.metrics.pass_rate import JudgedRate, JudgedTrace, judged_rate

DIRECTIONS: Final = 8
"""Main directions of the embeddings that are learnt from."""
STRENGTH: Final = 4.0
"""Precision of the prior. It is fixed: to choose it by the verdicts would let a guess see its own."""
ENOUGH_VERDICTS: Final = 50
"""Verdicts from which on guesses are learnt."""
OF_A_KIND: Final = 2 * FOLDS
"""How many of them must be of each kind."""

_ROUNDING: Final = 1e-12
"""A variance below it is one of rounding."""


MOST_UNCERTAIN: Final = 20
"""Subjects that are named to be judged next."""
MOST_SESSIONS: Final = 1000
"""Newest sessions of an agent's version that are looked at."""
MOST_VECTORS: Final = 5_000
"""Texts whose vectors are remembered, those that were asked for last: 20 MB."""


class Subject(NamedTuple):
    """A trace or session that the judge could be asked about. `vector` is the embedding of its question and answer.

    `passed` is the judge's verdict, None if it was not drawn at random.
    """

    facts: SessionFacts
    vector: Array
    passed: bool | None


class SecondOpinion(NamedTuple):
    """The judge's rate, with a guess for each subject: the chance that the judge passes it.

    `auroc` is how well the guesses tell what the judge passes from what it fails, on judged subjects.
    """

    rate: JudgedRate
    guesses: Sequence[float]
    auroc: float


def second_opinion(subjects: Sequence[Subject]) -> SecondOpinion | None:
    """Return the second opinion; None if too few subjects are judged to learn from them, or none is left to guess."""
    verdicts = [subject.passed for subject in subjects]
    if not is_enough(verdicts):
        return None
    judged = np.array([verdict is not None for verdict in verdicts])
    fails = np.array([verdict is False for verdict in verdicts], dtype=float)
    columns = [normal_scores([getattr(subject.facts, name) for subject in subjects]) for name in MEASURES]
    features = np.column_stack([*columns, _main_directions(np.array([subject.vector for subject in subjects]))])
    middle = np.append(PRIOR, np.zeros(features.shape[1] - len(PRIOR)))
    folds = folds_of([subject.facts.session_id for subject in subjects])
    chances = np.zeros(len(subjects))
    for fold in range(FOLDS):
        own = folds == fold
        weights = fit(features[judged & ~own], fails[judged & ~own], middle, STRENGTH)
        chances[own] = chances_of(features[own], weights)
    guesses: list[float] = (1.0 - chances).tolist()
    share = float(judged.mean())
    rate = judged_rate(
        [
            JudgedTrace(subject.facts.session_id, guess, subject.passed, 1.0 if subject.passed is None else share)
            for subject, guess in zip(subjects, guesses, strict=True)
        ]
    )
    return SecondOpinion(rate, guesses, auroc_of(chances[judged], fails[judged]))


def is_enough(verdicts: Sequence[bool | None]) -> bool:
    """Return True if guesses can be learnt from these verdicts, and there is one to guess."""
    passed, failed = verdicts.count(True), verdicts.count(False)
    return len(verdicts) > passed + failed >= ENOUGH_VERDICTS and min(passed, failed) >= OF_A_KIND


def _main_directions(vectors: Array) -> Array:
    """Return the coordinates of vectors along the directions in which they differ most, the first with deviation 1."""
    centred = vectors - vectors.mean(axis=0)
    size = centred.shape[1]
    values, directions = eigh(centred.T @ centred / len(centred), subset_by_index=(max(0, size - DIRECTIONS), size - 1))
    # Texts that are all alike say nothing.
    if values[-1] <= _ROUNDING:
        return np.zeros((len(vectors), 0))
    coordinates: Array = centred @ directions / np.sqrt(values[-1])
    return coordinates


def text_vector(question: str, answer: str, embedder: EmbeddedEmbedder) -> Array:
    """Return the embeddings of a question and its answer, each of length 1, side by side."""
    vectors = (embedder.embed(text).astype(np.float64) for text in (question, answer))
    return np.concatenate([_unit(vector) for vector in vectors])


def _unit(vector: Array) -> Array:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


def _uncertain(asked: Sequence[Asked], opinion: SecondOpinion) -> tuple[str, ...]:
    """Return the subjects of which a verdict would teach most (uncertainty sampling; Lewis and Gale 1994)."""
    if opinion.rate.trust == 0.0:
        return ()
    open_ones = [
        (abs(guess - 0.5), item.subject_id)
        for item, guess in zip(asked, opinion.guesses, strict=True)
        if not item.is_judged
    ]
    return tuple(subject_id for _, subject_id in sorted(open_ones)[:MOST_UNCERTAIN])


class SecondOpinions:
    """Reads the subjects of a rate and their texts. Remembers vectors. Belongs to one caller at a time."""

    def __init__(self) -> None:
        self._embedder: EmbeddedEmbedder | None = None
        self._vectors: LruMap[tuple[str, str], Array] = LruMap(MOST_VECTORS)

    def judge_rate(self, snapshot: Snapshot, rated: Rated) -> JudgeRate | None:
        """Return the rate at which the judge would pass everything, judged or not; None where nothing is guessed.

        A rate of an agent without a name has no guesses, because the sessions of nameless agents are not alike.
        """
        if rated.agent is None:
            return None
        wanted = SessionFilter(agent=rated.agent, version=rated.version)
        facts = {row.session_id: facts_of(row, None) for row in snapshot.attention(wanted, MOST_SESSIONS)}
        asked = snapshot.asked(rated, facts)
        verdicts = [item.passed for item in asked]
        # Before anything is embedded: most rates have nothing to guess, as all is judged.
        if not is_enough(verdicts):
            return None
        vectors = self._of_texts(snapshot, asked)
        opinion = second_opinion([Subject(facts[item.session_id], vectors[item.texts], item.passed) for item in asked])
        if opinion is None:
            return None
        guessed = verdicts.count(None)
        beside = sum(item.is_judged for item in asked if item.passed is None)
        uncertain = _uncertain(asked, opinion)
        return JudgeRate(opinion.rate, len(asked) - guessed, guessed, opinion.auroc, uncertain, beside)

    def _of_texts(self, snapshot: Snapshot, asked: Sequence[Asked]) -> dict[tuple[str, str], Array]:
        """Return the vectors of the subjects' texts. A vector of zeros stands for texts that were not recorded."""
        if self._embedder is None:
            self._embedder = EmbeddedEmbedder()
        known = {item.texts: self._vectors.get(item.texts) for item in asked}
        new = [texts for texts, vector in known.items() if vector is None]
        vectors = {texts: vector for texts, vector in known.items() if vector is not None}
        views = snapshot.traces({trace_id for texts in new for trace_id in texts})
        for texts in new:
            question, answer = (views.get(trace_id) for trace_id in texts)
            said = (question.turns[0].input if question and question.turns else None) or ""
            replied = (answer.turns[-1].output if answer and answer.turns else None) or ""
            vectors[texts] = text_vector(said, replied, self._embedder)
            self._vectors.put(texts, vectors[texts])
        return vectors
