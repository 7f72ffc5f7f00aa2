"""The spans of one trace that processes have counted: how many they say they handed over, and how many have come."""


class SpanCounts:
    """SpanCounts of one trace, by process. `marked`: a process has told its count since the trace was opened.

    Of one thread, but for `missing` and `going_on`.
    """

    __slots__ = ("_awaited", "_came", "_expected", "_unnamed", "marked")

    def __init__(self) -> None:
        self.marked = False
        self._came: dict[str, int] = {}
        self._expected: dict[str, int] = {}
        # Processes that are known from their markers only: their spans do not name them.
        self._unnamed: set[str] = set()
        # Parents that have not come, each with the processes that have handed over a child.
        self._awaited: dict[bytes, set[str]] = {}

    def came(self, process: str) -> None:
        """Count a new span of the process."""
        self._came[process] = self._came.get(process, 0) + 1

    def expect(self, process: str, count: int, *, is_named: bool) -> None:
        """Note that the process has handed over so many spans; `is_named`: its spans name it."""
        self.marked = True
        self._expected[process] = max(count, self._expected.get(process, 0))
        if not is_named:
            self._unnamed.add(process)

    def await_parent(self, parent_id: bytes, process: str) -> None:
        """Note that a child of a span that has not come is there."""
        self._awaited.setdefault(parent_id, set()).add(process)

    def parent_came(self, span_id: bytes) -> None:
        """Note that a span is there, if it was awaited."""
        self._awaited.pop(span_id, None)

    def forget_awaited(self) -> None:
        """Wait for no parent any more: the processes have died."""
        self._awaited.clear()

    def going_on(self) -> bool:
        """Return whether a parent is open in its process: more spans were handed over than by the latest count, and a
        child of it is among them."""
        if not self._awaited:
            return False
        ahead = {process for process, count in list(self._came.items()) if count > self._expected.get(process, 0)}
        return any(not ahead.isdisjoint(processes) for processes in list(self._awaited.values()))

    def delivered(self, spans: int) -> bool:
        """Return whether every process that told its count has delivered that many of the trace's `spans`.

        False where none told since the trace was opened, and where there are spans that nobody counts.
        """
        if not self.marked or (self._uncounted(spans) and not self._unnamed):
            return False
        return not self.missing(spans)

    def missing(self, spans: int) -> int:
        """Return how many spans processes say they handed over, and are not among the trace's `spans`.

        Spans that name no process may belong to a process that is known from its markers only; they never stand in
        for the spans of one that names itself.
        """
        missing, spare = 0, self._uncounted(spans)
        for process, expected in list(self._expected.items()):
            of_process = max(0, expected - self._came.get(process, 0))
            if process in self._unnamed:
                found = min(of_process, spare)
                spare -= found
                of_process -= found
            missing += of_process
        return missing

    def _uncounted(self, spans: int) -> int:
        return spans - sum(list(self._came.values()))
