"""Texts that hold secrets and personal data, and ordinary ones."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from otel_agenteval.model import Json

DATA = Path(__file__).parents[1] / "data" / "redaction"


class Case(NamedTuple):
    """`value` holds `secret`, of which nothing may be left whole."""

    kind: str
    value: Json
    secret: str


def held_back() -> list[Case]:
    """Everything that has to be replaced, by kind."""
    kinds = yaml.safe_load((DATA / "held_back.yaml").read_text("utf-8"))
    return [Case(kind, _whole(value), _whole(secret)) for kind, cases in kinds.items() for value, secret in cases]


def ordinary() -> list[str]:
    """Texts that have to stay."""
    texts: list[str] = json.loads((DATA / "ordinary.json").read_text("utf-8"))
    return texts


def flat(value: Json) -> str:
    """The value as one text, in which a secret can be looked for."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _whole(value: Any) -> Any:
    """Take out the marks that keep scanners of repositories from taking made-up keys for real ones."""
    match value:
        case str():
            return value.replace("¦", "")
        case list():
            return [_whole(each) for each in value]
        case dict():
            return {_whole(key): _whole(each) for key, each in value.items()}
        case _:
            return value
