"""Redaction as the settings want it: for the judge, and before anything is stored."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import ConfigError
from agenteval_collector.ingest.redacting import RequestRedaction
from agenteval_collector.runtime.files import sync
from otel_agenteval.model import Json
from otel_agenteval.redaction import Redactor
from otel_agenteval.redaction.redactor import RedactionBudget

KEY_BYTES = 32
REDACTION_KEY = "redaction.key"
"""The file in a data folder that holds the key by which its placeholders are made."""


def judge_redaction(settings: Settings) -> Callable[[Json], Json]:
    """Make a redaction for one trace, in which equal values have equal numbers."""
    if not settings.judge.redact:
        return _as_it_is
    return Redactor(own=settings.redaction.own, budget=RedactionBudget()).redact


def stored_redaction(settings: Settings, folder: Path) -> RequestRedaction | None:
    """Return the redaction of requests before they are kept; None if they are kept as they came.

    The placeholders are made with a key in `folder`: so equal values have equal placeholders as long as the data is
    kept. Raises ConfigError if the key cannot be read or written.
    """
    config = settings.redaction
    if config.store == "off":
        return None
    key, own, personal_data = _key(folder / REDACTION_KEY), config.own, config.store == "all"

    def redact(value: Json, budget: RedactionBudget) -> Json:
        return Redactor(personal_data, key=key, own=own, budget=budget).redact(value)

    session = settings.session
    return RequestRedaction(redact, ids=(*session.attributes, *((session.link_by,) if session.link_by else ())))


def _key(path: Path) -> bytes:
    """Return the key in the file. Make the file if there is none."""
    try:
        if not path.exists():
            new = path.with_suffix(".new")
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
            sync(path.parent)
        key = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"redaction.store: the key in {path} cannot be used: {error.strerror}") from error
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"redaction.store: {path} is no key of {KEY_BYTES} bytes: restore it, or delete it for a new one"
        )
    return key


def _as_it_is(value: Json) -> Json:
    return value
