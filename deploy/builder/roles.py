"""The resources of Kubernetes for each role of several processes: they differ in little, which stands once."""

import json
from dataclasses import dataclass
from typing import Any, Final

import yaml

PARTITIONS: Final = 12
"""Of a topic, as `log.partitions` in fleet/settings.yaml says: more processes of a role would stand idle."""
LAG: Final = "agenteval_collector_partition_lag"
"""The series of messages between what is done and the end of a partition, from whoever has the partition."""
NAME: Final = "agenteval"
_PORTS: Final = {"grpc": 4317, "http": 4318, "web": 4319}
_HEADER: Final = "# Built by `make deploy`: edit deploy/builder/roles.py.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Role:
    service: str
    """Agents know receivers by the name that the only collector has elsewhere."""
    doors: tuple[str, ...]
    """What is called from outside; every process has all ports."""
    cpu: str
    memory: str
    lag: int | None
    """Messages that a process may be behind; None: more are started by CPU."""
    most: int


LEAST: Final = 2
"""Processes of a role: one may be lost, with its machine. Of those that serve, the other one takes over the duty."""

ROLES: Final = {
    "receive": _Role(service=NAME, doors=("grpc", "http", "web"), cpu="500m", memory="1Gi", lag=None, most=20),
    "assemble": _Role(
        service=f"{NAME}-assemble", doors=("web",), cpu="500m", memory="2Gi", lag=20_000, most=PARTITIONS
    ),
    "evaluate": _Role(service=f"{NAME}-evaluate", doors=("web",), cpu="1", memory="2Gi", lag=2_000, most=PARTITIONS),
    "serve": _Role(service=f"{NAME}-serve", doors=("web",), cpu="250m", memory="1Gi", lag=None, most=LEAST),
}


def role(name: str) -> str:
    """Return all resources of a role, as a file."""
    of = ROLES[name]
    manifests = [_deployment(name, of), _service(name, of), _budget(name)]
    if of.most > LEAST:
        manifests.append(_scaler(name, of))
    return _HEADER + "---\n".join(yaml.dump(manifest, sort_keys=False, width=120) for manifest in manifests)


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": name}


def _metadata(name: str, called: str | None = None) -> dict[str, Any]:
    return {"name": called or f"{NAME}-{name}", "labels": _labels(name)}


def _deployment(name: str, of: _Role) -> dict[str, Any]:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _labels(name)},
    }
    pod = {
        "automountServiceAccountToken": False,
        # Else the Service puts AGENTEVAL_PORT and the like into the environment, which are no settings.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [spread],
        "containers": [_container(name, of)],
        "volumes": [
            {"name": "settings", "configMap": {"name": NAME}},
            # What is kept is in Kafka and PostgreSQL: a pod has nothing that another one misses.
            {"name": "data", "emptyDir": {"sizeLimit": "64Mi"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}},
        ],
    }
    # One process after another: each change of members moves partitions.
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    spec = {
        # If something scales it, the number is not set here: each `apply` would set it back.
        **({"replicas": LEAST} if of.most == LEAST else {}),
        "strategy": rolling,
        "minReadySeconds": 10,
        "selector": {"matchLabels": _labels(name)},
        "template": {"metadata": {"labels": _labels(name)}, "spec": pod},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(name), "spec": spec}


_KEYS: Final = json.dumps(
    [
        {"name": "agents", "key": "$(AGENT_KEY)", "scopes": ["write"]},
        {"name": "people", "key": "$(PEOPLE_KEY)", "scopes": ["read", "label"]},
    ]
)
"""An agent can send, and read nothing; people and Prometheus can read, and send nothing."""


def _container(name: str, of: _Role) -> dict[str, Any]:
    def secret(variable: str, key: str, *, optional: bool = False) -> dict[str, Any]:
        ref: dict[str, Any] = {"name": NAME, "key": key, **({"optional": True} if optional else {})}
        return {"name": variable, "valueFrom": {"secretKeyRef": ref}}

    return {
        "name": "collector",
        "image": "otel-agenteval",
        "args": ["--config", "/etc/agenteval/settings.yaml"],
        "env": [
            {"name": "AGENTEVAL_ROLE", "value": name},
            secret("AGENTEVAL_LOG__URL", "log-url"),
            secret("AGENTEVAL_STORE__URL", "store-url"),
            secret("AGENT_KEY", "agent-key"),
            secret("PEOPLE_KEY", "people-key"),
            {"name": "AGENTEVAL_SERVER__KEYS", "value": _KEYS},
            secret("OPENAI_API_KEY", "openai-api-key", optional=True),
        ],
        "ports": [{"name": port, "containerPort": number} for port, number in _PORTS.items()],
        # The first one makes the tables and the topics; the others wait for it.
        "startupProbe": {**_probe("/healthz"), "periodSeconds": 2, "failureThreshold": 150},
        "livenessProbe": {**_probe("/healthz"), "timeoutSeconds": 5},
        "readinessProbe": {**_probe("/readyz"), "timeoutSeconds": 5},
        "resources": {"requests": {"cpu": of.cpu, "memory": "512Mi"}, "limits": {"memory": of.memory}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": "/var/lib/agenteval"},
            {"name": "settings", "mountPath": "/etc/agenteval", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }


def _probe(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "web"}}


def _service(name: str, of: _Role) -> dict[str, Any]:
    ports: list[dict[str, Any]] = [{"name": door, "port": _PORTS[door], "targetPort": door} for door in of.doors]
    for port in ports:
        if port["name"] == "grpc":
            port["appProtocol"] = "kubernetes.io/h2c"
    spec = {"selector": _labels(name), "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(name, of.service), "spec": spec}


def _budget(name: str) -> dict[str, Any]:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": _labels(name)}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _metadata(name), "spec": spec}


def _scaler(name: str, of: _Role) -> dict[str, Any]:
    metric: dict[str, Any]
    if of.lag is None:
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
        # Of what is requested: a process uses one core at most.
        metric["resource"]["target"]["averageUtilization"] = 120
    else:
        # The label `service` is what the ServiceMonitor adds.
        named = {"name": LAG, "selector": {"matchLabels": {"service": of.service}}}
        metric = {
            "type": "External",
            "external": {"metric": named, "target": {"type": "AverageValue", "averageValue": str(of.lag)}},
        }
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{NAME}-{name}"},
        "minReplicas": LEAST,
        "maxReplicas": of.most,
        "metrics": [metric],
        # Each change moves partitions, and who takes them over looks up the store: not for a moment's load.
        "behavior": {
            "scaleUp": {"stabilizationWindowSeconds": 60, "policies": [_by(2, 60)]},
            "scaleDown": {"stabilizationWindowSeconds": 900, "policies": [_by(1, 300)]},
        },
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": _metadata(name),
        "spec": spec,
    }


def _by(pods: int, seconds: int) -> dict[str, Any]:
    return {"type": "Pods", "value": pods, "periodSeconds": seconds}
