"""A real collector in this process, on free ports, with a data folder of its own."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
from agenteval_collector.app.collector import Collector
from agenteval_collector.config.settings import Settings
from agenteval_collector.config.sources import load
from agenteval_collector.runtime.clock import Clock
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from tests.support.asking import answered
from tests.support.databases import store_settings
from tests.support.eventually import eventually

ANY_PORT = {"grpc_address": "127.0.0.1:0", "http_address": "127.0.0.1:0", "web_address": "127.0.0.1:0"}


def settings(data_dir: Path, *, role: str = "all", **sections: Mapping[str, Any]) -> Settings:
    """Settings on free ports; a trace without a marker is complete 0.1 s after its root, and 0.5 s after its last span
    without one, unless `sections` say otherwise."""
    flags = {
        "data_dir": str(data_dir),
        "role": role,
        **sections,
        "store": {**store_settings(), **sections.get("store", {})},
        "server": {**ANY_PORT, **sections.get("server", {})},
        "assembly": {"settle": 0.1, "settle_logs": 0.1, "silence": 0.5, **sections.get("assembly", {})},
    }
    return load(environ={}, flags=flags)


class RunningCollector:
    """Started when it is made, stopped by `stop` or at the end of a `with`; its time is `clock`'s."""

    def __init__(
        self, data_dir: Path, clock: Clock | None = None, *, role: str = "all", **sections: Mapping[str, Any]
    ) -> None:
        self.service = Collector(settings(data_dir, role=role, **sections), clock)
        try:
            self.addresses = self.service.start()
            eventually(lambda: self.service.ready)
        except BaseException:
            self.service.shutdown()
            raise
        self.channel = grpc.insecure_channel(
            self.addresses["grpc"],
            options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)],
        )

    def send(self, request: ExportTraceServiceRequest) -> ExportTraceServiceResponse:
        return TraceServiceStub(self.channel).Export(request, timeout=20)

    def send_logs(self, request: ExportLogsServiceRequest) -> ExportLogsServiceResponse:
        return LogsServiceStub(self.channel).Export(request, timeout=20)

    def get(self, path: str) -> Any:
        """What the web port answers: decoded JSON for the API, else text; None for 404."""
        return answered(self.addresses["web"], path)

    def scored(self, trace_id: str, *, within: float = 30.0, revision: int = 1) -> Any:
        """The document of a trace once it is complete at `revision` or later, and everybody was told of that."""

        def look() -> Any:
            document = self.get(f"/api/v1/traces/{trace_id}")
            return document if document and document["complete"] and document["revision"] >= revision else None

        document = eventually(look, within=within, every=0.02)
        self.catch_up()
        return document

    def catch_up(self) -> None:
        """Return once everybody was told of what is in the store: a commit is counted and watched after it is seen."""
        # The evaluation takes items in turn; this one asks for nothing, and is done when those before it are.
        self.service.pipeline.evaluation.inbox.judge_again([]).result(timeout=30)

    def stop(self) -> None:
        self.channel.close()
        self.service.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
