"""Panels as the dashboards have them: each has a question for its title, and says below how to read the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as StatPanel
from grafana_foundation_sdk.builders.table import Panel as TablePanel
from grafana_foundation_sdk.builders.timeseries import Panel as TrendPanel
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATA: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The data source that the person chose at the top of the dashboard."""
WIDTH: Final = 24
"""Columns of a dashboard's grid."""

GREEN: Final = "green"
ORANGE: Final = "orange"
RED: Final = "red"

Steps: TypeAlias = Sequence[tuple[float, str]]
"""Values from which on a colour holds. Below the first one the panel is green."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel. `legend` names a series by its labels, as in `{{service_version}}`; `exemplars` shows single
    traces as dots, which the data source links to the collector's page."""

    expr: str
    legend: str = ""
    exemplars: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: an instant query by the labels of its rows."""

    name: str
    expr: str
    unit: str = "short"
    steps: Steps = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A link to another page about what a panel shows."""

    title: str
    url: str

    def built(self) -> builders.DashboardLink:
        return builders.DashboardLink(self.title).url(self.url).target_blank(True)


def stat(
    title: str,
    description: str,
    expr: str,
    *,
    unit: str = "short",
    steps: Steps = (),
    links: Sequence[Link] = (),
    nothing: str = "0",
    width: int = 4,
) -> StatPanel:
    """Return a panel with one number of now or of the time range. `nothing` stands there without any series: counters
    of events begin with the first one."""
    panel = (
        StatPanel()
        .title(title)
        .description(description)
        .datasource(DATA)
        .unit(unit)
        .no_value(nothing)
        .thresholds(_thresholds(steps))
        .with_target(Dataquery().expr(expr).instant().ref_id("A"))
        .height(4)
        .span(width)
    )
    return panel.data_links([link.built() for link in links]) if links else panel


def trend(
    title: str,
    description: str,
    *queries: Query,
    unit: str = "short",
    steps: Steps = (),
    links: Sequence[Link] = (),
    largest: float | None = None,
    width: int = 12,
) -> TrendPanel:
    """Return a panel of lines over time. The first of `steps` is drawn as a line as well."""
    panel = (
        TrendPanel()
        .title(title)
        .description(description)
        .datasource(DATA)
        .unit(unit)
        .min(0)
        .thresholds(_thresholds(steps))
        .fill_opacity(8)
        .show_points(common.VisibilityMode.AUTO)
        .span_nulls(True)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
        .height(8)
        .span(width)
    )
    if steps:
        dashes = common.GraphThresholdsStyleMode.DASHED
        panel = panel.thresholds_style(common_builders.GraphThresholdsStyleConfig().mode(dashes))
    if largest is not None:
        panel = panel.max(largest)
    for number, query in enumerate(queries):
        target = Dataquery().expr(query.expr).range().legend_format(query.legend).ref_id(_ref(number))
        panel = panel.with_target(target.exemplar(True) if query.exemplars else target)
    return panel.data_links([link.built() for link in links]) if links else panel


def table(
    title: str,
    description: str,
    *columns: Column,
    labels: dict[str, str],
    links: Sequence[Link] = (),
    width: int = WIDTH,
) -> TablePanel:
    """Return a table with a row for each set of `labels`, which are given with their headings. `links` are those of
    the first label."""
    names = {f"Value #{_ref(number)}": column.name for number, column in enumerate(columns)}
    panel = (
        TablePanel()
        .title(title)
        .description(description)
        .datasource(DATA)
        .height(9)
        .span(width)
        .with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            dashboard.DataTransformerConfig(
                id_val="organize", options={"excludeByName": {"Time": True}, "renameByName": {**labels, **names}}
            )
        )
    )
    for number, column in enumerate(columns):
        target = Dataquery().expr(column.expr).instant().format(PromQueryFormat.TABLE).ref_id(_ref(number))
        panel = panel.with_target(target).override_by_name(column.name, _shown(column))
    if links:
        built = [link.built().build() for link in links]
        heading = next(iter(labels.values()))
        panel = panel.override_by_name(heading, [dashboard.DynamicConfigValue("links", built)])
    return panel


def _shown(column: Column) -> list[dashboard.DynamicConfigValue]:
    """Return how a column's values look: their unit, and a background if the column has steps."""
    unit = [dashboard.DynamicConfigValue("unit", column.unit)]
    if column.steps:
        unit += [
            dashboard.DynamicConfigValue("thresholds", _thresholds(column.steps).build()),
            dashboard.DynamicConfigValue("custom.cellOptions", {"type": "color-background", "mode": "basic"}),
        ]
    return unit


def _thresholds(steps: Steps) -> builders.ThresholdsConfig:
    return (
        builders.ThresholdsConfig()
        .mode(dashboard.ThresholdsMode.ABSOLUTE)
        .steps(
            [
                dashboard.Threshold(value=None, color=GREEN),
                *(dashboard.Threshold(value=value, color=color) for value, color in steps),
            ]
        )
    )


def _ref(number: int) -> str:
    """Return the name of a panel's query: A, B, C and so on."""
    return chr(ord("A") + number)
