"""The review queue: what is drawn, how it goes on, and what is said of the labels."""

from typing import Any, cast

import pytest
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.figure_documents import QualityDocument
from agenteval_collector.serve.web.labelling import about_rate, labels_worth
from agenteval_collector.serve.web.review import ReviewRequest, next_review

from tests.support.memory_queries import GOOD_TRACE, REVIEWED, MemoryQueries, label, outcome, session, trace, turn


def rate(**changes: Any) -> QualityDocument:
    unknown = dict.fromkeys(("interval", "sequence", "sensitivity", "specificity", "reason", "by_judge"))
    item = {"name": REVIEWED, "agent": "a", "version": "1", "estimate": 0.9, "estimator": "uncorrected", **unknown}
    item |= {"judged": 400, "labelled": 0}
    return cast("QualityDocument", {**item, **changes})


@pytest.mark.parametrize(
    ("labelled", "worth"),
    [
        pytest.param(0, ["20 more labels for an interval, about ±0.13 then.", "50 more labels for"], id="none yet"),
        pytest.param(19, ["1 more label for an interval,", "31 more labels for"], id="one less than an interval takes"),
        pytest.param(20, ["30 more labels for the judge's rate to be corrected by labels, about ±0.08"], id="enough"),
        pytest.param(50, ["There are enough labels"], id="enough for all"),
    ],
)
def test_it_says_how_many_labels_are_still_worth_giving(labelled: int, worth: list[str]) -> None:
    told = labels_worth(rate(labelled=labelled))
    assert len(told) == len(worth)
    for sentence, begins in zip(told, worth, strict=True):
        assert sentence.startswith(begins)


def test_a_rate_is_told_with_its_interval_and_whose_word_it_is() -> None:
    assert about_rate(rate(labelled=1)) == "The rate is 0.90: judge, uncorrected, 1 label."
    corrected = rate(interval=[0.81, 0.95], estimator="ppi", labelled=60)
    assert about_rate(corrected) == "The rate is 0.90 (0.81–0.95): judge, corrected by labels, 60 labels."
    assert (about_rate(rate(estimate=None)), labels_worth(rate(estimate=None))) == ("There is no rate yet.", [])


def queries(*, success: bool | None, said: float) -> MemoryQueries:
    """A judged and labelled trace, before it one of its session; the first that is drawn has been forgotten."""
    found = MemoryQueries()
    judged = trace(
        GOOD_TRACE, "s", turn("hi", "ok"), began=1, labels=[label(REVIEWED, said, "ann")],
        outcomes=[outcome(REVIEWED, 0.9, "why", method="llm", threshold=0.5, success=success)],
    )  # fmt: skip
    earlier = trace("1" * 32, "s", turn("before", "ok"), began=0)
    found.add(session("s", earlier, judged, outcomes=[]), earlier, judged)
    found.judged = ["0" * 32, GOOD_TRACE]
    return found


def test_a_trace_that_was_forgotten_is_left_aside() -> None:
    shown = next_review(queries(success=True, said=1.0), ReviewRequest())
    assert shown.asked.name == REVIEWED
    assert shown.trace is not None
    assert shown.trace["trace_id"] == GOOD_TRACE
    assert [each["trace_id"] for each in shown.before] == ["1" * 32]
    gone = queries(success=True, said=1.0)
    gone.judged = ["0" * 32]
    assert next_review(gone, ReviewRequest()).drawn is None


@pytest.mark.parametrize(
    ("success", "said", "agrees"),
    [(True, 1.0, True), (True, 0.0, False), (False, 0.0, True), (False, 0.5, False), (None, 1.0, None)],
)
def test_who_labelled_hears_whether_the_judge_agrees(success: bool | None, said: float, agrees: bool | None) -> None:
    known = queries(success=success, said=said)
    verdict = next_review(known, ReviewRequest(by="ann", labelled=GOOD_TRACE)).verdict
    assert verdict is not None
    assert verdict.agrees is agrees
    assert next_review(known, ReviewRequest(by="bob", labelled=GOOD_TRACE)).verdict is None


def test_the_address_asks_the_same_again() -> None:
    asked = ReviewRequest("a b", "agent & co", "1.0", "ann", ("a" * 32, "b" * 32))
    url = asked.url(labelled=GOOD_TRACE)
    assert url.startswith("/review?name=a+b&agent=agent+%26+co&version=1.0&by=ann&skip=aaa")
    assert url.endswith(f"&labelled={GOOD_TRACE}")
    assert ReviewRequest.of({"name": "a b", "agent": "agent & co", "version": "1.0", "by": " ann ",
                     "skip": "A" * 32 + "," + "b" * 32}) == asked  # fmt: skip
    # The newest 500 stay aside: an address has an end.
    many = asked.url(skip=[f"{number:032x}" for number in range(501)])
    assert (f"{0:032x}" in many, f"{500:032x}" in many) == (False, True)
    for wrong in ({"skip": "x"}, {"labelled": "x"}, {"skip": ","}):
        with pytest.raises(InvalidRequest):
            ReviewRequest.of(wrong)
