"""Learn the habits of senders: whether the parents of their spans come, and whether log records do.

They are learned from each sender's own last traces. Pure and bounded: a new habit replaces the one that has learned
nothing for longest.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenteval_collector.config.settings import SenderConfig
from agenteval_collector.model.logged_requests import Origin
from agenteval_collector.model.senders import Awaited, Habit, Sender
from otel_agenteval.internal.lru import LruMap
from otel_agenteval.semconv import GEN_AI_OPERATION_NAME

CAPACITY: Final = 10_000
"""Habits that are kept at most."""
LAST: Final = 8
"""The last traces of a sender, by which a habit is judged."""
FEW: Final = 2
"""Traces without a thing after which it is taken to never come."""
MAX_NAME: Final = 200
"""Characters of a name in a habit."""

WRITES_LOGS: Final = frozenset({"opentelemetry.instrumentation.openai_v2"})
"""Scopes that are known to put the content of model calls into log records."""
MODEL_CALLS: Final = frozenset({"chat", "text_completion", "generate_content"})
"""Operations whose content may be in log records."""

_ALWAYS: Final = "+" * LAST
_OPERATION = GEN_AI_OPERATION_NAME.encode()
# Names of attributes and events that hold content, in every dialect, the most frequent ones first. The last is too
# short to stand alone, and has its length before it, as in a serialized key.
_CONTENT = (
    b"gen_ai.input.messages", b"gen_ai.output.messages", b"gen_ai.prompt", b"gen_ai.completion", b"gen_ai.choice",
    b"gen_ai.content.", b"gen_ai.event.content", b"gen_ai.client.inference.operation.details", b"gen_ai.user.message",
    b"input.value", b"output.value", b"llm.input_messages", b"llm.output_messages", b"llm.openai.messages",
    b"traceloop.entity.", b"ai.prompt", b"ai.response.text", b"ai.response.object", b"ai.response.toolCalls",
    b"langfuse.observation.input", b"langfuse.observation.output", b"mlflow.spanInputs", b"mlflow.spanOutputs",
    b"gcp.vertex.agent.llm_re", b"all_messages", b"request_data", b"response_data", b"\n\x06events",
)  # fmt: skip


class Usual(StrEnum):
    """The answer to whether a thing usually comes."""

    COMES = "comes"
    NEVER = "never comes"
    MIXED = "comes sometimes"
    UNKNOWN = "unknown"


_SEVERAL: Final = {Usual.COMES: "come", Usual.NEVER: "never come", Usual.MIXED: "come sometimes"}
"""The same words if the things that come are several."""


class Habits:
    """The habits of spans of one name. Those of parents are sets with one habit, as `Awaiting` joins them.

    `may_be_bare`: the spans call models, and none was seen with its content. `may_log`: log records may follow them.
    """

    __slots__ = ("logs", "may_be_bare", "may_log", "parent", "parent_of_failed", "remote_parent")

    def __init__(self, sender: Sender, *, may_log: bool) -> None:
        self.parent = frozenset({Habit(sender, Awaited.PARENT)})
        self.parent_of_failed = frozenset({Habit(sender, Awaited.PARENT_OF_FAILED)})
        self.remote_parent = frozenset({Habit(sender, Awaited.REMOTE_PARENT)})
        self.logs = Habit(sender, Awaited.LOGS)
        self.may_be_bare = sender.operation in MODEL_CALLS
        self.may_log = may_log


class Senders:
    """The habits of all senders. `learned` are those of an earlier process by `Habit.digest`, `rules` the settings by
    service.

    For one thread, but for `describe`.
    """

    def __init__(
        self,
        learned: Iterable[tuple[str, str]] = (),
        rules: Mapping[str, SenderConfig] | None = None,
        *,
        capacity: int = CAPACITY,
    ) -> None:
        self._rules = dict(rules or {})
        self._capacity = capacity
        # By digest, as the store keeps them.
        self._changed: dict[str, str] = {}
        # Made once: many spans share a name.
        self._named: dict[tuple[str, ...], Habits] = {}
        # By habit, the last traces, oldest first: "+" if the thing came, "-" if it did not.
        self._histories: LruMap[Habit, str] = LruMap(capacity)
        # Service and scope of those whose spans log records may follow.
        self._logging: set[tuple[str, ...]] = set()
        # By digest: those of an earlier process whose spans have not come to this one.
        self._learned = dict(learned)
        for digest in list(self._learned)[capacity:]:
            del self._learned[digest]
            self._changed[digest] = ""

    def habits(self, span: Span, raw: bytes, origin: Origin, tenant: str) -> Habits:
        """Return the habits of the span's sender; `raw` is the span as bytes.

        Spans of one name are taken to be of one operation, so that it is looked for once.
        """
        key = (span.name, origin.scope, origin.service, tenant)
        habits = self._named.get(key)
        if habits is None:
            if len(self._named) >= self._capacity:
                self._named.clear()
            sender = _sender(span, raw, origin, tenant)
            for what in Awaited:
                self._take_up(Habit(sender, what))
            habits = self._named[key] = Habits(sender, may_log=self.may_log(tenant, origin))
        return habits

    def usual(self, habit: Habit) -> Usual:
        """Return whether the thing usually comes: by the settings, else as it was learned, else as it is known of the
        scope."""
        rule = self._rule(habit)
        if rule is not None:
            return Usual.COMES if rule else Usual.NEVER
        history = self._history(habit)
        if not history:
            return Usual.COMES if _known_of_scope(habit) else Usual.UNKNOWN
        missed = history.count("-")
        if missed == len(history):
            return Usual.NEVER if missed >= FEW else Usual.UNKNOWN
        # One trace in four may be cut short: agents die.
        return Usual.COMES if 4 * missed <= len(history) else Usual.MIXED

    def may_log(self, tenant: str, origin: Origin) -> bool:
        """Return whether log records may follow spans of this origin."""
        if origin.scope in WRITES_LOGS or (self._logging and (tenant, origin.service, origin.scope) in self._logging):
            return True
        return bool(self._rules) and bool((rules := self._rules.get(origin.service)) and rules.logs)

    def came(self, habit: Habit, *, after_all: bool = False) -> None:
        """Note that the thing came. `after_all`: `missed` was called for the same trace before."""
        history = self._history(habit)
        if after_all:
            # Take back the newest miss: the thing was only slow.
            before, _, behind = history.rpartition("-")
            history = before + behind
        elif history == _ALWAYS:
            self._histories.get(habit)
            return
        self._keep(habit, history + "+")

    def missed(self, habit: Habit) -> None:
        """Note that the thing did not come with its trace."""
        self._keep(habit, self._history(habit) + "-")

    def describe(self, habit: Habit, *, is_named: bool = False) -> str:
        """Return a clause without a full stop: whether the parent or log record usually comes, and how that is known.

        `is_named`: the sentence before names it, so the clause says "it". Safe from any thread.
        """
        history = self._history(habit)
        by_hand = self._rule(habit) is not None
        return _described(habit, self.usual(habit), history, set_by_hand=by_hand, is_named=is_named)

    def unsaved(self) -> dict[str, str]:
        """Return the histories that have changed since they were saved, by digest; empty for a habit that is
        forgotten."""
        return dict(self._changed)

    def saved(self, histories: Mapping[str, str]) -> None:
        """Note that these histories were saved."""
        for digest, history in histories.items():
            if self._changed.get(digest) == history:
                del self._changed[digest]

    def _history(self, habit: Habit) -> str:
        """Return the last traces of a habit, also those that an earlier process has seen; empty if there are none. Safe
        from any thread."""
        history = self._histories.peek(habit)
        return self._learned.get(habit.digest, "") if history is None and self._learned else history or ""

    def _take_up(self, habit: Habit) -> None:
        """Go on with what an earlier process has learned of a habit."""
        if self._learned and (history := self._learned.pop(habit.digest, None)) is not None:
            self._remember(habit, history)

    def _rule(self, habit: Habit) -> bool | None:
        rules = self._rules.get(habit.sender.service)
        if rules is None:
            return None
        if habit.what is Awaited.LOGS:
            return rules.logs and habit.sender.operation in MODEL_CALLS if rules.logs is not None else None
        if habit.what is Awaited.REMOTE_PARENT:
            return None if rules.remote_parents is None else rules.remote_parents == "wait"
        return False if habit.sender.operation in rules.outermost else None

    def _keep(self, habit: Habit, history: str) -> None:
        history = history[-LAST:]
        self._take_up(habit)
        if self._histories.peek(habit) != history:
            self._changed[habit.digest] = history
        self._remember(habit, history)

    def _remember(self, habit: Habit, history: str) -> None:
        if habit.what is Awaited.LOGS and habit.sender[:3] not in self._logging:
            self._logging.add(habit.sender[:3])
            self._named.clear()
        for forgotten in self._histories.put(habit, history):
            self._changed[forgotten.digest] = ""
            if forgotten.sender[:3] in self._logging:
                self._logging.discard(forgotten.sender[:3])
                self._named.clear()


def _known_of_scope(habit: Habit) -> bool:
    sender = habit.sender
    return habit.what is Awaited.LOGS and sender.scope in WRITES_LOGS and sender.operation in MODEL_CALLS


def _sender(span: Span, raw: bytes, origin: Origin, tenant: str) -> Sender:
    operation = ""
    # Searching bytes is far cheaper than walking attributes.
    if _OPERATION in raw:
        operation = next((a.value.string_value for a in span.attributes if a.key == GEN_AI_OPERATION_NAME), "")
    name = operation or span.name.partition(" ")[0]
    return Sender(tenant, origin.service[:MAX_NAME], origin.scope[:MAX_NAME], name[:MAX_NAME])


def lacks_content(raw: bytes) -> bool:
    """Return whether a serialized span of a model call has no content; False if it does not name its operation."""
    # Searching bytes is far cheaper than walking attributes.
    for name in _CONTENT:
        if name in raw:
            return False
    return _OPERATION in raw


def _described(habit: Habit, usual: Usual, history: str, *, set_by_hand: bool, is_named: bool = False) -> str:
    """Say whether the thing usually comes, and how that is known, without a full stop.

    `history` has the sender's last traces: "+" if it came, "-" if it did not. `is_named`: it was just named.
    """
    plural = habit.what is Awaited.LOGS
    it = "they" if plural else "it"
    subject = it if is_named else named(habit)
    if usual is Usual.UNKNOWN:
        sentence = f"it is not known whether {subject} {'come' if plural else 'comes'}"
    else:
        sentence = f"{subject} {_SEVERAL[usual] if plural else usual}"
    if set_by_hand:
        why = "so assembly.senders says"
    elif len(history) > 1:
        why = f"{it} came in {history.count('+')} of its last {len(history)} traces"
    elif history:
        why = f"{it} {'came' if history == '+' else 'did not come'} in its last trace"
    elif usual is Usual.UNKNOWN:
        why = "none of its traces was complete before"
    else:
        why = "its instrumentation is known for that"
    return f"{sentence}: {why}"


def named(habit: Habit) -> str:
    """Return the thing and the spans after which it comes, as the subject of a sentence."""
    sender = habit.sender
    service, scope = sender.service or "a service without a name", sender.scope or "no scope"
    return f"the {habit.what} of {sender.operation or 'unnamed'} spans of {service} ({scope})"
