"""The dialects that are read: one for each module of the package `dialects`, found by listing it."""

from collections.abc import Collection, Iterator, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from otel_agenteval.conventions import dialects
from otel_agenteval.conventions.dialect import AttributeKeys, Dialect, merged
from otel_agenteval.conventions.spans import LogRecord, SpanRecord


def _found() -> Iterator[Dialect]:
    for module in iter_modules(dialects.__path__, f"{dialects.__name__}."):
        for value in vars(import_module(module.name)).values():
            # A module also holds the dialects that it imports; those are found in their own module.
            if isinstance(value, type) and issubclass(value, Dialect) and value.__module__ == module.name:
                yield value()


def _place(dialect: Dialect) -> tuple[int, str]:
    return dialect.rank, dialect.name


DIALECTS: Final[tuple[Dialect, ...]] = tuple(sorted(_found(), key=_place))
"""All dialects, in the order in which they are believed."""

LOOKING: Final = tuple(dialect for dialect in DIALECTS if type(dialect).recognises is not Dialect.recognises)
"""The dialects that look at each span themselves."""
_MARKED: Final = {mark: dialect for dialect in DIALECTS if dialect not in LOOKING for mark in dialect.marks}
_NAMED: Final = {name: dialect for dialect in DIALECTS if dialect not in LOOKING for name in dialect.names}
"""The others, by their marks and names."""


def speaking(span: SpanRecord, logs: Sequence[LogRecord]) -> list[Dialect]:
    """Return the dialects that recognise a span, in the order in which they are believed."""
    dialects = [dialect for dialect in LOOKING if dialect.recognises(span, logs)]
    marks = span.attributes.keys() & _MARKED.keys()
    if marks or span.name in _NAMED:
        others = {_MARKED[mark] for mark in marks}
        if span.name in _NAMED:
            others.add(_NAMED[span.name])
        dialects = sorted([*dialects, *others], key=_place)
    return dialects


KEYS: Final[AttributeKeys] = merged(
    dialect.keys for dialect in sorted(DIALECTS, key=lambda dialect: not dialect.is_common)
)
"""The attributes of all dialects. Those of the GenAI conventions come first."""


def content_switch(names: Collection[str]) -> str | None:
    """Return advice for a trace that lacks content and was read by the dialects `names`; None if there is none."""
    spoken = [dialect for dialect in DIALECTS if dialect.name in names]
    # Beside a vendor's dialect, its own switch is the right one.
    own = [dialect for dialect in spoken if not dialect.is_common]
    return next((dialect.content_switch for dialect in (*own, *spoken) if dialect.content_switch), None)
