"""The shipped dashboards, read as Grafana reads them: queries with their variables filled in."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.prometheus import Prometheus

DASHBOARDS = Path(__file__).parents[3] / "deploy" / "grafana" / "dashboards"
_TIMES = {"__rate_interval": "5m", "__range": "30m", "__interval": "15s"}
_QUERY_RESULT = re.compile(r"query_result\((?P<expression>.+)\)")
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
        """Choose for every variable what is `wanted`, by its text, else all on offer; where there is nothing, All."""
        for variable in self.document["templating"]["list"]:
            name = variable["name"]
            if variable["type"] == "textbox":
                self.chosen[name] = variable["query"]
            elif variable["type"] == "query":
                offered = self._offered(server, variable)
                assert name not in wanted or wanted[name] in offered, f"{name} offers {offered}"
                every = "|".join(offered.values())
                self.chosen[name] = offered[wanted[name]] if name in wanted else every or variable["allValue"]

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
        # $1 is no variable, but a group of a replacement.
        return re.sub(r"\$\{([\w.]+)(?::\w+)?\}|\$([a-z_]\w*)", lambda found: values[found[1] or found[2]], text)

    def _offered(self, server: Prometheus, variable: dict[str, Any]) -> dict[str, str]:
        """Return what the variable offers: the texts that a person sees, each with the regular expression for it."""
        query = variable["query"]["query"]
        if found := _LABEL_VALUES.fullmatch(query):
            values = server.label_values(found["label"], self.fill(found["series"]))
            return {value: re.escape(value).replace("\\", r"\\") for value in values}
        found = _QUERY_RESULT.fullmatch(query)
        assert found is not None, query
        pattern = re.compile(variable["regex"].strip("/").replace("(?<", "(?P<"))
        matches = (pattern.search(_told(series)) for series in server.query(self.fill(found["expression"])))
        return {each["text"]: each["value"] for each in matches if each}


def _told(series: dict[str, Any]) -> str:
    """Return a series as Grafana tells it to a variable's regular expression."""
    labels = ",".join(f'{name}="{value}"' for name, value in series["metric"].items())
    return f"{{{labels}}} {series['value'][1]} {series['value'][0]}"


def dashboards() -> dict[str, Dashboard]:
    """Return every shipped dashboard by its name."""
    return {file.stem: Dashboard(json.loads(file.read_text(encoding="utf-8"))) for file in DASHBOARDS.glob("*.json")}
