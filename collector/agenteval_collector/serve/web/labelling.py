"""Sentences for the review page and `label --next`: the pass rate of a label, and how many labels are worth giving."""

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import Final

from agenteval_collector.serve.api.figure_documents import DrawDocument, QualityDocument
from agenteval_collector.serve.api.trace_documents import SessionDocument
from agenteval_collector.serve.web.formats import believed, number

BEFORE: Final = 5
"""Earlier traces of the session that are shown before the trace to label. A turn is rarely understood by itself."""
VALUES: Final[Mapping[str, float]] = {"pass": 1.0, "fail": 0.0}
NOTHING_YET: Final = "Traces come here once a judge has scored them because they were drawn at random (judge.sample)."
GOALS: Final[Mapping[int, str]] = {20: "an interval", 50: "the judge's rate to be corrected by labels"}
"""Numbers of labels from which on something more is known, each with that."""


def traces_before(session: SessionDocument | None, trace_id: str) -> Sequence[str]:
    """Return the ids of the traces before `trace_id` in its session, at most the last `BEFORE`."""
    ids = session["trace_ids"] if session is not None else []
    return ids[: ids.index(trace_id)][-BEFORE:] if trace_id in ids else []


def rate_of(items: Iterable[QualityDocument], drawn: DrawDocument) -> QualityDocument | None:
    """Return the pass rate to which a label of the drawn trace belongs; None if there is no such rate."""
    of = drawn["name"], drawn["agent"], drawn["version"]
    return next((item for item in items if (item["name"], item["agent"], item["version"]) == of), None)


def about_rate(item: QualityDocument) -> str:
    """Return a sentence with the pass rate, its interval, and the source that it rests on."""
    if item["estimate"] is None:
        return "There is no rate yet."
    interval = "" if item["interval"] is None else f" ({'–'.join(map(number, item['interval']))})"
    labels = _labels(item["labelled"])
    return (
        f"The rate is {number(item['estimate'])}{interval}: {believed(item['estimator'])}, {item['labelled']} {labels}."
    )


def labels_worth(item: QualityDocument) -> list[str]:
    """Return sentences on how many more labels are worth giving, and how narrow the interval would then be."""
    if (rate := item["estimate"]) is None:
        return []
    # One trace that passes and one that fails are added: otherwise a rate of 1 would have no spread at all.
    spread = sqrt((rate * item["judged"] + 1) * ((1 - rate) * item["judged"] + 1)) / (item["judged"] + 2)
    worth = [
        f"{goal - item['labelled']} more {_labels(goal - item['labelled'])} for {what}, "
        f"about ±{1.96 * spread / sqrt(goal):.2f} then."
        for goal, what in GOALS.items()
        if item["labelled"] < goal
    ]
    return worth or ["There are enough labels; further ones make the interval narrower."]


def _labels(count: int) -> str:
    return "label" if count == 1 else "labels"
