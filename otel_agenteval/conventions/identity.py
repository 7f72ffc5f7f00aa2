"""Whose trace it is: session and user, from any span or log record of the trace."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from otel_agenteval import semconv
from otel_agenteval.conventions.decoding import decode_json, decode_structure
from otel_agenteval.model import Json
from otel_agenteval.recorded import recorded

SESSION_KEYS = (
    semconv.AGENTEVAL_SESSION_ID,
    semconv.GEN_AI_CONVERSATION_ID,
    semconv.SESSION_ID,
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "traceloop.association.properties.conversation_id",
    "ai.telemetry.metadata.sessionId",
    "ai.telemetry.metadata.session_id",
    "ai.telemetry.metadata.conversationId",
    "ai.telemetry.metadata.threadId",
    "langfuse.session.id",
    "gcp.vertex.agent.session_id",
    "mlflow.trace.session",
)
"""The attributes that name a session, the one that outranks the others first."""

USER_KEYS = (
    semconv.AGENTEVAL_USER_ID,
    semconv.USER_ID,
    semconv.ENDUSER_ID,
    "traceloop.association.properties.user_id",
    "ai.telemetry.metadata.userId",
    "langfuse.user.id",
    "mlflow.trace.user",
    "gen_ai.request.user",
)
"""The attributes that name a user, the one that outranks the others first."""

_METADATA = "metadata"
_METADATA_SESSION = ("session_id", "thread_id")
_METADATA_USER = ("user_id",)

Carriers = Sequence[Mapping[str, Json]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNaming:
    """What an application's own attributes say of sessions that no convention names.

    The value of one of `attributes`, the first before the others, is a session's id. The value of `link_by` is not,
    but traces of one service that agree in it are one session.
    """

    attributes: tuple[str, ...] = ()
    link_by: str | None = None

    def session_id(self, carriers: Carriers, service: str | None) -> str | None:
        """The session by these attributes of `carriers`; None where they have none of them."""
        named = first_id(carriers, self.attributes)
        if named is None and self.link_by is not None:
            link = first_id(carriers, (self.link_by,))
            return f"{service or 'unknown_service'}/{link}" if link is not None else None
        return named


BY_CONVENTION = SessionNaming()
"""No attribute of the application's own names a session."""


def session_id(carriers: Carriers) -> str | None:
    """The session that the first of `carriers` with the highest-ranking attribute names; None where none does."""
    return first_id(carriers, SESSION_KEYS) or first_id(_metadata(carriers), _METADATA_SESSION)


def user_id(carriers: Carriers) -> str | None:
    """The user, found the way of `session_id`."""
    return first_id(carriers, USER_KEYS) or first_id(_metadata(carriers), _METADATA_USER)


def first_id(carriers: Iterable[Mapping[str, Json]], keys: tuple[str, ...]) -> str | None:
    """The id under the first of `keys` that any of `carriers` has; None where none has any."""
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
    return recorded(value)


def _metadata(carriers: Carriers) -> list[dict[str, Json]]:
    """The JSON objects in `metadata`, where LangChain applications put their ids."""
    objects = (decode_structure(carrier[_METADATA]) for carrier in carriers if _METADATA in carrier)
    return [each for each in objects if isinstance(each, dict)]
