"""Plain sentences on why a trace has its scores and what was recorded of it, for the page and `agenteval why`.

"No finding" is only said of what was looked at.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from agenteval_collector.model.judge_jobs import FAILED_TURN, GOAL, GOAL_SUCCESS, PROBABILITY
from agenteval_collector.serve.api import trace_documents
from otel_agenteval.detectors.rules import LOOP_KINDS
from otel_agenteval.finding import Mode, Severity, Visibility
from otel_agenteval.outcome import JudgedPart, Status


class Note(NamedTuple):
    """A sentence about a trace; `advice` says what to do about it, if something can be done."""

    text: str
    advice: str | None = None


class Fact(NamedTuple):
    """A sort of fact that findings rest on: its name in words, how much of it was recorded (`seen`), and which findings
    need it."""

    name: str
    seen: str
    is_missing: bool
    found_by_it: str


_FACTS: Mapping[trace_documents.FactName, tuple[str, str]] = {
    "answers": ("answers", "empty answers, tool calls written as text"),
    "arguments": ("arguments of tool calls", "arguments that do not fit, repeated calls"),
    "results": ("results of tool calls", "failures told in a result, repeated results"),
    "finish_reasons": ("reasons why the model stopped", "answers that were cut"),
    "history": ("earlier turns", "values that nobody said"),
}
_WORST_FIRST = {str(severity): rank for rank, severity in enumerate(Severity)}
_SEEN = {Visibility.ALL: "seen", Visibility.SOME: "seen in part", Visibility.NONE: "not seen"}
_HISTORY = {None: "nothing came before", Visibility.NONE: "the model's input does not show them"}


_RECORD_CONTENT = "docs/content.md has the switch that records content, for each instrumentation."
_CONTENT: tuple[trace_documents.FactName, ...] = ("answers", "arguments", "results")


_STATUS = {
    "running": "is still running: its scores come once it is complete",
    "pending": "is complete, but not every evaluator has answered yet",
    "scored": "is scored",
    "failed": "has no score, because evaluation failed",
    "unscored": "has no score",
}

_ADVICE = {
    "no_judge": "With a judge, new traces are judged; for this one, call `agenteval judge {it}`.",
    "sampled_out": "Raise judge.sample in the collector's settings to judge more sessions, judge.escalate for more "
    "of those with findings; for this one, `agenteval judge {it}`.",
    "over_budget": "Raise judge.budget in the collector's settings; `agenteval judge {it}` when there is room again.",
    "pending": "While the judge cannot be reached, its scores wait. If it is slow, raise judge.concurrency.",
    "failed": "The collector's log has the details; check judge.base_url, judge.api_key and judge.model, then "
    "`agenteval judge {it}`.",
}
"""Advice by status; `it` stands for the argument of `agenteval judge`."""

_ADVICE_ON_ERRORS = {
    "malformed": "The model does not keep to the form of the reply; name another one in judge.model.",
    "spans_gone": "Its spans were forgotten before the judge came to it; raise log.retention.",
}

_ADVICE_ON_STOPPED = "Look into the log of the agent, or of whatever runs it, for how the process ended."

_GET_A_JUDGE = (
    "Set judge.base_url or judge.api_key in the collector's settings: any endpoint that speaks the OpenAI protocol "
    "will do, one on your machine too (docs/judge.md). Then `agenteval judge` has older traces and sessions judged."
)
_PARTIAL = "Part of it is missing, so scores rest on less than was done. "
_ON_CLOSING = {
    "short": _PARTIAL + "If a span was refused for its size (the agent logs it), raise server.max_span_bytes.",
    "silence": _PARTIAL
    + "After a few traces the collector knows what never comes; assembly.senders in its settings says it at once.",
    "max_age": _PARTIAL
    + "If such traces take longer, raise assembly.max_age; if what is missing never comes, say so in "
    "assembly.senders.",
    "memory": _PARTIAL + "Raise assembly.max_open_bytes.",
}
"""Advice, by `closing.by`, on traces that were closed before all their spans had come."""

_ON_WAITING = (
    "It is complete when every process of ours has delivered its spans, or when its root and the parents of all its "
    "spans have come; a parent that does not come is waited for until assembly.silence or assembly.max_age "
    "(docs/operations.md)."
)
_CUT = Note(
    "Part of it was cut on the way, so scores rest on less than was said.",
    "Raise OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT and OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT in the agent; if a span or the whole "
    "trace is too large, raise server.max_span_bytes or server.max_trace_bytes.",
)
_NO_CONTENT = Note(
    "It has neither an input nor an output that can be read.",
    "Let the instrumentation record content: docs/telemetry.md shows what is needed, docs/content.md has the switch "
    "of each.",
)
_NAME_SESSIONS = (
    'Wrap the conversation in otel_agenteval.session("ID"), or set gen_ai.conversation.id or session.id: '
    "docs/telemetry.md has the lines. session.attributes and session.link_by of the collector's settings name "
    "attributes of your own."
)
_ADVICE_ON_PARTS = (
    "If the agent waits for nobody in between, open a span around the whole turn; docs/telemetry.md has the lines."
)

_MEANING = {
    "no_content": "has no score, because the content it reads is missing",
    "not_applicable": "does not apply to this trace",
    "no_judge": "takes a judge",
    "sampled_out": "was left out by sampling",
    "over_budget": "was left out, because the budget is spent",
    "pending": "has not answered yet",
    "failed": "failed",
}


def about_trace(trace: trace_documents.TraceDocument) -> Iterator[Note]:
    """Yield what was found in the trace, what was recorded of it, and its state."""
    yield from about_cause(trace["cause"])
    yield from map(about_finding, worst_first(trace["findings"]))
    yield about_visibility(trace)
    yield from about_standing(trace)


def about_cause(cause: trace_documents.CauseDocument | None) -> Iterator[Note]:
    """Yield where something went wrong first, if it is known."""
    if cause is not None:
        yield Note(f"It went wrong first{cause_place(cause)}: {cause['what']}.")


def cause_place(cause: trace_documents.CauseDocument) -> str:
    """Return the turn, the agent and the span of a first decisive step in words, as far as they are known."""
    turn = "" if cause["turn"] is None else f" in turn {cause['turn'] + 1}"
    agent = "" if cause["agent"] is None else f", by {cause['agent']}"
    span = "" if cause["span_id"] is None else f", span {cause['span_id']}"
    return f"{turn}{agent}{span}"


def about_session(session: trace_documents.SessionDocument) -> Iterator[Note]:
    """Yield what was found in the traces of the session."""
    yield from about_cause(session["cause"])
    findings = worst_first(session["findings"])
    yield from (about_finding(finding, f"trace {finding['trace_id']}") for finding in findings)
    if not session["findings"]:
        yield Note("No finding in its traces; `agenteval why TRACE` says what was looked at.")


def worst_first(findings: Iterable[trace_documents.FindingDocument]) -> list[trace_documents.FindingDocument]:
    """Return the findings, the worst first. Those of one severity keep their order."""
    return sorted(findings, key=lambda finding: severity_rank(finding["severity"]))


def severity_rank(severity: str) -> int:
    """Return the place of a severity, 0 for the worst; an unknown one comes last."""
    return _WORST_FIRST.get(severity, len(_WORST_FIRST))


def facts_of(trace: trace_documents.TraceDocument) -> list[Fact]:
    """Return each sort of fact with how much of it was recorded; empty while the trace is not complete."""
    if not trace["complete"]:
        return []
    return [
        Fact(name, _seen(key, visible), visible in (Visibility.NONE, Visibility.SOME), found_by_it)
        for key, (name, found_by_it) in _FACTS.items()
        for visible in [trace["seen"][key]]
    ]


def _seen(key: trace_documents.FactName, visible: str | None) -> str:
    if key == "history" and visible in _HISTORY:
        return _HISTORY[Visibility(visible) if visible else None]
    return "none in it" if visible is None else _SEEN[Visibility(visible)]


def about_visibility(trace: trace_documents.TraceDocument) -> Note:
    """Return whether there is no finding, and what could not be looked for."""
    nothing = "" if trace["findings"] else "No finding. "
    facts = facts_of(trace)
    if not facts:
        return Note(f"{'No finding so far. ' if nothing else ''}Only loops are looked for until it is complete.")
    missing = [f"{fact.found_by_it} ({fact.name}: {fact.seen})" for fact in facts if fact.is_missing]
    if not missing:
        there = ", ".join(name for key, (name, _) in _FACTS.items() if trace["seen"][key] is not None)
        return Note(f"{nothing}Recorded, and looked at: {there}.")
    content = any(trace["seen"][key] in (Visibility.NONE, Visibility.SOME) for key in _CONTENT)
    return Note(f"{nothing}Not looked for: {'; '.join(missing)}.", _RECORD_CONTENT if content else None)


def about_standing(trace: trace_documents.TraceDocument) -> Iterator[Note]:
    """Yield the state of the trace: status, completeness, missing parts, session."""
    reason, is_part_of_turn = trace["status_reason"], trace["continues_turn"] or trace["turn_goes_on"]
    yield Note(f"Trace {trace['trace_id']} {_STATUS.get(trace['status'], 'is ' + trace['status'])}.")
    if reason is not None:
        yield Note(_sentence(reason), _ADVICE_ON_STOPPED)
    elif trace["open_spans"]:
        oldest, count = trace["open_spans"][0], len(trace["open_spans"])
        yield Note(f"{count} of its spans have begun and not ended, the first is {oldest['name']!r}.")
    yield from _completeness(trace)
    closed_early = trace["closing"] is not None and trace["closing"]["by"] in _ON_CLOSING
    if trace["partial"] and reason is None and not closed_early:
        yield _CUT
    if not trace["span_count"]:
        yield Note("No span of it has arrived.")
    elif not trace["turns"]:
        yield Note(
            f"None of its {_spans(trace)} is GenAI telemetry that is understood here.",
            "Instrument the agent: docs/telemetry.md shows what its spans should look like.",
        )
    elif trace["input"] is None and trace["output"] is None and not (trace["waits_for"] or is_part_of_turn):
        yield _NO_CONTENT
    yield from map(about_unknown_spans, trace["not_understood"])
    if trace["complete"] and not trace["outcomes"]:
        yield Note("No evaluator has said anything about it.", "`agenteval config` shows which are enabled.")
    yield _session(trace)
    if is_part_of_turn:
        begins = "began in an earlier trace" if trace["continues_turn"] else "begins here"
        ends = "goes on in a later one" if trace["turn_goes_on"] else "ends here"
        yield Note(f"Its turn {begins} and {ends}: no span is around all of it.", _ADVICE_ON_PARTS)


def about_unknown_spans(unknown: trace_documents.UnknownSpansDocument) -> Note:
    """Tell that spans are not understood, and how to teach the collector what they say."""
    spans = f"{unknown['spans']} spans" if unknown["spans"] > 1 else "1 span"
    scope = unknown["scope"] or "without a name"
    return Note(
        f"{spans} of scope {scope} {'are' if unknown['spans'] > 1 else 'is'} not understood, with attributes that look "
        f"like {', '.join(unknown['looks_like'])}.",
        "Name these attributes in readings.attributes, and the spans in readings.spans, of the collector's settings: "
        "one line for each (docs/settings.md).",
    )


def about_finding(finding: trace_documents.FindingDocument, *within: str) -> Note:
    """Tell one finding with its evidence, and how to change what it means. `within` says what has the turn."""
    observed = " (only observed)" if finding["mode"] == Mode.OBSERVE else ""
    places = [
        *within,
        *([f"turn {finding['turn'] + 1}"] if finding["turn"] is not None else []),
        *([f"span {finding['span_id']}"] if finding["span_id"] is not None else []),
    ]
    where = f" in {', '.join(places)}" if places else ""
    whose = f" of {finding['agent']}" if finding["agent"] else ""
    kind = finding["kind"]
    setting = f"loops.{kind}" if kind in LOOP_KINDS else f"findings.{kind}"
    return Note(
        f"{finding['severity'].capitalize()}{whose}{observed}: {kind}{where}: {finding['reason'].rstrip('.')}.",
        f"If that is as it should be, change {setting} in the collector's settings, for all agents or for this one.",
    )


def about_outcomes(trace: trace_documents.TraceDocument | trace_documents.SessionDocument) -> Iterator[Note]:
    """Tell each outcome, followed by the labels of the same name; those that take a judge are told in one note."""
    unjudged = [outcome for outcome in trace["outcomes"] if outcome["status"] == Status.NO_JUDGE]
    for name, outcomes in groupby(trace["outcomes"], key=lambda outcome: outcome["name"]):
        yield from (about_outcome(outcome) for outcome in outcomes if outcome["status"] != Status.NO_JUDGE)
        yield from (about_label(label) for label in trace["labels"] if label["name"] == name)
    if unjudged:
        yield about_unjudged(unjudged)
    yield from map(about_label, unscored_labels(trace["outcomes"], trace["labels"]))


def unscored_labels(
    outcomes: Sequence[trace_documents.OutcomeDocument], labels: Sequence[trace_documents.LabelDocument]
) -> list[trace_documents.LabelDocument]:
    """Return the labels that are shown beside no outcome: there is none of their name."""
    names = {outcome["name"] for outcome in outcomes}
    return [label for label in labels if label["name"] not in names]


def about_unjudged(outcomes: Sequence[trace_documents.OutcomeDocument]) -> Note:
    """Tell the outcomes that only a judge can give, if there is none, in one note."""
    count = f"{len(outcomes)} scores need" if len(outcomes) > 1 else "1 score needs"
    return Note(f"{count} a judge: {', '.join(outcome['name'] for outcome in outcomes)}.", _GET_A_JUDGE)


def about_label(label: trace_documents.LabelDocument) -> Note:
    """Tell a label: the score that somebody says is right."""
    note = f": {label['note']}" if label["note"] else "."
    author = label["author"]
    match label["source"]:
        case "user":
            who = f"User {author}" if author else "A user"
        case "evaluator":
            who = f"Evaluator {author}" if author else "Another evaluator"
        case _:
            who = author or "Somebody"
    return Note(f"{who} says that {label['name']} is {label['value']:.2f}{note}")


def about_outcome(outcome: trace_documents.OutcomeDocument) -> Note:
    """Tell an outcome with its reason."""
    by = f" by {outcome['model']}" if outcome["model"] else ""
    who = f"{outcome['name']} ({outcome['method']}{by}, version {outcome['evaluator_version']})"
    status = outcome["status"]
    if status == "scored":
        text = f"{who} scored {outcome['score']:.2f}{_against_threshold(outcome)}{_drawn(outcome)}"
    else:
        text = f"{who} {_MEANING.get(status, 'is ' + status)}"
        text += f" with {outcome['error_type']}" if outcome["error_type"] else ""
    reason, advice = outcome["reason"], _ADVICE_ON_ERRORS.get(outcome["error_type"] or "", _ADVICE.get(status))
    if advice is not None:
        advice = advice.format(it="--session ID" if outcome["name"] == GOAL_SUCCESS else "TRACE")
    if reason and status == Status.NO_CONTENT:
        # Behind what was not recorded stands how to record it, the same for every outcome of the trace.
        reason, _, switch = reason.partition("; ")
        advice = _sentence(switch) if switch else None
    text += f": {reason}" if reason else "."
    if (goal := goal_words(outcome)) is not None:
        text = f"{text.rstrip('.')}. {goal}"
    if status == "scored" and outcome["coverage"] is not None and outcome["coverage"] < 1:
        advice = f"It rests on {outcome['coverage']:.0%} of its signals: missing ones can make it look better."
    return Note(text, advice)


def goal_words(outcome: trace_documents.OutcomeDocument) -> str | None:
    """Return what the user wanted of the session, and where it failed first; None for an outcome that does not say."""
    goal, failed_turn = (outcome["metadata"].get(name) for name in (GOAL, FAILED_TURN))
    if outcome["name"] != GOAL_SUCCESS or not isinstance(goal, str):
        return None
    where = "It went wrong nowhere." if failed_turn is None else f"It went wrong first in turn {failed_turn}."
    return f"The user wanted: {goal.rstrip('.')}. {where}"


def judge_trouble(sessions: Iterable[trace_documents.SessionFields]) -> str | None:
    """Return the judge's trouble if a score of these sessions waits for it; None if nothing is wrong or none
    waits."""
    outcomes = (outcome["metadata"] for session in sessions for outcome in session["outcomes"])
    return next(
        (metadata[trace_documents.JUDGE_TROUBLE] for metadata in outcomes if trace_documents.JUDGE_TROUBLE in metadata),
        None,
    )


def _completeness(trace: trace_documents.TraceDocument) -> Iterator[Note]:
    closing = trace["closing"]
    if trace["complete"] and trace["status_reason"] is not None:
        yield Note(f"No more of it is expected than the {_spans(trace)} that came before.")
    elif trace["complete"]:
        again = f", and was read {trace['revision']} times as late spans came" if trace["revision"] > 1 else ""
        because, advice = (f": {closing['reason']}", _ON_CLOSING.get(closing["by"])) if closing else ("", None)
        yield Note(f"It is complete with {_spans(trace)}{again}{because}.", advice)
        yield from (Note(_sentence(sender)) for sender in (closing["senders"] if closing else ()))
    else:
        yield Note(f"It is not complete: {_spans(trace)} so far, and more may come.", _ON_WAITING)
        yield from (Note(f"It waits for {thing}.") for thing in trace["waits_for"])


def _session(trace: trace_documents.TraceDocument) -> Note:
    session_id = trace["session_id"]
    if trace["names_session"]:
        return Note(
            f"Its spans name session {session_id}. (Of several attributes, agenteval.session.id counts first, then "
            "gen_ai.conversation.id, then session.id, then those that the settings name.)"
        )
    unnamed = "None of its spans names a session"
    if session_id in (None, trace["trace_id"]):
        own = "its messages go on from no other trace that is known, so it begins a session of its own"
        return Note(f"{unnamed}, and {own}.", _NAME_SESSIONS)
    joined = f"Its messages go on from those of an earlier trace, so it belongs to session {session_id}."
    return Note(f"{unnamed}. {joined}", _NAME_SESSIONS)


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _spans(trace: trace_documents.TraceDocument) -> str:
    count = trace["span_count"]
    return "1 span" if count == 1 else f"{count} spans"


def _drawn(outcome: trace_documents.OutcomeDocument) -> str:
    """Return how the subject came to be judged, if the judge does not look at everything."""
    probability = outcome["metadata"].get(PROBABILITY, 1.0)
    if outcome["part"] == JudgedPart.ESCALATED:
        return ", judged for the findings in its session, so it counts in no pass rate"
    return f", drawn at random with probability {probability:g}" if probability < 1 else ""


def _against_threshold(outcome: trace_documents.OutcomeDocument) -> str:
    if outcome["threshold"] is None:
        return ""
    relation = "at or above" if outcome["success"] else "below"
    return f", {relation} its threshold of {outcome['threshold']:.2f}"
