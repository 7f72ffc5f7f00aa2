"""Settings of redaction: what is replaced before anything is stored, and patterns of the user's own."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from agenteval_collector.config.values import Section
from otel_agenteval.redaction import OwnPatterns

Extent = Annotated[
    Literal["off", "secrets", "all"],
    # YAML reads a bare `off` as false.
    BeforeValidator(lambda value: "off" if value is False else value),
]


class PatternConfig(Section):
    """A pattern of the user's own, in RE2. What it matches is replaced by a placeholder with its name."""

    name: str
    pattern: str


def _readable(patterns: tuple[PatternConfig, ...]) -> tuple[PatternConfig, ...]:
    names = [each.name.upper() for each in patterns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two patterns are called {', '.join(twice)}: give each a name of its own")
    OwnPatterns({each.name: each.pattern for each in patterns})
    return patterns


class RedactionConfig(Section):
    """What is replaced, beside what a judge never gets to see (`judge.redact`)."""

    store: Extent = "off"
    """What is replaced before a request is kept: `secrets`, or personal data too (`all`)."""
    patterns: Annotated[tuple[PatternConfig, ...], AfterValidator(_readable)] = ()
    """Replaced wherever secrets are."""

    @property
    def own(self) -> OwnPatterns | None:
        """The patterns, compiled; None where there are none."""
        return OwnPatterns({each.name: each.pattern for each in self.patterns}) if self.patterns else None
