"""Tenants that come while several processes run: all take them up, also those that nobody calls."""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tests.support.eventually import eventually
from tests.support.kafka.broker import Broker
from tests.support.otlp import trace_id, traces, turn
from tests.support.roles import Start
from tests.support.running_collector import RunningCollector

pytestmark = pytest.mark.distributed

KEYS = [{"name": "shop", "key": "of-shop", "tenant": "shop"}, {"name": "root", "key": "of-all"}]


def test_who_assembles_and_evaluates_takes_up_a_tenant_that_a_receiver_meets(start_role: Start) -> None:
    # Who is started before, and has no keys: only the receiver knows of the tenant.
    others = [start_role(role) for role in ("assemble", "evaluate", "serve")]
    receiver = start_role("receive", server={"keys": KEYS})
    send(receiver, 1)
    eventually(lambda: is_stored(others[-1], 1), within=90)
    others[1].stop()
    evaluator = start_role("evaluate")
    send(receiver, 2)
    eventually(lambda: is_stored(evaluator, 2), within=90)


def test_topics_that_are_no_tenants_are_left_alone(kafka: Broker) -> None:
    # An extra.
    from agenteval_collector.fleet.cluster import TenantTopics  # noqa: PLC0415
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415

    whole = ("spans", "traces", "news")
    stems = {"own": whole, "own.shop": whole, "own.half": whole[:2], "own.other.fleet": whole, "owner.shop": whole}
    made = [NewTopic(f"{stem}.{each}", num_partitions=1) for stem, parts in stems.items() for each in parts]
    admin = AdminClient({"bootstrap.servers": kafka.address})
    for future in admin.create_topics(made).values():
        future.result(30)
    topics = TenantTopics(f"kafka://{kafka.address}/own")
    eventually(lambda: topics.tenants() == ["shop"], within=30)


def send(collector: RunningCollector, number: int) -> None:
    """Send a trace of the tenant."""
    request = traces(turn(number, "a", "b", session="s"))
    TraceServiceStub(collector.channel).Export(request, timeout=20, metadata=[("authorization", "Bearer of-shop")])


def is_stored(collector: RunningCollector, number: int) -> bool:
    """Whether a process serves the tenant, and its store has the trace."""
    pipeline = collector.service.pipelines._pipelines.get("shop")
    return pipeline is not None and bool(pipeline.base.store.known_traces([trace_id(number).hex()]))
