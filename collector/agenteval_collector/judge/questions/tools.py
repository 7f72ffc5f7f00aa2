"""Ask for tool_correctness and argument_correctness: were the right tools called, with the right arguments?

All the facts that are needed stand in the spans: what the user said, the calls, and the available tools. The published
argument_correctness asks once more for a reason. Here the reason is composed from the verdicts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agenteval_collector.judge.ports import Question, Reading, Reply
from agenteval_collector.judge.prompt.background import are_tools_known
from agenteval_collector.judge.prompt.fitting import Entry, EntryKind, Redact, fit
from agenteval_collector.judge.prompt.replies import REASON, SCORE, choice, object_schema
from agenteval_collector.judge.prompt.transcript import entries
from agenteval_collector.judge.questions.scores import by_median
from otel_agenteval.model import Json, Trace
from otel_agenteval.outcome import Score

NAME: Final = "tools"
VERSION: Final = "4"

TOOL_CORRECTNESS: Final = "tool_correctness"
ARGUMENT_CORRECTNESS: Final = "argument_correctness"

MAX_CALLS: Final = 30
"""The most calls that are shown and judged.

The schema has three properties for each call. Endpoints have been known to take no more than 100 properties in all.
"""

_SHOWN: Final = ("name", "description", "parameters")
"""The fields of an available tool that are shown."""

_DATA: Final = """\
The data: "user_messages" is what the \
user said; "calls" are the calls of tools in order, each with its number, its arguments (null: not recorded), its \
result or error, and the reasoning before it where there was any; "available_tools" are the tools that the agent had \
(null: unknown; then judge by the calls alone, and do not suppose that there was a better tool). Long texts have \
their middle left out, as they say themselves. Where there is "earlier", it lists what was said and done before \
in the session: read it to understand what the user wants and what is known, and judge none of its calls."""

_GUIDES: Final = {
    TOOL_CORRECTNESS: """\
tool_correctness: one score from 0 to 1 for the choice of tools in view of what the user wanted.
- Right: the tools that were called fit, and were enough.
- Too many: tools that were not needed, or the same call again.
- Too few: an available tool that was needed was not called. To answer without a tool is right where none was needed.
- Wrong: tools that do not serve the purpose.
1 is a faultless choice, 0 one that serves nothing. Arguments do not matter here, nor whether a call failed.""",
    ARGUMENT_CORRECTNESS: """\
verdicts: for each call that is shown ("call_3" is call 3), whether its arguments were right ("yes" or "no") for what \
the user wanted and what was known when it was made: the right values, none missing, none made up. Which \
tool was called does not matter here. Give the reason of every "no".""",
}

NAMES: Final = tuple(_GUIDES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTools:
    """The facts about tools as the judge is shown them. Of `call_count` calls, those in `calls` are shown."""

    data: Mapping[str, Any]
    call_count: int

    @property
    def calls(self) -> list[Mapping[str, Any]]:
        """The calls, without the entry that says how many were left out."""
        return [call for call in self.data["calls"] if "call" in call]


def tool_use(trace: Trace, budget: int, redact: Redact) -> ShownTools:
    """Collect the facts about tools.

    Of `budget`, calls get 1/2, user messages and tools 1/4 each.
    """
    calls = _calls(trace)
    users = [
        Entry(kind=EntryKind.USER, labels={"turn": number}, values={"text": turn.input})
        for number, turn in enumerate(trace.turns, 1)
    ]
    offered = [
        Entry(kind=EntryKind.TOOL, values={key: value for key in _SHOWN if (value := getattr(tool, key)) is not None})
        for tool in trace.available_tools
    ]
    return ShownTools(
        data={
            "user_messages": fit(users, budget // 4, redact, head=1),
            "calls": fit(calls, budget // 2, redact, most=MAX_CALLS),
            "available_tools": fit(offered, budget // 4, redact) if are_tools_known(trace) else None,
        },
        call_count=len(calls),
    )


def tools(use: ShownTools, evaluators: Collection[str], earlier: Sequence[Json] = ()) -> Question:
    """Make the question for the evaluators in `evaluators`. ARGUMENT_CORRECTNESS needs at least one call."""
    names = [name for name in _GUIDES if name in evaluators]
    verdict = object_schema(reason=REASON, verdict=choice("yes", "no"))
    schemas = {
        TOOL_CORRECTNESS: (TOOL_CORRECTNESS, object_schema(reason=REASON, score=SCORE)),
        ARGUMENT_CORRECTNESS: ("verdicts", object_schema(**{_key(call): verdict for call in use.calls})),
    }
    readings = {
        TOOL_CORRECTNESS: by_median(field=TOOL_CORRECTNESS, metadata=_chosen(use)),
        ARGUMENT_CORRECTNESS: _by_majority(use),
    }
    guides = "\n\n".join(_GUIDES[name] for name in names)
    return Question(
        name=NAME,
        version=VERSION,
        instructions=f"Judge how an agent used its tools, each of these by itself.\n\n{guides}\n\n{_DATA}",
        data={"earlier": list(earlier), **use.data} if earlier else use.data,
        schema=object_schema(**dict(schemas[name] for name in names)),
        readings={name: readings[name] for name in names},
    )


def _calls(trace: Trace) -> list[Entry]:
    """List the calls, each with the reasoning since the call before it."""
    calls: list[Entry] = []
    reasoning: list[str] = []
    for entry in entries(trace):
        if entry.kind == EntryKind.TOOL_CALL:
            reasons: dict[str, Json] = {"reasoning": "\n".join(reasoning)} if reasoning else {}
            values = {**reasons, **entry.values}
            calls.append(Entry(kind=EntryKind.TOOL_CALL, labels={"call": len(calls) + 1}, values=values))
            reasoning = []
        elif entry.kind == EntryKind.REASONING:
            reasoning.append(str(entry.values["text"]))
        elif entry.kind == EntryKind.USER:
            # The reasoning of an earlier turn does not belong to a call of this one.
            reasoning = []
    return calls


def _said(use: ShownTools) -> str:
    return "\n".join(str(item["text"] or "") for item in use.data["user_messages"])


def _chosen(use: ShownTools) -> dict[str, Json]:
    return {
        "user_input": _said(use),
        "tools_called": [{"name": call["tool"], "parameters": call["arguments"]} for call in use.calls],
        "available_tools": use.data["available_tools"],
    }


def _key(call: Mapping[str, Any]) -> str:
    return f"call_{call['call']}"


def _share_of_yes(reply: Reply) -> float:
    verdicts = [verdict["verdict"] for verdict in reply["verdicts"].values()]
    return verdicts.count("yes") / len(verdicts)


def _by_majority(use: ShownTools) -> Reading:
    """Make the reading that judges each call as most votes do. If votes are even, the call is wrong.

    The score is right calls / calls shown.
    """

    def conclude(replies: Sequence[Reply]) -> Score:
        votes = [reply["verdicts"] for reply in replies]
        verdicts = [{"call": call["call"], **_majority([vote[_key(call)] for vote in votes])} for call in use.calls]
        wrong = [verdict for verdict in verdicts if verdict["verdict"] == "no"]
        count_checked = len(verdicts)
        return Score(
            value=(count_checked - len(wrong)) / count_checked,
            reason=_composed(wrong, count_checked, use.call_count),
            coverage=count_checked / use.call_count if count_checked < use.call_count else None,
            metadata={"user_input": _said(use), "verdicts": list(verdicts)},
        )

    return Reading(value=_share_of_yes, conclude=conclude)


def _majority(votes: Sequence[Mapping[str, Json]]) -> Mapping[str, Json]:
    yes = [vote for vote in votes if vote["verdict"] == "yes"]
    no = [vote for vote in votes if vote["verdict"] == "no"]
    return (yes if len(yes) > len(no) else no)[0]


def _composed(wrong: Sequence[Mapping[str, Json]], count_checked: int, count: int) -> str:
    of_all = "" if count_checked == count else f"; the other {count - count_checked} were too many to be shown"
    if not wrong:
        right = "the judged call has" if count_checked == 1 else f"all {count_checked} judged calls have"
        return f"{right} the right arguments{of_all}"
    reasons = "; ".join(f"call {verdict['call']}: {verdict['reason'] or 'no reason given'}" for verdict in wrong[:5])
    more = f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""
    return f"{len(wrong)} of {count_checked} judged calls have wrong arguments: {reasons}{more}{of_all}"
