"""The app of the web port for one tenant, over the data of a test."""

from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_network
from typing import Any

from agenteval_collector.ingest.shares import Shares
from agenteval_collector.runtime.clock import Clock, SystemClock
from agenteval_collector.runtime.memory import MemoryGuard
from agenteval_collector.serve.api.threads import WebThreads
from agenteval_collector.serve.doors.audit import Audit
from agenteval_collector.serve.doors.keys import KeyRing
from agenteval_collector.serve.web import app
from starlette.applications import Starlette

from tests.support.memory_queries import MemoryReports


def app_of(
    queries: Any,
    reports: Any = None,
    *,
    metrics: Callable[[Mapping[str, str]], tuple[bytes, str]] = lambda _: (b"", "text/plain"),
    health: Callable[[], str | None] = lambda: None,
    ring: KeyRing | None = None,
    loopback: bool = True,
    clock: Clock | None = None,
    grpc_endpoint: str = "http://127.0.0.1:4317",
    query_timeout: float = 60.0,
    memory: MemoryGuard | None = None,
    user_header: str | None = None,
    user_proxies: Sequence[str] = ("127.0.0.0/8",),
) -> Starlette:
    """The API and the pages over `queries` and `reports`: healthy, without metrics, reports in memory, unless said
    otherwise.

    Its threads are in `app.state.threads`, its routes in `app.state.routes`.
    """
    ring, threads = ring or KeyRing(), WebThreads(memory or MemoryGuard(1 << 40, SystemClock()), query_timeout)
    of_tenant = app.tenant_app(
        queries,
        MemoryReports() if reports is None else reports,
        metrics=lambda headers, _caller: metrics(headers),
        threads=threads,
        keyed=not ring.is_open,
        clock=clock or SystemClock(),
        grpc_endpoint=grpc_endpoint,
    )
    audit = Audit(clock or SystemClock())
    made = app.make_app(
        of_tenant,
        health=health,
        threads=threads,
        ring=ring,
        audit=audit,
        slots=Shares(100),
        loopback=loopback,
        user_header=user_header,
        user_proxies=[ip_network(network) for network in user_proxies],
    )
    made.state.threads, made.state.routes = threads, [*made.routes, *of_tenant.routes]
    return made
