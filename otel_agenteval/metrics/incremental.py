"""The session scores, kept current while traces arrive and change.

The plain functions read the whole session for one score. `SessionScores` gives bit for bit the same score after every
trace, in time that does not grow with the session: the traces are split into the riskiest 15 %, whose risks are kept
as a sum, and the rest, and each trace that arrives or changes moves a few across the border.
"""

import heapq
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from otel_agenteval.metrics.result import MetricResult
from otel_agenteval.metrics.session import (
    FLAG_ABOVE,
    Basis,
    consistency_result,
    reliability_result,
    tail_size,
)
from otel_agenteval.metrics.signals import Contribution, Signals, contribution, merge_weights


class SessionScores:
    """`agent_reliability` and `agent_consistency` of one session, replaceable trace by trace.

    One `put` takes O(log n) time, amortised, for n traces so far; everything else constant time. Memory is
    proportional to the number of traces. Not thread-safe.
    """

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        """`weights` go over `DEFAULT_WEIGHTS`; ValueError for an unknown name or a weight outside [0, 1]."""
        self._weights = merge_weights(weights)
        self._traces: dict[str, _Entry] = {}
        self._risks = _TailRisk()
        self._flagged: set[str] = set()
        self._squares = _ExactSum()
        self._uncertain = 0
        self._evaluated = 0
        self._confident = 0
        self._present = 0
        self._expected = 0

    def put(self, trace_id: str, signals: Signals, not_applicable: Collection[str] = ()) -> None:
        """Insert the signals of a trace, or replace them.

        `not_applicable` names signals that cannot exist for this trace: coverage does not expect them. Other
        names than those of signals are passed over. Raises ValueError, and changes nothing, for a signal outside
        [0, 1] and for one that is both present and not applicable.
        """
        entry = self._read(trace_id, signals, not_applicable)
        replaced = self._traces.get(trace_id)
        if replaced is not None:
            self._count(replaced, -1)
            self._risks.remove(trace_id)
            self._flagged.discard(trace_id)
        self._traces[trace_id] = entry
        self._count(entry, +1)
        risk = entry.part.risk
        if risk is not None:
            self._risks.add(trace_id, risk)
            if risk > FLAG_ABOVE:
                self._flagged.add(trace_id)

    def reliability(self) -> MetricResult:
        """As `agent_reliability`, without the metadata of single traces; coverage allows for not applicable ones."""
        return reliability_result(
            self._basis(scored=len(self._risks), evaluated=self._evaluated),
            self._weights,
            tail_sum=self._risks.tail_sum,
            max_risk=self._risks.largest,
            flagged=len(self._flagged),
            details={},
        )

    def consistency(self) -> MetricResult:
        """As `agent_consistency`, without the metadata of single traces; coverage allows for not applicable ones."""
        return consistency_result(
            self._basis(scored=self._uncertain, evaluated=self._confident),
            self._weights,
            sum_of_squares=self._squares.value,
            details={},
        )

    @property
    def max_risk(self) -> float | None:
        """The largest risk of a trace, in [0, 1]; None where no signal of non-zero weight says anything."""
        return self._risks.largest if self._evaluated else None

    @property
    def flagged(self) -> AbstractSet[str]:
        """Ids of the traces with a risk above 0.5. A live view: copy it to keep it."""
        return self._flagged

    @property
    def traces(self) -> int:
        """How many traces were put, with or without signals."""
        return len(self._traces)

    def _read(self, trace_id: str, signals: Signals, not_applicable: Collection[str]) -> "_Entry":
        part = contribution(signals, self._weights, trace_id)
        expected = 0
        for name, weight in self._weights.items():
            if name not in not_applicable:
                expected += weight > 0.0
            elif signals.get(name) is not None:
                raise ValueError(f"{name} of trace {trace_id!r} is both present and not applicable")
        return _Entry(part, expected)

    def _count(self, entry: "_Entry", sign: int) -> None:
        part = entry.part
        self._evaluated += sign * (part.present > 0)
        self._confident += sign * part.confident
        self._present += sign * part.present
        self._expected += sign * entry.expected
        if part.uncertainty is not None:
            self._uncertain += sign
            self._squares.add(part.uncertainty * part.uncertainty, sign)

    def _basis(self, *, scored: int, evaluated: int) -> Basis:
        return Basis(
            traces=len(self._traces),
            scored=scored,
            evaluated=evaluated,
            present=self._present,
            expected=self._expected,
        )


@dataclass(frozen=True, slots=True)
class _Entry:
    part: Contribution
    expected: int


class _ExactSum:
    """A sum of floats from which any of them can be taken back without a trace.

    Every finite double is a whole multiple of 2**-1074, the smallest one. The sum counts those, and its one rounding
    is to the nearest double, ties to even: the value of `math.fsum`.
    """

    _SHIFT = 1074
    _UNIT = 1 << _SHIFT

    def __init__(self) -> None:
        self._multiple = 0

    def add(self, number: float, sign: int = 1) -> None:
        """Add `number`, or with a `sign` of -1 take it back."""
        numerator, denominator = number.as_integer_ratio()  # The denominator is a power of two.
        self._multiple += sign * (numerator << (self._SHIFT + 1 - denominator.bit_length()))

    @property
    def value(self) -> float:
        return self._multiple / self._UNIT


class _TailRisk:
    """Risks by trace, with the exact sum of the `tail_size` largest and the largest of all.

    Every risk is in `_tail` or in `_rest`; none in `_rest` is greater than one in `_tail`.
    """

    def __init__(self) -> None:
        self._tail = _Heap()
        self._rest = _Heap()  # Negated: the largest comes first.
        self._by_size = _Heap()  # All of them, negated.
        self._sum = _ExactSum()

    def __len__(self) -> int:
        return len(self._by_size)

    @property
    def tail_sum(self) -> float:
        return self._sum.value

    @property
    def largest(self) -> float:
        """0.0 where there is none."""
        return -self._by_size.smallest if len(self._by_size) else 0.0

    def add(self, trace_id: str, risk: float) -> None:
        """Add the risk of a trace that has none here."""
        self._by_size.push(-risk, trace_id)
        # Through the tail into the rest: whichever is then the smallest of the tail cannot be greater than another.
        self._to_tail(risk, trace_id)
        self._demote()
        self._settle()

    def remove(self, trace_id: str) -> None:
        """Remove the risk of a trace, if it has one."""
        if trace_id not in self._by_size:
            return
        self._by_size.remove(trace_id)
        if trace_id in self._tail:
            self._sum.add(self._tail.remove(trace_id), -1)
        else:
            self._rest.remove(trace_id)
        self._settle()

    def _settle(self) -> None:
        size = tail_size(len(self))
        while len(self._tail) > size:
            self._demote()
        while len(self._tail) < size:
            negated, trace_id = self._rest.pop()
            self._to_tail(-negated, trace_id)

    def _to_tail(self, risk: float, trace_id: str) -> None:
        self._tail.push(risk, trace_id)
        self._sum.add(risk)

    def _demote(self) -> None:
        risk, trace_id = self._tail.pop()
        self._sum.add(risk, -1)
        self._rest.push(-risk, trace_id)


class _Heap:
    """Names by key, the smallest key first, from which any name can be removed.

    A removed entry stays in the heap until it surfaces, or until more than half of the heap is such entries: then the
    heap is built anew. So it holds at most twice its members, and a removal costs O(log n) amortised.
    """

    def __init__(self) -> None:
        self._keys: dict[str, float] = {}
        # An entry whose name has another key now, or none, is stale. One that was removed and added again with the
        # same key stands here twice; the entries are equal, so it does not matter which of them counts.
        self._entries: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    @property
    def smallest(self) -> float:
        """The smallest key. There must be one."""
        self._drop_stale_head()
        return self._entries[0][0]

    def push(self, key: float, name: str) -> None:
        self._keys[name] = key
        heapq.heappush(self._entries, (key, name))

    def pop(self) -> tuple[float, str]:
        """Remove the entry with the smallest key. There must be one."""
        self._drop_stale_head()
        name = self._entries[0][1]
        return self.remove(name), name

    def remove(self, name: str) -> float:
        """Remove a member and return its key."""
        key = self._keys.pop(name)
        if len(self._entries) > 2 * len(self._keys):
            self._entries = [(key, name) for name, key in self._keys.items()]
            heapq.heapify(self._entries)
        return key

    def _drop_stale_head(self) -> None:
        # A removed name has no key, and None equals no key.
        while self._keys.get(self._entries[0][1]) != self._entries[0][0]:
            heapq.heappop(self._entries)
