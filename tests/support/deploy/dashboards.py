"""The shipped dashboards, read as Grafana reads them: queries with their variables filled in."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.prometheus import Prometheus

DASHBOARDS = Path(__file__).parents[3] / "deploy" / "grafana" / "dashboards"
_TIMES = {"__rate_interval": "5m", "__range": "30m", "__interval": "15s"}
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")


@dataclass(frozen=True)
class Dashboard:
    """A dashboard from its file, and what was chosen for its variables."""

    document: dict[str, Any]
    chosen: dict[str, str] = field(default_factory=dict)

    @property
    def panels(self) -> list[dict[str, Any]]:
        """Every panel but the rows."""
        return [panel for panel in self.document["panels"] if panel["type"] != "row"]

    def choose(self, server: Prometheus, wanted: dict[str, str]) -> None:
        """Choose for every variable what is `wanted`, else each value on offer; where there is none, All."""
        for variable in self.document["templating"]["list"]:
            name = variable["name"]
            if variable["type"] == "textbox":
                self.chosen[name] = variable["query"]
            elif variable["type"] == "query":
                offered = self._offered(server, variable["query"]["query"])
                assert name not in wanted or wanted[name] in offered, f"{name} offers {offered}"
                every = "|".join(re.escape(value).replace("\\", r"\\") for value in offered)
                self.chosen[name] = wanted.get(name, f"({every})" if every else variable["allValue"])

    def expressions(self) -> dict[str, str]:
        """Return the expression of every query as it is written: of panels, then of marks, by what it belongs to."""
        panels = {
            f"{panel['title']} ({target['refId']})": target["expr"]
            for panel in self.panels
            for target in panel["targets"]
        }
        return panels | {mark["name"]: mark["expr"] for mark in self.document.get("annotations", {}).get("list", [])}

    def page_links(self) -> set[str]:
        """Return the links of all panels that lead to the collector's page, as they are written."""
        return set(re.findall(r'"(\$\{page\}[^"]*)"', json.dumps(self.document)))

    def fill(self, text: str) -> str:
        """Return `text` with its variables filled in. Raises KeyError for one that the dashboard does not have."""
        values = {**_TIMES, **self.chosen}
        return re.sub(r"\$\{([\w.]+)(?::\w+)?\}|\$(\w+)", lambda found: values[found[1] or found[2]], text)

    def _offered(self, server: Prometheus, query: str) -> list[str]:
        found = _LABEL_VALUES.fullmatch(query)
        assert found is not None, query
        return server.label_values(found["label"], self.fill(found["series"]))


def dashboards() -> dict[str, Dashboard]:
    """Return every shipped dashboard by its name."""
    return {file.stem: Dashboard(json.loads(file.read_text(encoding="utf-8"))) for file in DASHBOARDS.glob("*.json")}
