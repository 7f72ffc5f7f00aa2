"""All names that the dialects know, taken from the dialects themselves: a new one is tested the day it is added."""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from types import ModuleType

from otel_agenteval import conventions, semconv

_NAME = re.compile(r"[a-z][\w-]*(?:\.[\w-]+)+")
_WORD = re.compile(r"[\w/ -]{2,40}")


def attribute_names() -> list[str]:
    """Dotted names: attributes, beginnings of indexed attributes, and events."""
    return sorted({text for text in _constants() if _NAME.fullmatch(text)})


def words() -> list[str]:
    """Everything else: kinds of spans, roles, fields of JSON objects."""
    return sorted({text for text in _constants() if _WORD.fullmatch(text) and "." not in text})


def _constants() -> Iterator[str]:
    for module in (semconv, *_modules()):
        for name, value in vars(module).items():
            if not name.startswith("__"):
                yield from _texts(value)


def _modules() -> Iterator[ModuleType]:
    for info in pkgutil.iter_modules(conventions.__path__, f"{conventions.__name__}."):
        yield importlib.import_module(info.name)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from _texts(item)
