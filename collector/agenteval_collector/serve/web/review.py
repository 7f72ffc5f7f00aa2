"""The page of the review queue: draw the next trace for a person to label, and keep the label."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Self
from urllib.parse import parse_qsl

from agenteval_collector.model.judge_jobs import GOAL_SUCCESS
from agenteval_collector.model.labels import Label, LabelSource
from agenteval_collector.model.pass_rates import Rated
from agenteval_collector.runtime.errors import InvalidRequest
from agenteval_collector.serve.api.figure_documents import DrawDocument, QualityDocument
from agenteval_collector.serve.api.gate import Gate
from agenteval_collector.serve.api.queries import COMPLETED, Queries
from agenteval_collector.serve.api.trace_documents import OutcomeDocument, TraceDocument
from agenteval_collector.serve.api.wire import MAX_LIMIT, Parameters, trace_id_of, trace_ids_of
from agenteval_collector.serve.api.writes import keep_label, label_fields
from agenteval_collector.serve.web.formats import named, query
from agenteval_collector.serve.web.labelling import NOTHING_YET, VALUES, rate_of, traces_before
from agenteval_collector.serve.web.site import Site

_FIELDS: Final = 20
"""Fields of a form at most; ours has nine."""
_FORGOTTEN: Final = 10
"""Drawn traces that may be forgotten before they are shown."""


class ReviewRequest(NamedTuple):
    """The choices of the person who labels, as the page's address or form holds them.

    `name` is the evaluator. An empty `agent` or `version` stands for any. `by` is the person's name. `skip` holds the
    traces that were skipped last. `labelled` is the trace that was labelled before. `signed_in` is True if a proxy
    names the person.
    """

    name: str = ""
    agent: str = ""
    version: str = ""
    by: str = ""
    skip: tuple[str, ...] = ()
    labelled: str = ""
    signed_in: bool = False

    @classmethod
    def of(cls, parameters: Parameters) -> Self:
        """Read the parameters of an address, or the fields of a form. Raises InvalidRequest."""
        plain = {field: parameters.get(field, "") for field in ("name", "agent", "version")}
        trace_ids_of(skip := parameters.get("skip", ""))
        labelled = parameters.get("labelled", "")
        return cls(
            **plain,
            by=parameters.get("by", "").strip(),
            skip=tuple(skip.lower().split(",")) if skip else (),
            labelled=trace_id_of(labelled) if labelled else "",
            signed_in="signed_in" in parameters,
        )

    def url(self, *, skip: Sequence[str] | None = None, labelled: str = "") -> str:
        """Return the address of the page with the same choices, which skips the traces in `skip`.

        It keeps only the last `MAX_LIMIT` of them. None leaves the skipped traces as they are.
        """
        skip_ids = self.skip if skip is None else tuple(skip)[-MAX_LIMIT:]
        values = {
            **{field: getattr(self, field) for field in ("name", "agent", "version", "by")},
            "skip": ",".join(skip_ids),
            "labelled": labelled,
        }
        return "/review" + query(values)


class GivenLabel(NamedTuple):
    """A person's label of a trace, and the judge's `outcome`: None if the trace has none any more."""

    trace_id: str
    passes: bool
    outcome: OutcomeDocument | None

    @property
    def agrees(self) -> bool | None:
        """True if the label and the judge say the same; None if the judge says nothing."""
        judged = None if self.outcome is None else self.outcome["success"]
        return None if judged is None else judged is self.passes


class Review(NamedTuple):
    """The content of the page. `trace` is None if nothing is left to label."""

    asked: ReviewRequest
    choices: Mapping[str, Sequence[str]]
    drawn: DrawDocument | None
    trace: TraceDocument | None
    before: Sequence[TraceDocument]
    rate: QualityDocument | None
    verdict: GivenLabel | None


def review(site: Site, parameters: Parameters) -> str:
    """Return the page with the next trace to label. Its form carries the token that a write needs."""
    next_one = next_review(site.queries, ReviewRequest.of(parameters))
    return site.render(
        "review.html",
        "/review",
        refresh=None,
        token=site.token,
        review=next_one,
        nothing_yet=NOTHING_YET,
    )


def next_review(queries: Queries, review_request: ReviewRequest) -> Review:
    """Draw the next trace to label, and collect what the page shows with it."""
    rated = queries.rated()
    choices = _choices(rated)
    if not review_request.name and (names := choices["name"]):
        review_request = review_request._replace(name=COMPLETED if COMPLETED in names else names[0])
    drawn, trace = _next(queries, review_request)
    rate = None
    if drawn is not None:
        rates = queries.quality(name=drawn["name"], agent=drawn["agent"], version=drawn["version"])
        rate = rate_of(rates.items, drawn)
    return Review(
        asked=review_request,
        choices=choices,
        drawn=drawn,
        trace=trace,
        before=[] if trace is None else _before(queries, trace),
        rate=rate,
        verdict=_verdict(queries, review_request),
    )


def keep(queries: Queries, gate: Gate, form: Parameters) -> str:
    """Keep the label in the page's form, and return the address of the page with the next trace."""
    review_request, trace_id = ReviewRequest.of(form), trace_id_of(form.get("trace_id", ""))
    # Browsers send the line breaks of a form's text as CRLF.
    note = form.get("note", "").replace("\r\n", "\n").strip()
    fields = label_fields(review_request.name, VALUES.get(form.get("value", "")), review_request.by, note)
    keep_label(queries, gate, Label(trace_id=trace_id, drawn=True, **fields))
    return review_request.url(labelled=trace_id)


def form_fields(body: bytes) -> dict[str, str]:
    """Return the fields of a form. Raises InvalidRequest for a body that is no form."""
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS))
    except ValueError as error:
        raise InvalidRequest(f"the body is not a form: {error}") from error


def _next(queries: Queries, review_request: ReviewRequest) -> tuple[DrawDocument | None, TraceDocument | None]:
    """Return the next draw with its trace. Skip a drawn trace that was forgotten in between."""
    skip = set(review_request.skip)
    for _ in range(_FORGOTTEN):
        drawn = queries.next_to_label(
            review_request.name,
            agent=review_request.agent or None,
            version=review_request.version or None,
            skip=frozenset(skip),
        )
        if drawn is None or drawn["trace_id"] is None:
            break
        if (trace := queries.trace(drawn["trace_id"])) is not None:
            return drawn, trace
        skip.add(drawn["trace_id"])
    return None, None


def _before(queries: Queries, trace: TraceDocument) -> list[TraceDocument]:
    session = queries.session(trace["session_id"]) if trace["session_id"] is not None else None
    documents = map(queries.trace, traces_before(session, trace["trace_id"]))
    return [item for item in documents if item is not None]


def _verdict(queries: Queries, review_request: ReviewRequest) -> GivenLabel | None:
    """Return the label and the judge's outcome of the trace labelled before; None unless this person labelled it."""
    trace = queries.trace(review_request.labelled) if review_request.labelled else None
    if trace is None:
        return None
    by = review_request.name, LabelSource.PERSON, review_request.by or None
    mine = (label["value"] for label in trace["labels"] if (label["name"], label["source"], label["author"]) == by)
    if (value := next(mine, None)) is None:
        return None
    outcome = named(trace["outcomes"], review_request.name)
    # A label is a number from 0 to 1. It passes as a score would, by the outcome's threshold if there is one.
    threshold = outcome["threshold"] if outcome is not None else None
    return GivenLabel(trace["trace_id"], value >= (0.5 if threshold is None else threshold), outcome)


def _choices(rated: Iterable[Rated]) -> Mapping[str, Sequence[str]]:
    """Return the choices for each field, those that were judged last first.

    Judgements of whole sessions are left out, because the page shows only traces.
    """
    rows = [row for row in rated if row.name != GOAL_SUCCESS]
    return {
        field: list(dict.fromkeys(value for row in rows if (value := getattr(row, field))))
        for field in ("name", "agent", "version")
    }
