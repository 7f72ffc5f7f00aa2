import re
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.builder.files import DEPLOY, generated
from deploy.builder.rules import DATA_SOURCE, grafana_rules
from tests.support.alerting import rules
from tests.support.deploy.dashboards import Dashboard, dashboards

PROVISIONING = DEPLOY / "grafana" / "provisioning"
SHIPPED = yaml.safe_load((DEPLOY / "prometheus" / "agenteval.rules.yml").read_text())
BUILT = generated()

RULES = """
groups:
  - name: g
    rules:
      - alert: Slow
        expr: up == 0
        for: 5m
        labels: {severity: warning}
        annotations:
          summary: "{{ $value }} of {{ $labels.job }}, {{ $values }}"
          page: "{{ with $externalLabels.agenteval_url }}{{ . }}{{ end }}"
"""


@pytest.mark.parametrize("path", BUILT, ids=lambda path: path.name)
def test_a_built_file_is_what_its_sources_make_of_it(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == BUILT[path], "run `make deploy`"


def test_no_dashboard_is_left_behind() -> None:
    assert {path for path in BUILT if path.suffix == ".json"} == set((DEPLOY / "grafana" / "dashboards").iterdir())


@pytest.mark.parametrize("dashboard", dashboards().values(), ids=dashboards())
def test_a_panel_says_how_to_read_it(dashboard: Dashboard) -> None:
    for panel in dashboard.panels:
        assert panel["description"].endswith("."), panel["title"]
        fields = panel["fieldConfig"]
        assert fields["defaults"].get("unit") or fields["overrides"], panel["title"]
    assert len({panel["id"] for panel in dashboard.document["panels"]}) == len(dashboard.document["panels"])


@pytest.mark.parametrize("dashboard", dashboards().values(), ids=dashboards())
def test_panels_fill_the_rows_of_the_grid(dashboard: Dashboard) -> None:
    widths: dict[int, int] = {}
    for panel in dashboard.document["panels"]:
        place = panel["gridPos"]
        widths[place["y"]] = widths.get(place["y"], 0) + place["w"]
    assert set(widths.values()) == {24}


def test_grafana_alerts_on_every_series_that_a_rule_returns() -> None:
    [group] = yaml.safe_load(grafana_rules(RULES))["groups"]
    [rule] = group["rules"]
    query, condition = rule["data"]
    assert (rule["title"], rule["for"], rule["condition"]) == ("Slow", "5m", "B")
    assert (query["model"]["expr"], query["datasourceUid"]) == ("up == 0", DATA_SOURCE)
    assert condition["model"]["expression"].startswith("is_number($A)")
    assert rule["annotations"]["summary"] == "{{ $values.A.Value }} of {{ $labels.job }}, {{ $values }}"
    assert rule["annotations"]["page"] == "{{ with $labels.agenteval_url }}{{ . }}{{ end }}"


def test_every_alert_of_prometheus_is_one_of_grafana() -> None:
    built = yaml.safe_load((PROVISIONING / "alerting" / "rules.yaml").read_text())
    alerts = [rule["title"] for group in built["groups"] for rule in group["rules"]]
    assert alerts == [rule["alert"] for group in SHIPPED["groups"] for rule in group["rules"]]
    assert len(set(alerts)) == len(alerts)


def test_the_operator_gets_the_rules_of_prometheus() -> None:
    built = yaml.safe_load((DEPLOY / "kubernetes" / "monitoring" / "rules.yaml").read_text())
    assert built["spec"] == SHIPPED


def test_dashboards_and_rules_use_the_data_sources_that_are_provisioned() -> None:
    sources = yaml.safe_load((PROVISIONING / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert DATA_SOURCE in {source["uid"] for source in sources}
    [contact] = yaml.safe_load((PROVISIONING / "alerting" / "contact.yaml").read_text())["contactPoints"]
    [policy] = yaml.safe_load((PROVISIONING / "alerting" / "contact.yaml").read_text())["policies"]
    assert policy["receiver"] == contact["name"]


@pytest.mark.parametrize("dashboard", dashboards().values(), ids=dashboards())
def test_every_series_is_of_the_chosen_tenants(dashboard: Dashboard) -> None:
    for place, expression in dashboard.expressions().items():
        ungrouped = re.sub(r"\b(?:by|on|group_left) \([^)]*\)", "", expression.replace("${tenant:pipe}", "TENANTS"))
        selected = re.findall(r"\w+\{([^}]*)\}", ungrouped)
        named = re.findall(r"\b(?:agenteval_|gen_ai_|ALERTS)\w*", re.sub(r"\{[^}]*\}", "", ungrouped))
        assert len(selected) == len(named) > 0, place
        assert all('agenteval_tenant=~"TENANTS"' in matchers for matchers in selected), place


@pytest.mark.parametrize("rule", rules(), ids=itemgetter("alert"))
def test_an_alert_names_its_tenant(rule: dict[str, Any]) -> None:
    # A collector that is down is that of all its tenants.
    assert ("$labels.agenteval_tenant" in rule["annotations"]["summary"]) == (rule["alert"] != "CollectorDown")


def test_messages_and_inhibitions_keep_tenants_apart() -> None:
    alertmanager = yaml.safe_load((DEPLOY / "prometheus" / "alertmanager.yml").read_text())
    [policy] = yaml.safe_load((PROVISIONING / "alerting" / "contact.yaml").read_text())["policies"]
    together = [alertmanager["route"]["group_by"], policy["group_by"]]
    together += [rule["equal"] for rule in alertmanager["inhibit_rules"]]
    assert all("agenteval_tenant" in labels for labels in together)
