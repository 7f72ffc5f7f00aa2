"""The waterfall of a trace: its shown spans, their order, and the places of their bars. The functions are pure.

A trace may have thousands of spans. A page shows at most `ROWS` of them: first those with findings and errors, with the
spans around them, then the others level by level. Each row has the number of spans under it that are left out, and a
reader can ask for these.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Final, NamedTuple

from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.spans import SpanQueries, SpanTree, has_failed
from agenteval_collector.serve.api.trace_documents import FindingDocument, SpanItem
from agenteval_collector.serve.api.wire import hex_id
from otel_agenteval.conventions.tree import Node

ROWS: Final = 250
"""The most spans on a page."""
BESIDE: Final = 150
"""The most spans side by side on a page. The rest of `ROWS` is for the spans under them."""
LEVELS: Final = 24
"""The most levels of spans on a page. Browsers and people give up on deeper ones."""
WIDTH: Final = 1000.0
"""Width of the time axis, in its own units."""
LEAST: Final = 3.0
"""Width of the shortest bar, so that a span that takes no time can still be seen."""


class Focus(NamedTuple):
    """The spans to show: those below the span `below`, from its child number `start` on. The span `opened` is open.

    If `below` is None, the whole trace is shown.
    """

    below: str | None = None
    start: int = 0
    opened: str | None = None


WHOLE: Final = Focus()
"""The focus on a whole trace, with no span opened."""


class Bar(NamedTuple):
    """The place of a span on the time axis, in the units of `WIDTH`."""

    x: float
    width: float


class SpanRow(NamedTuple):
    """A span as a row of the page.

    `level` is 0 for the outermost spans of the page. `hidden` is the number of spans under it that are left out.
    `closes` is the number of spans around it whose rows end with this one. `is_parent` is True if spans under it are
    shown.
    """

    span: SpanItem
    findings: Sequence[FindingDocument]
    level: int
    hidden: int
    closes: int
    is_parent: bool
    bar: Bar


class Waterfall(NamedTuple):
    """The rows of a page.

    `around` holds the spans around the shown ones, the outermost first. `next_start` is the number of the child that
    the next page begins with; None if all are shown. `seconds` is the length of the time axis.
    """

    rows: Sequence[SpanRow]
    around: Sequence[tuple[str, str]]
    next_start: int | None
    span_count: int
    unsorted: int
    seconds: float


def focus_of(parameters: Mapping[str, str]) -> Focus:
    """Read the focus from the parameters `below`, `from` and `span` of an address.

    Raises InvalidRequest, which names the wrong parameter.
    """
    below, opened = (hex_id(name, parameters[name], 16) if parameters.get(name) else None for name in ("below", "span"))
    start = parameters.get("from") or "0"
    if not (start.isascii() and start.isdecimal() and len(start) <= 9):
        raise InvalidRequest(f"from is {start[:64]!r}, not the number of a span")
    return Focus(below, int(start), opened)


def waterfall(queries: SpanQueries, tree: SpanTree, findings: Iterable[FindingDocument], focus: Focus) -> Waterfall:
    """Lay out the spans in the focus. A span in `focus` that the trace does not have counts as None."""
    by_span = _by_span(findings)
    top = _top(tree, focus)
    beside = tree.roots if top is None else top.children
    window = beside[focus.start : focus.start + BESIDE]
    chosen = _chosen(window, islice(_wanted(tree, by_span, focus.opened), ROWS))
    outermost = window if top is None else [top]
    axis = _Axis.of(outermost)
    nodes = list(_shown(outermost, chosen))
    levels = [level for _, level in nodes]
    rows = [
        SpanRow(
            queries.item(tree, node),
            by_span.get(node.id, ()),
            level,
            # Spans under a shown child count in the row of that child.
            hidden=tree.below(node) - sum(1 + tree.below(child) for child in node.children if child.id in chosen),
            closes=max(0, level - following),
            is_parent=following > level,
            bar=axis.bar(node),
        )
        for (node, level), following in zip(nodes, [*levels, 0][1:], strict=True)
    ]
    after = focus.start + BESIDE
    return Waterfall(
        rows=rows,
        around=[] if top is None else [(node.id, node.span.name) for node in [*top.above()][::-1]],
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
        """Make the axis that all these spans, and all spans under them, lie on."""
        spans = [node.span for outer in outermost for node in outer.below()]
        begun = min((span.started_at for span in spans), default=0)
        return cls(begun, max((span.ended_at - begun for span in spans), default=0))

    def bar(self, node: Node) -> Bar:
        scale = WIDTH / max(1, self.length)
        # A bar at the end of the axis moves left, so that it keeps the least width.
        x = min((node.span.started_at - self.begun) * scale, WIDTH - LEAST)
        length = max(0, node.span.ended_at - node.span.started_at) * scale
        return Bar(round(x, 1), round(min(max(length, LEAST), WIDTH - x), 1))


def _by_span(findings: Iterable[FindingDocument]) -> Mapping[str, list[FindingDocument]]:
    by_span: dict[str, list[FindingDocument]] = {}
    for finding in findings:
        if finding["span_id"] is not None:
            by_span.setdefault(finding["span_id"], []).append(finding)
    return by_span


def _top(tree: SpanTree, focus: Focus) -> Node | None:
    """Return the span at the top of the page; None for the whole trace.

    If the opened span lies deeper than `LEVELS`, the top is one of the spans around it, half of `LEVELS` above.
    """
    top, opened = (tree.nodes.get(span_id or "") for span_id in (focus.below, focus.opened))
    if top is not None or opened is None or opened.depth < LEVELS:
        return top
    return next(islice(opened.above(), LEVELS // 2, None))


def _wanted(tree: SpanTree, by_span: Mapping[str, object], opened: str | None) -> Iterator[Node]:
    """Yield the spans that are shown before others: the opened span, those with findings, and those that failed."""
    yield from (tree.nodes[span_id] for span_id in (opened or "", *by_span) if span_id in tree.nodes)
    yield from (node for node in tree.nodes.values() if has_failed(node))


def _chosen(window: Sequence[Node], wanted: Iterable[Node]) -> set[str]:
    """Return the ids of the shown spans: all spans of the `window`, which lie side by side, and spans under them.

    Wanted spans come first, then the others level by level, until the page has `ROWS` spans or `LEVELS` levels.
    """
    beside = {node.id for node in window}
    chosen = set(beside)
    for node in wanted:
        # A wanted span is only shown together with all spans between it and the window.
        inside = [*takewhile(lambda node: node.id not in beside, (node, *node.above()))]
        is_under = len(inside) <= node.depth and len(inside) < LEVELS
        if is_under and len(chosen.union(node.id for node in inside)) <= ROWS:
            chosen.update(node.id for node in inside)
    level = list(window)
    for _ in range(LEVELS - 1):
        level = [child for node in level if node.id in chosen for child in node.children]
        chosen.update(node.id for node in [node for node in level if node.id not in chosen][: ROWS - len(chosen)])
    return chosen


def _shown(outermost: Iterable[Node], chosen: set[str]) -> Iterator[tuple[Node, int]]:
    """Yield the chosen spans with their levels. Each span comes before those under it."""
    # The stack is filled in reverse, because its last entry is taken first.
    pending = [(node, 0) for node in reversed([*outermost])]
    while pending:
        node, level = pending.pop()
        yield node, level
        pending += [(child, level + 1) for child in reversed(node.children) if child.id in chosen]
