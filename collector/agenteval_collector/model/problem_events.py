"""Tell which findings of a trace are one event: a failure, and what followed from it.

One event is one problem. A finding follows from another one of the same trace if a row of `FOLLOWS` says so.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from otel_agenteval.detectors.rules import LOOP_KINDS, LoopKind
from otel_agenteval.finding import FindingKind

Row: TypeAlias = Mapping[Any, Any]
"""A finding: its `kind`, `turn`, `span_id`, `tool` and `shape`, empty where it has none."""


class Following(NamedTuple):
    """Findings of `kinds` follow from one of `causes` that is the same in `alike`; with `by_error`, their shapes are
    those of one error."""

    kinds: frozenset[str]
    causes: frozenset[str]
    alike: tuple[str, ...]
    by_error: bool = False


_FAILED: Final = frozenset[str]((FindingKind.TOOL_FAILED, FindingKind.MODEL_FAILED))
FOLLOWS: Final = (
    # A call that should not have been made like this fails.
    Following(
        frozenset((FindingKind.TOOL_FAILED,)),
        frozenset((FindingKind.UNKNOWN_TOOL, FindingKind.INVALID_ARGUMENTS)),
        ("turn", "span_id"),
    ),
    Following(frozenset((FindingKind.TURN_FAILED,)), _FAILED, ("turn",), by_error=True),
    # What fails is tried again.
    Following(frozenset((LoopKind.ERROR_STORM,)), _FAILED, ("turn", "tool")),
    Following(frozenset(LOOP_KINDS - {LoopKind.ERROR_STORM}), _FAILED, ("turn", "span_id")),
    # A loop is counted as repeated calls, too.
    Following(frozenset((FindingKind.REPEATED_CALL,)), frozenset(LOOP_KINDS), ("turn", "tool")),
)
"""The first row that finds a cause counts."""


def causes_of(findings: Sequence[Row]) -> list[int]:
    """Return for each finding of a trace the index of the one that it followed from, directly or not; its own index if
    it followed from none. The findings are in the order in which they happened."""
    direct = [_cause(findings, index) for index in range(len(findings))]
    return [_first(direct, index) for index in range(len(findings))]


def _cause(findings: Sequence[Row], index: int) -> int:
    finding = findings[index]
    for following in FOLLOWS:
        if finding["kind"] not in following.kinds:
            continue
        for number, other in enumerate(findings):
            if (
                other["kind"] in following.causes
                and all(finding[name] == other[name] for name in following.alike)
                and (not following.by_error or is_one_error(finding["shape"], other["shape"]))
            ):
                return number
    return index


def _first(direct: Sequence[int], index: int) -> int:
    # The causes of each row are of other kinds than those that follow from them, without a circle.
    while direct[index] != index:
        index = direct[index]
    return index


def is_one_error(shape: str, other: str) -> bool:
    """Return whether two shapes are of one error. One of them may leave out the type of the exception."""
    return bool(shape and other) and (shape == other or shape.endswith(f": {other}") or other.endswith(f": {shape}"))
