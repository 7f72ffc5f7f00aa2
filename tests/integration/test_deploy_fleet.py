"""The files below deploy/ for several processes fit together, and the collector takes their settings."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from agenteval_collector.config.sources import load

from deploy.builder.roles import PARTITIONS

ROOT = Path(__file__).parents[2]
FLEET = ROOT / "deploy" / "kubernetes" / "fleet"
COMPOSE = yaml.safe_load((ROOT / "deploy" / "docker" / "compose.fleet.yaml").read_text())
ROLES = ["receive", "assemble", "evaluate", "serve"]
URLS = {"log-url": "kafka://k:9092/agenteval", "store-url": "postgresql+psycopg://u@h/d", "key": "k"}


def resources(role: str) -> dict[str, Any]:
    """The resources of a role by kind."""
    return {each["kind"]: each for each in yaml.safe_load_all((FLEET / f"{role}.yaml").read_text())}


def pod_of(role: str) -> Any:
    return resources(role)["Deployment"]["spec"]["template"]


@pytest.mark.parametrize("role", ROLES)
def test_the_parts_of_a_role_name_one_another(role: str) -> None:
    found, pod = resources(role), pod_of(role)
    labels = pod["metadata"]["labels"]
    [container] = pod["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    assert labels["app.kubernetes.io/component"] == role
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert found[kind]["spec"]["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == labels
    assert {port["targetPort"] for port in found["Service"]["spec"]["ports"]} <= ports
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "web"}


def test_agents_reach_receivers_alone_under_the_name_of_the_only_collector() -> None:
    everybody, senders = yaml.safe_load_all((FLEET / "network.yaml").read_text())
    assert senders["spec"]["podSelector"]["matchLabels"] == pod_of("receive")["metadata"]["labels"]
    assert everybody["spec"]["podSelector"]["matchLabels"].items() <= pod_of("serve")["metadata"]["labels"].items()
    single = yaml.safe_load((FLEET.parent / "service.yaml").read_text())
    assert resources("receive")["Service"]["metadata"]["name"] == single["metadata"]["name"]


@pytest.mark.parametrize("role", ["assemble", "evaluate"])
def test_workers_are_added_by_lag_while_there_are_partitions_for_them(role: str) -> None:
    found = resources(role)
    scaler = found["HorizontalPodAutoscaler"]["spec"]
    [metric] = scaler["metrics"]
    assert scaler["scaleTargetRef"]["name"] == found["Deployment"]["metadata"]["name"]
    assert metric["external"]["metric"]["selector"]["matchLabels"]["service"] == found["Service"]["metadata"]["name"]
    assert scaler["maxReplicas"] == load(FLEET / "settings.yaml", {}, {}).log.partitions == PARTITIONS


@pytest.mark.parametrize("role", ROLES)
def test_the_collector_accepts_the_settings_of_a_role_in_kubernetes(role: str) -> None:
    [container] = pod_of(role)["spec"]["containers"]
    environment = {}
    for each in container["env"]:
        key = each.get("valueFrom", {}).get("secretKeyRef", {}).get("key")
        if each["name"].startswith("AGENTEVAL_"):
            environment[each["name"]] = each.get("value", URLS.get(key, ""))
    settings = load(FLEET / "settings.yaml", environment, {})
    assert settings.role == role
    assert [(key.name, sorted(key.scopes)) for key in settings.server.keys] == [
        ("agents", ["write"]),
        ("people", ["label", "read"]),
    ]
    assert str(settings.data_dir) == container["volumeMounts"][0]["mountPath"]


@pytest.mark.parametrize("role", ROLES)
def test_the_collector_accepts_the_settings_of_a_role_in_compose(role: str) -> None:
    environment = COMPOSE["services"][role]["environment"]
    settings = load(None, {name: value for name, value in environment.items() if name.startswith("AGENTEVAL_")}, {})
    assert settings.role == role
    assert settings.log.url is not None


def test_every_extra_that_an_image_is_built_with_exists() -> None:
    extras = COMPOSE["services"]["receive"]["build"]["args"]["EXTRAS"].split(",")
    project = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras)


def test_every_file_that_is_applied_is_there() -> None:
    made = yaml.safe_load((FLEET / "kustomization.yaml").read_text())
    assert all((FLEET / file).exists() for file in (*made["resources"], *made["configMapGenerator"][0]["files"]))
    assert {f"{role}.yaml" for role in ROLES} < set(made["resources"])
