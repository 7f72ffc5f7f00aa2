"""The files below deploy/ are accepted by those who read them, and fit together (`make test-deploy`)."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from agenteval_collector.config.keys import digest_of
from agenteval_collector.config.sources import load
from pydantic import BaseModel

from tests.support.deploy.grafana import ContactFile, DashboardFile, DataSourceFile, RuleFile

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
COMPOSED = {
    name: yaml.safe_load((DEPLOY / "docker" / name).read_text()) for name in ("compose.yaml", "compose.fleet.yaml")
}
COMPOSE = COMPOSED["compose.yaml"]
SERVICES = [(file, name) for file, composed in COMPOSED.items() for name in composed["services"]]
ROLES = ["receive", "assemble", "evaluate", "serve"]
RESOURCES = ["collector.yaml", "service.yaml", "network.yaml", "fleet/network.yaml"]
RESOURCES += [f"fleet/{role}.yaml" for role in ROLES]
READ_BY_GRAFANA: dict[str, type[BaseModel]] = {
    "datasources/prometheus.yaml": DataSourceFile,
    "dashboards/agenteval.yaml": DashboardFile,
    "alerting/contact.yaml": ContactFile,
    "alerting/rules.yaml": RuleFile,
}


def run(tool: str, *arguments: str | Path) -> str:
    """Return what `tool` says; it must be content. Without the tool the test is skipped."""
    path = shutil.which(tool, path=str(Path(sys.executable).parent)) or shutil.which(tool)
    if path is None:
        pytest.skip(f"{tool} is not installed (make test-deploy; Debian's prometheus has promtool)")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def resource(file: str) -> Any:
    return yaml.safe_load((KUBERNETES / file).read_text())


def test_hadolint_accepts_the_dockerfile() -> None:
    run("hadolint", DEPLOY / "docker" / "Dockerfile")


def test_yamllint_accepts_every_file() -> None:
    run("yamllint", "--strict", "--config-file", ROOT / ".yamllint.yaml", DEPLOY)


@pytest.mark.parametrize("file", COMPOSED)
def test_a_compose_file_is_of_its_schema(file: str) -> None:
    run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "docker" / file)


@pytest.mark.parametrize("file", RESOURCES)
def test_a_resource_is_of_the_schema_of_kubernetes(file: str) -> None:
    run("kubernetes-validate", "--strict", "--kubernetes-version", "1.31.0", KUBERNETES / file)


@pytest.mark.parametrize("file", READ_BY_GRAFANA)
def test_grafana_knows_every_field_of_its_provisioning(file: str) -> None:
    document = yaml.safe_load((DEPLOY / "grafana" / "provisioning" / file).read_text())
    READ_BY_GRAFANA[file].model_validate(document)


def test_systemd_accepts_the_unit_and_finds_it_hardened(tmp_path: Path) -> None:
    unit = tmp_path / "agenteval.service"
    text = (DEPLOY / "systemd" / "agenteval.service").read_text()
    # It verifies that the program is there.
    unit.write_text(text.replace("/opt/agenteval/bin/agenteval", str(Path(sys.executable).parent / "agenteval")))
    assert "Unknown" not in run("systemd-analyze", "verify", "--man=no", unit)
    run("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit)


def test_prometheus_accepts_its_configuration_in_compose(tmp_path: Path) -> None:
    for volume in COMPOSE["services"]["prometheus"]["volumes"]:
        source, target, *_ = volume.split(":")
        if target.startswith("/etc/prometheus"):
            (tmp_path / Path(target).name).write_text((DEPLOY / "docker" / source).read_text())
    run("promtool", "check", "config", tmp_path / "prometheus.yml")


def test_prometheus_scrapes_and_alerts_in_compose_as_it_does_elsewhere() -> None:
    def parts(file: Path) -> tuple[Any, ...]:
        configuration = yaml.safe_load(file.read_text())
        jobs = [job["job_name"] for job in configuration["scrape_configs"]]
        return jobs, configuration["rule_files"], configuration["global"]["scrape_interval"]

    assert parts(DEPLOY / "docker" / "prometheus.yml") == parts(DEPLOY / "prometheus" / "prometheus.yml")


@pytest.mark.parametrize(("file", "name"), SERVICES)
def test_a_service_is_published_on_loopback_alone_and_mounts_what_is_there(file: str, name: str) -> None:
    service = COMPOSED[file]["services"][name]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    for volume in service.get("volumes", []):
        source = volume.partition(":")[0]
        assert source in COMPOSED[file]["volumes"] or (DEPLOY / "docker" / source).exists(), source


def test_the_build_gets_everything_that_the_dockerfile_copies() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    copied = {each for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for each in line.split()}
    sent = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    assert {f"!{each}" for each in copied} == {line for line in sent if line.startswith("!")}
    assert all((ROOT / each).exists() for each in copied)


def test_the_parts_of_kubernetes_name_one_another() -> None:
    pod = resource("collector.yaml")["spec"]["template"]
    [container] = pod["spec"]["containers"]
    service, policy = resource("service.yaml"), resource("network.yaml")
    monitor = resource("monitoring/servicemonitor.yaml")
    ports = {port["name"] for port in container["ports"]}
    labels = pod["metadata"]["labels"]
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"] == labels
    assert {port["targetPort"] for port in service["spec"]["ports"]} == ports
    assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == ports
    assert monitor["spec"]["selector"]["matchLabels"] == service["metadata"]["labels"]
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] in ports
    # The name of the job, and with it of the rule's `up{job="agenteval"}`, is that of the Service.
    assert service["metadata"]["name"] == resource("collector.yaml")["spec"]["serviceName"] == "agenteval"
    made = resource("kustomization.yaml")
    assert all((KUBERNETES / file).exists() for file in (*made["resources"], *made["configMapGenerator"][0]["files"]))


@pytest.mark.parametrize("folder", [".", "fleet"])
def test_kubernetes_runs_the_image_of_this_release(folder: str) -> None:
    [image] = resource(f"{folder}/kustomization.yaml")["images"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert image["newTag"] == project["version"]


def test_the_collector_accepts_its_settings_in_kubernetes() -> None:
    [container] = resource("collector.yaml")["spec"]["template"]["spec"]["containers"]
    keys = next(each["value"] for each in container["env"] if each["name"] == "AGENTEVAL_SERVER__KEYS")
    settings = load(KUBERNETES / "settings.yaml", {"AGENTEVAL_SERVER__KEYS": keys}, {})
    assert [(key.name, sorted(key.scopes)) for key in settings.server.keys] == [
        ("agents", ["write"]),
        ("people", ["label", "read"]),
    ]
    assert [key.sha256.get_secret_value() for key in settings.server.keys] == [
        digest_of("$(AGENT_KEY)"),
        digest_of("$(PEOPLE_KEY)"),
    ]
    assert str(settings.data_dir) == container["volumeMounts"][0]["mountPath"]


def test_exemplars_lead_to_the_collectors_page() -> None:
    file = DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yaml"
    prometheus = yaml.safe_load(file.read_text())["datasources"][0]
    [destination] = prometheus["jsonData"]["exemplarTraceIdDestinations"]
    # Grafana takes $$ for a dollar that is no variable of the environment.
    assert destination["url"] == "${AGENTEVAL_PAGE_URL}/traces/$${__value.raw}"
    assert json.dumps(COMPOSE["services"]["grafana"]["environment"]).count("AGENTEVAL_PAGE_URL") == 1
