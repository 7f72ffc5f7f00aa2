"""Redaction of spans before they leave the agent. Runs on the export thread, after loops were looked for."""

import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from otel_agenteval import semconv
from otel_agenteval.model import Json
from otel_agenteval.proto.v1 import evaluation_pb2 as pb
from otel_agenteval.redaction import Redactor
from otel_agenteval.redaction.redactor import RedactionBudget

AGENTEVAL_REDACTION_KEY: Final = "AGENTEVAL_REDACTION_KEY"
"""The key that makes the placeholders. Give it if several processes are to write the same ones; without it, each
process has a random key."""

MAX_CHARACTERS: Final = 1_000_000
"""Characters of a span that are redacted. Texts beyond them are left out, because redacting them would hold up the
agent."""

IDS: Final = frozenset((
    semconv.AGENTEVAL_SESSION_ID, semconv.AGENTEVAL_USER_ID, semconv.AGENTEVAL_TASK_ID, semconv.AGENTEVAL_RUN_ID,
    semconv.GEN_AI_CONVERSATION_ID, semconv.SESSION_ID, semconv.USER_ID, semconv.ENDUSER_ID,
))  # fmt: skip
"""Attributes that stay as they are, because reports, verdicts and deletion find sessions, users and runs by them."""

_random_key = secrets.token_bytes(32)


class SpanRedaction:
    """Redacts the texts and attributes of one span, resource or scope after the other.

    `extent` is `secrets`, or `all` with personal data.
    """

    def __init__(self, extent: str) -> None:
        self._personal_data = extent == "all"
        named = os.environ.get(AGENTEVAL_REDACTION_KEY)
        self._key = named.encode() if named else _random_key
        self._redactor = self._new()

    def next_span(self) -> None:
        """Begin a span, a resource or a scope, with a budget of its own."""
        self._redactor = self._new()

    def text(self, text: str) -> str:
        """Return a text of the span, redacted."""
        return str(self._redactor.redact(text))

    def attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes, redacted all together: the name of one may say what the value of another one is."""
        ids = {key: value for key, value in attributes.items() if key in IDS}
        # Very long texts last: a list of messages may use up the budget, and what names the span must fit before.
        ordered = sorted(attributes.items(), key=lambda item: _is_very_long(item[1]))
        others = {key: _json(value) for key, value in ordered if key not in IDS}
        return {**ids, **cast("dict[str, Any]", self._redactor.redact(others))}

    def announcement(self, report: pb.ReportStartsRequest) -> None:
        """Redact an announcement, with a budget of its own."""
        self.next_span()
        report.service = self.text(report.service)
        for start in report.starts:
            start.name, start.agent = self.text(start.name), self.text(start.agent)
        for loop in report.findings:
            for name in ("agent", "tool", "reason"):
                if text := getattr(loop, name):
                    setattr(loop, name, self.text(text))
            loop.metadata_json = self.text(loop.metadata_json.decode()).encode()

    def _new(self) -> Redactor:
        return Redactor(self._personal_data, key=self._key, budget=RedactionBudget(MAX_CHARACTERS))


def _is_very_long(value: Any) -> bool:
    return isinstance(value, str) and len(value) > MAX_CHARACTERS // 10


def _json(value: Any) -> Json:
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case Mapping():
            return {str(key): _json(item) for key, item in value.items()}
        case Sequence() if not isinstance(value, str):
            return [_json(item) for item in value]
        case _:
            return cast("Json", value)
