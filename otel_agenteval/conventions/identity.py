"""Read session and user of a trace, from any of its spans and log records."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from otel_agenteval import semconv
from otel_agenteval.conventions.decoding import decode_json, decode_structure, known_text
from otel_agenteval.conventions.registry import KEYS
from otel_agenteval.model import Json

SESSION_KEYS = (semconv.AGENTEVAL_SESSION_ID, semconv.GEN_AI_CONVERSATION_ID, semconv.SESSION_ID, *KEYS.sessions)
"""The attributes that name a session, the one that outranks the others first."""

USER_KEYS = (semconv.AGENTEVAL_USER_ID, semconv.USER_ID, semconv.ENDUSER_ID, *KEYS.users)
"""The attributes that name a user, the one that outranks the others first."""

_METADATA = "metadata"
_METADATA_SESSION = ("session_id", "thread_id")
_METADATA_USER = ("user_id",)

Carriers = Sequence[Mapping[str, Json]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNaming:
    """Attributes of an application's own that name sessions, where no convention does. The first of `attributes` that a
    trace has is its session's id. Traces of one service that agree in `link_by` are one session."""

    attributes: tuple[str, ...] = ()
    link_by: str | None = None

    def session_id(self, carriers: Carriers, service: str | None) -> str | None:
        """Return the session by these attributes of `carriers`; None where they have none of them."""
        named = first_id(carriers, self.attributes)
        if named is None and self.link_by is not None:
            link = first_id(carriers, (self.link_by,))
            return f"{service or 'unknown_service'}/{link}" if link is not None else None
        return named


BY_CONVENTION = SessionNaming()
"""No attribute of the application's own names a session."""


def session_id(carriers: Carriers) -> str | None:
    """Return the session by the highest-ranking attribute that any of `carriers` has; None where none names it."""
    return first_id(carriers, SESSION_KEYS) or first_id(_metadata(carriers), _METADATA_SESSION)


def user_id(carriers: Carriers) -> str | None:
    """Return the user, found the way of `session_id`."""
    return first_id(carriers, USER_KEYS) or first_id(_metadata(carriers), _METADATA_USER)


def environment_of(resource: Mapping[str, Json]) -> str | None:
    """Return the deployment environment that a resource names, under the present name or the one before it."""
    names = (semconv.DEPLOYMENT_ENVIRONMENT, semconv.LEGACY_DEPLOYMENT_ENVIRONMENT)
    return next(filter(None, (known_text(resource.get(name)) for name in names)), None)


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
    """Return the JSON objects in `metadata`, where LangChain applications put their ids."""
    objects = (decode_structure(carrier[_METADATA]) for carrier in carriers if _METADATA in carrier)
    return [each for each in objects if isinstance(each, dict)]
