"""The files that are built, each with its text."""

import json
from pathlib import Path
from typing import Any, Final

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.builder.agent import agent
from deploy.builder.collector import collector
from deploy.builder.fleet import fleet
from deploy.builder.roles import ROLES, role
from deploy.builder.rules import grafana_rules, prometheus_rule

DEPLOY: Final = Path(__file__).parents[1]
GRAFANA: Final = DEPLOY / "grafana"


def generated() -> dict[Path, str]:
    """Return the text of every file that is built, by its path."""
    rules = (DEPLOY / "prometheus" / "agenteval.rules.yml").read_text(encoding="utf-8")
    dashboards = {built.build().uid: _json(built) for built in (fleet(), agent(), collector())}
    return {
        **{GRAFANA / "dashboards" / f"{uid}.json": text for uid, text in dashboards.items()},
        GRAFANA / "provisioning" / "alerting" / "rules.yaml": grafana_rules(rules),
        DEPLOY / "kubernetes" / "monitoring" / "rules.yaml": prometheus_rule(rules),
        **{DEPLOY / "kubernetes" / "fleet" / f"{name}.yaml": role(name) for name in ROLES},
    }


def _json(dashboard: Dashboard) -> str:
    built: dict[str, Any] = json.loads(json.dumps(dashboard.build(), cls=JSONEncoder))
    for number, panel in enumerate(built["panels"], start=1):
        # Grafana would number them anew at each start, and links to a panel would break.
        panel["id"] = number
    return json.dumps(built, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
