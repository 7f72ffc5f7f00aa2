"""Collectors that share their work, by real servers: Kafka between them, PostgreSQL for all."""

import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from agenteval_collector.runtime.clock import Clock

from tests.support.databases import stores_on
from tests.support.eventually import eventually
from tests.support.kafka.broker import Broker
from tests.support.otlp import trace_id
from tests.support.postgres import Server
from tests.support.running_collector import RunningCollector

_prefixes = (f"fleet{number}" for number in itertools.count())


class Start(Protocol):
    """Starts a collector of a role."""

    def __call__(
        self, role: str = "all", clock: Clock | None = None, **sections: Mapping[str, Any]
    ) -> RunningCollector: ...


@contextmanager
def fleet(folder: Path, kafka: Broker, postgresql: Server) -> Iterator[Start]:
    """What starts collectors that have their topics and a database together; all of them end with it."""
    url = f"kafka://{kafka.address}/{next(_prefixes)}"
    folders = (folder / str(number) for number in itertools.count())
    with stores_on(postgresql), ExitStack() as running:

        def start(role: str = "all", clock: Clock | None = None, **sections: Mapping[str, Any]) -> RunningCollector:
            log = {"url": url, "partitions": 4}
            return running.enter_context(RunningCollector(next(folders), clock, role=role, log=log, **sections))

        yield start


def completed(collector: RunningCollector, number: int, *, within: float = 30.0) -> Any:
    """The document of a trace once it is complete, from whichever process."""
    path = f"/api/v1/traces/{trace_id(number).hex()}"

    def look() -> Any:
        document = collector.get(path)
        return document if document and document["complete"] else None

    return eventually(look, within=within)
