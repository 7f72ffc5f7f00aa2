"""The page of alarms: those that fire, and those that have ended."""

from agenteval_collector.serve.api.filters import ALARM_PARAMETERS, alarm_filter
from agenteval_collector.serve.api.wire import Parameters
from agenteval_collector.serve.web import formats
from agenteval_collector.serve.web.site import SLOW_REFRESH_SECONDS, Site, chosen, page_links


def alarms(site: Site, parameters: Parameters) -> str:
    """Return the page that lists the requested alarms, the newest first."""
    filters, cursor = chosen(parameters, ALARM_PARAMETERS), parameters.get("cursor") or None
    scope = site.scope(parameters, filters)
    listed = {**scope.listed(site.clock.now()), **filters}
    filters.pop("environment", None)
    page = site.queries.alarms(alarm_filter(listed), cursor=cursor)
    return site.render(
        "alarms.html",
        "/alarms",
        scope,
        refresh=None if cursor else SLOW_REFRESH_SECONDS,
        alarms=page.items,
        asked=filters,
        query=formats.query(listed),
        **page_links("/alarms", {**filters, **scope.asked}, cursor, page.next_cursor),
    )
