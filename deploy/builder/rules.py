"""The alert rules for Grafana and for the Prometheus operator, made of those for Prometheus: rules stand once."""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

DATA_SOURCE: Final = "agenteval-prometheus"
"""The uid of the data source in deploy/grafana/provisioning/datasources."""
INTERVAL: Final = "30s"
"""How often Grafana evaluates a group that does not say so. It takes multiples of 10 s only."""
_HEADER: Final = "# Built from deploy/prometheus/agenteval.rules.yml by `make deploy`: edit that file.\n"
_ANY_VALUE: Final = "is_number($A) || is_nan($A) || is_inf($A)"
"""Prometheus alerts on every series that a rule returns, whatever its value. Grafana wants a condition."""


def prometheus_rule(rules: str) -> str:
    """Return the rules as a resource of the Prometheus operator."""
    labels = {"app.kubernetes.io/name": "agenteval"}
    resource = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "agenteval", "labels": labels},
        "spec": yaml.safe_load(rules),
    }
    return _HEADER + _dumped(resource)


def grafana_rules(rules: str) -> str:
    """Return the rules as a provisioning file of Grafana. Raises KeyError for a recording rule: those stay in
    Prometheus."""
    groups = [
        {
            "orgId": 1,
            "name": group["name"],
            "folder": "Agents",
            "interval": group.get("interval", INTERVAL),
            "rules": [_grafana_rule(rule) for rule in group["rules"]],
        }
        for group in yaml.safe_load(rules)["groups"]
    ]
    return _HEADER + _dumped({"apiVersion": 1, "groups": groups})


def _grafana_rule(rule: dict[str, Any]) -> dict[str, Any]:
    return {
        "uid": f"agenteval-{rule['alert']}",
        "title": rule["alert"],
        "condition": "B",
        "data": list(_queries(rule["expr"])),
        "for": rule.get("for", "0s"),
        "keepFiringFor": rule.get("keep_firing_for", "0s"),
        # As in Prometheus: no series is no alert, and an alert whose series is gone is resolved.
        "noDataState": "OK",
        "missing_series_evals_to_resolve": 1,
        "execErrState": "Error",
        "labels": rule.get("labels", {}),
        "annotations": {name: _in_grafana(text) for name, text in rule["annotations"].items()},
    }


def _queries(expression: str) -> Iterator[dict[str, Any]]:
    """Yield the query A, and the condition B that holds for whatever A returns."""
    now = {"from": 600, "to": 0}
    query = {"refId": "A", "expr": expression.strip(), "instant": True}
    yield {"refId": "A", "datasourceUid": DATA_SOURCE, "relativeTimeRange": now, "model": query}
    condition = {"refId": "B", "type": "math", "expression": _ANY_VALUE}
    yield {"refId": "B", "datasourceUid": "__expr__", "relativeTimeRange": now, "model": condition}


def _in_grafana(text: str) -> str:
    """Return an annotation in Grafana's dialect: the value is that of the query, and what Prometheus knows from its
    external labels is looked for among the labels of the alert."""
    return re.sub(r"\$value\b", "$values.A.Value", text).replace("$externalLabels.", "$labels.")


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, so that expressions can be read, and nothing by reference."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _dumped(document: dict[str, Any]) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
