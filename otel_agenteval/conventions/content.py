"""Recorded messages. They are decoded and read only if somebody asks for them, and shared between model calls that
were sent the same."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, takewhile

from otel_agenteval.conventions.decoding import decode_json, is_cut, known_text
from otel_agenteval.conventions.messages import ASSISTANT, ChatMessage, Item, message_items, read_message, spoken_by
from otel_agenteval.conventions.python_repr import decode_repr
from otel_agenteval.conventions.words_digest import WordsDigest
from otel_agenteval.model import Json

# Words that smolagents and CrewAI put before and after those of the user.
_WRAPPERS = (
    ("New task:\n", ()),
    (
        "Current Task: ",
        (
            "\nThis is the expected criteria for your final answer:",
            "\nThis is the expect criteria for your final answer:",
            "\nBegin! This is VERY important to you",
        ),
    ),
)

ASKED = ("task", "input", "question", "query", "prompt", "user_input", "message")
"""Names of the argument of a program that is the user's words."""
# DSPy writes each input of a program below its name.
_DSPY_INPUT = re.compile(rf"\s*\[\[ ## (?:{'|'.join(ASKED)}) ## \]\]\n([\s\S]*?)\s*(?:\[\[ ## |Respond with the |\Z)")


_DSPY_FIELD, _DSPY_END = "[[ ## ", "[[ ## completed ## ]]"
_DSPY_OUTPUTS = re.compile(r"\[\[ ## (\w+) ## \]\]\n([\s\S]*?)\s*(?=\[\[ ## |\Z)")


@dataclass(slots=True)
class DecodedMessages:
    """Decoded items of a list of messages. `made` has the messages that were read from them so far, by position. None
    stands for an item that is no message.

    Contents that begin alike share one such object, which holds the items of the longest of them. So each content keeps
    the number of its own. `spoken` is a number of messages from the first one on, and the digest of their words.
    """

    items: list[Item]
    made: dict[int, ChatMessage | None] = field(default_factory=dict)
    spoken: tuple[int, WordsDigest] | None = None

    def gone_on(self, count: int, more: Sequence[Item]) -> "DecodedMessages":
        """Return the first `count` messages and `more`: in this object, unless it already goes on in another way."""
        if len(self.items) == count:
            self.items += more
            return self
        messages = {position: message for position, message in self.made.items() if position < count}
        return DecodedMessages([*self.items[:count], *more], messages)


class Content:
    """Recorded messages, each read when it is first asked for. A reader mostly needs the ends of a history."""

    __slots__ = ("_count", "_decoded", "_messages", "_read", "_since_user", "_strange", "array", "cut")

    def __init__(self, read: Callable[[], Sequence[Item]], *, cut: bool = False, array: str | None = None) -> None:
        self._read = read
        self._decoded: DecodedMessages | None = None
        self._count = 0
        self._messages: list[ChatMessage] | None = None
        self._since_user: list[ChatMessage] | None = None
        self._strange: set[int] = set()
        self.cut = cut
        """True if the text stops in the middle: there may have been more messages."""
        self.array = array
        """The recorded text, where it begins and ends like a JSON array."""

    @classmethod
    def recorded_as(cls, value: Json, role: str) -> "Content":
        """Return content of an attribute: message JSON, structured or as text, else plain text said by `role`."""
        is_array = isinstance(value, str) and value[:1] == "[" and value[-1:] == "]"
        return cls(lambda: message_items(value, role), cut=is_cut(value), array=str(value) if is_array else None)

    @classmethod
    def text(cls, text: str, role: str) -> "Content":
        """Return content of a single text message."""
        return cls(lambda: [ChatMessage(role=role, texts=[text])])

    @classmethod
    def answer_in(cls, value: Json) -> "Content | None":
        """Return content of an attribute that holds the text of an answer; None if no answer was recorded."""
        if text := known_text(value):
            return cls.text(text, ASSISTANT)
        return cls.nothing(ASSISTANT) if isinstance(value, str) and not value.strip() else None

    @classmethod
    def nothing(cls, role: str) -> "Content":
        """Return content of a single message that says nothing."""
        return cls(lambda: [ChatMessage(role=role, is_empty=True)])

    @property
    def unread(self) -> int:
        """The number of values that were looked at and are no messages."""
        return len(self._strange)

    def begin_again(self) -> None:
        """Begin to read again from the first value. Values stay decoded, except if the text was cut: reading those
        changes the last one."""
        self._messages, self._since_user, self._strange = None, None, set()
        if self.cut:
            self._decoded = None

    def go_on_from(self, earlier: "Content") -> None:
        """Take over the values that were read of `earlier`, if this content begins with it. A model is mostly sent all
        that it was sent before, and more."""
        earlier_array, array = earlier.array, self.array
        if self._decoded is not None or earlier_array is None or array is None or earlier is self:
            return
        end = len(earlier_array) - 1
        if array[end : end + 1] != "," or not array.startswith(earlier_array[:end]):
            return
        begun = earlier._decode()
        try:
            more = decode_json(f"[{array[end + 1 :]}")
        except ValueError:
            return
        if isinstance(more, list) and not (begun.items and begun.items[0] is earlier_array):
            self._decoded = begun.gone_on(earlier._count, more)
            self._count = earlier._count + len(more)

    @property
    def decoded(self) -> "DecodedMessages":
        """The decoded messages. Later contents may share the object, and then it has more messages than this
        content."""
        return self._decode()

    @property
    def messages(self) -> list[ChatMessage]:
        """The messages in order; if the text was cut, those that can be read."""
        if self._messages is None:
            self._messages = [*self._of(range(self._counted()))]
            if self.cut and self._messages:
                _drop_incomplete(self._messages[-1])
        return self._messages

    def first(self) -> ChatMessage | None:
        """Return the first message; None without any."""
        return next(iter(self.messages if self.cut else self._of(range(self._counted()))), None)

    def user_text(self) -> str | None:
        """Return the user's last words; None if they were cut off or not recorded."""
        if self.cut:
            return None
        for message in self._backwards():
            if message.begins_turn:
                return _unwrapped_words("\n".join(message.texts))
        return None

    def answer(self) -> str | None:
        """Return the text of the last message, if it is an answer: from the assistant and without tool requests. Empty
        if an empty answer was recorded; None if none was."""
        last = next(self._backwards(), None)
        return spoken_by(last) if last and last.role == ASSISTANT and not last.requests else None

    def since_user(self) -> list[ChatMessage]:
        """Return the messages after the user's last one: the steps of the present turn."""
        if self._since_user is None:
            steps = [*takewhile(lambda message: not message.begins_turn, self._backwards())]
            self._since_user = steps[::-1]
        return self._since_user

    def before_user(self) -> list[ChatMessage]:
        """Return the messages before the user's last one: the earlier turns."""
        until_user = [*dropwhile(lambda message: not message.begins_turn, self._backwards())]
        return until_user[:0:-1]

    def _backwards(self) -> Iterator[ChatMessage]:
        if self.cut or self._messages is not None:
            return reversed(self.messages)
        return self._of(range(self._counted() - 1, -1, -1))

    def _decode(self) -> "DecodedMessages":
        if self._decoded is None:
            self._decoded = DecodedMessages([*self._read()])
            self._count = len(self._decoded.items)
        return self._decoded

    def _counted(self) -> int:
        self._decode()
        return self._count

    def _of(self, positions: Iterable[int]) -> Iterator[ChatMessage]:
        """Yield the messages at these positions, each made when it is needed. Values that are no messages are left
        out."""
        return filter(None, map(self._message, positions))

    def _message(self, position: int) -> ChatMessage | None:
        recording = self._decode()
        messages = recording.made
        if position in messages:
            message = messages[position]
        else:
            item = recording.items[position]
            message = messages[position] = item if isinstance(item, ChatMessage) else read_message(item)
        if message is None:
            self._strange.add(position)
        return message


# What coding agents put before the user's words: Copilot CLI, Gemini CLI, Claude Code, Codex.
_CONTEXT = re.compile(r"<(current_datetime|session_context|system-reminder|environment_context|user_instructions)>")
_MOST_CONTEXTS = 8


def _without_context(text: str) -> str:
    rest = text
    for _ in range(_MOST_CONTEXTS):
        if not (begin := _CONTEXT.match(rest)) or (end := rest.find(mark := f"</{begin[1]}>")) < 0:
            break
        rest = rest[end + len(mark) :].lstrip()
    return rest or text


def _unwrapped_words(text: str) -> str:
    if text.startswith("<"):
        return _without_context(text)
    if match := _DSPY_INPUT.match(text):
        return match[1]
    if text.startswith("{'"):
        return _argument_in(text) or text
    for before, after in _WRAPPERS:
        if text.lstrip().startswith(before):
            words = text.lstrip().removeprefix(before)
            ends = [end for mark in after if (end := words.find(mark)) >= 0]
            if ends or not after:
                return words[: min(ends, default=len(words))].rstrip()
    return text


def unwrapped_answer(text: str) -> str:
    """Return the only field of a reply in DSPy's form that is no reasoning; any other text as it is."""
    if not text.startswith(_DSPY_FIELD) or _DSPY_END not in text:
        return text
    outputs = [value for name, value in _DSPY_OUTPUTS.findall(text) if name not in ("reasoning", "completed")]
    return outputs[0] if len(outputs) == 1 else text


def _argument_in(text: str) -> str | None:
    """Return the user's words in the arguments of a program, which are recorded as Python writes them."""
    try:
        arguments = decode_repr(text)
    except ValueError:
        return None
    values = [arguments.get(name) for name in ASKED] if isinstance(arguments, dict) else []
    return next((value for value in values if isinstance(value, str)), None)


def _drop_incomplete(message: ChatMessage) -> None:
    """Drop the last request or result if the text was cut. A text that was cut is still worth reading."""
    if message.requests:
        message.requests.pop()
    elif message.responses:
        message.responses.pop()
