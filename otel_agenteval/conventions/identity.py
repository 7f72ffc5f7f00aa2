"""Read session and user of a trace, from any of its spans and log records."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from otel_agenteval import semconv
from otel_agenteval.conventions.decoding import decode_json, decode_structure, first_text, known_text, object_in
from otel_agenteval.conventions.registry import KEYS
from otel_agenteval.model import Json

SESSION_KEYS = (semconv.AGENTEVAL_SESSION_ID, semconv.GEN_AI_CONVERSATION_ID, semconv.SESSION_ID, *KEYS.sessions)
"""The attributes that name a session, in the order in which they are believed."""

USER_KEYS = (semconv.AGENTEVAL_USER_ID, semconv.USER_ID, semconv.ENDUSER_ID, *KEYS.users)
"""The attributes that name a user, in the order in which they are believed."""

PLACEHOLDERS = frozenset(
    (
        *(
            "local",
            "undefined",
            "null",
            "none",
            "nil",
            "nan",
            "default",
            "unknown",
            "unset",
            "n/a",
            "na",
            "false",
            "true",
        ),
        *("0", "-1", "string", "[object object]", "session", "session_id", "conversation_id", "thread_id", "<none>"),
        *("anonymous", "placeholder", "{}", "[]", "-", "test-session-id"),
    )
)
"""Texts that programs write in place of an id that they do not have, in lower case. The sessions of all users would be
one."""

_OF_RESPONSE: Final = re.compile(r"resp_[0-9a-f]{32,}|chatcmpl-\w{20,}|msg_(?:bdrk_|vrtx_)?\w{20,}", re.ASCII)
"""Ids of single responses, as OpenAI and Anthropic write them: each turn would be a session."""

_SESSION_SHAPE: Final = re.compile(
    r"(?:.*[._-])?(?:(?:chat|agent|user|langfuse)?_?(?:session|conversation)[_.-]?id|thread[_-]?id)", re.IGNORECASE
)
"""Names of attributes that hold a session's id in a framework nobody has described: `ai.settings.context.sessionId`."""
_INFRASTRUCTURE: Final = (
    *(
        "db.",
        "http.",
        "net.",
        "network.",
        "rpc.",
        "messaging.",
        "tls.",
        "browser.",
        "aws.",
        "cloud.",
        "mcp.",
        "thread.",
    ),
    *("process.", "enduser.", "feature_flag.", "faas.", "k8s.", "server.", "client.", "url.", "user_agent."),
    *("graphql.", "code.", "exception.", "error.", "otel.", "peer.", "host.", "container.", "dns.", "file.", "log."),
    *("sentry.", "telemetry.", "service.", "deployment.", "gcp.", "azure.", "az.", "elasticsearch.", "redis.", "sql."),
)
"""Beginnings of names that say nothing of an agent: a session under them is that of something else."""


@lru_cache(maxsize=4096)
def names_session(key: str) -> bool:
    """Return whether an attribute is called like a session's id, in no convention that is known."""
    return len(key) <= 100 and _SESSION_SHAPE.fullmatch(key) is not None and not is_of_infrastructure(key)


def is_of_infrastructure(key: str) -> bool:
    """Return whether an attribute tells of servers, networks and programs, and not of an agent."""
    return key.startswith(_INFRASTRUCTURE)


_METADATA = "metadata"
_METADATA_SESSION = ("session_id", "thread_id", "sessionId", "threadId")
_METADATA_USER = ("user_id", "userId")

Carriers = Sequence[Mapping[str, Json]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNaming:
    """Attributes of the application that name sessions, if no convention does.

    The first of `attributes` that a trace has is the id of its session. Otherwise traces of one service with the same
    value of the attribute `link_by` are one session. `placeholders` are texts that are no ids, beside `PLACEHOLDERS`.
    """

    attributes: tuple[str, ...] = ()
    link_by: str | None = None
    placeholders: frozenset[str] = frozenset()

    def but_for(self, ids: Iterable[str]) -> "SessionNaming":
        """Return the naming to which these ids, those of responses, name no session."""
        taken = frozenset(value.strip().lower() for value in ids)
        return replace(self, placeholders=self.placeholders | taken) if taken else self

    def of(self, carriers: Carriers, service: str | None, resources: Carriers = ()) -> str | None:
        """Return the session that the attributes of `carriers` name by a convention, else the one that those of the
        application name, on `carriers` or `resources`. None if none is named."""
        named = self._first(carriers, SESSION_KEYS) or self._first(_metadata(carriers), _METADATA_SESSION)
        return named or self.session_id([*carriers, *resources], service) or self._by_shape(carriers)

    def _by_shape(self, carriers: Carriers) -> str | None:
        """Return the one value of all attributes that are called like a session's id; None if there are several."""
        keys = {key for carrier in carriers for key in carrier if names_session(key)}
        ids = {self._first([carrier], (key,)) for key in keys for carrier in carriers if key in carrier} - {None}
        return ids.pop() if len(ids) == 1 else None

    def session_id(self, carriers: Carriers, service: str | None) -> str | None:
        """Return the session that these attributes of `carriers` name; None if there are none."""
        named = self._first(carriers, self.attributes)
        if named is None and self.link_by is not None:
            link = self._first(carriers, (self.link_by,))
            return f"{service or 'unknown_service'}/{link}" if link is not None else None
        return named

    def _first(self, carriers: Carriers, keys: tuple[str, ...]) -> str | None:
        return first_id(carriers, keys, self.placeholders | PLACEHOLDERS if self.placeholders else PLACEHOLDERS)


def user_id(carriers: Carriers) -> str | None:
    """Return the user by the first of `USER_KEYS` that any of `carriers` has; None if none names a user."""
    return first_id(carriers, USER_KEYS, PLACEHOLDERS) or first_id(_metadata(carriers), _METADATA_USER, PLACEHOLDERS)


def environment_of(resource: Mapping[str, Json]) -> str | None:
    """Return the deployment environment that a resource names, under the present attribute or the older one."""
    return first_text(resource, semconv.DEPLOYMENT_ENVIRONMENT, semconv.LEGACY_DEPLOYMENT_ENVIRONMENT)


def first_id(
    carriers: Iterable[Mapping[str, Json]], keys: tuple[str, ...], placeholders: Collection[str] = ()
) -> str | None:
    """Return the id under the first of `keys` that any of `carriers` has; None if none has any.

    `placeholders`, in lower case, are no ids. If any are given, neither are zeros alone.
    """
    for key in keys:
        for carrier in carriers:
            value = _identifier(carrier[key]) if key in carrier else None
            if value and not (placeholders and _is_placeholder(value, placeholders)):
                return value
    return None


def _is_placeholder(value: str, placeholders: Collection[str]) -> bool:
    return value.strip().lower() in placeholders or not value.strip("0- ") or _OF_RESPONSE.fullmatch(value) is not None


BY_CONVENTION = SessionNaming()
"""Names no attributes of the application."""


def _identifier(value: Json) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.startswith('"'):  # MLflow writes every value as JSON
        with suppress(ValueError):
            value = decode_json(value)
    return known_text(value)


def _metadata(carriers: Carriers) -> list[dict[str, Json]]:
    """Return the JSON objects in `metadata`. LangChain applications put their ids there."""
    return [object_in(decode_structure(carrier[_METADATA])) for carrier in carriers if _METADATA in carrier]
