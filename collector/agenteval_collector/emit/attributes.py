"""Attribute values from telemetry for instruments: cleaned, and limited in number.

An instrument keeps every set of attributes that it ever saw. Agent, service and version come from spans, and spans are
hostile input. So only the first values up to a limit are kept, and later ones become `_other`. A value that was
admitted stays so until the collector restarts.
"""

import logging
from collections.abc import Hashable, Mapping
from dataclasses import replace
from threading import RLock
from typing import Final, TypeVar

from agenteval_collector.emit.meter import OTHER
from agenteval_collector.model.callers import DEFAULT_TENANT
from agenteval_collector.model.runs import LIVE_VERSIONS
from otel_agenteval import semconv
from otel_agenteval.internal.checked import checked_dataclass
from otel_agenteval.internal.text import cut, storable

T = TypeVar("T")

_LABEL_LENGTH: Final = 128
"""The most characters of a label's value in Prometheus."""

_logger = logging.getLogger(__name__)


def clean(text: str, limit: int) -> str:
    """Return `text` in at most `limit` characters that UTF-8 can hold.

    JSON may hold lone surrogates, and a single one would fail the encoding of a whole page or batch.
    """
    return storable(cut(text, limit))


def present(attributes: Mapping[str, T | None]) -> dict[str, T]:
    """Return the attributes that have a value."""
    return {name: value for name, value in attributes.items() if value is not None}


def tenant_attributes(tenant: str) -> dict[str, str]:
    """Return the attributes of all telemetry of a tenant. The default tenant has none."""
    return {} if tenant == DEFAULT_TENANT else {semconv.AGENTEVAL_TENANT: tenant}


@checked_dataclass(frozen=True, slots=True)
class AgentIdentity:
    """The agent, service, version and environment of a measurement; None if one was not recorded."""

    agent: str | None = None
    service: str | None = None
    version: str | None = None
    environment: str | None = None

    @property
    def attributes(self) -> dict[str, str]:
        """The recorded ones as attributes."""
        return present(
            {
                semconv.GEN_AI_AGENT_NAME: self.agent,
                semconv.SERVICE_NAME: self.service,
                semconv.SERVICE_VERSION: self.version,
                semconv.DEPLOYMENT_ENVIRONMENT: self.environment,
            }
        )


class _CardinalityLimit:
    """Admits the first `limit` different values. Logs once if there are more."""

    def __init__(self, what: str, limit: int) -> None:
        self._limit = limit
        self._what = what
        self._admitted: set[Hashable] = set()
        self._warned = False

    def admits(self, value: Hashable) -> bool:
        if value in self._admitted:
            return True
        if len(self._admitted) < self._limit:
            self._admitted.add(value)
            return True
        if not self._warned:
            self._warned = True
            _logger.warning(
                "more than %d %s were seen: instruments count the others as %s until the collector restarts",
                self._limit,
                self._what,
                OTHER,
            )
        return False


class BoundedNames:
    """Admits the first `limit` different names from telemetry as values of an attribute; later ones become `_other`.
    Thread-safe."""

    def __init__(self, what: str, limit: int) -> None:
        self._admission = _CardinalityLimit(what, limit)
        self._lock = RLock()

    def attribute(self, key: str, name: str | None) -> dict[str, str]:
        """Return the attribute `key` with the name; empty without a name."""
        with self._lock:
            value = _admitted(name, self._admission)
        return present({key: value})


class BoundedIdentities:
    """Maps agent, service, version and environment, as spans name them, to a limited number of identities. Thread-safe.

    `agents`, `services` and `environments` limit the names of each. `pairs` limits the combinations of agent and
    service: beyond it the agent becomes `_other`, so that a flood of agent names leaves services apart. Of each service
    the three versions that appeared last are kept, and `versions` limits the combinations of agent, service and
    version. `placed` limits the identities with an environment.
    """

    def __init__(
        self,
        *,
        agents: int = 100,
        services: int = 100,
        pairs: int = 200,
        versions: int = 400,
        environments: int = 10,
        placed: int = 800,
    ) -> None:
        self._agents = _CardinalityLimit("agents", agents)
        self._services = _CardinalityLimit("services", services)
        self._pairs = _CardinalityLimit("pairs of agent and service", pairs)
        self._versions = _CardinalityLimit("versions of agents", versions)
        self._environments = _CardinalityLimit("environments", environments)
        self._placed = _CardinalityLimit("versions of agents in environments", placed)
        # By service, in the order in which versions appeared.
        self._known_versions: dict[str | None, list[str]] = {}
        # Evaluations come from one thread, session levels are read by every scrape and push.
        self._lock = RLock()

    def identity(
        self, agent: str | None, service: str | None, version: str | None, environment: str | None = None
    ) -> AgentIdentity:
        """Return the identity under which instruments count a measurement."""
        with self._lock:
            agent, service = self.pair(agent, service)
            version = self._version(agent, service, version)
            environment = _admitted(environment, self._environments)
            placed = AgentIdentity(agent, service, version, environment)
            if environment is None or self._placed.admits(placed):
                return placed
            return replace(placed, environment=OTHER)

    def pair(self, agent: str | None, service: str | None) -> tuple[str | None, str | None]:
        """Return the agent and the service for instruments that do not tell versions apart."""
        with self._lock:
            agent = _admitted(agent, self._agents)
            service = _admitted(service, self._services)
            return (agent, service) if self._pairs.admits((agent, service)) else (OTHER, service)

    def agent_version(self, agent: str | None, service: str | None, version: str | None) -> dict[str, str] | None:
        """Return the attributes for gauges by agent and version, which show the newest versions only; None if the
        agent or its service was not admitted."""
        with self._lock:
            agent = _admitted(agent, self._agents)
            service = _admitted(service, self._services)
        version = clean(version, _LABEL_LENGTH) if version else None
        return None if OTHER in (agent, service) else AgentIdentity(agent, service, version).attributes

    def _version(self, agent: str | None, service: str | None, version: str | None) -> str | None:
        if not version:
            return None
        version = clean(version, _LABEL_LENGTH)
        if service == OTHER:
            return OTHER
        versions = self._known_versions.setdefault(service, [])
        # Older versions count as `OTHER`.
        if version in versions[:-LIVE_VERSIONS] or not self._versions.admits((agent, service, version)):
            return OTHER
        if version not in versions:
            versions.append(version)
        return version


def _admitted(value: str | None, admission: _CardinalityLimit) -> str | None:
    # Prometheus cannot tell an empty label from an absent one: two such series would fail the whole scrape.
    if not value:
        return None
    value = clean(value, _LABEL_LENGTH)
    return value if admission.admits(value) else OTHER
