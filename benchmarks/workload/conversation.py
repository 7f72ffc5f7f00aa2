"""A conversation with an agent, in one form for all its sources."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call and its result. `arguments` is JSON text. The result of a failed call starts with "Error"."""

    call_id: str
    name: str
    arguments: str
    result: str

    @property
    def failed(self) -> bool:
        return self.result.startswith("Error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model call: its text (None: it said nothing), and the tool calls that it asked for."""

    text: str | None
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of the user, and everything that the agent did about it. A turn becomes one trace."""

    question: str
    steps: tuple[Step, ...]

    @property
    def answer(self) -> str | None:
        """The last text of the agent; None if it said nothing."""
        return next((step.text for step in reversed(self.steps) if step.text), None)

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(call for step in self.steps for call in step.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One session, which is one run of a task. `success` is what its user would report."""

    session_id: str
    task_id: str
    run_id: str
    success: bool
    turns: tuple[Turn, ...]

    @property
    def span_count(self) -> int:
        """The number of its spans: one for each turn, model call and tool call."""
        return sum(1 + len(turn.steps) + len(turn.calls) for turn in self.turns)
