"""What an endpoint does not take for a model, learnt from its refusals, so that each lesson is paid for once."""

import re
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from agenteval_collector.clock import Clock

Format: TypeAlias = Literal["schema", "json", "text"]
"""How the reply's form is asked for: by strict schema; by JSON mode, or by words alone, with the schema written out."""

LASTS = 3600.0
"""Seconds until a lesson is forgotten, so that an endpoint that learns gets its chance."""

_PLAINER: dict[Format, Format] = {"schema": "json", "json": "text"}
_STATUSES = frozenset({400, 404, 415, 422, 501})
_ABOUT_FORMAT = re.compile(r"response.?format|schema|json.?(object|mode)|structured|grammar|guided", re.IGNORECASE)
_ABOUT_TEMPERATURE = re.compile("temperature", re.IGNORECASE)
# Who names no parameter means the one that endpoints know least.
_ABOUT_ANYTHING = re.compile(
    r"un(supported|recogni[sz]ed|known (name|field|param|arg))|not (supported|implemented)|extra (field|input)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Form:
    """How a request is put."""

    format: Format = "schema"
    temperature: bool = True


def plainer(form: Form, status: int, body: str) -> Form | None:
    """The next form to try after a refusal with this `status` and `body`; None where the refusal is about neither."""
    if status not in _STATUSES:
        return None
    if form.format in _PLAINER and _ABOUT_FORMAT.search(body):
        return replace(form, format=_PLAINER[form.format])
    if form.temperature and _ABOUT_TEMPERATURE.search(body):
        return replace(form, temperature=False)
    if form.format in _PLAINER and (status == 501 or _ABOUT_ANYTHING.search(body)):
        return replace(form, format=_PLAINER[form.format])
    return None


class Lessons:
    """Of one endpoint, by model."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._learnt: dict[str, tuple[Form, float]] = {}

    def form(self, model: str) -> Form:
        """The richest form that is not known to be refused."""
        form, until = self._learnt.get(model, (Form(), 0.0))
        return form if self._clock.monotonic() < until else Form()

    def learn(self, model: str, form: Form) -> None:
        """Only `form` was answered, the richer ones were refused."""
        self._learnt[model] = (form, self._clock.monotonic() + LASTS)
