"""Sessions that leave memory and come back: their scores are those of sessions that never left, and of all traces read
again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from agenteval_collector.evaluation.sessions.session import added_up, taken_up
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agenteval.metrics.signals import merge_weights
from otel_agenteval.outcome import Failure, Outcome
from tests.support.inputs import inputs
from tests.support.otlp import trace_id, turn
from tests.support.referring import PENDING, Referring, judged, judgement
from tests.support.scoring import Scoring, assembled

pytestmark = pytest.mark.databases

SAID: Final = ("Your order is on its way.", "Your order is on its way today.", "I cannot do that.", None)
SETTINGS: Final[dict[str, Any]] = {"judge": {"base_url": "http://127.0.0.1:9/v1"}, "session": {"min_coverage": 0.0}}
CRAMPED: Final[dict[str, Any]] = {**SETTINGS, "server": {"memory_limit": "1KiB"}}
WEIGHTS: Final = merge_weights({"coherence": 0.0})
SECOND: Final = 1_000_000_000
"""Between two traces."""
FAILED: Final = Failure(error_type="malformed", reason="")


class Step(NamedTuple):
    """A trace that comes, first or again: `late` is how many places before its number it starts, `judged` what the
    judge says of it later, `erased` that it is deleted after all."""

    number: int
    session: str
    said: str | None
    late: int
    judged: Outcome | None
    erased: bool


steps = st.lists(
    st.builds(
        Step,
        number=st.integers(1, 30),
        session=st.sampled_from("rs"),
        said=st.sampled_from(SAID),
        late=st.sampled_from([0, 0, 0, 3, 25]),
        judged=st.sampled_from([None, FAILED, judged(0.1), judged(0.35), judged(1.0)]),
        erased=st.sampled_from([False] * 9 + [True]),
    ),
    min_size=2,
    max_size=24,
)


class Told:
    """The steps as a collector is told of them, a batch at a time."""

    def __init__(self, path: Path, after_each: Callable[[Scoring], None], **sections: Any) -> None:
        self.scoring = Scoring(path, judging=Referring({"confidence": PENDING}), **{**SETTINGS, **sections})
        self._after_each = after_each
        self._revisions: dict[int, int] = {}

    def tell(self, batch: list[Step]) -> None:
        """The traces come together, then judgements on them, then deletions."""
        scoring, ids = self.scoring, {trace_id(each.number).hex(): each for each in batch}
        del scoring.referred[:]
        scoring.put(*(self._assembled(each) for each in batch))
        self._after_each(scoring)
        jobs = [(job, said) for job in scoring.referred if (said := ids[job.trace_id].judged) is not None]
        scoring.stage.store_judgements([judgement(job, said) for job, said in jobs])
        self._after_each(scoring)
        if doomed := [key for key, each in ids.items() if each.erased]:
            scoring.store.deletions.erase(doomed, [])
            scoring.core.forget(doomed, [])
        self._after_each(scoring)

    def _assembled(self, step: Step) -> Any:
        revision = self._revisions[step.number] = self._revisions.get(step.number, 0) + 1
        # Each revision says something else: whether it does is known only where the one before is remembered.
        told = turn(step.number, f"Where is it? I ask for time {revision}.", step.said, session=step.session)
        told.start_time_unix_nano -= step.late * SECOND
        return assembled(told, revision=revision)

    def scores(self) -> dict[str, Any]:
        """The scores of each session as they stand."""
        found = {}
        for name in "rs":
            document = self.scoring.session(name) or {"outcomes": [], "trace_ids": []}
            outcomes = [{**each, "evaluated_at": None, "revision": None} for each in document["outcomes"]]
            found[name] = outcomes, document["trace_ids"]
        return found


def in_batches(all_steps: list[Step], sizes: list[int]) -> list[list[Step]]:
    """Split the steps; no trace is twice in a batch."""
    batches: list[list[Step]] = [[]]
    for at, step in enumerate(all_steps):
        if len(batches[-1]) >= sizes[at % len(sizes)] or step.number in {each.number for each in batches[-1]}:
            batches.append([])
        batches[-1].append(step)
    return batches


def assert_kept_sums_are_those_of_all_traces(scoring: Scoring) -> None:
    for name in "rs":
        stored = scoring.store.session(name)
        if stored is None or stored.sums is None:
            continue
        kept = taken_up(stored.state, stored.sums, WEIGHTS)
        slow = added_up(stored.state, scoring.store.session_traces(name), WEIGHTS)
        assert kept is not None
        (sums, risks), (slow_sums, slow_risks) = kept.scores.save(), slow.scores.save()
        assert risks == slow_risks
        assert sums["best"] == slow_sums["best"]
        assert sums["judged"] == slow_sums["judged"]
        assert kept.scores.missing == slow.scores.missing
        assert kept.scores.unjudged == slow.scores.unjudged
        assert kept.part == slow.part


@settings(max_examples=inputs(0.15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(all_steps=steps, sizes=st.lists(st.sampled_from([1, 2, 24]), min_size=1, max_size=3))
def test_sessions_that_leave_memory_after_every_trace_score_like_those_that_never_do(
    tmp_path_factory: pytest.TempPathFactory, all_steps: list[Step], sizes: list[int]
) -> None:
    def nothing(_: Scoring) -> None:
        pass

    made = [
        Told(tmp_path_factory.mktemp("s"), assert_kept_sums_are_those_of_all_traces),
        Told(tmp_path_factory.mktemp("s"), nothing, **CRAMPED),
        Told(tmp_path_factory.mktemp("s"), Scoring.restart),
    ]
    for batch in in_batches(all_steps, sizes):
        for each in made:
            each.tell(batch)
    never, always, killed = made
    assert_kept_sums_are_those_of_all_traces(always.scoring)
    assert always.scores() == never.scores()
    assert killed.scores() == never.scores()
    for each in made:
        each.scoring.close()
