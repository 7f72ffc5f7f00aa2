"""What the documentation says of settings is what the settings are."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from agenteval_collector.config import (
    EmbeddingConfig,
    EvaluatorConfig,
    FindingConfig,
    FindingsConfig,
    Section,
    Settings,
)

DOCS = Path(__file__).parents[2] / "docs"


def keys(section: type[Section], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, EvaluatorConfig | EmbeddingConfig):
            found |= keys(kind, f"{prefix}NAME.")
        elif isinstance(kind, type) and issubclass(kind, FindingsConfig):
            found |= keys(kind, f"{prefix}{name}.") | keys(FindingConfig, f"{prefix}{name}.KIND.")
        elif isinstance(kind, type) and issubclass(kind, Section):
            found |= keys(kind, f"{prefix}{name}.")
        elif isinstance(kind, type) and is_dataclass(kind):
            found |= nested(kind, f"{prefix}{name}.")
        else:
            found.add(prefix + name)
    return found


def nested(schema: type[Any], prefix: str) -> set[str]:
    found: set[str] = set()
    for field in fields(schema):
        if isinstance(field.type, type) and is_dataclass(field.type):
            found |= nested(field.type, f"{prefix}{field.name}.")
        else:
            found.add(prefix + field.name)
    return found


def test_every_setting_is_documented_and_nothing_else() -> None:
    table = (DOCS / "settings.md").read_text().partition("## Client")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    documented = {key for row in rows for key in re.findall(r"`([a-zA-Z_.]+)`", row.split("|")[1])}
    assert documented == keys(Settings)


def test_links_between_pages_lead_somewhere() -> None:
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
