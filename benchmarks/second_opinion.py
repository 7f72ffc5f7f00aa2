"""Width and coverage of the judge's rate with a second opinion, beside the judged sample alone, on real sessions.

    python -m benchmarks.second_opinion FILE...        # sessions of agents, which are no part of the repository
    python -m benchmarks.second_opinion FILE... --draws 500 --sessions 500

A FILE is gzipped JSON: `{agent, sessions: [{id, success, turns: [{user, steps, out}]}]}`. Each draw takes sessions of
one agent with replacement; a share of them is judged, by a judge that follows a script: it is right, or right in 85 %
of the sessions. The rate that the interval should hold is what it would say of all sessions of the file. Copies of a
session are in the same fold, so that no guess is learnt from a copy.
"""

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from agenteval_collector.evaluation.embedding import EmbeddedEmbedder
from agenteval_collector.figures.attention import SessionFacts, folds_of
from agenteval_collector.figures.second_opinion import Subject, second_opinion, text_vector

from otel_agenteval.metrics.pass_k import Interval
from otel_agenteval.metrics.pass_rate import JudgedRate, JudgedTrace, judged_rate

SHARES = (0.2, 0.5)
RIGHT = (1.0, 0.85)


class Measured(NamedTuple):
    """Coverage and mean width of the intervals, with guesses and of the sample alone. `used` is the share of draws with
    guesses, `auroc` their mean quality there."""

    coverage: float
    coverage_of_sample: float
    width: float
    width_of_sample: float
    used: float
    auroc: float


def subjects(path: Path) -> list[Subject]:
    """Read the sessions of a file as subjects of a judge that is always right."""
    embedder = EmbeddedEmbedder()
    with gzip.open(path) as file:
        sessions = json.load(file)["sessions"]
    return [
        Subject(
            _facts(session),
            text_vector(str(session["turns"][0]["user"]), str(session["turns"][-1]["out"]), embedder),
            bool(session["success"]),
        )
        for session in sessions
    ]


def _facts(session: dict[str, Any]) -> SessionFacts:
    steps = [step for turn in session["turns"] for step in turn["steps"]]
    return SessionFacts(
        session_id=str(session["id"]),
        steps=len(steps),
        tokens=len(json.dumps(steps)),
        seconds=None,
        usd=None,
        asked=sum(len(str(turn["user"])) for turn in session["turns"]),
        answered=len(str(session["turns"][-1]["out"] or "")),
        last_steps=len(session["turns"][-1]["steps"]),
        errors=0,
        warnings=sum(step[0] == "t" and bool(step[-1]) for step in steps),
        infos=0,
        judged_failed=False,
        failed=None,
    )


def measure(known: Sequence[Subject], *, share: float, right: float, sessions: int, draws: int) -> Measured:
    """Draw sessions again and again, and judge a share of them."""
    random = np.random.default_rng(13)
    verdicts = [bool(subject.passed) is bool(random.random() < right) for subject in known]
    rate = float(np.mean(verdicts))
    names = [_copies(subject.facts.session_id) for subject in known]
    found: list[JudgedRate] = []
    aurocs: list[float] = []
    for _ in range(draws):
        drawn = random.integers(len(known), size=sessions)
        judged = random.permutation(sessions) < share * sessions
        population = [
            known[at]._replace(
                facts=known[at].facts._replace(session_id=next(names[at])), passed=verdicts[at] if is_judged else None
            )
            for at, is_judged in zip(drawn, judged, strict=True)
        ]
        opinion = second_opinion(population)
        found.append(_alone(population, share) if opinion is None else opinion.rate)
        aurocs += [] if opinion is None else [opinion.auroc]
    assert all(_width(each.interval) <= _width(each.of_sample) for each in found)
    return Measured(
        coverage=float(np.mean([each.interval[0] <= rate <= each.interval[1] for each in found])),
        coverage_of_sample=float(np.mean([each.of_sample[0] <= rate <= each.of_sample[1] for each in found])),
        width=float(np.mean([_width(each.interval) for each in found])),
        width_of_sample=float(np.mean([_width(each.of_sample) for each in found])),
        used=float(np.mean([each.trust > 0 for each in found])),
        auroc=float(np.mean(aurocs)) if aurocs else float("nan"),
    )


def _width(interval: Interval) -> float:
    return interval[1] - interval[0]


def _alone(population: Sequence[Subject], share: float) -> JudgedRate:
    return judged_rate(
        [
            JudgedTrace(subject.facts.session_id, 0.0, subject.passed, share if subject.passed is not None else 1.0)
            for subject in population
        ]
    )


def _copies(name: str) -> Iterator[str]:
    """Yield names for copies of a session that fall into the fold of the session itself."""
    fold, number = folds_of([name])[0], 0
    while True:
        number += 1
        if folds_of([f"{name}/{number}"])[0] == fold:
            yield f"{name}/{number}"


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", type=Path, nargs="+", help="sessions of agents")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--sessions", type=int, default=500)
    given = parser.parse_args()
    print("| agent | judged | judge is right | coverage | of the sample | width | of the sample | used | AUROC |")
    print("|---|---|---|---|---|---|---|---|---|")
    for path in given.files:
        known = subjects(path)
        for share in SHARES:
            for right in RIGHT:
                found = measure(known, share=share, right=right, sessions=given.sessions, draws=given.draws)
                setting = f"{path.name.partition('.')[0]} | {share:.0%} | {right:.0%}"
                coverage = f"{found.coverage:.3f} | {found.coverage_of_sample:.3f}"
                width = f"{found.width:.3f} | {found.width_of_sample:.3f}"
                print(f"| {setting} | {coverage} | {width} | {found.used:.0%} | {found.auroc:.2f} |", flush=True)


if __name__ == "__main__":
    main()
