"""Fill JSON documents from the attributes of objects."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar, cast

from agenteval_collector.runtime.times import rfc3339

_PLAIN: Final = frozenset((str, int, float, bool))

Document = TypeVar("Document")


def document(kind: type[Document], source: object, /, **values: Any) -> Document:
    """Return a document of this kind. Each field has the value of the attribute of the same name, unless it is given
    here.

    A field whose name ends in `_at` is a time in nanoseconds, and is written as RFC 3339.
    """
    fields = {
        name: values[name] if name in values else field(getattr(source, name))
        for name, field in _written(cast("Any", kind))
    }
    return cast("Document", fields)


@cache
def _written(kind: Any) -> list[tuple[str, Callable[[Any], Any]]]:
    return [(name, rfc3339 if name.endswith("_at") else _plain) for name in kind.__annotations__]


def _plain(value: Any) -> Any:
    # Most values are plain, and asking whether one is a mapping takes longer than everything else here.
    if value is None or value.__class__ in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value
