"""Build what the dashboards share: their variables, links, and the order of their rows."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders.stat import Panel as StatPanel
from grafana_foundation_sdk.builders.table import Panel as TablePanel
from grafana_foundation_sdk.builders.timeseries import Panel as TrendPanel
from grafana_foundation_sdk.models import dashboard

from deploy.builder.panels import DATA, Link
from deploy.builder.promql import CHOSEN, TENANT

FLEET: Final = "agenteval-fleet"
AGENT: Final = "agenteval-agent"
COLLECTOR: Final = "agenteval-collector"
"""Names of the dashboards in links and in files."""

PAGE: Final = "http://127.0.0.1:4319"
"""The collector's page, as a person's browser reaches it: the default of the variable `page`."""

Panel: TypeAlias = StatPanel | TablePanel | TrendPanel
Row: TypeAlias = tuple[str, Sequence[Panel]]
"""A question, and the panels that answer it."""


def framed(
    uid: str, title: str, description: str, variables: Sequence[builders.QueryVariable], rows: Sequence[Row]
) -> builders.Dashboard:
    """Return a dashboard of `rows` with the variables that all have, and `variables`."""
    built = (
        builders.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["agenteval"])
        .readonly()
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .with_variable(builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for variable in variables:
        built = built.with_variable(variable)
    built = built.with_variable(
        builders.TextBoxVariable("page").label("Page of the collector").default_value(PAGE)
    ).link(
        builders.DashboardLink("Agenteval")
        .type(dashboard.DashboardLinkType.DASHBOARDS)
        .tags(["agenteval"])
        .keep_time(True)
        .include_vars(True)
    )
    for question, panels in rows:
        built = built.with_row(builders.Row(question))
        for panel in panels:
            built = built.with_panel(panel)
    return built


def environments() -> builders.QueryVariable:
    """Return the variable of the environments that agents of the chosen tenants have."""
    return choice(
        "environment", "Environment", f"label_values(agenteval_traces_total{{{CHOSEN}}}, deployment_environment_name)"
    )


def tenants(*, several: bool = True) -> builders.QueryVariable:
    """Return the variable of the tenants of the collectors.

    Grafana offers no value for series without the label, which are those of the default tenant. So each tenant is
    offered by the regular expression that matches its label: `(shop)`, and `()` for the default tenant.
    """
    known = f"count by ({TENANT}) (last_over_time(agenteval_collector_build_info[$__range]))"
    matched = f'label_replace({known}, "matched", "($1)", "{TENANT}", "(.*)")'
    named = f'label_replace({matched}, "{TENANT}", "default", "{TENANT}", "")'
    variable = choice("tenant", "Tenant", f"query_result({named})", several=several)
    return variable.regex(f'/{TENANT}="(?<text>[^"]*)".*matched="(?<value>[^"]*)"/')


def choice(name: str, label: str, of: str, *, several: bool = True) -> builders.QueryVariable:
    """Return a variable that offers what the query `of` finds, such as `label_values(SELECTOR, LABEL)`.

    Of `several` any number can be chosen. All of them are chosen first, and then series without the label count too.
    """
    variable = (
        builders.QueryVariable(name)
        .label(label)
        .datasource(DATA)
        .query({"query": of, "refId": name})
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    )
    if not several:
        return variable
    every = dashboard.VariableOption(selected=True, text="All", value="$__all")
    return variable.multi(True).include_all(True).all_value(".*").current(every)


def problems_of(agent: str) -> Link:
    """Return a link to the problems of an agent on the collector's page; `agent` is a Grafana variable."""
    return Link("Problems on the collector's page", f"${{page}}/problems?agent=${{{agent}:percentencode}}")


def sessions_of(agent: str) -> Link:
    """Return a link to an agent's sessions on the collector's page, the worst first."""
    return Link("Sessions on the collector's page", f"${{page}}/sessions?agent=${{{agent}:percentencode}}")


def dashboard_of(agent: str, tenant: str) -> Link:
    """Return a link to the dashboard of one agent of one tenant; both are Grafana variables."""
    whose = f"var-tenant=(${{{tenant}:percentencode}})&var-agent=${{{agent}:percentencode}}"
    chosen = f"{whose}&${{environment:queryparam}}&${{datasource:queryparam}}"
    return Link("This agent", f"/d/{AGENT}?{chosen}&${{page:queryparam}}&${{__url_time_range}}")
