"""A store of the judge's spending in memory."""

from collections import defaultdict
from collections.abc import Sequence

from agenteval_collector.model.judge_jobs import Exceeded, Spend, SpendLimit, exceeded
from agenteval_collector.stores.judge_ledger import JudgeLedgerStore


class Table(JudgeLedgerStore):
    """The store of spending, in memory."""

    def __init__(self) -> None:
        self.hours: defaultdict[int, Spend] = defaultdict(Spend)

    def spend(self, hour: int, model: str, spend: Spend, limits: Sequence[SpendLimit] = ()) -> Exceeded | None:
        over = exceeded(limits, self.spent_since)
        if over is None:
            self.hours[hour] = added(self.hours[hour], spend)
        return over

    def spent_since(self, hour: int) -> Spend:
        total = Spend()
        for each, spend in self.hours.items():
            if each >= hour:
                total = added(total, spend)
        return total


def added(a: Spend, b: Spend) -> Spend:
    return Spend(
        requests=a.requests + b.requests,
        input_tokens=a.input_tokens + b.input_tokens,
        output_tokens=a.output_tokens + b.output_tokens,
        usd=a.usd + b.usd,
    )
