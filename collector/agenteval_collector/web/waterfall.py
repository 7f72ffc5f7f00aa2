"""The waterfall of a trace: which of its spans are shown, in which order, and where their bars lie. Pure.

A trace may have thousands of spans. At most `ROWS` are shown at a time: those with findings and errors first, with the
spans around them, then level by level. Each row says how many spans under it are left out, and they can be asked for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Final, NamedTuple

from agenteval_collector.api.spans import SpanQueries, SpanTree, has_failed
from agenteval_collector.api.trace_documents import FindingDocument, SpanItem
from agenteval_collector.api.wire import hex_id
from agenteval_collector.runtime.errors import InvalidRequest
from otel_agenteval.conventions.tree import Node

ROWS: Final = 250
"""Spans on a page at most."""
BESIDE: Final = 150
"""Of these, spans side by side under the one that was asked for at most; what is left is for spans under them."""
LEVELS: Final = 24
"""Levels of spans on a page at most: browsers and people give up on deeper ones."""
WIDTH: Final = 1000.0
"""Of the time axis, in its own units."""
LEAST: Final = 3.0
"""Width of the shortest bar: one that takes no time can still be seen."""


class Focus(NamedTuple):
    """The spans to show: those `below` one of them, from child number `start` on; with one span `opened`."""

    below: str | None = None
    start: int = 0
    opened: str | None = None


WHOLE: Final = Focus()
"""Nothing is asked for but the trace."""


class Bar(NamedTuple):
    """The place of a span on the time axis, in the units of `WIDTH`."""

    x: float
    width: float


class SpanRow(NamedTuple):
    """A span as it is shown. `level` is 0 for the outermost of the page, `hidden` the number of spans under it that are
    left out, `closes` how many spans around it end with it. `is_parent`: spans under it are shown."""

    span: SpanItem
    findings: Sequence[FindingDocument]
    level: int
    hidden: int
    closes: int
    is_parent: bool
    bar: Bar


class Waterfall(NamedTuple):
    """The rows of a page. `around` are the spans around what is shown, the outermost first. `next_start` is the number
    of the child to go on with, None where all are shown. `seconds` is the length of the time axis."""

    rows: Sequence[SpanRow]
    around: Sequence[tuple[str, str]]
    next_start: int | None
    span_count: int
    unsorted: int
    seconds: float


def focus_of(asked: Mapping[str, str]) -> Focus:
    """Return what the parameters `below`, `from` and `span` of an address ask for. Raises InvalidRequest that names the
    one that is wrong."""
    below, opened = (hex_id(name, asked[name], 16) if asked.get(name) else None for name in ("below", "span"))
    start = asked.get("from") or "0"
    if not (start.isascii() and start.isdecimal() and len(start) <= 9):
        raise InvalidRequest(f"from is {start[:64]!r}, not the number of a span")
    return Focus(below, int(start), opened)


def waterfall(queries: SpanQueries, tree: SpanTree, findings: Iterable[FindingDocument], focus: Focus) -> Waterfall:
    """Lay out the spans that are asked for; an unknown span in `focus` stands for none."""
    found = _by_span(findings)
    top = _top(tree, focus)
    beside = tree.roots if top is None else top.children
    window = beside[focus.start : focus.start + BESIDE]
    chosen = _chosen(window, islice(_wanted(tree, found, focus.opened), ROWS))
    outermost = window if top is None else [top]
    axis = _Axis.of(outermost)
    shown = list(_shown(outermost, chosen))
    levels = [level for _, level in shown]
    rows = [
        SpanRow(
            queries.item(tree, node),
            found.get(node.id, ()),
            level,
            hidden=tree.below(node) - sum(1 + tree.below(each) for each in node.children if each.id in chosen),
            closes=max(0, level - following),
            is_parent=following > level,
            bar=axis.bar(node),
        )
        for (node, level), following in zip(shown, [*levels, 0][1:], strict=True)
    ]
    after = focus.start + BESIDE
    return Waterfall(
        rows=rows,
        around=[] if top is None else [(each.id, each.span.name) for each in [*top.above()][::-1]],
        next_start=after if after < len(beside) else None,
        span_count=len(tree.nodes),
        unsorted=tree.left_out,
        seconds=axis.length / 1e9,
    )


class _Axis(NamedTuple):
    """The time axis, in nanoseconds."""

    begun: int
    length: int

    @classmethod
    def of(cls, outermost: Sequence[Node]) -> "_Axis":
        """Make the axis on which all spans at and under these lie."""
        spans = [node.span for each in outermost for node in each.below()]
        begun = min((span.started_at for span in spans), default=0)
        return cls(begun, max((span.ended_at - begun for span in spans), default=0))

    def bar(self, node: Node) -> Bar:
        scale = WIDTH / max(1, self.length)
        x = min((node.span.started_at - self.begun) * scale, WIDTH - LEAST)
        length = max(0, node.span.ended_at - node.span.started_at) * scale
        return Bar(round(x, 1), round(min(max(length, LEAST), WIDTH - x), 1))


def _by_span(findings: Iterable[FindingDocument]) -> Mapping[str, list[FindingDocument]]:
    found: dict[str, list[FindingDocument]] = {}
    for finding in findings:
        if finding["span_id"] is not None:
            found.setdefault(finding["span_id"], []).append(finding)
    return found


def _top(tree: SpanTree, focus: Focus) -> Node | None:
    """Return the span whose inside is shown; None for the whole trace. A span that is opened far inside is shown with
    the nearest spans around it."""
    top, opened = (tree.nodes.get(each or "") for each in (focus.below, focus.opened))
    if top is not None or opened is None or opened.depth < LEVELS:
        return top
    return next(islice(opened.above(), LEVELS // 2, None))


def _wanted(tree: SpanTree, found: Mapping[str, object], opened: str | None) -> Iterator[Node]:
    """Yield the spans that are shown before others: the one that is opened, those with findings, those that failed."""
    yield from (tree.nodes[each] for each in (opened or "", *found) if each in tree.nodes)
    yield from (node for node in tree.nodes.values() if has_failed(node))


def _chosen(window: Sequence[Node], wanted: Iterable[Node]) -> set[str]:
    """Return the ids of the spans that are shown: all of the `window` of spans side by side, and others under them as
    far as there is room."""
    beside = {node.id for node in window}
    chosen = set(beside)
    for node in wanted:
        inside = [*takewhile(lambda each: each.id not in beside, (node, *node.above()))]
        is_under = len(inside) <= node.depth and len(inside) < LEVELS
        if is_under and len(chosen.union(each.id for each in inside)) <= ROWS:
            chosen.update(each.id for each in inside)
    level = list(window)
    for _ in range(LEVELS - 1):
        level = [child for node in level if node.id in chosen for child in node.children]
        chosen.update(node.id for node in [each for each in level if each.id not in chosen][: ROWS - len(chosen)])
    return chosen


def _shown(outermost: Iterable[Node], chosen: set[str]) -> Iterator[tuple[Node, int]]:
    """Yield the chosen spans with their levels, each before those under it."""
    pending = [(node, 0) for node in reversed([*outermost])]
    while pending:
        node, level = pending.pop()
        yield node, level
        pending += [(child, level + 1) for child in reversed(node.children) if child.id in chosen]
