"""JSON documents of the API, and pages of them."""

from dataclasses import dataclass
from typing import Any, TypeAlias

Document: TypeAlias = dict[str, Any]
"""A JSON object in a shape of docs/api.md: plain dicts, lists, strings, numbers, booleans and None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a listing, in its order; `next_cursor` is None on the last one."""

    items: list[Document]
    next_cursor: str | None
