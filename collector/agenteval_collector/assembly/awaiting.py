"""Track the parents and log records of a trace that have not come, and the habits that say whether they will."""

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from agenteval_collector.assembly.senders import Habits, Senders, Usual, lacks_content
from agenteval_collector.model.logged_requests import Origin
from agenteval_collector.model.senders import Habit

# Bits of `Span.flags`: whether the parent is remote is known, and whether it is.
_FLAGS_KNOWN, _REMOTE = 0x100, 0x200
_ENTERED = (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CONSUMER)
# Looked up once: the look-up takes longer than all other work on a span here.
_ERROR = Status.STATUS_CODE_ERROR
_NOBODY: frozenset[Habit] = frozenset()


class Awaiting:
    """The parents and log records of one trace that have not come. Ids are span ids."""

    __slots__ = ("_answered", "_came", "_logged", "_parents", "_senders", "_tenant", "_told")

    def __init__(self, tenant: str, senders: Senders) -> None:
        self._tenant = tenant
        self._senders = senders
        # Parents that have not come, each with the habits of its children.
        self._parents: dict[bytes, frozenset[Habit]] = {}
        self._came = _NOBODY
        # The spans that log records may follow, and the spans whose record with the answer has come.
        self._logged: dict[bytes, Habit] | None = None
        self._answered: set[bytes] | None = None
        # The habits that were taught, with whether the thing had come.
        self._told: dict[Habit, bool] | None = None

    def add(self, span: Span, span_id: bytes, raw: bytes, origin: Origin, missing_parent: bytes | None) -> None:
        """Take a span; `raw` is the span as bytes. `missing_parent` is the id of its parent, if that has not
        come."""
        parents = self._parents
        if span_id in parents:
            self._came |= parents.pop(span_id)
        is_counted = origin.process is not None
        # The count of a process says whether its own spans are there; no habit has to.
        if is_counted and (missing_parent is None or not _has_remote_parent(span)):
            if not self._senders.may_log(self._tenant, origin):
                return
            missing_parent = None
        habits = self._senders.habits(span, raw, origin, self._tenant)
        if missing_parent is not None:
            habit = _of_parent(span, habits)
            children = parents.get(missing_parent)
            # One set is shared by all parents that are awaited by this habit alone.
            parents[missing_parent] = habit if children is None or children is habit else children | habit
        # A failed call has no answer, and a process that counts its spans is never waited for.
        if habits.may_be_bare and not is_counted and span.status.code != _ERROR:
            if lacks_content(raw):
                self._expect_logs(span_id, habits.logs)
                return
            # Spans of this name have their content: no further one has to be searched for it.
            habits.may_be_bare = False
        if habits.may_log and self._senders.usual(habits.logs) is not Usual.UNKNOWN:
            self._expect_logs(span_id, habits.logs)

    def answered(self, span_id: bytes) -> None:
        """Note that the log record with the answer of the span's model is there."""
        if self._answered is None:
            self._answered = set()
        self._answered.add(span_id)

    def missing(self) -> frozenset[Habit]:
        """Return the habits of all parents and log records that have not come. Safe from any thread."""
        if not self._parents and self._logged is None:
            return _NOBODY
        return self._logs(answered=False).union(*list(self._parents.values()))

    @property
    def came(self) -> frozenset[Habit]:
        """The habits behind the parents that came after their children."""
        return self._came

    def followed_by_logs(self) -> list[bytes]:
        """Return the spans that log records have followed although no habit said so."""
        if self._answered is None:
            return []
        return [span_id for span_id in self._answered if span_id not in (self._logged or ())]

    def expect_logs(self, span: Span, raw: bytes, origin: Origin) -> None:
        """Note that log records may follow the span."""
        self._expect_logs(span.span_id, self._senders.habits(span, raw, origin, self._tenant).logs)

    def learn(self) -> None:
        """Note in the senders' habits what came and what did not. Call this when the trace is complete. Each thing is
        noted once, and again if it comes after all."""
        if not self._came and not self._parents and self._logged is None:
            return
        told = self._told = self._told or {}
        answered = self._logs(answered=True)
        for habit in self._came | answered if answered else self._came:
            if not told.get(habit, False):
                self._senders.came(habit, after_all=habit in told)
                told[habit] = True
        for habit in self.missing():
            if habit in told or habit in answered:
                continue
            self._senders.missed(habit)
            told[habit] = False

    def told_before(self) -> None:
        """Note that the senders' habits already hold what came so far, because the trace was complete before."""
        self._told = {**dict.fromkeys(self.missing(), False), **dict.fromkeys(self._came, True)}

    def _expect_logs(self, span_id: bytes, habit: Habit) -> None:
        if self._logged is None:
            self._logged = {}
        self._logged[span_id] = habit

    def _logs(self, *, answered: bool) -> frozenset[Habit]:
        """Return the habits of the spans that log records may follow, and that have or have not been `answered`."""
        if self._logged is None:
            return _NOBODY
        answers = self._answered or ()
        return frozenset(habit for span_id, habit in list(self._logged.items()) if (span_id in answers) is answered)


def _has_remote_parent(span: Span) -> bool:
    # Without flags, a span that enters a process is taken to have its parent in another one.
    flags = span.flags
    return bool(flags & _REMOTE) if flags & _FLAGS_KNOWN else span.kind in _ENTERED


def _of_parent(span: Span, habits: Habits) -> frozenset[Habit]:
    if _has_remote_parent(span):
        return habits.remote_parent
    return habits.parent_of_failed if span.status.code == _ERROR else habits.parent
