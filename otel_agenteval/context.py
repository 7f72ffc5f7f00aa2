"""The identity of spans: the session, user and run that the application names. It travels in the OpenTelemetry
context."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from opentelemetry import baggage as baggage_api
from opentelemetry import context as context_api
from opentelemetry.context import Context

from otel_agenteval import semconv
from otel_agenteval.internal.text import storable

IDENTITY_KEY: Final = context_api.create_key("agenteval-identity")
_WITNESS_KEY: Final = context_api.create_key("agenteval-run-witness")
_MAX_BAGGAGE_ID: Final = 256

MAX_ID: Final = 1024
"""The most characters of an id that the collector accepts in a report."""


class SpanIdentity(NamedTuple):
    """The session, user and run of a span; None for what is not named. A user comes with a session, a condition with a
    run."""

    session_id: str | None = None
    user_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None
    condition: str | None = None

    def attributes(self) -> dict[str, str]:
        """Return the attributes for this identity on an exported span."""
        named = (
            (semconv.AGENTEVAL_SESSION_ID, self.session_id),
            (semconv.AGENTEVAL_USER_ID, self.user_id),
            (semconv.AGENTEVAL_TASK_ID, self.task_id),
            (semconv.AGENTEVAL_RUN_ID, self.run_id),
            (semconv.AGENTEVAL_CONDITION, self.condition),
        )
        return {key: value for key, value in named if value is not None}

    def completed_by(self, other: "SpanIdentity") -> "SpanIdentity":
        """Return this identity, with the session or the run of `other` if it names none."""
        session = self if self.session_id is not None else other
        run = self if self.run_id is not None else other
        return SpanIdentity(session.session_id, session.user_id, run.task_id, run.run_id, run.condition)


def identity_in(context: Context | None) -> SpanIdentity | None:
    """Return the identity in `context` (None: the current one)."""
    identity = context_api.get_value(IDENTITY_KEY, context)
    return identity if isinstance(identity, SpanIdentity) else None


def identity_in_baggage(context: Context | None) -> SpanIdentity | None:
    """Return the session and user that another process put into the baggage of `context`; None if it holds no session.

    Ids that are too long are ignored, because anybody who calls this process may send baggage.
    """
    session_id = baggage_api.get_baggage(semconv.AGENTEVAL_SESSION_ID, context)
    if not isinstance(session_id, str) or not 0 < len(session_id) <= _MAX_BAGGAGE_ID:
        return None
    user_id = baggage_api.get_baggage(semconv.AGENTEVAL_USER_ID, context)
    known_user = isinstance(user_id, str) and 0 < len(user_id) <= _MAX_BAGGAGE_ID
    return SpanIdentity(session_id=session_id, user_id=str(user_id) if known_user else None)


def with_identity(identity: SpanIdentity) -> Context:
    """Return the current context with `identity` in it."""
    return context_api.set_value(IDENTITY_KEY, identity)


class Witness:
    """The service version of a run, taken from the first of its spans that has one."""

    service_version: str | None = None

    def see(self, attributes: Mapping[str, object]) -> None:
        """Note the version in the attributes of a span's resource, unless one is known."""
        version = attributes.get(semconv.SERVICE_VERSION)
        if self.service_version is None and isinstance(version, str) and version:
            self.service_version = version


def witness_in(context: Context | None) -> Witness | None:
    """Return the witness of the run in `context` (None: the current one)."""
    witness = context_api.get_value(_WITNESS_KEY, context)
    return witness if isinstance(witness, Witness) else None


def with_witness(witness: Witness, context: Context) -> Context:
    """Return `context` with `witness` in it."""
    return context_api.set_value(_WITNESS_KEY, witness, context)


def required(name: str, value: object) -> str:
    """Return `value`, the id called `name`. Raises ValueError unless it is a non-empty string."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is {value!r}: give a non-empty string")
    return value


def required_in_report(name: str, value: object) -> str:
    """Return `value`, an id that goes into a report. Raises ValueError if the collector would refuse it."""
    text = required(name, value)
    if len(text) > MAX_ID:
        raise ValueError(f"{name} has {len(text)} characters: give {MAX_ID} at most")
    if storable(text) != text:
        raise ValueError(f"{name} is {text!r}: it holds half of a character (a lone surrogate), or a NUL")
    return text


def reportable(text: str | None) -> str:
    """Return an optional value of a report. Empty if the collector would refuse the whole report for it."""
    return text if text is not None and len(text) <= MAX_ID and storable(text) == text else ""


@contextmanager
def session(session_id: str, user_id: str | None = None, *, baggage: bool = False) -> Iterator[None]:
    """Let spans that start inside belong to the session, and to the user if one is given.

    `baggage` also puts both ids into the OpenTelemetry baggage. Services that are called from here then join the
    session, if they run this processor. It is off by default, because baggage leaves with every outgoing call, to third
    parties too. Raises ValueError for an id that is not a non-empty string.
    """
    session_id = required("session_id", session_id)
    if user_id is not None:
        user_id = required("user_id", user_id)
    outer = identity_in(None) or SpanIdentity()
    context = with_identity(outer._replace(session_id=session_id, user_id=user_id))
    if baggage:
        context = baggage_api.set_baggage(semconv.AGENTEVAL_SESSION_ID, session_id, context)
        context = baggage_api.remove_baggage(semconv.AGENTEVAL_USER_ID, context)
        if user_id is not None:
            context = baggage_api.set_baggage(semconv.AGENTEVAL_USER_ID, user_id, context)
    token = context_api.attach(context)
    try:
        yield
    finally:
        context_api.detach(token)
