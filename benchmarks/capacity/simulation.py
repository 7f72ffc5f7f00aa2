"""A simulation of one shard, event by event: evaluators take waiting traces, evaluate them, and queue at one lock."""

import heapq
from collections import deque
from dataclasses import dataclass
from random import Random
from statistics import quantiles

from benchmarks.capacity.costs import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The result of a simulation: stored spans a second, and the seconds that traces waited until they were stored."""

    rate: float
    p50: float
    p99: float
    lock_used: float
    """The share of the time that the lock of the schema's sums was held."""


class Shard:
    """A simulated shard.

    Traces come at random times. The session of a trace decides which evaluator gets it. An evaluator takes as many of
    its waiting traces as fit in a commit, and evaluates them. It commits its own rows beside the other evaluators. Then
    it waits for the lock of the sums.
    """

    def __init__(self, costs: Costs, evaluators: int, seed: int = 0) -> None:
        self._costs = costs
        self._chance = Random(seed)
        self._waiting: list[deque[float]] = [deque() for _ in range(evaluators)]
        self._batches: list[list[float]] = [[] for _ in range(evaluators)]
        self._at_lock: deque[int] = deque()
        self._is_held = False
        self._held = 0.0
        self._events: list[tuple[float, int, str, int]] = []
        self._count = 0
        self._done: list[tuple[float, float]] = []

    def run(self, rate: float, seconds: float) -> Seen:
        """Run the simulation, and return the result of the second half of the time. The first half warms up."""
        traces = rate / self._costs.spans_per_trace
        self._add(0.0, "arrive", 0)
        now = 0.0
        while now < seconds:
            now, _, what, who = heapq.heappop(self._events)
            if what == "arrive":
                self._arrive(now)
                self._add(now + self._chance.expovariate(traces), "arrive", 0)
            elif what == "prepared":
                self._at_lock.append(who)
                self._grant(now)
            else:
                self._committed(now, who)
        late = [(at, waited) for at, waited in self._done if at > seconds / 2]
        cuts = quantiles([waited for _, waited in late], n=100)
        stored = len(late) * self._costs.spans_per_trace / (seconds / 2)
        return Seen(rate=stored, p50=cuts[49], p99=cuts[98], lock_used=self._held / seconds)

    def _add(self, at: float, what: str, who: int) -> None:
        self._count += 1
        heapq.heappush(self._events, (at, self._count, what, who))

    def _arrive(self, now: float) -> None:
        who = self._chance.randrange(len(self._waiting))
        self._waiting[who].append(now)
        if not self._batches[who]:
            self._begin(now, who)

    def _begin(self, now: float, who: int) -> None:
        waiting, costs = self._waiting[who], self._costs
        batch = [waiting.popleft() for _ in range(min(costs.commit_traces, len(waiting)))]
        self._batches[who] = batch
        if batch:
            # The costs of the evaluation include the CPU of the commit, and the commit takes its time once more.
            mean = costs.evaluate_us * costs.spans_per_trace / 1e6
            worked = sum(self._chance.gammavariate(2, mean / 2) for _ in batch)
            worked += (costs.committed_ms(len(batch)) - costs.held_ms(len(batch))) / 1e3
            self._add(now + worked, "prepared", who)

    def _grant(self, now: float) -> None:
        if self._at_lock and not self._is_held:
            self._is_held = True
            who = self._at_lock.popleft()
            held = self._costs.held_ms(len(self._batches[who])) / 1e3
            self._held += held
            self._add(now + held, "committed", who)

    def _committed(self, now: float, who: int) -> None:
        self._is_held = False
        self._done += [(now, now - came) for came in self._batches[who]]
        self._begin(now, who)
        self._grant(now)
