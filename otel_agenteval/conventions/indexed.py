"""Structures flattened into attribute names: `llm.input_messages.0.message.role` and alike."""

from collections.abc import Mapping
from typing import Any

from otel_agenteval.model import Json

_MAX_SEGMENTS = 12


def unflatten(attributes: Mapping[str, Json], prefix: str) -> list[Json]:
    """Return the list that attributes named `prefix.<index>...` spell out, without gaps and contradictions."""
    start = prefix + "."
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if not key.startswith(start):
            continue
        *path, leaf = key[len(start) :].split(".", _MAX_SEGMENTS)
        branch: Any = tree
        for segment in path:
            branch = branch.setdefault(segment, {})
            if not isinstance(branch, dict):
                break
        else:
            branch.setdefault(leaf, value)
    return _in_order(tree)


def _in_order(tree: dict[str, Any]) -> list[Json]:
    indexes = sorted((int(key), key) for key in tree if _is_index(key))
    return [_listed(tree[key]) for _, key in indexes]


def _listed(value: Any) -> Json:
    if not isinstance(value, dict) or not value:
        leaf: Json = value
        return leaf
    if all(map(_is_index, value)):
        return _in_order(value)
    return {key: _listed(child) for key, child in value.items()}


def _is_index(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) < 10
