"""Read session and user of a trace, from any of its spans and log records."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from otel_agenteval import semconv
from otel_agenteval.conventions.decoding import decode_json, decode_structure, first_text, known_text, object_in
from otel_agenteval.conventions.registry import KEYS
from otel_agenteval.model import Json

SESSION_KEYS = (semconv.AGENTEVAL_SESSION_ID, semconv.GEN_AI_CONVERSATION_ID, semconv.SESSION_ID, *KEYS.sessions)
"""The attributes that name a session, in the order in which they are believed."""

USER_KEYS = (semconv.AGENTEVAL_USER_ID, semconv.USER_ID, semconv.ENDUSER_ID, *KEYS.users)
"""The attributes that name a user, in the order in which they are believed."""

_METADATA = "metadata"
_METADATA_SESSION = ("session_id", "thread_id")
_METADATA_USER = ("user_id",)

Carriers = Sequence[Mapping[str, Json]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNaming:
    """Attributes of the application that name sessions, where no convention does.

    The first of `attributes` that a trace has is the id of its session. Otherwise traces of one service with the same
    value of the attribute `link_by` are one session.
    """

    attributes: tuple[str, ...] = ()
    link_by: str | None = None

    def session_id(self, carriers: Carriers, service: str | None) -> str | None:
        """Return the session that these attributes of `carriers` name; None where there are none."""
        named = first_id(carriers, self.attributes)
        if named is None and self.link_by is not None:
            link = first_id(carriers, (self.link_by,))
            return f"{service or 'unknown_service'}/{link}" if link is not None else None
        return named


BY_CONVENTION = SessionNaming()
"""Names no attributes of the application."""


def session_id(carriers: Carriers) -> str | None:
    """Return the session by the first of `SESSION_KEYS` that any of `carriers` has; None where none names a session."""
    return first_id(carriers, SESSION_KEYS) or first_id(_metadata(carriers), _METADATA_SESSION)


def user_id(carriers: Carriers) -> str | None:
    """Return the user by the first of `USER_KEYS` that any of `carriers` has; None where none names a user."""
    return first_id(carriers, USER_KEYS) or first_id(_metadata(carriers), _METADATA_USER)


def environment_of(resource: Mapping[str, Json]) -> str | None:
    """Return the deployment environment that a resource names, under the present attribute or the older one."""
    return first_text(resource, semconv.DEPLOYMENT_ENVIRONMENT, semconv.LEGACY_DEPLOYMENT_ENVIRONMENT)


def first_id(carriers: Iterable[Mapping[str, Json]], keys: tuple[str, ...]) -> str | None:
    """Return the id under the first of `keys` that any of `carriers` has; None where none has any."""
    for key in keys:
        for carrier in carriers:
            if key in carrier and (found := _identifier(carrier[key])):
                return found
    return None


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
