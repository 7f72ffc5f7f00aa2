"""The frame of all pages: the sources of their content, and the templates that render them.

Pages are made from the documents of the API. All recorded content may be hostile, so the templates escape everything.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from agenteval_collector.model.agents import Range
from agenteval_collector.model.judge_jobs import GOAL_SUCCESS
from agenteval_collector.model.score_kinds import JUDGED_KINDS, SCORE_KINDS
from agenteval_collector.runtime.clock import Clock
from agenteval_collector.runtime.times import rfc3339
from agenteval_collector.serve.api import explanation
from agenteval_collector.serve.api.queries import Queries
from agenteval_collector.serve.api.trace_documents import ExchangeDocument
from agenteval_collector.serve.api.wire import Parameters, choice, texts_of
from agenteval_collector.serve.web import formats
from agenteval_collector.serve.web.assets import address
from agenteval_collector.serve.web.labelling import GOALS, about_rate, labels_worth
from otel_agenteval.internal.text import storable

REFRESH_SECONDS: Final = 5
SLOW_REFRESH_SECONDS: Final = 30
"""Seconds between two loads of a page whose figures change by the hour, so that readers rarely lose their place."""
_NAVIGATION = {
    "/": "Overview",
    "/alarms": "Alarms",
    "/problems": "Problems",
    "/sessions": "Sessions",
    "/agents": "Agents",
    "/quality": "Quality",
    "/reliability": "Reliability",
    "/review": "Review",
}
# Unicode's marks of direction, its line and paragraph separators, and its embeddings, overrides and isolates; and
# control characters, which HTML does not have, and which a terminal obeys where somebody prints a page.
_TURNING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class PageScope(NamedTuple):
    """What all views of a reader are about: an environment and a range of time that ends now; None: any.

    `choices` are the environments to choose from, and `carried` the other parameters of the page; a page without
    choices does not offer them. `default` is the range of the view if none was asked for.
    """

    range: Range | None = None
    environment: str | None = None
    default: Range | None = None
    choices: Sequence[str] = ()
    carried: Parameters = MappingProxyType({})
    is_offered: bool = False

    @property
    def asked(self) -> dict[str, str]:
        """The parameters that were asked for, for links to other views."""
        asked = {"environment": self.environment, "range": self.range and self.range.value}
        return {name: value for name, value in asked.items() if value}

    def listed(self, now: int) -> dict[str, str]:
        """The parameters of a listing that stays within the scope."""
        since = None if self.range is None else rfc3339(self.range.since(now))
        return {name: value for name, value in (("environment", self.environment), ("since", since)) if value}


EVERYWHERE: Final = PageScope()


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The sources of all pages. Pages tell users to send spans to `grpc_endpoint`; their forms carry the `token`."""

    queries: Queries
    clock: Clock
    grpc_endpoint: str
    token: str

    def render(self, template: str, section: str | None, scope: PageScope = EVERYWHERE, /, **values: object) -> str:
        """Return the HTML of a page. `section` is its place in the navigation; None: it has none."""
        rendered = _templates().get_template(template).render
        # A lone surrogate in recorded content has no UTF-8: a page with one could not be sent.
        return storable(rendered(now=self.clock.now(), here=section, sections=_NAVIGATION, scope=scope, **values))

    def scope(self, parameters: Parameters, filters: Parameters, default: Range | None = None) -> PageScope:
        """Return the scope that is asked for, beside the `filters` of the view. Raises InvalidRequest."""
        text, environment = parameters.get("range"), texts_of(parameters, "environment")["environment"]
        known = self.queries.environments()
        return PageScope(
            range=choice("range", text, Range) if text else None,
            environment=environment,
            default=default,
            choices=known if environment is None or environment in known else [*known, environment],
            carried={name: value for name, value in filters.items() if name not in ("environment", "range")},
            is_offered=True,
        )

    def error(self, status: int, message: str) -> str:
        """Return the page of an error with a message in one sentence."""
        return self.render("error.html", None, refresh=None, status=status, message=message)


def chosen(parameters: Parameters, names: Iterable[str]) -> dict[str, str]:
    """Return the parameters with one of these names that have a value."""
    return {name: parameters[name] for name in names if parameters.get(name)}


def page_links(path: str, filters: Parameters, cursor: str | None, next_cursor: str | None) -> dict[str, str | None]:
    """Return the addresses of a listing's `first` and `next` pages.

    `first` is None on the first page, and `next` is None on the last one.
    """
    return {
        "first": path + formats.query(filters) if cursor else None,
        "next": path + formats.query({**filters, "cursor": next_cursor}) if next_cursor else None,
    }


def questions(exchanges: Sequence[ExchangeDocument], name: str) -> list[tuple[int, str]]:
    """Return the questions that the score `name` rests on, each with its number among the exchanges, from 1."""
    # A rubric, safety and goal_success each ask one question of their own name.
    of_score = JUDGED_KINDS[name].questions if name in JUDGED_KINDS else (name,)
    return [(number, item["question"]) for number, item in enumerate(exchanges, 1) if item["question"] in of_score]


def _readable(value: object) -> object:
    """Replace the characters in a text that change the direction of the text around them, and control characters.

    Markup and other values are returned as they are.
    """
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return _TURNING.sub("\N{REPLACEMENT CHARACTER}", value)


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        # A misspelt name in a template raises an error, and does not print as nothing.
        undefined=StrictUndefined,
        finalize=_readable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(formats.FILTERS)
    functions = (
        *(explanation.about_label, explanation.about_outcome, explanation.about_unjudged, explanation.goal_words),
        *(explanation.about_visibility, explanation.facts_of, explanation.unscored_labels),
        *(about_rate, labels_worth, questions),
    )
    templates.globals.update({function.__name__: function for function in functions})
    meanings = {kind.name: kind.meaning for kind in SCORE_KINDS}
    templates.globals.update(asset_url=address, label_goals=tuple(GOALS), goal_success=GOAL_SUCCESS, meanings=meanings)
    return templates
