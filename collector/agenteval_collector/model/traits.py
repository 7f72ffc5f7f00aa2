"""Traits of traces: what the traces with a problem may have in common."""

from typing import NamedTuple


class Trait(NamedTuple):
    """What a trace has: a `kind` such as version, tool or model, and its value."""

    kind: str
    value: str


class TracedTraits(NamedTuple):
    """The traits of a trace, and its session."""

    session_id: str
    traits: frozenset[Trait]


class CommonTrait(NamedTuple):
    """A trait of `sessions` of those with the problem, and of `others` of those without it.

    It `stands_out` if it is more frequent in the former than chance explains.
    """

    trait: Trait
    sessions: int
    others: int
    stands_out: bool


class Common(NamedTuple):
    """Common traits of `sessions` sessions with a problem, beside `others` without it."""

    sessions: int
    others: int
    traits: list[CommonTrait]
