"""The second opinion: guesses of verdicts that the judge did not give, and the rate that they make narrower."""

import os
from pathlib import Path

import numpy as np
import pytest
from agenteval_collector.evaluation.embedding import EmbeddedEmbedder
from agenteval_collector.figures.attention import SessionFacts
from agenteval_collector.figures.second_opinion import ENOUGH_VERDICTS, OF_A_KIND, Subject, second_opinion, text_vector

from benchmarks.second_opinion import measure, subjects

AGENTS = sorted((Path(os.environ.get("SHARED", "../shared")) / "agents").glob("*.json.gz"))
NOTHING = SessionFacts("", None, None, None, None, None, None, None, 0, 0, 0, judged_failed=False, failed=None)


def population(random: np.random.Generator, sessions: int, share: float, telling: float) -> tuple[list[Subject], float]:
    """Sessions of which long ones fail more often, and those about one theme, by `telling`; with the rate of all."""
    steps = random.normal(size=sessions)
    theme = random.normal(size=(sessions, 12)) * np.linspace(1.0, 0.2, 12)
    chance = 1 / (1 + np.exp(-1.2 + telling * (steps - theme[:, 0])))
    passed = random.random(sessions) < chance
    judged = random.permutation(sessions) < share * sessions
    return [
        Subject(
            NOTHING._replace(session_id=f"s{number}", steps=float(steps[number])),
            theme[number],
            bool(passed[number]) if judged[number] else None,
        )
        for number in range(sessions)
    ], float(chance.mean())


def test_the_guess_about_a_session_never_saw_its_verdict() -> None:
    known, _ = population(np.random.default_rng(1), 200, 0.5, 1.5)
    before = second_opinion(known)
    assert before is not None
    for at in [at for at, subject in enumerate(known) if subject.passed is not None][:10]:
        turned = [*known]
        turned[at] = known[at]._replace(passed=not known[at].passed)
        after = second_opinion(turned)
        assert after is not None
        assert after.guesses[at] == before.guesses[at]
        assert after.guesses != before.guesses


@pytest.mark.parametrize("telling", [0.0, 1.5])
def test_the_interval_is_never_wider_than_that_of_the_sample_and_narrower_where_guesses_tell(telling: float) -> None:
    ratios = []
    for seed in range(12):
        opinion = second_opinion(population(np.random.default_rng(seed), 400, 0.25, telling)[0])
        assert opinion is not None
        rate = opinion.rate
        ratios.append((rate.interval[1] - rate.interval[0]) / (rate.of_sample[1] - rate.of_sample[0]))
        assert (rate.trust > 0) is (ratios[-1] < 1)
        assert rate.interval[0] <= rate.estimate <= rate.interval[1]
    assert max(ratios) <= 1.0
    assert bool(np.mean(ratios) < 0.93) is (telling > 0)
    assert bool(np.mean(ratios) > 0.99) is (telling == 0)


def test_guesses_are_chances_of_the_judge_passing() -> None:
    opinion = second_opinion(population(np.random.default_rng(3), 2000, 0.5, 1.5)[0])
    known, _ = population(np.random.default_rng(3), 2000, 1.0, 1.5)
    assert opinion is not None
    assert opinion.auroc > 0.75
    guesses = np.array(opinion.guesses)
    passed = np.array([subject.passed for subject in known])
    for low, high in ((0.0, 0.4), (0.4, 0.7), (0.7, 0.9), (0.9, 1.0)):
        within = (guesses >= low) & (guesses < high)
        assert guesses[within].mean() == pytest.approx(passed[within].mean(), abs=0.07)


@pytest.mark.parametrize(
    ("passed", "failed", "others", "learns"),
    [
        (ENOUGH_VERDICTS - OF_A_KIND, OF_A_KIND, 1, True),
        (ENOUGH_VERDICTS - OF_A_KIND - 1, OF_A_KIND, 9, False),
        (ENOUGH_VERDICTS, OF_A_KIND - 1, 9, False),
        (OF_A_KIND - 1, ENOUGH_VERDICTS, 9, False),
        (ENOUGH_VERDICTS, OF_A_KIND, 0, False),
    ],
    ids=["enough", "too few", "too few that fail", "too few that pass", "nothing to guess"],
)
def test_without_enough_verdicts_nothing_is_guessed(passed: int, failed: int, others: int, learns: bool) -> None:
    verdicts = [True] * passed + [False] * failed + [None] * others
    known = [
        Subject(NOTHING._replace(session_id=f"s{n}", steps=float(n)), np.zeros(4), verdict)
        for n, verdict in enumerate(verdicts)
    ]
    assert (second_opinion(known) is not None) is learns


def test_texts_that_were_not_recorded_say_nothing() -> None:
    embedder = EmbeddedEmbedder()
    vector = text_vector("Where is my order?", "", embedder)
    assert float(np.linalg.norm(vector[:256])) == pytest.approx(1.0)
    assert not vector[256:].any()


@pytest.mark.slow  # A simulation.
@pytest.mark.parametrize("telling", [0.0, 1.5])
def test_the_interval_holds_the_rate_of_the_judge(telling: float) -> None:
    random, held = np.random.default_rng(5), 0
    for _ in range(200):
        known, rate = population(random, 300, 0.25, telling)
        opinion = second_opinion(known)
        assert opinion is not None
        held += opinion.rate.interval[0] <= rate <= opinion.rate.interval[1]
    assert held >= 0.94 * 200


@pytest.mark.slow
@pytest.mark.skipif(not AGENTS, reason="sessions of public agents are no part of the repository")
@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.name)
def test_sessions_of_public_agents_have_a_narrower_rate_that_holds(path: Path) -> None:
    found = measure(subjects(path), share=0.2, right=1.0, sessions=400, draws=100)
    assert found.coverage >= 0.94
    assert found.width <= found.width_of_sample
