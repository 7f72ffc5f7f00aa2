"""What an endpoint does not take for a model, learnt from its refusals, so that each lesson is paid for once."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from agenteval_collector.runtime.clock import Clock

Format: TypeAlias = Literal["schema", "json", "text"]
"""How the reply's form is asked for: by strict schema; by JSON mode, or by words alone, with the schema written out."""

LASTS = 3600.0
"""Seconds until a lesson is forgotten, so that an endpoint that learns gets its chance."""

IN_VAIN = 3
"""Questions in a row that are refused in every form, after which the plainer forms are left out."""
VAIN_LASTS = 600.0
"""Seconds until they are tried again."""

_PLAINER: dict[Format, Format] = {"schema": "json", "json": "text"}
_READ = 20_000
"""Characters of a refusal that are looked at."""
_ALWAYS = frozenset({400, 415, 422, 501})
"""Endpoints refuse a form with these, often without a word of it."""
_WHERE_NAMED = frozenset({403, 404, 500, 503})
_ABOUT_FORMAT = re.compile(
    r"response.?format|schema|json.?(object|mode|output)|structured|grammar|guided|constrain|not.implemented",
    re.IGNORECASE,
)
_ABOUT_TEMPERATURE = re.compile("temperature", re.IGNORECASE)
_ABOUT_ELSE = re.compile(
    r"context.?(length|window|size)|too (long|large|many tokens)|max(imum)?.?(\w{1,20}.)?tokens|token limit"
    r"|api.?key|credential|unauthori[sz]ed"
    r"|model.?not.?found|(no such|unknown|invalid) model|model\b.{0,80}(not found|not exist)"
    r"|content.?(policy|management|filter)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Form:
    """How a request is put."""

    format: Format = "schema"
    temperature: bool = True


def plainer(form: Form, status: int, body: str) -> Form | None:
    """The next form to try after a refusal with this `status` and `body`.

    None where there is none, or the refusal is about something else: it names another cause, or it has a status that
    says something about the form only in words.
    """
    body = body[:_READ]
    names_format = _ABOUT_FORMAT.search(body) is not None
    if _ABOUT_ELSE.search(body) or not (status in _ALWAYS or (status in _WHERE_NAMED and names_format)):
        return None
    names_temperature = not names_format and _ABOUT_TEMPERATURE.search(body) is not None
    if form.format in _PLAINER and not (names_temperature and form.temperature):
        return replace(form, format=_PLAINER[form.format])
    if form.temperature and status in _ALWAYS:
        return replace(form, temperature=False)
    return None


class Lessons:
    """Of one endpoint, by model."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._learnt: dict[str, tuple[Form, float]] = {}
        self._vain: Counter[str] = Counter()
        self._vain_until: dict[str, float] = {}

    def form(self, model: str) -> Form:
        """The richest form that is not known to be refused."""
        form, until = self._learnt.get(model, (Form(), 0.0))
        return form if self._clock.monotonic() < until else Form()

    def varies(self, model: str) -> bool:
        """Whether a refusal is worth a plainer form."""
        return self._clock.monotonic() >= self._vain_until.get(model, 0.0)

    def answered(self, model: str, form: Form) -> None:
        """A request in this form was answered, those in richer ones were refused."""
        if form != self.form(model):
            self._learnt[model] = (form, self._clock.monotonic() + LASTS)
        self._vain.pop(model, None)
        self._vain_until.pop(model, None)

    def in_vain(self, model: str) -> None:
        """A question was refused in every form."""
        self._vain[model] += 1
        if self._vain[model] >= IN_VAIN:
            self._vain_until[model] = self._clock.monotonic() + VAIN_LASTS
