"""Put into words what is known of senders' habits."""

from enum import StrEnum
from typing import Final

from agenteval_collector.model.senders import Awaited, Habit


class Usual(StrEnum):
    """The answer to whether a thing usually comes."""

    COMES = "comes"
    NEVER = "never comes"
    MIXED = "comes sometimes"
    UNKNOWN = "unknown"


_SEVERAL: Final = {Usual.COMES: "come", Usual.NEVER: "never come", Usual.MIXED: "come sometimes"}
"""The same of a plural."""


def described(habit: Habit, usual: Usual, history: str, *, set_by_hand: bool, is_named: bool = False) -> str:
    """Say whether the thing usually comes, and how that is known, without a full stop.

    `history` has the sender's last traces: "+" where it came, "-" where it did not. `is_named`: it was just named.
    """
    plural = habit.what is Awaited.LOGS
    it = "they" if plural else "it"
    subject = it if is_named else named(habit)
    if usual is Usual.UNKNOWN:
        said = f"it is not known whether {subject} {'come' if plural else 'comes'}"
    else:
        said = f"{subject} {_SEVERAL[usual] if plural else usual}"
    if set_by_hand:
        known = "so assembly.senders says"
    elif len(history) > 1:
        known = f"{it} came in {history.count('+')} of its last {len(history)} traces"
    elif history:
        known = f"{it} {'came' if history == '+' else 'did not come'} in its last trace"
    elif usual is Usual.UNKNOWN:
        known = "none of its traces was complete before"
    else:
        known = "its instrumentation is known for that"
    return f"{said}: {known}"


def named(habit: Habit) -> str:
    """Return the thing and the spans after which it comes, as the subject of a sentence."""
    sender = habit.sender
    service, scope = sender.service or "a service without a name", sender.scope or "no scope"
    return f"the {habit.what} of {sender.operation or 'unnamed'} spans of {service} ({scope})"
