"""Compare the spans that processes say they handed over with those that have come. For one trace."""


class SpanCounts:
    """The counts of one trace, by process. `marked`: a process has told its count since the trace was opened.

    For one thread, but for `missing` and `going_on`.
    """

    __slots__ = ("_awaited", "_came", "_expected", "_unnamed", "marked")

    def __init__(self) -> None:
        self.marked = False
        self._came: dict[str, int] = {}
        self._expected: dict[str, int] = {}
        # Processes that only their markers name: their spans do not.
        self._unnamed: set[str] = set()
        # By parent that has not come: the processes that have handed over a child of it.
        self._awaited: dict[bytes, set[str]] = {}

    def came(self, process: str) -> None:
        """Count a new span of the process."""
        self._came[process] = self._came.get(process, 0) + 1

    def expect(self, process: str, count: int, *, is_named: bool) -> None:
        """Note that the process says that it has handed over `count` spans. `is_named`: its spans name it."""
        self.marked = True
        self._expected[process] = max(count, self._expected.get(process, 0))
        if not is_named:
            self._unnamed.add(process)

    def await_parent(self, parent_id: bytes, process: str) -> None:
        """Note that `process` has handed over a child of a span that has not come."""
        self._awaited.setdefault(parent_id, set()).add(process)

    def parent_came(self, span_id: bytes) -> None:
        """Note that a span has come; it may have been awaited."""
        self._awaited.pop(span_id, None)

    def forget_awaited(self) -> None:
        """Stop waiting for parents, because their processes have died."""
        self._awaited.clear()

    def going_on(self) -> bool:
        """Return whether a parent is still open in its process. So it is if the process has handed over more spans
        than its latest count, among them a child of that parent."""
        if not self._awaited:
            return False
        ahead = {process for process, count in list(self._came.items()) if count > self._expected.get(process, 0)}
        return any(not ahead.isdisjoint(processes) for processes in list(self._awaited.values()))

    def delivered(self, spans: int) -> bool:
        """Return whether every process that told its count has delivered that many. `spans`: how many the trace has.

        False if no process told its count since the trace was opened, and if nobody counts some spans.
        """
        if not self.marked or (self._uncounted(spans) and not self._unnamed):
            return False
        return not self.missing(spans)

    def missing(self, spans: int) -> int:
        """Return how many of the spans that processes say they handed over have not come. `spans`: how many have.

        Spans that name no process may belong to a process that only its markers name. They never stand in for the spans
        of a process that its spans name.
        """
        missing, spare = 0, self._uncounted(spans)
        for process, expected in list(self._expected.items()):
            of_process = max(0, expected - self._came.get(process, 0))
            if process in self._unnamed:
                count = min(of_process, spare)
                spare -= count
                of_process -= count
            missing += of_process
        return missing

    def _uncounted(self, spans: int) -> int:
        return spans - sum(list(self._came.values()))
