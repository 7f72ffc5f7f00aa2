"""Judge a trace by independent votes, each with its own extraction."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agenteval_collector.judge.materials import Materials, PanelSettings
from agenteval_collector.judge.one_vote import OneVote
from agenteval_collector.judge.ports import Ask, OverBudget
from agenteval_collector.judge.questions import completion, execution, extract, plan, tools
from agenteval_collector.judge.referrals import preclude
from agenteval_collector.judge.votes import Ballot, Judged, Vote, margin, merged
from otel_agenteval.model import Trace
from otel_agenteval.outcome import Status, Unscored

REQUESTS: Final = 5
"""Requests that a vote on a trace takes at most with the built-in evaluators; second looks keep within as many."""
SECOND_LOOKS: Final = 2
"""Further votes of the evaluators whose score is near its threshold, at most."""


def _version(*questions: str) -> str:
    """Make the version of an evaluator that rests on these questions: it rises with each of theirs."""
    return str(1 + sum(int(version) - 1 for version in questions))


JUDGED: Final[Mapping[str, str]] = {
    "task_completion": _version(extract.VERSION, completion.VERSION),
    "tool_correctness": _version(tools.VERSION),
    "argument_correctness": _version(tools.VERSION),
    "step_efficiency": _version(extract.VERSION, execution.VERSION),
    "confidence": _version(execution.VERSION),
    "plan_adherence": _version(extract.VERSION, execution.VERSION),
    "plan_quality": _version(extract.VERSION, plan.VERSION),
}
"""The built-in evaluators that ask a judge, with the version of each."""


@dataclass(frozen=True, kw_only=True)
class Panel(PanelSettings):
    """Judges a trace by `votes` at once. Evaluators whose score is then within `band` of its threshold get up to two
    more, as far as the whole takes no more than `REQUESTS` for each of `votes`."""

    votes: int = 1
    band: float = 0.0

    async def judge(self, trace: Trace, wanted: Collection[str], ask: Ask) -> dict[str, Judged]:
        """Give an outcome for each of `wanted` that has a threshold.

        Raises JudgeUnavailable even if other questions were answered: a cache can give those answers again.
        """
        asked = self.thresholds.keys() & set(wanted)
        precluded = {name: Judged(outcome=reason) for name in asked if (reason := preclude(trace, name))}
        names = frozenset(asked - precluded.keys())
        shown = Materials(self, trace)
        try:
            # A trace is judged whole or not at all.
            async with ask.room(self.votes * OneVote(shown, names, ask).most):
                return precluded | await self._judged(shown, names, ask)
        except OverBudget as bound:
            spent = Judged(outcome=Unscored(status=Status.OVER_BUDGET, reason=str(bound)))
            return precluded | dict.fromkeys(names, spent)

    async def _judged(self, shown: Materials, names: frozenset[str], ask: Ask) -> dict[str, Judged]:
        first = await _all([OneVote(shown, names, ask, number).cast() for number in range(self.votes)])
        cast = {name: [vote[name] for vote in first] for name in names}
        near, looks = self._second_look(shown, cast, ask)
        more = range(self.votes, self.votes + looks)
        for vote in await _all([OneVote(shown, near, ask, number).cast() for number in more]):
            for name in near:
                cast[name].append(vote[name])
        return {name: merged(each) for name, each in cast.items()}

    def _second_look(
        self, shown: Materials, cast: Mapping[str, Sequence[Ballot | Judged]], ask: Ask
    ) -> tuple[frozenset[str], int]:
        """Return the evaluators that further votes are asked about, those nearest to their threshold first, and the
        number of these votes, as far as there are requests left."""
        margins = {name: margin(each) for name, each in cast.items()} if self.band else {}
        left = REQUESTS * self.votes - ask.requests
        chosen: frozenset[str] = frozenset()
        for name in sorted(margins, key=lambda each: (margins[each], each)):
            with_it = chosen | {name}
            if margins[name] <= self.band and OneVote(shown, with_it, ask).most <= left:
                chosen = with_it
        return chosen, min(SECOND_LOOKS, left // OneVote(shown, chosen, ask).most) if chosen else 0


async def _all(votes: Sequence[Coroutine[Any, Any, Vote]]) -> list[Vote]:
    """Collect the votes. All come to their end before any error counts: they are known when it is judged again."""
    results = await asyncio.gather(*votes, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
