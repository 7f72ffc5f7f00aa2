"""Hand each call from the door, which knows the caller, to the pipeline of the caller's tenant."""

from collections.abc import Callable
from typing import Any

import grpc
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from agenteval_collector.app.pipeline import Pipeline
from agenteval_collector.app.tenants import Pipelines
from agenteval_collector.ingest.shares import Shares
from agenteval_collector.model.callers import Caller
from agenteval_collector.runtime.errors import CollectorError, Unavailable
from agenteval_collector.runtime.grpc_status import abort
from agenteval_collector.serve.api.responses import error_response
from agenteval_collector.serve.api.service import EvaluationService
from agenteval_collector.serve.doors.grpc_door import caller_of


class TenantApps:
    """An ASGI application that hands each request to the application of the caller's tenant. `make` makes a tenant's
    application at its first request."""

    def __init__(self, pipelines: Pipelines, make: Callable[[Pipeline], ASGIApp]) -> None:
        self._pipelines = pipelines
        self._make = make
        self._apps: dict[str, ASGIApp] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller: Caller = scope["state"]["caller"]
        app = self._apps.get(caller.tenant)
        if app is None:
            try:
                # Opening a new tenant's files takes too long for the event loop.
                pipeline = await run_in_threadpool(self._pipelines.of, caller.tenant)
            except Unavailable as error:
                await error_response(503, "unavailable", str(error))(scope, receive, send)
                return
            app = self._apps.setdefault(caller.tenant, self._make(pipeline))
        await app(scope, receive, send)


class TenantServices:
    """A gRPC servicer whose methods call the service of the caller's tenant.

    All tenants share the slots in `watchers`, because the threads are the server's.
    """

    def __init__(self, pipelines: Pipelines, watchers: Shares) -> None:
        self._pipelines = pipelines
        self._watchers = watchers

    def __getattr__(self, method: str) -> Callable[[Any, grpc.ServicerContext], Any]:
        def answered(request: Any, context: grpc.ServicerContext) -> Any:
            own = pipeline_of(self._pipelines, context)
            service = EvaluationService(own.queries, own.reports, own.feed, self._watchers)
            return getattr(service, method)(request, context)

        return answered


def pipeline_of(pipelines: Pipelines, context: grpc.ServicerContext) -> Pipeline:
    """Return the pipeline of the caller's tenant; abort the call if there is none."""
    try:
        return pipelines.of(caller_of(context).tenant)
    except CollectorError as error:
        abort(context, error)
