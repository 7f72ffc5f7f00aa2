"""What the embedded evaluators are worth: how well their scores tell conversations that succeeded from others.

Every turn of a recorded conversation becomes a trace, is read and evaluated as live; turns to which the agent did
nothing are left out. A conversation has the mean and the minimum of its traces' scores. AUROC is the chance that a
conversation that succeeded scores higher than one that failed, ties half. Trials of a task are alike, so intervals
come from resampling tasks. The scored coherence of a question with its answer is compared with that of a question
and an answer of another task.

    python -m benchmarks.embedded_worth FILE           # a tau-bench result file, which is no part of the repository
    python -m benchmarks.embedded_worth FILE --write   # and put the tables into docs/metrics.md
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
import numpy.typing as npt
from agenteval_collector.embedders import EmbeddedEmbedder
from agenteval_collector.evaluators import TRACE_EVALUATORS, EvaluationContext
from agenteval_collector.evaluators.loop_detection import WINDOW
from agenteval_collector.evaluators.port import Embed
from scipy.stats import rankdata

from benchmarks.workload import taubench
from benchmarks.workload.conversation import Conversation
from benchmarks.workload.measure import quantiles
from benchmarks.workload.otlp import spans
from benchmarks.workload.replay import SCOPE
from otel_agenteval.conventions import SpanRecord, read_trace, span_record
from otel_agenteval.metrics import LoopText, coherence
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Score

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
BEGIN, END = "<!-- measured: python -m benchmarks.embedded_worth FILE --write -->\n", "<!-- /measured -->"
SEED = 0
RESAMPLES = 5_000
THRESHOLDS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """An AUROC with its 95 % interval, over `n` conversations; None where all scores, or all outcomes, are alike."""

    n: int
    auroc: float | None
    low: float
    high: float


def evaluated(conversation: Conversation, embed: Embed, seconds: dict[str, list[float]]) -> dict[str, list[float]]:
    """The scores of the conversation's traces by evaluator, in order; every evaluator is there.

    What each evaluator took for each trace is added to `seconds`.
    """
    found: dict[str, list[float]] = {kind.name: [] for kind in TRACE_EVALUATORS}
    answers: list[LoopText | None] = []
    for trace in traces(conversation):
        context = EvaluationContext(trace, answers[-WINDOW:], embed)
        for kind in TRACE_EVALUATORS:
            started = time.thread_time()
            outcome = kind().evaluate(context)
            seconds[kind.name].append(time.thread_time() - started)
            if isinstance(outcome, Score):
                found[kind.name].append(outcome.value)
        answers += context.answers
    return found


def traces(conversation: Conversation) -> Iterator[Trace]:
    """The conversation as the collector reads it, turn by turn, without turns to which the agent did nothing."""
    acted = replace(conversation, turns=tuple(turn for turn in conversation.turns if turn.steps))
    by_trace: defaultdict[str, list[SpanRecord]] = defaultdict(list)
    for span in spans([acted], started_at=1, marker=True):
        by_trace[span.trace_id.hex()].append(span_record(span, {}, SCOPE))
    for trace_id, recorded in by_trace.items():
        yield read_trace(trace_id, recorded)


def auroc(values: Floats, positive: npt.NDArray[np.bool_]) -> float | None:
    """Chance that a positive value is greater than a negative one, ties half; None where there is one kind only."""
    count = int(positive.sum())
    if count in (0, len(values)) or (values == values[0]).all():
        return None
    ranks = rankdata(values)
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * (len(values) - count)))


def worth(values: Mapping[str, float], conversations: Sequence[Conversation]) -> Measured:
    """AUROC of a value per session id against success, with an interval over tasks."""
    known = [each for each in conversations if each.session_id in values]
    scores = np.array([values[each.session_id] for each in known])
    succeeded = np.array([each.success for each in known], dtype=bool)
    tasks = sorted({each.task_id for each in known})
    members = [np.flatnonzero([each.task_id == task for each in known]) for task in tasks]
    chance = np.random.default_rng(SEED)
    drawn = []
    for _ in range(RESAMPLES):
        chosen = np.concatenate([members[index] for index in chance.integers(len(members), size=len(members))])
        value = auroc(scores[chosen], succeeded[chosen])
        if value is not None:
            drawn.append(value)
    low, high = np.quantile(drawn, (0.025, 0.975)) if drawn else (np.nan, np.nan)
    return Measured(len(known), auroc(scores, succeeded), float(low), float(high))


def table(conversations: Sequence[Conversation], embed: Embed) -> Iterator[str]:
    """One line for each evaluator."""
    seconds: dict[str, list[float]] = {kind.name: [] for kind in TRACE_EVALUATORS}
    scores = {each.session_id: evaluated(each, embed, seconds) for each in conversations}
    yield "| evaluator | traces scored | below 1 | conversations | AUROC of the mean | of the minimum | us a trace |"
    yield "|---|---|---|---|---|---|---|"
    for kind in TRACE_EVALUATORS:
        time_taken = f"{fmean(seconds[kind.name]) * 1e6:.0f}"
        each = {session: found[kind.name] for session, found in scores.items() if found[kind.name]}
        if not each:
            yield f"| {kind.name} | 0 | | 0 | – | – | {time_taken} |"
            continue
        all_scores = [value for found in each.values() for value in found]
        mean, least = (
            worth({session: float(combine(found)) for session, found in each.items()}, conversations)
            for combine in (fmean, min)
        )
        below = sum(value < 1 for value in all_scores) / len(all_scores)
        row = f"{kind.name} | {len(all_scores)} | {below:.0%} | {len(each)} | {shown(mean)} | {shown(least)}"
        yield f"| {row} | {time_taken} |"


def shown(measured: Measured) -> str:
    if measured.auroc is None:
        return "all alike"
    return f"{measured.auroc:.2f} ({measured.low:.2f} to {measured.high:.2f})"


def coherence_of_pairs(conversations: Sequence[Conversation], embed: Embed) -> tuple[Floats, Floats]:
    """The coherence of every question with its answer, and with the answer to a question of another task."""
    pairs = [
        (each.task_id, turn.question, turn.answer)
        for each in conversations
        for turn in each.turns
        if turn.question and turn.answer
    ]
    chance = np.random.default_rng(SEED)
    matched, shuffled = [], []
    for task, question, answer in pairs:
        others = [other for other_task, _, other in pairs if other_task != task]
        matched.append(_coherence(question, answer, embed))
        shuffled.append(_coherence(question, others[chance.integers(len(others))], embed))
    return np.array(matched), np.array(shuffled)


def _coherence(question: str, answer: str, embed: Embed) -> float:
    score = coherence(question, answer, embed(question), embed(answer)).score
    assert score is not None
    return score


def coherence_table(matched: Floats, shuffled: Floats) -> Iterator[str]:
    """How far apart the two kinds of pairs are, and what thresholds make of them."""
    both = np.concatenate([matched, shuffled])
    separation = auroc(both, np.arange(len(both)) < len(matched))
    gains = {threshold: float((shuffled < threshold).mean() - (matched < threshold).mean()) for threshold in THRESHOLDS}
    best = max(gains, key=lambda threshold: gains[threshold])
    yield f"{len(matched)} pairs of each kind, AUROC {separation:.2f}. Quantiles (5, 25, 50, 75, 95 %): matched"
    yield f"{_spread(matched)}; shuffled {_spread(shuffled)}. The threshold that tells them apart best is {best}."
    yield ""
    yield f"| threshold | {' | '.join(map(str, THRESHOLDS))} |"
    yield f"|---|{'---|' * len(THRESHOLDS)}"
    for name, values in (("matched pairs below", matched), ("shuffled pairs below", shuffled)):
        yield f"| {name} | {' | '.join(f'{(values < threshold).mean():.0%}' for threshold in THRESHOLDS)} |"


def _spread(values: Floats) -> str:
    ordered = quantiles(values.tolist())
    return ", ".join(f"{ordered[index]:.2f}" for index in (1, 5, 10, 15, 19))


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a tau-bench result file")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    given = parser.parse_args()
    conversations, embed = taubench.read(given.file), EmbeddedEmbedder().embed
    lines = [*table(conversations, embed), "", "Coherence:"]
    lines += coherence_table(*coherence_of_pairs(conversations, embed))
    print("\n".join(lines))
    if given.write:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        tail = rest.partition(END)[2]
        PAGE.write_text(f"{head}{BEGIN}\n" + "\n".join(lines) + f"\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
