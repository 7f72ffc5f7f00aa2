"""Measure how often what the README points to is right, on sessions of public agents with known outcomes.

    python -m benchmarks.promises FILE...        # sessions of agents, which are no part of the repository

For each agent: how many of the sessions with a finding fail, and how many of those that fail have one; how well the
order by attention finds failures once half of the ends are known, beside "most steps first"; how often the interval of
`quality` holds the true rate, with 60 labels and a judge that is right in 85 % of the sessions.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from agenteval_collector.figures.attention import SessionFacts, auroc_of, ranked
from agenteval_collector.figures.quality import rate_of
from agenteval_collector.model.pass_rates import JudgedScore

from benchmarks.findings_worth import Looked, look
from benchmarks.workload import agents
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import Severity

LABELS = 60
RIGHT = 0.85
DRAWS = 200
SPLITS = 10


def share_of(looked: Sequence[Looked], has: Sequence[bool]) -> str:
    """Say how many sessions with something fail, how many others do, and what part of all failures has it."""
    failed = np.array([not each.conversation.success for each in looked])
    having = np.array(has)
    with_it, without = (f"{failed[group].mean():.0%}" if group.any() else "–" for group in (having, ~having))
    return f"{having.sum()} | {with_it} | {without} | {having[failed].mean():.0%}"


def attention(looked: Sequence[Looked]) -> tuple[float, float]:
    """Return how well failures come first: in the order by attention with half of the ends known, and by steps."""
    random = np.random.default_rng(13)
    failed = np.array([not each.conversation.success for each in looked], dtype=float)
    steps = np.array([sum(len(turn.steps) + len(turn.calls) for turn in each.conversation.turns) for each in looked])
    by_attention, by_steps = [], []
    for _ in range(SPLITS):
        known = random.permutation(len(looked)) < len(looked) // 2
        order = ranked([_facts(each, int(n), is_known) for each, n, is_known in zip(looked, steps, known, strict=True)])
        place = {session_id: -at for at, session_id in enumerate(order.order)}
        places = np.array([place[each.conversation.session_id] for each in looked], dtype=float)
        by_attention.append(auroc_of(places[~known], failed[~known]))
        by_steps.append(auroc_of(steps[~known].astype(float), failed[~known]))
    return float(np.mean(by_attention)), float(np.mean(by_steps))


def _facts(each: Looked, steps: int, is_known: bool) -> SessionFacts:
    characters = sum(len(step.text or "") for turn in each.conversation.turns for step in turn.steps)
    return SessionFacts(
        session_id=each.conversation.session_id,
        steps=steps,
        tokens=characters,
        seconds=None,
        usd=None,
        asked=sum(len(turn.question) for turn in each.conversation.turns),
        answered=len(each.conversation.turns[-1].steps[-1].text or "") if each.conversation.turns[-1].steps else None,
        last_steps=sum(1 + len(step.calls) for step in each.conversation.turns[-1].steps),
        errors=int(Severity.ERROR in each.severities),
        warnings=int(Severity.WARNING in each.severities),
        infos=int(Severity.INFO in each.severities),
        judged_failed=False,
        failed=not each.conversation.success if is_known else None,
    )


def quality(looked: Sequence[Looked]) -> tuple[float, float, float]:
    """Return how often the interval holds the true rate, how often what the judge says is within 0.05 of it, and the
    mean width. Sessions are drawn with replacement, and labels by the judge's verdict."""
    random = np.random.default_rng(13)
    good = np.array([each.conversation.success for each in looked])
    held, near, widths = [], [], []
    for _ in range(DRAWS):
        drawn = good[random.integers(len(good), size=400)]
        passed = drawn == (random.random(len(drawn)) < RIGHT)
        scores = [JudgedScore(str(at), str(at), bool(verdict)) for at, verdict in enumerate(passed)]
        for verdict in (True, False):
            alike = np.flatnonzero(passed == verdict)
            for at in random.permutation(alike)[: LABELS // 2]:
                scores[at] = replace(scores[at], label=bool(drawn[at]))
        low, high = rate_of(scores).interval or (0.0, 1.0)
        held.append(low <= good.mean() <= high)
        near.append(abs(passed.mean() - good.mean()) < 0.05)
        widths.append(high - low)
    return float(np.mean(held)), float(np.mean(near)), float(np.mean(widths))


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", type=Path, nargs="+", help="sessions of agents")
    for path in parser.parse_args().files:
        looked = list(look(agents.read(path)))
        failed = np.mean([not each.conversation.success for each in looked])
        print(f"\n{path.name.partition('.')[0]}: {len(looked)} sessions, {failed:.0%} fail\n")
        print("| sessions with | number | fail | fail without | of all failures |\n|---|---|---|---|---|")
        rows = {
            "a finding of severity error": [Severity.ERROR in each.severities for each in looked],
            "an error or a warning": [bool({Severity.ERROR, Severity.WARNING} & each.severities) for each in looked],
            "a loop": [bool(LOOP_KINDS & each.reasons.keys()) for each in looked],
            "unusual effort": ["unusual_effort" in each.reasons for each in looked],
        }
        for name, has in rows.items():
            print(f"| {name} | {share_of(looked, has)} |")
        by_attention, by_steps = attention(looked)
        held, near, width = quality(looked)
        print(f"\norder by attention: AUROC {by_attention:.2f}; most steps first: {by_steps:.2f}")
        print(f"quality, {LABELS} labels: holds in {held:.1%}, {width:.2f} wide; the judge alone is near in {near:.0%}")


if __name__ == "__main__":
    main()
