"""Functions that write values for people: the filters of the templates."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from math import floor, log10
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from agenteval_collector.serve.api.explanation import worst_first
from agenteval_collector.serve.api.figure_documents import QualityDocument
from agenteval_collector.serve.api.trace_documents import FailureRateDocument, HitRateDocument, OutcomeDocument
from agenteval_collector.serve.web.findings import counted, grouped, judged_low, kind_words, unshown, worst_kinds
from otel_agenteval.outcome import Method

SHOWN_CHARACTERS = 20_000
"""The most characters of a text on a page."""
SHOWN_ITEMS = 200
"""The most items of a list on a page."""
PREVIEW_CHARACTERS = 400
"""The most characters of a preview."""
LONGEST_WORD = 40
"""Characters from which on a text without a space is no word."""


def ago(time: str | None, now: int) -> str:
    """Return the age of an RFC 3339 time at `now` (nanoseconds since the Unix epoch).

    A time ahead of `now` comes from another clock; it is written as `just now`.
    """
    if time is None:
        return "never"
    seconds = (datetime.fromtimestamp(now / 1e9, UTC) - datetime.fromisoformat(time)).total_seconds()
    if seconds < 2:
        return "just now"
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit} ago"
    raise AssertionError("a second is the smallest unit")


def moment(time: str | None) -> str:
    """Write an RFC 3339 time in UTC, to the second."""
    return "unknown" if time is None else datetime.fromisoformat(time).strftime("%Y-%m-%d %H:%M:%S UTC")


def when(time: str | None, now: int) -> str | Markup:
    """Write how long ago an RFC 3339 time was, as an element that knows the time."""
    if time is None:
        return ago(time, now)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(time, moment(time), ago(time, now))


def at(time: str | None) -> str | Markup:
    """Write an RFC 3339 time as an element that scripts write in the reader's time zone."""
    if time is None:
        return moment(time)
    return Markup('<time datetime="{}" data-moment>{}</time>').format(time, moment(time))


def between(started_at: str | None, ended_at: str | None) -> str:
    """Write the time that passed between two RFC 3339 times."""
    if started_at is None or ended_at is None:
        return "unknown"
    length = (datetime.fromisoformat(ended_at) - datetime.fromisoformat(started_at)).total_seconds()
    return seconds(length)


def seconds(value: float) -> str:
    """Write a duration, given in seconds, in the unit that fits: from milliseconds to days."""
    if 0 < value < 0.0001:
        return "<0.1 ms"
    if value < 1:
        return f"{value * 1000:.{1 if 0 < value < 0.01 else 0}f} ms"
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def count(number: int) -> str:
    """Write a count with a comma between thousands."""
    return f"{number:,}"


def per_hour(rate: float) -> str:
    """Write a rate by the hour, small ones with one digit."""
    return f"{rate:,.0f}" if rate >= 10 or not rate else f"{max(rate, 0.1):.1f}"


def money(usd: float | None) -> str:
    """Write US dollars, small amounts with two significant digits. Return a dash if the amount is unknown."""
    if usd is None:
        return "–"
    # Not as `.2g`, which writes amounts below 0.0001 with an exponent.
    return f"${usd:,.{max(2, 1 - floor(log10(usd))) if usd > 0 else 2}f}"


def quantity(value: float | None, unit: str) -> str:
    """Write a value of a chart in its unit. Return a dash if there is no value."""
    if value is None:
        return "–"
    return {"share": percent, "usd": money, "seconds": seconds}.get(unit, str)(value)


def interval(bounds: Sequence[float]) -> str:
    """Write the bounds of a share from 0 to 1 in percent."""
    return "–".join(f"{100 * bound:.0f}" for bound in bounds) + "%"


def signed(value: float) -> str:
    """Write a difference of scores with two digits and its sign."""
    # Adding 0.0 turns -0.0 into 0.0, which has no minus.
    return f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")


def capitalized(words: str) -> str:
    """Return the words with a capital first letter. All other letters stay as they are."""
    return words[:1].upper() + words[1:]


def number(value: float | None) -> str:
    """Write a score with two digits. Return a dash if there is no score."""
    return "–" if value is None else f"{value:.2f}"


def p_value(value: float | None) -> str:
    """Write a p-value with three digits. A small one is written as `<0.001`, never as 0."""
    if value is None:
        return "–"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def percent(share: float | None) -> str:
    """Write a share from 0 to 1 in percent. Return a dash if there is no share."""
    return "–" if share is None else f"{share:.0%}"


def readable(value: Any) -> str:
    """Return a JSON value as text: a string as it is, anything else indented. Cut a text too long for a page."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[:SHOWN_CHARACTERS]}\n… {len(text) - SHOWN_CHARACTERS} more characters in the JSON"


def oneline(value: Any) -> str:
    """Return the beginning of a value on one line, for previews. Three dots say that the value goes on."""
    if value is None:
        return "not recorded"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = " ".join(text[:PREVIEW_CHARACTERS].split())
    if len(text) <= PREVIEW_CHARACTERS:
        return line
    # The cut is before the last word. Something as long as `LONGEST_WORD` is no word, and may be cut inside.
    words, _, rest = line.rpartition(" ")
    return f"{words if len(rest) < LONGEST_WORD else line} ..."


def shown(items: Sequence[Any]) -> Sequence[Any]:
    """Return the first `SHOWN_ITEMS` items, as many as a page can take. The template says how many are left out."""
    return items[:SHOWN_ITEMS]


def path(segment: str) -> str:
    """Return an id as one segment of a URL's path."""
    # A lone surrogate has no UTF-8. No request can ask for an id with one, but the page with the link must not fail.
    return quote(segment, safe="", errors="replace")


def query(parameters: Mapping[str, str | int | None]) -> str:
    """Return the query string of an address, with its question mark. Leave out parameters without a value."""
    chosen = {name: value for name, value in parameters.items() if value}
    # A lone surrogate has no UTF-8: without `replace` it would raise an error.
    return "?" + urlencode(chosen, errors="replace") if chosen else ""


def named(outcomes: Sequence[OutcomeDocument], name: str) -> OutcomeDocument | None:
    """Return the outcome with this name; None if there is none."""
    return next((outcome for outcome in outcomes if outcome["name"] == name), None)


def agent_words(agent: str | None, service: str | None) -> str:
    """Write an agent, with its service where that is called otherwise: `assistant in shop`."""
    name = agent or "unnamed"
    return name if service in (None, agent) else f"{name} in {service}"


def words(identifier: str) -> str:
    """Write an identifier as words: `agent_reliability` as `agent reliability`."""
    return identifier.replace("_", " ")


def hit_rate_words(rate: HitRateDocument) -> str:
    """Return a sentence on how many of an agent's sessions failed: those with an error finding, and those without."""
    with_error, without = rate["with_error"], rate["without_error"]
    sessions_known = f"Of {with_error['sessions'] + without['sessions']} sessions of this agent whose end is known"
    if not with_error["sessions"]:
        return f"{sessions_known}, none has an error finding; {_share(without)} failed."
    others = f"{_share(without)} of those without one" if without["sessions"] else "none is without one"
    return f"{sessions_known}, {_share(with_error)} of those with an error finding failed, {others}."


def believed(estimator: str) -> str:
    """Return words for the source that a pass rate rests on: the judge, labels, or both."""
    return _BELIEVED[estimator]


def rate_notes(item: QualityDocument) -> list[str]:
    """Return notes on a pass rate: why it has no interval, how much it leaves out, and which judges it mixes."""
    notes = []
    if item["reason"]:
        notes.append(f"no interval: {item['reason']}")
    if item["unscored"]:
        notes.append(f"{item['unscored']} of {item['unscored'] + item['judged']} drawn could not be scored")
    if (by_judge := item["by_judge"]) is not None:
        alone = "" if by_judge["trust"] == 0 else f", {interval(by_judge['of_sample'])} without guesses about the rest"
        of = f"the {by_judge['judged'] + by_judge['guessed']} newest ({by_judge['judged']} judged)"
        notes.append(f"the judge would pass {interval(by_judge['interval'])} of {of}{alone}")
    if len(item["models"]) > 1:
        notes.append(f"by {len(item['models'])} models, the newest first: {', '.join(item['models'])}")
    return notes


_BELIEVED = {"ppi": "judge, corrected by labels", "labels": "labels alone", "uncorrected": "judge, uncorrected"}


def _share(rate: FailureRateDocument) -> str:
    """Write a failure rate such as `8 of 10 (80 %, 95 % interval 49 to 94 %)`."""
    counts = f"{rate['failed']} of {rate['sessions']}"
    if rate["rate"] is None or rate["interval"] is None:
        return counts
    low, high = (round(100 * bound) for bound in rate["interval"])
    return f"{counts} ({100 * rate['rate']:.0f} %, 95 % interval {low} to {high} %)"


def tone(outcome: OutcomeDocument) -> str:
    """Return `bad` below the threshold, `good` at or above it if a judge says so, else `plain`.

    A score that needs no judge can say that something is wrong, but never that all is well.
    """
    if outcome["success"] is False:
        return "bad"
    return "good" if outcome["success"] and outcome["method"] == Method.LLM else "plain"


_FILTERS = (
    *(agent_words, ago, at, believed, between, capitalized, count, counted, grouped, hit_rate_words, interval),
    *(judged_low, kind_words, moment, money, named, number, oneline, p_value, path, per_hour, percent, quantity, query),
    *(rate_notes, readable, seconds, shown, signed, tone, unshown, when, words, worst_first, worst_kinds),
)
FILTERS: Mapping[str, Callable[..., Any]] = {function.__name__: function for function in _FILTERS}
