"""The door of the gRPC port: finds the caller of each call, before a slot is given or anything of its request is read.

The methods take one request. gRPC would read it before the method is called, in a thread, however long it takes; so
each is served as a method that takes a stream, which reads when it is told to.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, Final, NoReturn, TypeAlias

import grpc

from agenteval_collector.doors.audit import Audit
from agenteval_collector.doors.keys import KeyRing
from agenteval_collector.model.callers import Caller, Scope
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.errors import CollectorError, InvalidRequest, NotAllowed, Overloaded, Unauthenticated
from agenteval_collector.runtime.rpc import abort

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Scopes: TypeAlias = Mapping[str, tuple[Scope, ...]]
"""The scopes of which a method takes one, by its full name; a method that is not there takes `ADMIN`."""

HEALTH_CHECK: Final = "/grpc.health.v1.Health/Check"
# Messages of grpc.health.v1 with their one field, `status`.
_SERVING: Final = b"\x08\x01"
_NOT_SERVING: Final = b"\x08\x02"

_CALLER: ContextVar[Caller] = ContextVar("agenteval_caller")


def caller_of(context: grpc.ServicerContext) -> Caller:
    """Return who makes this call. Raises LookupError where the server has no `Door`."""
    return _CALLER.get()


class Door(grpc.ServerInterceptor):
    """Lets calls in that carry `authorization: Bearer KEY`, or come with a client certificate, and have the scope.

    At most `slots` calls are under way. `health` says why the collector cannot do its work, None where it can;
    grpc.health.v1 is answered to everybody, also while all slots are taken.
    """

    def __init__(
        self,
        ring: KeyRing,
        scopes: Scopes,
        audit: Audit,
        *,
        slots: int,
        health: Callable[[], str | None],
        clock: Clock,
    ) -> None:
        self._ring = ring
        self._scopes = scopes
        self._audit = audit
        self._slots = _Slots(slots, clock)
        self._health = health

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
        if not key and self._ring.has_certificates:
            caller = None
        else:
            caller = self._ring.by_key(key)
            if refusal := self._refusal(caller, method):
                return self._refusing(caller, method, refusal)
        if (handler := continuation(handler_call_details)) is None:
            return None
        if not self._slots.take():
            refusal = Overloaded("as many calls are under way as can be; try again in a second")
            return self._refusing(caller, method, refusal)
        return self._guarded(handler, caller, method)

    def _refusal(self, caller: Caller | None, method: str) -> CollectorError | None:
        """Return why somebody may not call a method; None: they may."""
        if caller is None:
            return Unauthenticated("a key is needed: send it as `authorization: Bearer KEY`")
        scopes = self._scopes_of(method)
        if not caller.may(*scopes):
            return NotAllowed(f"the key {caller.name!r} does not have the scope {' or '.join(scopes)}")
        return None

    def _scopes_of(self, method: str) -> tuple[Scope, ...]:
        return self._scopes.get(method, (Scope.ADMIN,))

    def _guarded(self, handler: Handler, known: Caller | None, method: str) -> Handler:
        streams = handler.response_streaming
        answer: Any = handler.unary_stream if streams else handler.unary_unary

        def called(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            self._slots.give_back_after(context)
            caller = known or self._ring.by_certificate(_common_name(context))
            if refusal := self._refusal(caller, method):
                self._refuse(context, caller, method, refusal)
            assert caller is not None
            _CALLER.set(caller)
            self._audit.allowed(caller, self._scopes_of(method), method, context.peer())
            return answer(self._slots.read(requests, context), context)

        kind = grpc.stream_stream_rpc_method_handler if streams else grpc.stream_unary_rpc_method_handler
        return kind(called, handler.request_deserializer, handler.response_serializer)

    def _refusing(self, caller: Caller | None, method: str, refusal: CollectorError) -> Handler:
        return _at_once(lambda _requests, context: self._refuse(context, caller, method, refusal))

    def _refuse(
        self, context: grpc.ServicerContext, caller: Caller | None, method: str, refusal: CollectorError
    ) -> NoReturn:
        self._audit.refused(caller, method, context.peer(), str(refusal))
        abort(context, refusal)

    def _answer_health(self, _requests: Iterator[bytes], _context: grpc.ServicerContext) -> bytes:
        return _SERVING if self._health() is None else _NOT_SERVING


REQUEST_SECONDS: Final = 10.0
"""Seconds that a call may take to send its request while others want its place."""


class _Slots:
    """Places for calls. Where all are taken, the call whose request is waited for longest may lose its own."""

    def __init__(self, slots: int, clock: Clock) -> None:
        self._clock = clock
        self._free = threading.BoundedSemaphore(slots)
        self._read_since: dict[grpc.ServicerContext, float] = {}
        """By age: the first is the oldest."""

    def take(self) -> bool:
        """Take a place, and return whether there is one."""
        if self._free.acquire(blocking=False):
            return True
        oldest = next(iter(self._read_since.copy().items()), None)
        if oldest is not None and self._clock.monotonic() - oldest[1] > REQUEST_SECONDS:
            oldest[0].cancel()
        return False

    def give_back_after(self, context: grpc.ServicerContext) -> None:
        """Give the place back when the call has ended."""
        if not context.add_callback(self._free.release):
            self._free.release()

    def read(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
        """Return the one request. It ends the call where there is none."""
        self._read_since[context] = self._clock.monotonic()
        try:
            return next(requests)
        except StopIteration:
            abort(context, InvalidRequest("the call has no request"))
        finally:
            del self._read_since[context]


class _AtOnce(ThreadPoolExecutor):
    """Runs in the thread that submits: what needs no request and cannot wait takes neither a thread nor a place."""

    def submit(self, call: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(call(*given, **named))
        return done


_AT_ONCE: Final = _AtOnce(1)


def _at_once(behaviour: Callable[[Iterator[bytes], grpc.ServicerContext], Any]) -> Handler:
    """Return a method that answers without reading its request, in gRPC's own thread."""

    def called(requests: Iterator[bytes], context: grpc.ServicerContext) -> Any:
        return behaviour(requests, context)

    called.experimental_thread_pool = _AT_ONCE  # type: ignore[attr-defined]
    return grpc.stream_unary_rpc_method_handler(called)


def _key(details: grpc.HandlerCallDetails) -> bytes:
    """Return the key of a call; empty, which is no key, where there is none."""
    given = dict(details.invocation_metadata or ()).get("authorization", "")
    scheme, _, key = (given.decode("latin-1") if isinstance(given, bytes) else given).partition(" ")
    return key.strip().encode() if scheme.lower() == "bearer" else b""


def _common_name(context: grpc.ServicerContext) -> str:
    names: Any = context.auth_context().get("x509_common_name", ())
    return next((name.decode("utf-8", "replace") for name in names), "")
