"""The door of the gRPC port: finds the caller of each call before a slot is given, or anything of its request is read.

The methods take one request. gRPC would read it before it calls the method, in a thread, however long that takes. So
each method is served as one that takes a stream, which reads when it is told to.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeAlias

import grpc

from agenteval_collector.ingest.shares import SHARER, Shares, sharer_of
from agenteval_collector.model.callers import ANONYMOUS, Caller, Scope
from agenteval_collector.runtime.errors import CollectorError, NotAllowed, Overloaded, Unauthenticated
from agenteval_collector.runtime.grpc_status import abort
from agenteval_collector.serve.doors.audit import Audit
from agenteval_collector.serve.doors.grpc_connections import KnownPeers
from agenteval_collector.serve.doors.grpc_messages import GrpcMessages
from agenteval_collector.serve.doors.keys import KeyRing

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Scopes: TypeAlias = Mapping[str, tuple[Scope, ...]]
"""By a method's full name, the scopes of which it needs one. A method that is not listed needs `ADMIN`."""

HEALTH_CHECK: Final = "/grpc.health.v1.Health/Check"
# GrpcMessages of grpc.health.v1 with their one field, `status`.
_SERVING: Final = b"\x08\x01"
_NOT_SERVING: Final = b"\x08\x02"

_UNKNOWN: Final = ""
"""Stands for a caller that is known only when the method runs: by its certificate, or by its address."""
_CALLER: ContextVar[Caller] = ContextVar("agenteval_caller")
_RING: ContextVar[KeyRing] = ContextVar("agenteval_ring")


def caller_of(context: grpc.ServicerContext) -> Caller:
    """Return the caller of this call. Raises LookupError if the server has no `Door`."""
    return _CALLER.get()


def check_still_known(context: grpc.ServicerContext) -> None:
    """Check that the caller of a long call has not lost its key, or one of its scopes, since the call began. Raises
    Unauthenticated if it has."""
    if not _RING.get().knows(_CALLER.get()):
        raise Unauthenticated("the key is not known any more, or has other scopes")


@dataclass(frozen=True)
class Door(grpc.ServerInterceptor):
    """Lets in calls that carry `authorization: Bearer KEY` or come with a client certificate, and have the scope.

    At most `slots` calls are under way. Callers share these, and the memory of their `messages`. `health` says why the
    collector cannot do its work, None if it can. grpc.health.v1 is answered to everybody, also while all slots are
    taken.
    """

    ring: KeyRing
    scopes: Scopes
    audit: Audit
    slots: Shares
    messages: GrpcMessages
    health: Callable[[], str | None]
    peers: KnownPeers = field(default_factory=KnownPeers, init=False)
    """The connections of the callers that were let in."""

    def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Handler | None]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        method: str = handler_call_details.method
        if method == HEALTH_CHECK:
            return _at_once(self._answer_health)
        key = _key(handler_call_details)
        # gRPC shows a certificate to the method alone: where there is no key, the caller is found there.
        if not key and self.ring.has_certificates:
            caller = None
        else:
            caller = self.ring.by_key(key)
            if refusal := self._refusal(caller, method):
                return self._refusing(caller, method, refusal)
        if (handler := continuation(handler_call_details)) is None:
            return None
        slot = _CallSlot(self.slots, _UNKNOWN if caller in (None, ANONYMOUS) else caller.name)
        if not slot.is_taken:
            self.messages.make_room()
            return self._refusing(caller, method, _full())
        return self._guarded(handler, caller, method, slot)

    def _refusal(self, caller: Caller | None, method: str) -> CollectorError | None:
        """Return why a caller may not call a method; None: it may."""
        if caller is None:
            return Unauthenticated("a key is needed: send it as `authorization: Bearer KEY`")
        scopes = self._scopes_of(method)
        if not caller.may(*scopes):
            return NotAllowed(f"the key {caller.name!r} does not have the scope {' or '.join(scopes)}")
        return None

    def _scopes_of(self, method: str) -> tuple[Scope, ...]:
        return self.scopes.get(method, (Scope.ADMIN,))

    def _guarded(self, handler: Handler, known: Caller | None, method: str, slot: "_CallSlot") -> Handler:
        streams = handler.response_streaming
        answer: Any = handler.unary_stream if streams else handler.unary_unary

        def called(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            # False: the call has ended already, so that the callback would never run.
            if not context.add_callback(slot.give_back):
                slot.give_back()
            caller = known or self.ring.by_certificate(_common_name(context))
            refusal = self._refusal(caller, method)
            who = sharer_of(caller, context.peer().rpartition(":")[0]) if caller else _UNKNOWN
            if refusal is None and not slot.pass_on(who):
                self.messages.make_room()
                refusal = _full()
            if refusal is not None:
                # Now, as a client that does not read the refusal must not keep the slot.
                slot.give_back()
                self._refuse(context, caller, method, refusal)
            assert caller is not None
            self.peers.hear(context.peer())
            _CALLER.set(caller)
            _RING.set(self.ring)
            SHARER.set(who)
            self.audit.allowed(caller, self._scopes_of(method), method, context.peer())
            return answer(self.messages.read(requests, context, who), context)

        kind = grpc.stream_stream_rpc_method_handler if streams else grpc.stream_unary_rpc_method_handler
        return kind(called, handler.request_deserializer, handler.response_serializer)

    def _refusing(self, caller: Caller | None, method: str, refusal: CollectorError) -> Handler:
        return _at_once(lambda _requests, context: self._refuse(context, caller, method, refusal))

    def _refuse(
        self, context: grpc.ServicerContext, caller: Caller | None, method: str, refusal: CollectorError
    ) -> NoReturn:
        self.audit.refused(caller, method, context.peer(), str(refusal))
        abort(context, refusal)

    def _answer_health(self, _requests: Iterator[bytes], _context: grpc.ServicerContext) -> bytes:
        return _SERVING if self.health() is None else _NOT_SERVING


class _CallSlot:
    """The slot of a call, if there was one left. It counts for `who` at first, and for the call's caller once that one
    is known. From any thread."""

    def __init__(self, slots: Shares, who: str) -> None:
        self._slots = slots
        self._who = who
        self._lock = threading.Lock()
        self.is_taken = slots.take(who)

    def pass_on(self, who: str) -> bool:
        """Let the slot count for another caller from now on. Returns False if that one may have no more; then it is
        given back."""
        with self._lock:
            if self.is_taken and who != self._who:
                self._slots.give_back(self._who)
                self._who, self.is_taken = who, self._slots.take(who)
            return self.is_taken

    def give_back(self) -> None:
        """Give the slot back, if it is taken."""
        with self._lock:
            if self.is_taken:
                self.is_taken = False
                self._slots.give_back(self._who)


class _AtOnce(ThreadPoolExecutor):
    """Runs a call in the thread that submits it. An answer that needs no request takes neither a thread nor a slot
    so."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        result: Future[Any] = Future()
        result.set_result(call(*arguments, **named))
        return result


_AT_ONCE: Final = _AtOnce(1)


def _at_once(behaviour: Callable[[Iterator[bytes], grpc.ServicerContext], Any]) -> Handler:
    """Return a method that answers without reading its request, in gRPC's own thread."""

    # A function of its own, as a bound method takes no attributes.
    def called(requests: Iterator[bytes], context: grpc.ServicerContext) -> Any:
        return behaviour(requests, context)

    called.experimental_thread_pool = _AT_ONCE  # type: ignore[attr-defined]
    return grpc.stream_unary_rpc_method_handler(called)


def _full() -> Overloaded:
    return Overloaded("as many calls are under way as can be; try again in a second")


def _key(details: grpc.HandlerCallDetails) -> bytes:
    """Return the key of a call; empty if it has none."""
    credentials = dict(details.invocation_metadata or ()).get("authorization", "")
    scheme, _, key = (credentials.decode("latin-1") if isinstance(credentials, bytes) else credentials).partition(" ")
    return key.strip().encode() if scheme.lower() == "bearer" else b""


def _common_name(context: grpc.ServicerContext) -> str:
    names: Any = context.auth_context().get("x509_common_name", ())
    return next((name.decode("utf-8", "replace") for name in names), "")
