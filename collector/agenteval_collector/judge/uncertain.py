"""Ask the judge about what a guess of its verdict is least certain of, beside what was drawn at random.

The guesses are those of the second opinion (`figures/second_opinion.py`). A verdict on such a trace or session is no
part of a rate. `judge.escalate` bounds how many are judged without being drawn: what the findings leave of it is used
here. So it costs no more than the settings allow, and the budget holds as for any other request.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from agenteval_collector.model.judge_jobs import GOAL_SUCCESS
from agenteval_collector.model.pass_rates import JudgeRate, VersionRate
from agenteval_collector.runtime.component import Poller
from agenteval_collector.runtime.errors import CollectorError

EVERY: Final = 600.0
"""Seconds between two looks: the guesses are learnt anew, which takes up to two seconds."""


class UncertainAsking(Poller):
    """Has the judge asked. `rates` returns the rates with their second opinions, `ask` takes the ids of traces and of
    sessions. At most `share` of what a rate is about is judged without being drawn. Only the process on duty asks."""

    def __init__(
        self,
        rates: Callable[[], Iterable[VersionRate]],
        ask: Callable[[Sequence[str], Sequence[str]], object],
        share: float,
        is_on_duty: Callable[[], bool],
    ) -> None:
        super().__init__("uncertain", EVERY)
        self._rates = rates
        self._ask = ask
        self._share = share
        self._is_on_duty = is_on_duty

    def step(self) -> None:
        if not self._is_on_duty():
            return
        traces: dict[str, None] = {}
        sessions: dict[str, None] = {}
        try:
            for rate in self._rates():
                if rate.by_judge is not None:
                    chosen = sessions if rate.rated.name == GOAL_SUCCESS else traces
                    chosen |= dict.fromkeys(_next(rate.by_judge, self._share))
            if traces or sessions:
                self._ask([*traces], [*sessions])
        except CollectorError as error:
            self._logger.warning("the judge is not asked about what is least certain before the next look: %s", error)


def _next(rate: JudgeRate, share: float) -> Sequence[str]:
    """Return those that the judge is asked about next: the least certain, as many as the share has room for."""
    return rate.uncertain[: max(0, int(share * (rate.judged + rate.guessed)) - rate.beside)]
