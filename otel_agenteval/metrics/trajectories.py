"""Similarity of the action sequences (trajectories) of several runs, by frequency and by order of the actions.

Every run is compared with all later ones. Memory stays proportional to the number of actions, because only one run at a
time is compared with the later ones.
"""

import math
from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from otel_agenteval.metrics.runs import Floats

LOG_2 = math.log(2.0)


def sequence_similarity(trajectories: Sequence[Sequence[str]]) -> float:
    """Return the mean, over pairs, of 1 - Levenshtein distance / length of the longer trajectory. It is in [0, 1].

    `trajectories` must have at least two, none of them empty. The formula is of the methodology page, "Trajectory
    Sequence Consistency".
    """
    ids = {name: number for number, name in enumerate({action for trajectory in trajectories for action in trajectory})}
    encoded = [[ids[action] for action in trajectory] for trajectory in trajectories]
    lengths = np.array([len(symbols) for symbols in encoded])
    total = 0.0
    for index in range(len(encoded) - 1):
        distances = cdist([encoded[index]], encoded[index + 1 :], scorer=Levenshtein.distance, dtype=np.int64)[0]
        total += float(np.sum(1.0 - distances / np.maximum(lengths[index], lengths[index + 1 :])))
    return total / math.comb(len(encoded), 2)


def jensen_shannon_divergences(trajectories: Sequence[Sequence[str]]) -> list[Floats]:
    """Return the Jensen-Shannon divergence, in nats, of the action frequencies of each trajectory and every later one.

    `trajectories` must have at least two, none of them empty. The list has one array for each trajectory but the last.
    A divergence is in [0, ln 2], and exactly 0 for equal frequencies (Lin 1991, "Divergence measures based on the
    Shannon entropy", IEEE Trans. Inf. Theory 37(1)).
    """
    ids: dict[str, int] = {}
    encoded = [[ids.setdefault(action, len(ids)) for action in trajectory] for trajectory in trajectories]
    distinct = [np.unique(symbols, return_counts=True) for symbols in encoded]
    owner = np.repeat(np.arange(len(encoded)), [len(actions) for actions, _ in distinct])
    action = np.concatenate([actions for actions, _ in distinct])
    count = np.concatenate([counts for _, counts in distinct])
    length = np.array([len(symbols) for symbols in encoded])
    first = np.searchsorted(owner, np.arange(len(encoded) + 1))

    divergences = []
    own_count = np.zeros(len(ids), dtype=count.dtype)
    for index in range(len(encoded) - 1):
        own = slice(first[index], first[index + 1])
        own_count[action[own]] = count[own]
        later = slice(first[index + 1], None)
        pair, pairs = owner[later] - index - 1, len(encoded) - index - 1
        shared = own_count[action[later]]
        p, q = shared / length[index], count[later] / length[owner[later]]
        middle = (p + q) / 2.0
        terms = q * np.log(q / middle) + p * np.log(np.where(shared > 0, p, middle) / middle)
        # The actions of this trajectory alone, in whole numbers: a difference of shares would leave a residue between
        # equal frequencies. Each of them contributes p ln(p / (p / 2)) = p ln 2.
        only_own = length[index] - np.bincount(pair, weights=shared, minlength=pairs)
        total = np.bincount(pair, weights=terms, minlength=pairs) + only_own / length[index] * LOG_2
        divergences.append(np.clip(total / 2.0, 0.0, LOG_2))
        # Only the entries that were set: the array has one for each distinct action of all trajectories.
        own_count[action[own]] = 0
    return divergences
